"""The engine over a random Qwen3 policy: exact, alone or in company, and its weights by name."""

from __future__ import annotations

import copy
import gc
import math
import threading
from pathlib import Path
from random import Random
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install '.[train]'")
pytest.importorskip("transformers", reason="transformers is missing: pip install '.[train]'")

from agentgym_suite.engines.loading import (  # noqa: E402
    LoadedPolicy,
    choose_device,
    find_files,
    load_policy,
    save_policy,
    weights_digest,
)
from agentgym_suite.engines.tokens import Generated, Sampling, TokenEngine  # noqa: E402
from agentgym_suite.engines.transformers_engine import TransformersEngine  # noqa: E402
from agentgym_suite.errors import ContextTooLong, EngineError, UsageError  # noqa: E402
from tests.engines.small_policy import (  # noqa: E402
    VOCABULARY,
    small_module,
    small_tokenizer,
)

STOPS = (1, 11, 23, 37, 50)
SAMPLINGS = [
    Sampling(max_new_tokens=24, stop_ids=STOPS),
    Sampling(temperature=0.7, max_new_tokens=24, stop_ids=STOPS, banned_ids=(3, 4)),
    Sampling(temperature=1.6, top_p=0.8, max_new_tokens=24, stop_ids=(1,), banned_ids=(9,)),
    Sampling(temperature=0.0, max_new_tokens=24, stop_ids=STOPS, banned_ids=(2,)),
]


@pytest.fixture(scope="module")
def module() -> Any:
    return small_module()


@pytest.fixture
def engine(module: Any) -> TransformersEngine:
    return TransformersEngine(module, small_tokenizer())


def prompts(count: int, seed: int = 0, longest: int = 60) -> list[list[int]]:
    draw = Random(seed)
    return [
        [draw.randrange(5, VOCABULARY) for _ in range(draw.randint(1, longest))]
        for _ in range(count)
    ]


def assert_alike(found: list[Generated], expected: list[Generated]) -> None:
    """The same replies; where weights lie in memory may round their log-probabilities otherwise."""
    for one, other in zip(found, expected, strict=True):
        assert (one.ids, one.finish_reason) == (other.ids, other.finish_reason)
        assert one.policy_version == other.policy_version
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)


def teacher_forced(
    module: Any, prompt: list[int], found: Generated, sampling: Sampling
) -> list[float]:
    """The log-probabilities of a reply by one full forward of its row alone, without a cache."""
    with torch.no_grad():
        logits = module(torch.tensor([[*prompt, *found.ids]]), use_cache=False).logits[0]
    scores = logits[len(prompt) - 1 : -1].double()
    for token in sampling.banned_ids:
        scores[:, token] = -math.inf
    chances = (scores / (sampling.temperature or 1.0)).softmax(-1)
    values = []
    for row, token in zip(chances, found.ids, strict=True):
        kept, mass = set(), 0.0
        for candidate in row.argsort(descending=True, stable=True).tolist():
            if mass >= sampling.top_p:
                break
            kept.add(candidate)
            mass += float(row[candidate])
        assert token in kept
        values.append(math.log(float(row[token]) / mass))
    return values


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=["plain", "bans", "nucleus", "greedy"])
def test_logprobs_are_those_of_a_full_forward(
    module: Any, engine: TransformersEngine, sampling: Sampling
) -> None:
    asked = prompts(13)
    found = engine.generate(asked, sampling, range(13))
    assert {reply.finish_reason for reply in found} == {"stop", "length"}
    for prompt, reply in zip(asked, found, strict=True):
        expected = teacher_forced(module, prompt, reply, sampling)
        assert list(reply.logprobs) == pytest.approx(expected, abs=1e-5)
        assert not set(reply.ids) & set(sampling.banned_ids)
        stop = [place for place, token in enumerate(reply.ids) if token in sampling.stop_ids]
        if reply.finish_reason == "stop":
            assert stop == [len(reply.ids) - 1]
        else:
            assert not stop and len(reply.ids) == 24


def test_greedy_ids_are_those_of_the_library(module: Any, engine: TransformersEngine) -> None:
    asked = prompts(9, seed=4)
    found = engine.generate(asked, Sampling(0.0, max_new_tokens=30, stop_ids=STOPS), [0] * 9)
    lengths = set()
    for prompt, reply in zip(asked, found, strict=True):
        expected = module.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=30,
            do_sample=False,
            eos_token_id=list(STOPS),
            pad_token_id=0,
        )
        assert list(reply.ids) == expected[0, len(prompt) :].tolist()
        lengths.add(len(reply.ids))
    assert len(lengths) > 2


@pytest.mark.parametrize(
    "limits", [{"max_rows": 1}, {"max_rows": 3}, {"prefill_tokens": 1}, {"prefill_tokens": 70}]
)
def test_company_changes_no_sample(
    module: Any, engine: TransformersEngine, limits: dict[str, int]
) -> None:
    sampling = SAMPLINGS[1]
    asked = [*prompts(7, seed=2), *prompts(3, seed=2)]
    together = engine.generate(asked, sampling, range(10))
    others = TransformersEngine(module, **limits).generate(asked, sampling, range(10))
    alone = [engine.generate([p], sampling, [s])[0] for s, p in enumerate(asked)]
    backwards = engine.generate(asked[::-1], sampling, range(9, -1, -1))[::-1]
    for again in (others, alone, backwards):
        assert_alike(again, together)


def test_rows_join_a_batch_that_runs_and_others_leave_it(engine: TransformersEngine) -> None:
    asked = prompts(6, seed=8)
    samplings = [*SAMPLINGS, SAMPLINGS[0], SAMPLINGS[2]]
    expected = [
        engine.generate([p], s, [seed])[0]
        for seed, (p, s) in enumerate(zip(asked, samplings, strict=True))
    ]
    batch = engine.begin()
    done: dict[Any, Generated] = {}
    for seed, (prompt, sampling) in enumerate(zip(asked, samplings, strict=True)):
        batch.add(seed, prompt, sampling, seed)
        for _ in range(seed):
            done.update(batch.step())
    while len(batch):
        done.update(batch.step())
    assert_alike([done[place] for place in range(6)], expected)


def test_a_row_that_is_let_go_troubles_no_other(engine: TransformersEngine) -> None:
    asked, sampling = prompts(4, seed=5), Sampling(max_new_tokens=12)
    expected = engine.generate(asked, sampling, range(4))
    batch = engine.begin()
    for place, prompt in enumerate(asked):
        batch.add(place, prompt, sampling, place)
    for _ in range(5):
        assert batch.step() == []
    batch.discard(2)
    batch.discard("never added")
    done: dict[Any, Generated] = {}
    while len(batch):
        done.update(batch.step())
    assert sorted(done) == [0, 1, 3]
    assert all(done[place].ids == expected[place].ids for place in done)


def test_equal_prompts_are_read_once_and_sampled_apart(module: Any) -> None:
    read: list[int] = []

    def count(_module: Any, _args: Any, given: dict[str, Any]) -> None:
        if given["input_ids"].shape[1] > 1:
            read.append(given["input_ids"].shape[0])

    watched = module.register_forward_pre_hook(count, with_kwargs=True)
    prompt = prompts(1, seed=9)[0]
    found = TransformersEngine(module).generate([prompt] * 8, Sampling(max_new_tokens=9), range(8))
    watched.remove()
    assert read == [1]
    assert len({reply.ids for reply in found}) == 8


def test_a_seed_gives_its_sample_again(engine: TransformersEngine) -> None:
    asked = prompts(2, seed=1)
    largest = 2**64 - 1
    first = engine.generate(asked, Sampling(max_new_tokens=20), [largest, 3])
    assert_alike(engine.generate(asked, Sampling(max_new_tokens=20), [largest, 3]), first)
    other = engine.generate(asked, Sampling(max_new_tokens=20), [4, 3])
    assert other[0].ids != first[0].ids and other[1].ids == first[1].ids


def test_samples_follow_the_distribution(module: Any, engine: TransformersEngine) -> None:
    sampling = Sampling(temperature=0.8, max_new_tokens=1, banned_ids=(7,))
    count = 4000
    found = engine.generate([[5, 6]] * count, sampling, range(count))
    with torch.no_grad():
        scores = module(torch.tensor([[5, 6]])).logits[0, -1] / 0.8
    scores[7] = -math.inf
    expected = scores.softmax(-1) * count
    seen = torch.bincount(torch.tensor([r.ids[0] for r in found]), minlength=VOCABULARY)
    assert seen[7] == 0
    # five standard deviations of a binomial, for each of 60 ids
    assert bool(((seen - expected).abs() <= 5 * expected.sqrt() + 1).all())


def test_suppressed_tokens_of_the_model_are_banned_always(tmp_path: Path) -> None:
    module = small_module()
    module.generation_config.suppress_tokens = [59, 60]
    save_policy(LoadedPolicy(module, small_tokenizer()), tmp_path)
    loaded = TransformersEngine.load(tmp_path, device="cpu")
    plain = small_module()
    asked, sampling = prompts(6, seed=3), Sampling(temperature=3.0, max_new_tokens=30)
    found = loaded.generate(asked, sampling, range(6))
    banned = Sampling(temperature=3.0, max_new_tokens=30, banned_ids=(59, 60))
    assert [r.ids for r in found] == [
        r.ids for r in TransformersEngine(plain).generate(asked, banned, range(6))
    ]
    for prompt, reply in zip(asked, found, strict=True):
        assert not {59, 60} & set(reply.ids)
        expected = teacher_forced(plain, prompt, reply, banned)
        assert list(reply.logprobs) == pytest.approx(expected, abs=1e-5)


def test_a_saved_policy_comes_back_the_same(module: Any, tmp_path: Path) -> None:
    save_policy(LoadedPolicy(module, small_tokenizer()), tmp_path)
    here = TransformersEngine(module, small_tokenizer(), policy_version="step 7")
    loaded = TransformersEngine.load(tmp_path, device="cpu", policy_version="step 7")
    assert loaded.tokenizer.stop_ids == (1,)
    assert loaded.context_window == 96
    asked = prompts(3)
    found = loaded.generate(asked, SAMPLINGS[1], [1, 2, 3])
    assert_alike(found, here.generate(asked, SAMPLINGS[1], [1, 2, 3]))
    assert {reply.policy_version for reply in found} == {"step 7"}


def test_a_version_that_is_not_told_is_a_digest(module: Any, tmp_path: Path) -> None:
    save_policy(LoadedPolicy(module, None), tmp_path)
    again = load_policy(tmp_path, device="cpu").module
    version = TransformersEngine(module).policy_version
    assert version == weights_digest(module) == weights_digest(again)
    assert version != TransformersEngine(small_module(seed=1)).policy_version
    of_files = TransformersEngine.load(tmp_path, device="cpu").policy_version
    assert of_files == find_files(tmp_path).digest != version


def test_weights_in_half_precision_are_the_same_where_they_are_widened() -> None:
    half = small_module(0).bfloat16()
    narrow, wide = weights_digest(half, torch.float32), weights_digest(half)
    assert narrow != wide
    assert weights_digest(half.float()) == narrow != weights_digest(small_module(0))


def test_other_weights_give_other_logprobs_under_another_name(tmp_path: Path) -> None:
    engine = TransformersEngine(small_module(), policy_version="0")
    asked, sampling = prompts(2), Sampling(0.0, max_new_tokens=8)
    before = engine.generate(asked, sampling, [0, 0])
    other = small_module(seed=1)
    engine.load_weights(other.state_dict(), "1")
    expected = TransformersEngine(other, policy_version="1").generate(asked, sampling, [0, 0])
    assert engine.policy_version == "1"
    assert_alike(engine.generate(asked, sampling, [0, 0]), expected)
    assert [reply.ids for reply in before] != [reply.ids for reply in expected]
    assert {reply.policy_version for reply in before} == {"0"}

    third = small_module(seed=2)
    save_policy(LoadedPolicy(third, None), tmp_path)
    engine.load_weights(tmp_path, "2")
    expected = TransformersEngine(third, policy_version="2").generate(asked, sampling, [0, 0])
    assert_alike(engine.generate(asked, sampling, [0, 0]), expected)


def test_weights_of_another_model_change_nothing() -> None:
    engine = TransformersEngine(small_module(), policy_version="0")
    before = engine.generate([[5, 6]], SAMPLINGS[0], [3])
    state = small_module(seed=1).state_dict()
    lacking = {n: t for n, t in state.items() if n != "model.norm.weight"}
    with pytest.raises(UsageError, match=r"lack 'model\.norm\.weight'"):
        engine.load_weights(lacking, "1")
    with pytest.raises(UsageError, match="'more', which the model does not"):
        engine.load_weights({**state, "more": torch.zeros(1)}, "1")
    with pytest.raises(UsageError, match=r"is \(61, 16\) in the weights and \(61, 32\)"):
        engine.load_weights(small_module(hidden_size=16).state_dict(), "1")
    assert_alike(engine.generate([[5, 6]], SAMPLINGS[0], [3]), before)


def test_one_name_of_tied_weights_is_enough() -> None:
    engine = TransformersEngine(small_module(), policy_version="0")
    other = small_module(seed=1)
    state = {n: t for n, t in other.state_dict().items() if n != "lm_head.weight"}
    engine.load_weights(state, "1")
    found = engine.generate([[5, 6]], SAMPLINGS[0], [3])
    expected = TransformersEngine(other, policy_version="1").generate([[5, 6]], SAMPLINGS[0], [3])
    assert_alike(found, expected)


def test_weights_wait_for_replies_under_way(engine: TransformersEngine, module: Any) -> None:
    batch = engine.begin()
    batch.add(0, [5], Sampling(max_new_tokens=4), 0)
    batch.step()
    with pytest.raises(UsageError, match="1 replies are under way"):
        engine.load_weights(module.state_dict(), "1")
    batch.abandon()
    engine.load_weights(module.state_dict(), "1")
    assert engine.policy_version == "1"


def test_a_prompt_fits_the_model_s_window_to_the_last_token(engine: TransformersEngine) -> None:
    fits = engine.generate([[5] * 90], Sampling(max_new_tokens=6), [0])
    assert len(fits[0].ids) == 6
    with pytest.raises(ContextTooLong, match="91 tokens and 6 new ones"):
        engine.generate([[5], [5] * 91], Sampling(max_new_tokens=6), [0, 0])
    engine.load_weights({**small_module().state_dict()}, "after the refusal")


@pytest.mark.parametrize(
    ("asked", "sampling", "seeds", "said"),
    [
        ([[]], Sampling(), [0], "a prompt is empty"),
        ([[5, 61]], Sampling(max_new_tokens=1), [0], "holds the id 61, and the model has 61"),
        ([[5]], Sampling(max_new_tokens=1), [], "1 prompts have 0 seeds"),
        ([[5]], Sampling(max_new_tokens=1), [2**64], "a seed is 18446744073709551616"),
        (
            [[5]],
            Sampling(max_new_tokens=1, banned_ids=tuple(range(61))),
            [0],
            "every id is banned",
        ),
    ],
)
def test_what_cannot_be_answered_is_refused(
    engine: TransformersEngine,
    asked: list[list[int]],
    sampling: Sampling,
    seeds: list[int],
    said: str,
) -> None:
    with pytest.raises(UsageError, match=said):
        engine.generate(asked, sampling, seeds)


def test_no_prompts_are_no_replies(engine: TransformersEngine) -> None:
    assert engine.generate([], Sampling(), []) == []
    assert engine.begin().step() == []


def test_a_model_under_training_is_lent_and_given_back_as_it_was() -> None:
    module = small_module(attention_dropout=0.5)
    module.train()
    module.model.norm.eval()
    if not hasattr(module, "activation_checkpointing_enable"):  # its name before transformers 5.24
        module.activation_checkpointing_enable = module.gradient_checkpointing_enable
    module.activation_checkpointing_enable()
    engine = TransformersEngine(module, policy_version="0")
    found = engine.generate(prompts(3), SAMPLINGS[1], [1, 2, 3])
    expected = TransformersEngine(small_module(), policy_version="0").generate(
        prompts(3), SAMPLINGS[1], [1, 2, 3]
    )
    assert [r.ids for r in found] == [r.ids for r in expected]
    assert module.training and not module.model.norm.training
    assert module.model.layers[0].training
    module(torch.tensor([[5, 6]]), labels=torch.tensor([[5, 6]])).loss.backward()


def test_threads_are_bounded_during_a_step_alone(module: Any) -> None:
    before = torch.get_num_threads()
    seen: list[int] = []
    watched = module.register_forward_pre_hook(lambda *_: seen.append(torch.get_num_threads()))
    TransformersEngine(module, threads=before + 1).generate([[5]], Sampling(max_new_tokens=2), [0])
    watched.remove()
    assert set(seen) == {before + 1}
    assert torch.get_num_threads() == before
    with pytest.raises(UsageError, match="threads is 0"):
        TransformersEngine(module, threads=0)


def test_damaged_weights_are_an_error_not_a_sample() -> None:
    module = small_module()
    with torch.no_grad():
        module.model.norm.weight[0] = math.nan
    with pytest.raises(EngineError, match="log-probability of nan"):
        TransformersEngine(module).generate([[5]], Sampling(max_new_tokens=4), [0])


def test_a_model_that_fails_says_why(module: Any) -> None:
    broken = copy.deepcopy(module)

    def fail(*_: Any) -> None:
        raise RuntimeError("no memory\nleft")

    broken.register_forward_pre_hook(fail)
    engine = TransformersEngine(broken, policy_version="0")
    with pytest.raises(EngineError, match=r"failed on 0 rows \(no memory left\); lower max_rows"):
        engine.generate([[5]], Sampling(max_new_tokens=4), [0])


def test_a_closed_engine_says_so_and_lets_its_model_go() -> None:
    engine = TransformersEngine(small_module(), small_tokenizer(), policy_version="0")
    engine.generate([[5]], Sampling(max_new_tokens=2), [0])
    engine.close()
    engine.close()
    gc.collect()
    with pytest.raises(EngineError, match="the engine is closed"):
        engine.generate([[5]], Sampling(max_new_tokens=4), [0])
    with pytest.raises(EngineError, match="the engine is closed"):
        engine.load_weights({}, "1")


def test_threads_may_share_an_engine(engine: TransformersEngine) -> None:
    asked = prompts(6, seed=6)
    expected = engine.generate(asked, SAMPLINGS[1], range(6))
    found: dict[int, Generated] = {}

    def ask(place: int) -> None:
        found[place] = engine.generate([asked[place]], SAMPLINGS[1], [place])[0]

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[place].ids for place in range(6)] == [reply.ids for reply in expected]


@pytest.mark.parametrize("limits", [{"max_rows": 0}, {"prefill_tokens": 0}])
def test_limits_are_at_least_one(module: Any, limits: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="give at least 1"):
        TransformersEngine(module, **limits)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="cannot be loaded as a causal language model"):
        TransformersEngine.load(tmp_path, device="cpu")
    with pytest.raises(UsageError, match="neither a folder nor a .gguf file"):
        TransformersEngine.load(tmp_path / "absent", device="cpu")
    save_policy(LoadedPolicy(small_module(), None), tmp_path)
    with pytest.raises(UsageError, match="dtype is 'int8'"):
        TransformersEngine.load(tmp_path, device="cpu", dtype="int8")
    with pytest.raises(UsageError, match="the model has no tokenizer"):
        _ = TransformersEngine.load(tmp_path, device="cpu").tokenizer


def test_it_keeps_the_protocol(engine: TransformersEngine) -> None:
    kept: TokenEngine = engine
    assert kept.policy_version.startswith("sha256:")
    assert choose_device("cpu") == "cpu"
    assert choose_device() == ("cuda" if torch.cuda.is_available() else "cpu")
