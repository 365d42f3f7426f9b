"""vLLM behind the same protocol: its log-probabilities are those that the trainer computes.

``make test-vllm`` runs these in an environment of their own; elsewhere they skip.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed: make test-vllm", allow_module_level=True)

import torch

from agentgym_suite.engines.batching import BatchingEngine
from agentgym_suite.engines.distribution import log_distribution, log_probability
from agentgym_suite.engines.loading import LoadedPolicy, load_policy, save_policy
from agentgym_suite.engines.tokens import Generated, Sampling, TokenEngine
from agentgym_suite.engines.transformers_engine import TransformersEngine
from agentgym_suite.engines.vllm_engine import VllmEngine
from agentgym_suite.errors import ContextTooLong, EngineError, UsageError
from tests.engines.small_policy import VOCABULARY, small_module, small_tokenizer

pytestmark = pytest.mark.filterwarnings("ignore")  # vLLM's own, and those of what it imports

STOPS = (1, 11, 23, 37, 50)
SAMPLINGS = {
    "plain": Sampling(max_new_tokens=20, stop_ids=STOPS),
    "bans": Sampling(temperature=0.7, max_new_tokens=20, stop_ids=STOPS, banned_ids=(3, 4)),
    "hot": Sampling(temperature=2.0, max_new_tokens=20, banned_ids=(3, 4)),
    "nucleus": Sampling(temperature=1.3, top_p=0.8, max_new_tokens=20, banned_ids=(9,)),
    "greedy": Sampling(temperature=0.0, max_new_tokens=20, stop_ids=STOPS, banned_ids=(2,)),
}
OPTIONS = {
    "enforce_eager": True,
    "max_model_len": 96,
    "max_num_seqs": 16,
    "kv_cache_memory_bytes": 64 << 20,
}


def policy(seed: int = 0) -> Any:
    """vLLM's attention takes heads of 32 features and more."""
    module = small_module(seed, head_dim=32)
    module.generation_config.suppress_tokens = [60]
    return module


def prompts(count: int, seed: int = 0) -> list[list[int]]:
    draw = Random(seed)
    return [
        [draw.randrange(5, VOCABULARY) for _ in range(draw.randint(1, 60))] for _ in range(count)
    ]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two policies of one architecture, saved."""
    made = [tmp_path_factory.mktemp(f"policy{seed}") for seed in (0, 1)]
    for seed, folder in enumerate(made):
        save_policy(LoadedPolicy(policy(seed), small_tokenizer()), folder)
    return made


@pytest.fixture(scope="module")
def engine(folders: list[Path]) -> Iterator[VllmEngine]:
    made = VllmEngine(folders[0], options=OPTIONS)
    yield made
    made.close()


def furthest(
    module: Any,
    asked: list[list[int]],
    found: list[Generated],
    how: Sampling,
    suppressed: tuple[int, ...] = (60,),
) -> float:
    """The largest difference to the log-probabilities of full forwards."""
    banned = sorted({*how.banned_ids, *suppressed})
    worst = 0.0
    for prompt, reply in zip(asked, found, strict=True):
        with torch.no_grad():
            logits = module(torch.tensor([[*prompt, *reply.ids]])).logits[0, len(prompt) - 1 : -1]
        expected = log_probability(log_distribution(logits, how, banned), torch.tensor(reply.ids))
        worst = max(worst, float((expected - torch.tensor(reply.logprobs)).abs().max()))
    return worst


@pytest.mark.parametrize("name", SAMPLINGS)
def test_logprobs_are_those_of_a_full_forward(engine: VllmEngine, name: str) -> None:
    asked, sampling = prompts(12), SAMPLINGS[name]
    found = engine.generate(asked, sampling, range(12))
    assert furthest(policy(), asked, found, sampling) < 1e-5
    for reply in found:
        assert not {60, *sampling.banned_ids} & set(reply.ids)
        stopped = reply.ids[-1] in sampling.stop_ids
        assert reply.finish_reason == ("stop" if stopped else "length")
        assert not set(reply.ids[:-1]) & set(sampling.stop_ids)
        assert stopped or len(reply.ids) == 20


def test_greedy_replies_are_those_of_the_transformers_engine(
    engine: VllmEngine, folders: list[Path]
) -> None:
    other = TransformersEngine.load(folders[0], device="cpu", threads=1)
    assert other.policy_version == engine.policy_version
    assert other.context_window == engine.context_window == 96
    found = engine.generate(prompts(8), SAMPLINGS["greedy"], range(8))
    for reply, expected in zip(
        found, other.generate(prompts(8), SAMPLINGS["greedy"], range(8)), strict=True
    ):
        assert reply.ids == expected.ids
        assert reply.logprobs == pytest.approx(expected.logprobs, abs=1e-5)
        assert reply.policy_version == expected.policy_version


def test_a_seed_gives_its_sample_whatever_runs_beside_it(engine: VllmEngine) -> None:
    asked, sampling = prompts(6, seed=2), SAMPLINGS["bans"]
    together = engine.generate(asked, sampling, range(6))
    alone = [engine.generate([prompt], sampling, [s])[0] for s, prompt in enumerate(asked)]
    assert [reply.ids for reply in alone] == [reply.ids for reply in together]
    largest = engine.generate(asked[:1], sampling, [2**64 - 1])[0]
    assert largest.ids != together[0].ids


def test_two_batches_share_it_and_one_lets_go(engine: VllmEngine) -> None:
    sampling = SAMPLINGS["hot"]
    expected = engine.generate(prompts(4), sampling, range(4))
    one, other = engine.begin(), engine.begin()
    for place, prompt in enumerate(prompts(4)):
        (one if place < 2 else other).add(place, prompt, sampling, place)
    one.step()
    other.discard(3)
    done: dict[Any, Generated] = {}
    while len(one) or len(other):
        done.update(one.step())
        done.update(other.step())
    assert [done[place].ids for place in range(3)] == [reply.ids for reply in expected[:3]]
    assert 3 not in done


def test_other_weights_reach_every_layer(engine: VllmEngine, folders: list[Path]) -> None:
    asked, sampling = prompts(6), SAMPLINGS["plain"]
    before = engine.policy_version
    for version, weights in (("1", folders[1]), ("0", policy(0).state_dict())):
        engine.load_weights(weights, version)
        found = engine.generate(asked, sampling, range(6))
        assert {reply.policy_version for reply in found} == {version}
        assert furthest(policy(int(version)), asked, found, sampling) < 1e-5
        assert furthest(policy(1 - int(version)), asked, found, sampling) > 0.1
    lacking = {n: t for n, t in policy(1).state_dict().items() if n != "model.norm.weight"}
    with pytest.raises(UsageError, match=r"lack 'model\.norm\.weight'"):
        engine.load_weights(lacking, "2")
    tied = {n: t for n, t in policy(0).state_dict().items() if n != "lm_head.weight"}
    engine.load_weights(tied, before)
    found = engine.generate(asked, sampling, range(6))
    assert furthest(policy(0), asked, found, sampling) < 1e-5


def test_weights_wait_for_replies_under_way(engine: VllmEngine) -> None:
    batch = engine.begin()
    batch.add(0, [5], Sampling(max_new_tokens=4), 0)
    with pytest.raises(UsageError, match="1 replies are under way"):
        engine.load_weights(policy(0).state_dict(), "1")
    batch.abandon()


def test_what_cannot_be_answered_is_refused(engine: VllmEngine) -> None:
    few = Sampling(max_new_tokens=6)
    assert len(engine.generate([[5] * 90], few, [0])[0].ids) == 6
    with pytest.raises(ContextTooLong, match="91 tokens and 6 new ones"):
        engine.generate([[5], [5] * 91], few, [0, 0])
    with pytest.raises(UsageError, match="holds the id 61"):
        engine.generate([[61]], few, [0])
    with pytest.raises(UsageError, match="every id is banned"):
        engine.generate([[5]], Sampling(banned_ids=tuple(range(60)), max_new_tokens=1), [0])
    with pytest.raises(UsageError, match=r"temperature is 0\.005, which vLLM raises to 0\.01"):
        engine.generate([[5]], Sampling(temperature=0.005, max_new_tokens=1), [0])
    with pytest.raises(UsageError, match=r"vLLM refuses a prompt \(temperature must be in"):
        engine.generate([[5]], Sampling(temperature=9.0, max_new_tokens=1), [0])
    assert len(engine.generate([[5]], few, [0])[0].ids) == 6


def test_a_gguf_file_and_a_wrong_option_are_refused(folders: list[Path], tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    with pytest.raises(UsageError, match="GGUF file, which this engine does not read"):
        VllmEngine(file)
    with pytest.raises(UsageError, match="vLLM refuses an option"):
        VllmEngine(folders[0], options={"no_such_option": 1})


def test_it_keeps_the_protocol_and_feeds_concurrent_callers(engine: VllmEngine) -> None:
    kept: TokenEngine = engine
    assert kept.policy_version.startswith("sha256:")
    assert engine.tokenizer.stop_ids == (1,)
    assert engine.tokenizer.text([30, 31, 1]) == "w30w31"
    expected = kept.generate(prompts(5), SAMPLINGS["bans"], range(5))
    front = BatchingEngine(engine)
    found = front.generate(prompts(5), SAMPLINGS["bans"], range(5))
    assert [reply.ids for reply in found] == [reply.ids for reply in expected]
    front.close()  # the module's engine with it: this test is the last that uses it
    with pytest.raises(EngineError, match="the engine is closed"):
        engine.generate([[5]], SAMPLINGS["plain"], [0])
    engine.close()


def test_bfloat16_agrees_within_its_precision(tmp_path: Path) -> None:
    """The bound holds for logits of a few units: what bfloat16 rounds grows with them."""
    module = small_module(head_dim=32, initializer_range=0.1)
    save_policy(LoadedPolicy(module, None), tmp_path)
    half = VllmEngine(tmp_path, dtype="bfloat16", options=OPTIONS)
    module = load_policy(tmp_path, device="cpu", dtype="bfloat16").module
    asked, sampling = prompts(12), Sampling(max_new_tokens=20)
    found = half.generate(asked, sampling, range(12))
    half.close()
    assert 1e-5 < furthest(module, asked, found, sampling, ()) < 2e-2


def test_more_prompts_than_one_step_reads_wait_whole(folders: list[Path]) -> None:
    """A prompt that is read in parts would take back a draw, and fail on a processor."""
    narrow = VllmEngine(folders[0], options={**OPTIONS, "max_num_batched_tokens": 96})
    asked, sampling = prompts(12), SAMPLINGS["bans"]
    found = narrow.generate(asked, sampling, range(12))
    alone = [narrow.generate([prompt], sampling, [s])[0] for s, prompt in enumerate(asked)]
    narrow.close()
    assert [reply.ids for reply in found] == [reply.ids for reply in alone]
    assert furthest(policy(), asked, found, sampling) < 1e-5
