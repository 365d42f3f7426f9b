"""The selector on this machine, with models of random weights that the tests make."""

from __future__ import annotations

import json
import pickle
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite.errors import MissingExtra, RetrievalError, UsageError
from agentgym_suite.indexes import local_model
from agentgym_suite.indexes.local_model import DecisionModel
from agentgym_suite.indexes.local_selector import LocalSelector
from agentgym_suite.indexes.paper_store import Paper
from agentgym_suite.indexes.selector_prompts import fill_prompt, selector_prompt
from agentgym_suite.indexes.selectors import CachedSelector, open_selector
from agentgym_suite.model_files import find_model

pytest.importorskip("torch", reason="the extra retrieval is not installed")
pytest.importorskip("transformers", reason="the extra retrieval is not installed")

QUERY = "Which papers parse {title} without treebanks?"
LONGEST = 512


def paper(number: int, words: int, title: str = "On {braces} and {}") -> Paper:
    abstract = " ".join(random.Random(number).choices(["we", "parse", "Trees", "é{x}"], k=words))
    return Paper(0, f"P{number}", None, title, abstract, (), None, "", "", 0, 99_999_999)


PAPERS = [paper(n, words) for n, words in enumerate([0, 3, 40, 41, 90, 5, 60, 2, 88, 40])]


def save_tokenizer(folder: Path, texts: list[str]) -> int:
    """Save a byte-level tokenizer that has merged what ``texts`` repeats; gives its size."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        min_frequency=5,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(texts * 10, trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    return int(tokenizer.get_vocab_size())


def save_model(folder: Path, kind: str = "llama", seed: int = 0, *, decides: bool = True) -> Path:
    """Save a causal language model of random weights, small but not indifferent."""
    import torch
    import transformers

    texts = ["Decision: True/False\nTrue False Trees", selector_prompt("pasa")]
    size = save_tokenizer(folder, texts if decides else ["we parse"])
    config: Any
    if kind == "llama":
        config = transformers.LlamaConfig(
            vocab_size=size,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=LONGEST,
            initializer_range=0.4,
        )
    else:
        config = transformers.GPT2Config(
            vocab_size=size,
            n_embd=32,
            n_layer=2,
            n_head=4,
            n_positions=LONGEST,
            initializer_range=0.4,
        )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = transformers.AutoModelForCausalLM.from_config(config)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("tiny-llama"))


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def each_folder(
    request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Positions relative to each other, and positions counted from the start."""
    if request.param == "llama":
        return folder
    return save_model(tmp_path_factory.mktemp("tiny-gpt2"), "gpt2")


def by_generation(folder: Path, papers: list[Paper]) -> list[float]:
    """The rule by itself: one greedy token after one unpadded prompt, softmax over everything."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    (true,) = tokenizer.encode("True", add_special_tokens=False)
    assert tokenizer.encode(" True", add_special_tokens=False) != [true]
    chances = []
    for one in papers:
        prompt = fill_prompt(selector_prompt("pasa"), QUERY, one.title, one.abstract)
        inputs = tokenizer(prompt, return_tensors="pt")
        inputs.pop("token_type_ids", None)
        made = model.generate(
            **inputs,
            max_new_tokens=1,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
            pad_token_id=0,
        )
        (logits,) = made.logits
        assert logits.shape == (1, model.config.vocab_size)
        chances.append(float(torch.softmax(logits[0], -1)[true]))
    return chances


def test_scores_are_those_of_one_generated_token(each_folder: Path) -> None:
    selector = LocalSelector(each_folder)
    scores = selector.score(QUERY, PAPERS)
    assert scores == pytest.approx(by_generation(each_folder, PAPERS), rel=1e-4, abs=1e-9)
    assert len({round(score, 7) for score in scores}) > 5
    assert all(0 <= score <= 1 for score in scores)
    assert selector.score(QUERY, []) == []


def test_a_score_does_not_depend_on_the_batch(each_folder: Path) -> None:
    together = LocalSelector(each_folder).score(QUERY, PAPERS)
    selector = LocalSelector(each_folder, batch_tokens=1)
    alone = [selector.score(QUERY, [one])[0] for one in PAPERS]
    assert together == pytest.approx(alone, rel=1e-5, abs=1e-9)
    order = [7, 2, 9, 0, 4, 1, 8, 3, 6, 5]
    shuffled = LocalSelector(each_folder).score(QUERY, [PAPERS[place] for place in order])
    assert shuffled == pytest.approx([together[place] for place in order], rel=1e-5, abs=1e-9)


def test_batches_hold_no_more_tokens_than_they_may(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[tuple[int, int]] = []

    class Watched(DecisionModel):
        def decide(self, rows: Any, columns: int) -> list[float]:
            batches.append((len(rows), columns))
            assert max(map(len, rows)) <= columns < min(map(len, rows)) + 64
            return super().decide(rows, columns)

    monkeypatch.setattr("agentgym_suite.indexes.local_selector.DecisionModel", Watched)
    LocalSelector(folder, batch_tokens=600).score(QUERY, PAPERS)
    assert sum(rows for rows, _ in batches) == len(PAPERS)
    assert all(rows == 1 or rows * columns <= 600 for rows, columns in batches)
    assert max(rows for rows, _ in batches) > 1
    assert [columns for _, columns in batches] == sorted(
        (columns for _, columns in batches), reverse=True
    )


def test_a_long_abstract_loses_its_end(folder: Path) -> None:
    long = paper(1, 3_000)
    selector = LocalSelector(folder)
    (score,) = selector.score(QUERY, [long])
    assert selector.info()["shortened"] == 1
    model = DecisionModel(find_model(folder))
    assert model.longest == LONGEST
    for most in (LONGEST, 400):
        chosen = LocalSelector(folder, max_tokens=most)
        tokens = chosen._tokens(model, QUERY, long, most)
        assert most - 64 < len(tokens) <= most
        whole = model.tokenize([fill_prompt(selector_prompt("pasa"), QUERY, long.title, "we")])[0]
        assert tokens[-8:] == whole[-8:]  # the question at the end stays
    assert 0 <= score <= 1


def test_a_query_that_the_model_cannot_read_is_an_error(folder: Path) -> None:
    with pytest.raises(RetrievalError, match=f"the paper P1 has .* selector takes {LONGEST}"):
        LocalSelector(folder).score("why " * 900, [PAPERS[1]])


def test_the_decision_must_be_one_token_without_a_blank(tmp_path: Path) -> None:
    save_model(tmp_path / "model", decides=False)
    with pytest.raises(RetrievalError, match=r"makes 4 tokens of 'True'"):
        LocalSelector(tmp_path / "model").score(QUERY, PAPERS[:1])


def test_what_decides_a_score_is_in_the_digest(folder: Path, tmp_path: Path) -> None:
    digest = LocalSelector(folder).digest
    assert digest == LocalSelector(str(folder), batch_tokens=100, threads=1).digest
    others = [
        LocalSelector(folder, prompt="steppo"),
        LocalSelector(folder, dtype="bfloat16"),
        LocalSelector(folder, max_tokens=300),
        LocalSelector(save_model(tmp_path / "other", seed=1)),
    ]
    assert len({digest, *(other.digest for other in others)}) == 5
    assert others[0].score(QUERY, PAPERS[:1]) != LocalSelector(folder).score(QUERY, PAPERS[:1])


def test_it_pickles_closes_and_opens_again(folder: Path) -> None:
    selector = LocalSelector(folder, prompt="steppo", batch_tokens=500, threads=1)
    scores = selector.score(QUERY, PAPERS[:3])
    again = pickle.loads(pickle.dumps(selector))
    assert (again.digest, again.info()) == (selector.digest, selector.info())
    selector.close()
    selector.close()
    assert selector.score(QUERY, PAPERS[:3]) == again.score(QUERY, PAPERS[:3]) == scores


def test_threads_take_turns(folder: Path) -> None:
    selector = LocalSelector(folder)
    expected = LocalSelector(folder).score(QUERY, PAPERS)
    with ThreadPoolExecutor(4) as pool:
        for scores in pool.map(lambda _: selector.score(QUERY, PAPERS), range(8)):
            assert scores == expected


def test_by_name(folder: Path) -> None:
    selector = open_selector(f"local:{folder}", max_tokens=500)
    assert isinstance(selector, CachedSelector)
    assert selector.score("\ud800", [paper(0, 2, "\udfff")]) == selector.score(
        "\ud800", [paper(0, 2, "\udfff")]
    )
    told = selector.info()
    assert (told["name"], told["model"], told["judged"]) == ("local", str(folder), 1)


# --- faults


def test_a_model_that_computes_nothing(folder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    broken = save_model(tmp_path / "broken")
    weights = load_file(broken / "model.safetensors")
    weights["model.norm.weight"][:] = float("nan")
    save_file(weights, broken / "model.safetensors", {"format": "pt"})
    with pytest.raises(RetrievalError, match="gives nan"):
        LocalSelector(broken).score(QUERY, PAPERS[:1])


def test_a_failing_model_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    selector = LocalSelector(folder)
    selector.score(QUERY, PAPERS[:1])
    model = selector._loaded()

    def fails(**inputs: object) -> None:
        raise RuntimeError("out of\n memory")

    monkeypatch.setattr(model, "_model", fails)
    with pytest.raises(RetrievalError, match="out of memory.; lower batch_tokens"):
        selector.score(QUERY, PAPERS)


def test_folders_that_are_no_models(tmp_path: Path) -> None:
    with pytest.raises(RetrievalError, match="cannot be loaded as a causal language model"):
        LocalSelector(tmp_path).score(QUERY, PAPERS[:1])
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "no-such-thing"}))
    with pytest.raises(RetrievalError, match="cannot be loaded as a causal language model"):
        LocalSelector(tmp_path).score(QUERY, PAPERS[:1])
    with pytest.raises(RetrievalError, match="has no weights"):
        _ = LocalSelector(tmp_path).digest


@pytest.mark.parametrize("model", ["", "nothing", "./a/b", "/a/b/c", "a/b/c", "~/none", "x.gguf"])
def test_names_that_name_no_model(model: str) -> None:
    with pytest.raises(UsageError, match="neither a folder nor a .gguf file"):
        LocalSelector(model)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"prompt": "chat"}, "prompt is 'chat'"),
        ({"batch_tokens": 0}, "batch_tokens is 0"),
        ({"max_tokens": -1}, "max_tokens is -1"),
        ({"threads": 0}, "threads is 0"),
    ],
)
def test_wrong_settings(options: dict[str, Any], said: str, folder: Path) -> None:
    with pytest.raises(UsageError, match=said):
        LocalSelector(folder, **options)


@pytest.mark.parametrize("dtype", ["int8", "float99", "nn"])
def test_wrong_dtypes(dtype: str, folder: Path) -> None:
    with pytest.raises(UsageError, match=f"dtype is '{dtype}'"):
        LocalSelector(folder, dtype=dtype).score(QUERY, PAPERS[:1])


def test_a_model_of_the_hub(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    asked: list[bool] = []

    def snapshot(name: str, *, local_files_only: bool, **options: object) -> str:
        asked.append(local_files_only)
        if name == "owner/gone" or local_files_only:
            raise OSError("no\nnetwork")
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    assert LocalSelector("owner/tiny").digest == LocalSelector(folder).digest
    assert asked == [True, False]
    with pytest.raises(RetrievalError, match=r"owner/gone is not here .*\(no network\)"):
        LocalSelector("owner/gone")


def test_a_file_that_holds_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tiny.Q4.gguf").write_bytes(b"GGUF?")
    selector = LocalSelector(tmp_path / "tiny.Q4.gguf")
    assert selector.digest.startswith("sha256:")
    monkeypatch.setattr(local_model, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="GGUF"):
        selector.score(QUERY, PAPERS[:1])


def test_without_transformers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    selector = LocalSelector(folder)
    assert selector.digest
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtra, match="the selector local needs"):
        selector.score(QUERY, PAPERS[:1])
