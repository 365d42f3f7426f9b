"""The real corpus of papers: the specification's figures, exactly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite.indexes.match_query import match_any, query_words
from agentgym_suite.indexes.paper_store import PaperStore
from agentgym_suite.indexes.paper_store_build import build_paper_store
from agentgym_suite.indexes.postings import FOLDER, Postings


@pytest.fixture(scope="module")
def store(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PaperStore]:
    folder = tmp_path_factory.mktemp("litsearch") / "store"
    data = shared / "data" / "papers"
    build_paper_store(folder, data / "corpus.jsonl.xz", data / "citations.tsv.xz")
    opened = PaperStore.open(folder)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def questions(shared: Path) -> list[dict[str, Any]]:
    path = shared / "data" / "papers" / "litsearch_queries.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_what_the_store_holds(store: PaperStore) -> None:
    assert store.manifest.counts == {"papers": 41_099, "abstracts": 21_274, "citations": 11_693}
    notes = store.manifest.notes
    for name in ("duplicate_papers", "self_citations", "duplicate_citations"):
        assert notes[name] == 0
    assert notes["citations_of_unknown_papers"] == 0
    arrays = Postings(store.folder / FOLDER)
    assert (arrays.postings, arrays.terms) == (2_043_475, 30_524)
    assert round(arrays.average_length, 2) == 81.43
    arrays.close()


def test_recall(store: PaperStore, questions: list[dict[str, Any]]) -> None:
    found = [store.search_sparse(question["query"], 50).ids for question in questions]

    def recall(k: int, coverage: tuple[str, ...]) -> float:
        shares = [
            len({*ids[:k]}.intersection(question["gold"]))
            / len(question["gold"] + question["gold_missing_arxiv"])
            for question, ids in zip(questions, found, strict=True)
            if question["coverage"] in coverage
        ]
        assert len(shares) == (144 if coverage == ("full",) else 170)
        return round(sum(shares) / len(shares), 4)

    everything = ("full", "full_title_only", "partial")
    assert [recall(k, everything) for k in (5, 10, 20, 50)] == [0.3765, 0.4353, 0.5147, 0.5971]
    assert [recall(k, ("full",)) for k in (5, 20, 50)] == [0.4132, 0.5694, 0.6597]


def test_lists_and_scores_are_fts5s_own(store: PaperStore, questions: list[dict[str, Any]]) -> None:
    statement = (
        "SELECT rowid, -bm25(texts, 2.0, 1.0) AS score FROM texts WHERE texts MATCH ? "
        "ORDER BY score DESC, rowid LIMIT 100"
    )
    same = 0
    with store._connections.lend() as connection:
        for question in questions:
            match = match_any(query_words(question["query"]))
            exact = connection.execute(statement, (match,)).fetchall()
            same += store.search_rows(question["query"], 100) == exact
    assert same == len(questions) == 170


def test_dates_and_citations(store: PaperStore) -> None:
    paper = store.paper("a00-1009")
    assert (paper.paper_id, paper.year, paper.day) == ("A00-1009", 2000, 2000_9999)
    assert store.ids(store.references(paper.rowid))[0] >= "A"
    years = [store.paper(rowid).year or 0 for rowid in store.references(paper.rowid)]
    assert years == sorted(years, reverse=True) and len(years) > 1
    before = max(years) * 10_000
    assert len(store.references(paper.rowid, before=before)) < len(years)
    hits = store.search_sparse("neural machine translation", 100, 20180000)
    assert len(hits) == 100
    assert all((store.paper(name).year or 0) < 2018 for name in hits.ids)
