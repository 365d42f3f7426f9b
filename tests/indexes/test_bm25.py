"""Searching: the recordings of Lucene, and a plain implementation on random corpora."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from agentgym_suite.errors import DataDamaged, DataMissing, DataVersion, UsageError
from agentgym_suite.indexes import bm25
from agentgym_suite.indexes.bm25 import BM25Index
from agentgym_suite.indexes.bm25_build import build
from agentgym_suite.indexes.bm25_files import code_lengths, length_codes
from agentgym_suite.indexes.bm25_top import BLOCK, best_by_blocks, best_documents
from agentgym_suite.indexes.hits import Hits, reported_scores
from tests.indexes.plain_bm25 import plain_length, plain_search
from tests.manifest_edits import edit_manifest

SHOES = {
    "B3": "red running shoes, red laces",
    "B1": "blue shoes",
    "B2": "blue shoes",
    "B4": "",
    "B0": "a hat of the",
}


@pytest.fixture(scope="module")
def shoes(tmp_path_factory: pytest.TempPathFactory) -> BM25Index:
    folder = tmp_path_factory.mktemp("shoes") / "index"
    build(folder, SHOES.items(), inputs={})
    return BM25Index.open(folder)


@pytest.fixture(scope="module")
def official_index(
    official_texts: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> BM25Index:
    folder = tmp_path_factory.mktemp("official") / "index"
    build(folder, official_texts.items(), inputs={})
    return BM25Index.open(folder)


def test_recorded_searches(recorded: Callable[[str], list[Any]], official_index: BM25Index) -> None:
    rows = recorded("search_1k.jsonl.xz")
    assert len(rows) == 434
    for row in rows:
        hits = official_index.search(row["q"].lower())
        assert list(hits.ids) == [name for name, _ in row["hits"]], row["q"]
        # To the last bit, which is more than the 2e-6 that is asked.
        assert list(reported_scores(hits.scores)) == [score for _, score in row["hits"]], row["q"]
        assert official_index.search_tokens(row["tokens"]) == hits


def test_facts_of_the_official_texts(official_index: BM25Index) -> None:
    counts = official_index.manifest.counts
    assert counts["documents"] == counts["scored_documents"] == len(official_index) == 1_000
    assert counts["tokens"] == 107_608
    assert counts["terms"] == 12_074


def test_ties_are_broken_by_id(shoes: BM25Index) -> None:
    hits = shoes.search("blue")
    assert hits.ids == ("B1", "B2")
    assert hits.scores[0] == hits.scores[1] > 0


def test_fewer_hits_than_asked_and_more(shoes: BM25Index) -> None:
    assert shoes.search("shoe hat", k=1_000).ids == ("B0", "B1", "B2", "B3")
    assert len(shoes.search("shoe", k=2)) == 2
    assert shoes.search("shoe", k=1).ids == ("B1",)


@pytest.mark.parametrize("query", ["", "   ", "the of and", "zebra", "___", '"*" -/+ ()', "\ud800"])
def test_queries_that_find_nothing(shoes: BM25Index, query: str) -> None:
    assert shoes.search(query) == Hits((), ())


def test_operators_have_no_meaning(shoes: BM25Index) -> None:
    assert shoes.search('-blue +"shoes" (hat)*~2 AND') == shoes.search("blue shoes hat 2")


def test_a_megabyte_of_query(shoes: BM25Index) -> None:
    words = " ".join(f"w{number}" for number in range(150_000))
    assert shoes.search(words + " blue").ids == ("B1", "B2")
    assert shoes.search("blue " * 200_000).ids == ("B1", "B2")


def test_k_below_one_is_refused(shoes: BM25Index) -> None:
    with pytest.raises(UsageError, match="k is 0"):
        shoes.search("blue", k=0)


def test_a_copy_opens_the_same_folder(shoes: BM25Index) -> None:
    copy = pickle.loads(pickle.dumps(shoes))
    assert copy.digest == shoes.digest
    assert copy.search("red shoes") == shoes.search("red shoes")


def test_threads_share_an_index(official_index: BM25Index) -> None:
    queries = [
        f"{color} {kind}" for color in ("red", "blue", "black") for kind in ("dress", "case")
    ]
    expected = [official_index.search(query) for query in queries]
    wrong = []

    def work() -> None:
        for _ in range(50):
            wrong.extend(
                query
                for query, hits in zip(queries, expected, strict=True)
                if official_index.search(query) != hits
            )

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


WORDS = ["red", "blue", "shoe", "hat", "x1", "é", "wood"]


@st.composite
def corpora(draw: st.DrawFn) -> dict[str, list[str]]:
    """Few documents of few words: ties, repeats, empty ones, some longer than 255 tokens."""
    texts = st.lists(st.sampled_from(WORDS), max_size=12)
    long = st.tuples(st.sampled_from(WORDS), st.integers(200, 700)).map(lambda p: [p[0]] * p[1])
    documents = draw(st.lists(st.one_of(texts, texts, long), max_size=14))
    names = draw(st.permutations([f"D{number}" for number in range(len(documents))]))
    return dict(zip(names, documents, strict=True))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    corpora(),
    st.lists(st.lists(st.sampled_from([*WORDS, "none"]), max_size=9), min_size=1, max_size=4),
    st.integers(1, 20),
)
def test_equals_the_plain_implementation(
    tmp_path_factory: pytest.TempPathFactory,
    corpus: dict[str, list[str]],
    queries: list[list[str]],
    k: int,
) -> None:
    folder = tmp_path_factory.mktemp("random") / "index"
    build(folder, ((name, " ".join(words)) for name, words in corpus.items()), inputs={})
    index = BM25Index.open(folder)
    for query in queries:
        hits = index.search(" ".join(query), k)
        assert list(zip(hits.ids, hits.scores, strict=True)) == plain_search(corpus, query, k)


def test_frequent_terms_equal_the_plain_implementation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same through the table of pairs, in pieces, and through blocks of documents."""
    random = np.random.default_rng(0)
    corpus = {
        f"D{number:05}": [WORDS[i] for i in random.integers(0, 7, random.integers(1, 6))]
        for number in range(700)
    }
    build(tmp_path / "index", ((n, " ".join(words)) for n, words in corpus.items()), inputs={})
    queries = [["red"], ["red", "hat", "hat"], WORDS, ["é", "none"]]
    expected = [plain_search(corpus, query, 20) for query in queries]
    monkeypatch.setattr(bm25, "_RARE", 1)
    monkeypatch.setattr(bm25, "PIECE", 64)
    monkeypatch.setattr(bm25, "best_documents", best_by_blocks)
    index = BM25Index.open(tmp_path / "index")
    for query, plain in zip(queries, expected, strict=True):
        hits = index.search_tokens(query, 20)
        assert list(zip(hits.ids, hits.scores, strict=True)) == plain


@given(
    arrays.arrays(
        np.float64,
        st.integers(1, 8).map(lambda blocks: blocks * BLOCK),
        elements=st.sampled_from([0.0, 1.0, 1.0 + 1e-9, 1.0 - 1e-9, 2.5, 3.25]),
    ),
    st.integers(1, 600),
)
def test_blocks_find_what_a_full_sort_finds(totals: np.ndarray[Any, Any], k: int) -> None:
    scores = totals.astype(np.float32)
    order = np.lexsort((np.arange(len(scores)), -scores))[:k]
    order = order[scores[order] > 0]
    for best in (best_by_blocks, best_documents):
        documents, found = best(totals, k)
        assert documents.tolist() == order.tolist()
        assert found.tolist() == scores[order].tolist()


def test_many_blocks_take_the_block_path() -> None:
    totals = np.zeros(200 * BLOCK)
    totals[[5, 4_000, 51_000]] = [1.0, 2.0, 1.0]
    documents, scores = best_documents(totals, 50)
    assert documents.tolist() == [4_000, 5, 51_000]
    assert scores.dtype == np.float32


def test_length_codes() -> None:
    lengths = np.arange(100_000)
    decoded = code_lengths()[length_codes(lengths)]
    assert decoded.tolist() == [plain_length(length) for length in range(100_000)]
    assert length_codes(np.array([2**31 - 1])).tolist() == [255]


def test_reported_scores() -> None:
    assert reported_scores([]) == ()
    assert reported_scores([2.00006, 1.5, 1.5, 1.5, 1.0]) == pytest.approx(
        (2.0001, 1.5, 1.499999, 1.499998, 1.0), abs=3e-7
    )


def test_a_folder_without_an_index(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="agentgym-suite index build bm25"):
        BM25Index.open(tmp_path)


def test_another_version_and_damage_are_named(tmp_path: Path) -> None:
    build(tmp_path / "index", SHOES.items(), inputs={})
    manifest = tmp_path / "index" / "manifest.json"
    text = manifest.read_text()
    edit_manifest(tmp_path / "index", version=99)
    with pytest.raises(DataVersion, match="99"):
        BM25Index.open(tmp_path / "index")
    manifest.write_text(text)
    (tmp_path / "index" / "pairs.npy").write_bytes(b"short")
    with pytest.raises(DataDamaged, match=r"pairs\.npy"):
        BM25Index.open(tmp_path / "index")
