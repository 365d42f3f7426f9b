"""Opening an index by its address, whatever is there or is not."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from agentgym_suite.data import Contents, publish
from agentgym_suite.errors import DataMissing, DataVersion, RetrievalError, UsageError
from agentgym_suite.importers import CHECKERS
from agentgym_suite.indexes import bm25_build
from agentgym_suite.indexes.bm25 import BM25Index
from agentgym_suite.indexes.bm25_passages import BM25Passages, build_bm25
from agentgym_suite.indexes.fts5 import FTS5Index
from agentgym_suite.indexes.fts5_build import build_fts5
from agentgym_suite.indexes.opening import KINDS, open_index
from agentgym_suite.indexes.passages import Passage, RankedIndex
from agentgym_suite.indexes.remote import RemoteIndex
from tests.indexes.corpus_files import passages, write_corpus

ROWS = passages(60)


def test_kinds_are_opened_by_their_manifest(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus.jsonl", ROWS)
    build_fts5(tmp_path / "fts5", corpus)
    build_bm25(tmp_path / "bm25", corpus)
    for name, expected in (("fts5", FTS5Index), ("bm25", BM25Passages)):
        for address in (tmp_path / name, str(tmp_path / name)):
            index = open_index(address)
            assert type(index) is expected
            index.close()
    remote = open_index("http://127.0.0.1:9")
    assert isinstance(remote, RemoteIndex)


def test_bm25_gives_passages(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus.jsonl", ROWS)
    build_bm25(tmp_path / "bm25", corpus)
    index = open_index(tmp_path / "bm25")
    assert isinstance(index, RankedIndex)
    found = index.retrieve(["river stone", " ", "zebra"], 5)
    assert [len(one) for one in found] == [5, 0, 0]
    by_id: dict[str, Passage] = {row.id: row for row in ROWS}
    hits = index.search("river stone", 5)
    assert index.search("river \ud800stone\udfff", 5).ids
    assert [one.passage for one in found[0]] == [by_id[name] for name in hits.ids]
    assert [one.score for one in found[0]] == list(hits.scores)
    about = index.info()
    assert (about["kind"], about["rows"], len(index)) == ("bm25-index", 60, 60)
    copy = pickle.loads(pickle.dumps(index))
    assert copy.retrieve(["river stone"], 5) == [found[0]] and copy.digest == index.digest
    with pytest.raises(UsageError, match="k is 0"):
        index.search("river", 0)
    copy.close()
    index.close()
    index.close()


def test_bm25_ranks_the_contents_as_before(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus.jsonl", ROWS)
    build_bm25(tmp_path / "with", corpus)
    documents = [(row.id, f"{row.title} {row.text}") for row in ROWS]
    bm25_build.build(tmp_path / "without", documents, inputs={})
    index = open_index(tmp_path / "with")
    assert isinstance(index, RankedIndex)
    plain = BM25Index.open(tmp_path / "without")
    for row in ROWS[:20]:
        assert index.search(row.title, 9) == plain.search(row.title, 9)
    index.close()


def test_an_index_of_bare_documents_has_no_passages(tmp_path: Path) -> None:
    bm25_build.build(tmp_path / "index", [("a", "red shoe")], inputs={})
    with pytest.raises(RetrievalError, match="not built from a corpus of passages"):
        open_index(tmp_path / "index")


def test_what_is_no_index(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="no index at .*; build one with `agentgym-suite index"):
        open_index(tmp_path / "nowhere")
    with pytest.raises(DataMissing, match="no index at"):
        open_index(tmp_path)
    publish(tmp_path / "other", kind="tea", version=1, inputs={}, write=lambda _: Contents({}, {}))
    with pytest.raises(RetrievalError, match="holds a tea, which is no index"):
        open_index(tmp_path / "other")
    publish(
        tmp_path / "old", kind="fts5-index", version=9, inputs={}, write=lambda _: Contents({}, {})
    )
    with pytest.raises(DataVersion, match="format version 9 of fts5-index"):
        open_index(tmp_path / "old")
    with pytest.raises(UsageError, match="give http://host:port"):
        open_index("http://")


def test_an_unfinished_build_of_any_kind_is_told(tmp_path: Path) -> None:
    def killed(working: Path) -> Contents:
        (working / "shard.npy").write_bytes(b"x" * 2_500_000)
        raise KeyboardInterrupt

    corpus = {"path": "/some where/corpus.jsonl", "bytes": 1, "sha256": "0"}
    with pytest.raises(KeyboardInterrupt):
        publish(
            tmp_path / "index",
            kind="dense-index",
            version=1,
            inputs={"corpus": corpus},
            write=killed,
        )
    with pytest.raises(DataMissing) as told:
        open_index(tmp_path / "index")
    sentence = str(told.value)
    assert "is not finished (2.5 MB written)" in sentence
    command = f"index build dense --corpus '/some where/corpus.jsonl' --out {tmp_path}/index`"
    assert command in sentence
    whole = {"title_weight": 3.0, "text_weight": 1.0, "tokenizer": "trigram"}
    for kind, inputs, words in (
        ("fts5-index", whole, "--title-weight 3.0 --text-weight 1.0 --tokenizer trigram"),
        (
            "dense-index",
            {"encoder": {"name": "minilm"}, "index_type": "SQ8", "params": {"fast": True}},
            "--encoder minilm --index-type SQ8 --fast",
        ),
    ):
        plan = {"kind": kind, "version": 1, "inputs": {"corpus": corpus, **inputs}}
        (tmp_path / "index.partial" / "inputs.json").write_text(json.dumps(plan))
        with pytest.raises(DataMissing, match=f"{words} --out {tmp_path}/index` goes on where"):
            open_index(tmp_path / "index")
    (tmp_path / "index.partial" / "inputs.json").write_text("{")
    with pytest.raises(DataMissing, match="index build KIND --corpus FILE"):
        open_index(tmp_path / "index")


def test_every_kind_can_be_verified() -> None:
    offered = {kind for kind, module in CHECKERS.items() if module == "agentgym_suite.indexes.cli"}
    assert offered == set(KINDS)
