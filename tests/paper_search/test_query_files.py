"""Rows of PaSa, LitSearch and ScholarGym; papers and citations in one shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.errors import DataDamaged
from agentgym_suite.official_rows import BadRows
from agentgym_suite.paper_search.paper_files import paper_row, write_citations, write_papers
from agentgym_suite.paper_search.query_files import ReadQuery, format_of, gold_ids

PASA = {
    "question": "Which papers study  left-handed tokenizers?\n",
    "answer": ["A Made-Up\tPaper", "Another one", "A Made-Up Paper"],
    "answer_arxiv_id": ["2001.00001v2", "cs/0112017", "2001.00001"],
    "source_meta": {"published_time": "20240131"},
    "qid": "AutoScholarQuery_test_9",
}
LITSEARCH_SAMPLE = {
    "qid": "LitSearch_2",
    "query": "Are there studies of token-level checks?",
    "gold": ["2021.findings-acl.120", "A00-1009"],
    "gold_missing_arxiv": ["2004.00001"],
    "coverage": "partial",
    "date": "2020-11",
    "source": "LitSearch",
}
LITSEARCH = {
    "query": "tokens?",
    "query_set": "inline_acl",
    "specificity": 1,
    "quality": 2,
    "corpusids": [123, 456, 123],
}
SCHOLARGYM = {
    "query": "graphs?",
    "cited_paper": [
        {"arxiv_id": "2001.00001", "title": "One", "year": 2020},
        {"arxiv_id": None, "title": "Two", "year": 2020},
        {"arxiv_id": "2001.00003", "title": "Three", "year": 2020},
    ],
    "gt_label": [1, 1, 0],
    "date": "2020-01",
    "source": "PASA_AutoScholar",
    "qid": "AutoScholarQuery_test_0",
    "valid": True,
}


def read(row: dict[str, Any], number: int = 0) -> ReadQuery:
    form = format_of(row)
    assert form is not None
    return form.read(row, "test", number)


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_row_of_pasa() -> None:
    found = read(PASA)
    query = found.query
    assert query.query == "Which papers study left-handed tokenizers?"
    assert query.gold == ("2001.00001", "cs/0112017")
    assert query.titles == ("A Made-Up Paper", "Another one")
    assert (query.cutoff, query.kind, query.source) == ("20240131", "AutoScholarQuery", "pasa")
    assert query.task_id == "pasa/test/AutoScholarQuery_test_9"
    gold = found.gold
    assert (gold.given, len(gold.ids), gold.versioned, gold.foreign) == (3, 2, 1, 0)


def test_a_row_of_pasa_without_date_and_id() -> None:
    query = read({"question": "q?", "answer_arxiv_id": ["1.2"]}, 7).query
    assert (query.id, query.cutoff, query.kind, query.gold) == ("7", "", "", ("1.2",))
    assert query.titles == ()


def test_the_date_of_litsearch_is_no_cutoff() -> None:
    query = read(LITSEARCH_SAMPLE).query
    assert (query.cutoff, query.date) == ("", "2020-11")
    assert query.gold == ("2021.findings-acl.120", "A00-1009")
    assert (query.gold_missing, query.gold_total, query.kind) == (1, 3, "partial")
    assert read(LITSEARCH_SAMPLE).gold.foreign == 2


def test_a_row_of_litsearch_as_published() -> None:
    query = read(LITSEARCH, 41).query
    assert (query.id, query.gold, query.kind) == ("41", ("123", "456"), "inline_acl")


def test_a_row_of_scholargym_counts_relevant_papers_without_an_id() -> None:
    query = read(SCHOLARGYM).query
    assert (query.gold, query.titles, query.gold_missing) == (("2001.00001",), ("One",), 1)
    assert (query.cutoff, query.date, query.kind) == ("", "2020-01", "PASA_AutoScholar")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (PASA | {"question": " \n"}, "'question' is ' \\\\n', not text"),
        (PASA | {"answer_arxiv_id": "2001.00001"}, "'answer_arxiv_id' is '2001.00001', not a list"),
        (PASA | {"answer_arxiv_id": [2001.1]}, "2001.1 is not the id of a paper"),
        (PASA | {"answer_arxiv_id": [" "]}, "' ' is not the id of a paper"),
        (PASA | {"source_meta": {"published_time": "soon"}}, "'soon' is no date"),
        (PASA | {"source_meta": {"published_time": "20241301"}}, "month must be in"),
        (LITSEARCH | {"corpusids": [True]}, "True is not the id of a paper"),
        (SCHOLARGYM | {"gt_label": [1]}, "not one label for each"),
        (SCHOLARGYM | {"cited_paper": ["x"], "gt_label": [1]}, "holds 'x', not an object"),
    ],
)
def test_bad_rows_say_what_is_wrong(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read(row)


@pytest.mark.parametrize("row", [{}, {"question": "q?"}, {"query": "q?"}, {"title": "t"}])
def test_rows_of_no_format(row: dict[str, Any]) -> None:
    assert format_of(row) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [("20240131", "20240131"), ("2024-01-31", "20240131"), (20240131, "20240131")]
    + [("2024-01", "2024-01"), (None, ""), ("", "")],
)
def test_cutoffs_have_one_spelling(value: object, expected: str) -> None:
    assert read(PASA | {"source_meta": {"published_time": value}}).query.cutoff == expected


@given(st.lists(st.sampled_from(["2001.00001", "arXiv:2001.00001v3", "cs/0112017", "W-1", "w-1"])))
def test_ids_are_kept_once_in_their_order(values: list[str]) -> None:
    gold = gold_ids(values, values)
    assert gold.given == len(values)
    assert len(set(gold.ids)) == len(gold.ids) == len(gold.titles)
    assert set(gold.ids) <= {"2001.00001", "cs/0112017", "W-1", "w-1"}
    assert gold.versioned == values.count("arXiv:2001.00001v3")


# --- papers and citations


def test_papers_of_all_publishers_get_one_shape() -> None:
    assert paper_row({"arxiv_id": "2001.00001v2", "title": "T", "published": "2020-01-03"}) == {
        "paper_id": "2001.00001",
        "arxiv_id": "2001.00001",
        "title": "T",
        "abstract": None,
        "year": None,
        "published": "20200103",
        "venue": None,
        "authors": [],
    }
    row = paper_row({"paper_id": "A00-1009", "arxiv_id": None, "title": "", "abstract": "x"})
    assert (row["paper_id"], row["arxiv_id"], row["abstract"]) == ("A00-1009", None, "x")
    assert paper_row({"corpusid": 5, "title": "T", "full_paper": "long"})["paper_id"] == "5"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"title": "T"}, "neither paper_id nor arxiv_id"),
        ({"paper_id": " ", "title": "T"}, "neither paper_id nor arxiv_id"),
        ({"paper_id": "a", "title": None}, "'title' is None, not text"),
        ({"paper_id": "a", "title": "T", "abstract": 3}, "abstract is 3, not text"),
    ],
)
def test_bad_papers(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        paper_row(row)


def test_papers_are_written_once_with_the_citations_in_their_rows(tmp_path: Path) -> None:
    one = write(tmp_path / "one.jsonl", {"corpusid": 1, "title": "A", "citations": [2, 3]})
    two = write(tmp_path / "two.jsonl", {"corpusid": 1, "title": "B"}, {"corpusid": 2})
    bad = BadRows(skip=True)
    counts = write_papers(tmp_path / "c.jsonl", tmp_path / "e.tsv", [one, two], bad)
    assert (counts.papers, counts.repeated, counts.citations, bad.count) == (1, 1, 2, 1)
    assert (tmp_path / "e.tsv").read_text() == "citing\tcited\n1\t2\n1\t3\n"
    assert json.loads((tmp_path / "c.jsonl").read_text())["title"] == "A"


def test_citations_are_copied_with_bare_ids(tmp_path: Path) -> None:
    source = tmp_path / "s.tsv"
    source.write_text("citing\tcited\narXiv:2001.00001v2\tA00-1009\n", encoding="utf-8")
    assert write_citations(tmp_path / "e.tsv", source) == 1
    assert (tmp_path / "e.tsv").read_text() == "citing\tcited\n2001.00001\tA00-1009\n"
    source.write_text("a\tb\tc\n", encoding="utf-8")
    with pytest.raises(DataDamaged, match="s.tsv line 1 is no citation"):
        write_citations(tmp_path / "e.tsv", source)
