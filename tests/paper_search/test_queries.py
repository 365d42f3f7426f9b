"""Queries: their form on the disk, and folders of them."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite import data
from agentgym_suite.errors import DataDamaged, DataMissing, UnknownTask
from agentgym_suite.paper_search.queries import PaperQuery, query_line, read_query
from agentgym_suite.paper_search.query_folder import (
    QUERIES_KIND,
    QUERIES_VERSION,
    write_queries,
)
from agentgym_suite.paper_search.query_set import QuerySet, open_finished
from agentgym_suite.spaces import without_surrogates

TEXT = st.text(max_size=20).map(without_surrogates)
QUERIES = st.builds(
    PaperQuery,
    id=TEXT,
    split=TEXT,
    query=TEXT,
    gold=st.lists(TEXT, max_size=3).map(tuple),
    gold_missing=st.integers(0, 3),
    cutoff=TEXT,
    kind=TEXT,
    source=TEXT,
    date=TEXT,
    titles=st.lists(TEXT, max_size=3).map(tuple),
)
ONE = PaperQuery("Q_0", "train", "graphs?", ("2001.00001",), cutoff="20210101", source="pasa")
TWO = PaperQuery("Q_1", "train", "trees?", ("cs/0112017", "X-1"), gold_missing=2, source="pasa")
THREE = PaperQuery("Q_0", "test", "forêts?", (), kind="RealScholarQuery", source="pasa")


def publish(folder: Path, queries: list[PaperQuery]) -> QuerySet:
    data.publish(
        folder,
        kind=QUERIES_KIND,
        version=QUERIES_VERSION,
        inputs={},
        write=lambda partial: data.Contents(write_queries(partial, queries), {"dataset": "pasa"}),
    )
    return open_finished(folder)


@given(QUERIES)
def test_a_line_gives_the_query_back(query: PaperQuery) -> None:
    line = query_line(query)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert read_query(line) == query


def test_a_line_leaves_out_what_says_nothing() -> None:
    assert query_line(THREE).decode() == (
        '{"id":"Q_0","split":"test","query":"forêts?","gold":[],"kind":"RealScholarQuery",'
        '"source":"pasa"}\n'
    )


def test_recall_divides_by_known_and_missing_papers() -> None:
    assert (ONE.gold_total, TWO.gold_total, THREE.gold_total) == (1, 4, 0)


def test_a_set_is_opened_by_its_folder(tmp_path: Path) -> None:
    opened = publish(tmp_path / "set", [ONE, TWO, THREE])
    assert len(opened) == len(opened.tasks) == 3
    assert [opened.query(number) for number in range(3)] == [ONE, TWO, THREE]
    assert opened.query(-1) == THREE
    assert list(opened.tasks) == ["pasa/train/Q_0", "pasa/train/Q_1", "pasa/test/Q_0"]
    assert opened.tasks.resolve("pasa/test/Q_0") == opened.tasks.resolve(2) == 2
    assert opened.tasks.task(2).split == "test"
    assert opened.tasks.task(2).family == "RealScholarQuery"
    assert list(opened.tasks.split("train")) == [0, 1]
    assert (opened.corpus, opened.citations, opened.corpus_digest) == (None, None, "")
    assert opened.digest.startswith("sha256:")
    with pytest.raises(UnknownTask, match="nearest: pasa/train/Q_1"):
        opened.tasks.resolve("pasa/train/Q_9")
    with pytest.raises(IndexError):
        opened.query(3)


def test_a_set_pickles_as_its_folder(tmp_path: Path) -> None:
    opened = publish(tmp_path / "set", [ONE, TWO])
    again = pickle.loads(pickle.dumps(opened))
    assert (again.digest, again.query(1)) == (opened.digest, TWO)


def test_splits_come_in_their_order(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'train' comes after test"):
        write_queries(tmp_path, [THREE, ONE])


def test_a_damaged_folder_is_explained(tmp_path: Path) -> None:
    opened = publish(tmp_path / "set", [ONE, TWO])
    path = opened.folder / "queries.jsonl"
    path.write_bytes(b"?" * path.stat().st_size)
    with pytest.raises(DataDamaged, match="data verify"):
        open_finished(opened.folder).query(0)
    path.write_bytes(b"")
    with pytest.raises(DataDamaged, match="has 0 bytes"):
        open_finished(opened.folder)
    with pytest.raises(DataMissing, match="no paper-queries at"):
        open_finished(tmp_path / "nowhere")
