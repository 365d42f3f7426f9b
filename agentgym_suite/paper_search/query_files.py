"""Rows of the official files of paper-search queries: PaSa, LitSearch, ScholarGym.

A format is told by the fields of a row, never by the name of its file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from agentgym_suite.indexes.paper_dates import read_date
from agentgym_suite.indexes.paper_ids import normalize_arxiv_id
from agentgym_suite.official_rows import Row
from agentgym_suite.paper_search.queries import PaperQuery
from agentgym_suite.spaces import without_surrogates

_VERSION = re.compile(r"v\d+$")


@dataclass(frozen=True, slots=True)
class GoldIds:
    """The ids of relevant papers before and after they were normalised.

    Attributes:
        given: how many the row has.
        ids: each paper once, bare arXiv ids where they are such.
        titles: of the same papers; () where the row has none, or not one for each.
        versioned: how many of the given ones had a version.
        foreign: how many of ``ids`` are no arXiv ids.
    """

    given: int
    ids: tuple[str, ...]
    titles: tuple[str, ...]
    versioned: int
    foreign: int


@dataclass(frozen=True, slots=True)
class ReadQuery:
    """A query and what became of its ids."""

    query: PaperQuery
    gold: GoldIds


@dataclass(frozen=True, slots=True)
class QueryFormat:
    """One official format.

    Attributes:
        name: how it is called in messages and manifests.
        source: the data set that is published in it.
        recognises: whether a row has it.
        read: makes the query from (row, split, number of the row from 0); ``ValueError`` says
            what is wrong with the row.
    """

    name: str
    source: str
    recognises: Callable[[Row], bool]
    read: Callable[[Row, str, int], ReadQuery]


def format_of(row: Row) -> QueryFormat | None:
    """The format of a row, None when it is a query in none of them."""
    return next((one for one in FORMATS.values() if one.recognises(row)), None)


def gold_ids(values: Iterable[object], titles: Iterable[object] = ()) -> GoldIds:
    """Normalise the ids of relevant papers.

    Raises:
        ValueError: one of them is neither text nor a whole number, or blank.
    """
    given = [_id_text(value) for value in values]
    names = [str(title) for title in titles]
    kept: dict[str, int] = {}
    for place, text in enumerate(given):
        kept.setdefault(normalize_arxiv_id(text) or text, place)
    fits = len(names) == len(given)
    return GoldIds(
        given=len(given),
        ids=tuple(kept),
        titles=tuple(_collapse(names[place]) for place in kept.values()) if fits else (),
        versioned=sum(
            _VERSION.search(text) is not None and normalize_arxiv_id(text) is not None
            for text in given
        ),
        foreign=sum(normalize_arxiv_id(each) is None for each in kept),
    )


def _pasa(row: Row, split: str, number: int) -> ReadQuery:
    meta = row.get("source_meta")
    published = meta.get("published_time") if isinstance(meta, Mapping) else None
    official = _official_id(row, number)
    gold = gold_ids(_list(row, "answer_arxiv_id"), row.get("answer") or ())
    query = PaperQuery(
        id=official,
        split=split,
        query=_text(row, "question"),
        gold=gold.ids,
        cutoff=_date(published),
        kind=official.split("_")[0] if "_" in official else "",
        source="pasa",
        titles=gold.titles,
    )
    return ReadQuery(query, gold)


def _litsearch_sample(row: Row, split: str, number: int) -> ReadQuery:
    gold = gold_ids(_list(row, "gold"))
    # The date is the month of the relevant paper itself: as a cut-off it would hide that paper.
    query = PaperQuery(
        id=_official_id(row, number),
        split=split,
        query=_text(row, "query"),
        gold=gold.ids,
        gold_missing=len(row.get("gold_missing_arxiv") or ()),
        kind=str(row.get("coverage") or ""),
        source="litsearch",
        date=str(row.get("date") or ""),
    )
    return ReadQuery(query, gold)


def _litsearch(row: Row, split: str, number: int) -> ReadQuery:
    gold = gold_ids(_list(row, "corpusids"))
    query = PaperQuery(
        id=_official_id(row, number),
        split=split,
        query=_text(row, "query"),
        gold=gold.ids,
        kind=str(row.get("query_set") or ""),
        source="litsearch",
    )
    return ReadQuery(query, gold)


def _scholargym(row: Row, split: str, number: int) -> ReadQuery:
    papers, labels = _list(row, "cited_paper"), row.get("gt_label")
    if labels is None:
        labels = [1] * len(papers)
    if not isinstance(labels, list) or len(labels) != len(papers):
        raise ValueError("'gt_label' has not one label for each of 'cited_paper'")
    for paper in papers:
        if not isinstance(paper, Mapping):
            raise ValueError(f"'cited_paper' holds {paper!r:.80}, not an object")
    relevant = [paper for paper, label in zip(papers, labels, strict=True) if label]
    known = [paper for paper in relevant if paper.get("arxiv_id")]
    gold = gold_ids(
        (paper["arxiv_id"] for paper in known), (paper.get("title", "") for paper in known)
    )
    query = PaperQuery(
        id=_official_id(row, number),
        split=split,
        query=_text(row, "query"),
        gold=gold.ids,
        gold_missing=len(relevant) - len(known),
        kind=str(row.get("source") or ""),
        source="scholargym",
        date=str(row.get("date") or ""),  # of the newest relevant paper, so no cut-off either
        titles=gold.titles,
    )
    return ReadQuery(query, gold)


FORMATS: Mapping[str, QueryFormat] = MappingProxyType(
    {
        one.name: one
        for one in (
            QueryFormat(
                "pasa", "pasa", lambda row: {"question", "answer_arxiv_id"} <= row.keys(), _pasa
            ),
            QueryFormat(
                "scholargym",
                "scholargym",
                lambda row: {"query", "cited_paper"} <= row.keys(),
                _scholargym,
            ),
            QueryFormat(
                "litsearch",
                "litsearch",
                lambda row: {"query", "corpusids"} <= row.keys(),
                _litsearch,
            ),
            QueryFormat(
                "litsearch-sample",
                "litsearch",
                lambda row: {"query", "gold"} <= row.keys(),
                _litsearch_sample,
            ),
        )
    }
)
"""Name -> format, in the order in which they are tried."""


def _official_id(row: Row, number: int) -> str:
    value = row.get("qid")
    return (_collapse(str(value)) if value is not None else "") or str(number)


def _text(row: Row, key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{key!r} is {value!r:.80}, not text")
    return _collapse(value)


def _date(value: object) -> str:
    if value is not None and not isinstance(value, str | int):
        raise ValueError(f"{value!r:.80} is no date")
    return "" if value is None else read_date(value)


def _list(row: Row, key: str) -> list[Any]:
    value = row.get(key)
    if not isinstance(value, list):
        raise ValueError(f"{key!r} is {value!r:.80}, not a list")
    return value


def _id_text(value: object) -> str:
    whole = isinstance(value, int) and not isinstance(value, bool)
    text = without_surrogates(str(value)).strip() if whole or isinstance(value, str) else ""
    if not text:
        raise ValueError(f"{value!r:.80} is not the id of a paper")
    return text


def _collapse(text: str) -> str:
    return without_surrogates(" ".join(text.split()))
