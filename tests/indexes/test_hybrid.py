"""Two indexes as one: in memory and as a folder, and the faults of its parts."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest

from agentgym_suite.errors import DataMissing, RetrievalError, UsageError
from agentgym_suite.indexes.bm25_passages import build_bm25
from agentgym_suite.indexes.cli import verify
from agentgym_suite.indexes.dense_build import build_dense
from agentgym_suite.indexes.fts5 import FTS5Index
from agentgym_suite.indexes.fts5_build import build_fts5
from agentgym_suite.indexes.fusion import rrf
from agentgym_suite.indexes.hybrid import HybridIndex, build_hybrid
from agentgym_suite.indexes.opening import open_index
from agentgym_suite.indexes.passages import RankedIndex
from tests.indexes.corpus_files import passages, write_corpus
from tests.indexes.hashing_encoder import HashingEncoder, open_without_address

ROWS = passages(300)
QUERIES = ["river stone", "violin harbour winter", "", "anchor"]


pytest.importorskip("faiss", reason="the extra retrieval is not installed")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two indexes of one corpus, and both as one."""
    open_without_address(monkeypatch)
    corpus = write_corpus(tmp_path / "corpus.jsonl", ROWS)
    build_fts5(tmp_path / "words", corpus)
    build_dense(tmp_path / "other", corpus, encoder=HashingEncoder(), index_type="Flat")
    build_hybrid(tmp_path / "hybrid", tmp_path / "words", tmp_path / "other", depth=50)
    return tmp_path


def test_it_fuses_what_both_give(place: Path) -> None:
    with_folder = HybridIndex.open(place / "hybrid")
    words, other = open_index(place / "words"), open_index(place / "other")
    assert isinstance(words, RankedIndex) and isinstance(other, RankedIndex)
    in_memory = HybridIndex(words, other, depth=50)
    assert isinstance(in_memory, RankedIndex)
    for k in (3, 50, 80, 1000):
        depth = max(50, k)
        for query in QUERIES:
            lists = [index.search(query, depth).ids for index in (words, other)]
            hits = in_memory.search(query, k)
            assert list(zip(hits.ids, hits.scores, strict=True)) == rrf(lists)[:k]
            assert with_folder.search(query, k) == hits
    assert in_memory.search_batch(QUERIES, 5) == [in_memory.search(query, 5) for query in QUERIES]
    assert with_folder.retrieve(QUERIES, 5)[2] == []
    assert in_memory.digest == with_folder.digest and in_memory.digest != words.digest
    about = with_folder.info()
    assert (about["kind"], about["rows"], len(with_folder)) == ("hybrid-index", 300, 300)
    copy = pickle.loads(pickle.dumps(with_folder))
    assert copy.search("river", 5) == with_folder.search("river", 5)
    for index in (copy, with_folder, in_memory):
        index.close()
        index.close()
    with pytest.raises(UsageError, match="ask for at least 1"):
        in_memory.search("river", 0)


def test_the_folder_moves_with_its_parts(place: Path) -> None:
    moved = place / "moved"
    moved.mkdir()
    for name in ("words", "other", "hybrid", "corpus.jsonl"):
        shutil.move(place / name, moved / name)
    index = open_index(moved / "hybrid")
    assert len(index.retrieve(["river"], 5)[0]) == 5
    index.close()
    verify(moved / "hybrid")


def test_parts_that_are_gone_or_others(place: Path) -> None:
    shutil.move(place / "other", place / "away")
    with pytest.raises(DataMissing, match="no index at"):
        open_index(place / "hybrid")
    with pytest.raises(DataMissing, match="no index at"):
        verify(place / "hybrid")
    encoder = HashingEncoder()
    build_dense(place / "other", place / "corpus.jsonl", encoder=encoder, index_type="fp16")
    with pytest.raises(RetrievalError, match="has digest .* was made with"):
        open_index(place / "hybrid")


def test_two_corpora_are_refused(place: Path) -> None:
    foreign = write_corpus(place / "foreign.jsonl", passages(300, seed=1))
    build_dense(place / "foreign", foreign, encoder=HashingEncoder(), index_type="Flat")
    with pytest.raises(RetrievalError, match="different corpora"):
        build_hybrid(place / "no", place / "words", place / "foreign")
    assert not (place / "no").exists()


def test_each_side_must_rank_its_own_way(place: Path) -> None:
    build_bm25(place / "bm25", place / "corpus.jsonl")
    for sparse, dense, said in (
        ("words", "bm25", "the dense side is a bm25-index; give .* by vectors"),
        ("other", "other", "the sparse side is a dense-index; give .* by words"),
        ("hybrid", "other", "the sparse side is a hybrid-index"),
        ("words", "hybrid", "the dense side is a hybrid-index"),
    ):
        with pytest.raises(UsageError, match=said):
            build_hybrid(place / "no", place / sparse, place / dense)
    assert not (place / "no").exists()


def test_wrong_arguments(place: Path) -> None:
    with pytest.raises(UsageError, match="depth is 0"):
        build_hybrid(place / "no", place / "words", place / "other", depth=0)
    with pytest.raises(RetrievalError, match="cannot be fused"):
        build_hybrid(place / "no", place / "words", "http://127.0.0.1:9")
    words = FTS5Index.open(place / "words")
    with pytest.raises(UsageError, match="depth is -1"):
        HybridIndex(words, words, depth=-1)
    words.close()
