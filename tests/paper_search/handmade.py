"""A literature of thirty invented papers, and a source and a selector that do as they are told."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym_suite.data import Contents, publish
from agentgym_suite.errors import RetrievalError
from agentgym_suite.files import Json
from agentgym_suite.indexes.paper_dates import paper_day, visible
from agentgym_suite.indexes.paper_ids import normalize_arxiv_id
from agentgym_suite.indexes.paper_store import Paper, PaperStore
from agentgym_suite.paper_search.env import PaperSearchEnv
from agentgym_suite.paper_search.queries import PaperQuery
from agentgym_suite.paper_search.query_folder import (
    CITATIONS_NAME,
    CORPUS_NAME,
    QUERIES_KIND,
    QUERIES_VERSION,
    write_queries,
)
from agentgym_suite.paper_search.query_set import QuerySet, open_finished


def paper(
    paper_id: str, title: str, abstract: str, published: str = "", year: int | None = None
) -> Paper:
    arxiv_id = normalize_arxiv_id(paper_id)
    day = paper_day(published, arxiv_id, year)
    return Paper(0, paper_id, arxiv_id, title, abstract, (), year, published, "", 0, day)


LANTERN, BEACON, GLOW, BARE = "1501.00001", "1602.00002", "1703.00003", "1804.00004"
WICK, EMBER, TORCH, SURVEY = "cs/0112017", "A00-1009", "2020.acl-main.148", "2005.14165"
LATE, LAST, OLD_YEAR = "2410.00001", "2409.00001", "W99-0001"
MOSS = tuple(f"1901.{number:05}" for number in range(1, 20))
PAPERS = (
    paper(LANTERN, "Lantern parsing", "We parse with lanterns of many lights.", "20150105"),
    paper(BEACON, "Beacon  grammars", "Beacons extend\nlantern parsing.", "20160220"),
    paper(GLOW, "Glow trees", "Trees that glow, after lantern parsing.", "20170301"),
    paper(BARE, "Lantern parsing in the dark", "", "20180401"),
    paper(WICK, "Wick automata", "Automata that burn from both ends."),
    paper(EMBER, "Ember transducers", "Transducers of ember.", year=2000),
    paper(TORCH, "Torch models", "Large models of light.", "20200705"),
    paper(SURVEY, "A survey of light", "Lantern, beacon, torch: a survey.", "2020-05"),
    paper(LATE, "Lantern parsing revisited", "We parse with lanterns again.", "20241001"),
    paper(LAST, "Lantern parsing reversed", "We parse with lanterns backwards.", "20240930"),
    paper(OLD_YEAR, "Moss before lanterns", "A study of moss.", year=1999),
    *(
        paper(each, f"Moss {number}", f"Moss of kind {number} on stone.", "20190105")
        for number, each in enumerate(MOSS)
    ),
)
BY_ID = {each.paper_id: each for each in PAPERS}
CITATIONS = (
    (BEACON, LANTERN), (GLOW, LANTERN), (BARE, LANTERN), (TORCH, LANTERN), (LATE, LANTERN),
    (LANTERN, WICK), (LANTERN, EMBER), (LANTERN, OLD_YEAR), (GLOW, BEACON), (BEACON, GLOW),
    *((SURVEY, each) for each in MOSS),
)  # fmt: skip
QUERIES = (
    PaperQuery(
        "q1", "train", "Which papers study lantern parsing?", (LANTERN, BEACON, WICK),
        cutoff="20241001", kind="broad", source="small",
    ),
    PaperQuery(
        "q2", "test", "moss on stone", (MOSS[0], MOSS[1], "arXiv:cs/0112017v2", "no-such-paper"),
        gold_missing=1, source="small", titles=("", "", "", "GLOW  Trees"),
    ),
    PaperQuery("q3", "test", "light of  any\nkind", (SURVEY,), cutoff="2020-05", source="small"),
)  # fmt: skip
QUESTION = "small/train/q1"


class TableSource:
    """Finds what its table says, and follows ``CITATIONS``; what it was asked is ``asked``."""

    retrieval = "sparse"
    digest = "sha256:table"

    def __init__(self, found: Mapping[str, Sequence[str]] | None = None) -> None:
        self.found = found or {}
        self.asked: list[tuple[Any, ...]] = []
        self.broken = False
        self.closed = 0
        self.store: PaperStore | None = None

    def search_papers(
        self, queries: Sequence[str], k: int, before: int | None
    ) -> list[list[Paper]]:
        self._ask("search", tuple(queries), k, before)
        if any("unreachable" in query for query in queries):
            raise RetrievalError("the index is gone")
        return [self._visible(self.found.get(query, ()), before)[:k] for query in queries]

    def citing_papers(self, paper_id: str, limit: int, before: int | None) -> list[Paper]:
        self._ask("citing", paper_id, limit, before)
        return self._visible([one for one, two in CITATIONS if two == paper_id], before)[:limit]

    def referenced_papers(self, paper_id: str, limit: int, before: int | None) -> list[Paper]:
        self._ask("references", paper_id, limit, before)
        return self._visible([two for one, two in CITATIONS if one == paper_id], before)[:limit]

    def find_id(self, text: str) -> str | None:
        return {"CorpusId:7": LANTERN}.get(text) or (text if text in BY_ID else None)

    def locate(self, ids: Sequence[str]) -> dict[str, str]:
        return {each: each for each in ids if each in BY_ID}

    def info(self) -> dict[str, Json]:
        return {"kind": "table", "papers": len(PAPERS), "path": "x"}

    def close(self) -> None:
        self.closed += 1

    def _ask(self, *what: Any) -> None:
        self.asked.append(what)
        if self.broken:
            raise RetrievalError("the index is gone")

    def _visible(self, ids: Sequence[str], before: int | None) -> list[Paper]:
        return [BY_ID[each] for each in ids if visible(BY_ID[each].day, before)]


class TableSelector:
    """Scores papers as its table says, others ``rest``; the batches it was given are ``asked``."""

    name = "table"
    digest = "sha256:scores"

    def __init__(self, scores: Mapping[str, float] | None = None, rest: float = 0.3) -> None:
        self.scores = scores or {}
        self.rest = rest
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.broken = False

    def score(self, query: str, papers: Sequence[Paper]) -> list[float]:
        self.asked.append((query, tuple(each.paper_id for each in papers)))
        if self.broken:
            raise RetrievalError("the selector is gone")
        return [self.scores.get(each.paper_id, self.rest) for each in papers]

    def info(self) -> dict[str, Json]:
        return {"name": self.name}

    def close(self) -> None:
        raise AssertionError("a given selector is the caller's")


def write_library(folder: Path) -> None:
    """The papers and citations as files."""
    with (folder / CORPUS_NAME).open("w", encoding="utf-8") as file:
        for each in PAPERS:
            row = {
                "paper_id": each.paper_id,
                "arxiv_id": each.arxiv_id,
                "title": each.title,
                "abstract": each.abstract or None,
                "year": each.year,
                "published": each.published or None,
            }
            file.write(json.dumps(row) + "\n")
    lines = "".join(f"{one}\t{two}\n" for one, two in CITATIONS)
    (folder / CITATIONS_NAME).write_text("citing\tcited\n" + lines, encoding="utf-8")


def handmade_queries(
    folder: Path, queries: Sequence[PaperQuery] = QUERIES, *, with_papers: bool = False
) -> QuerySet:
    def write(partial: Path) -> Contents:
        if with_papers:
            write_library(partial)
        return Contents(write_queries(partial, queries), {"dataset": "small"})

    publish(folder, kind=QUERIES_KIND, version=QUERIES_VERSION, inputs={}, write=write)
    return open_finished(folder)


def handmade_env(queries: QuerySet, task: str = QUESTION, **kwargs: Any) -> PaperSearchEnv:
    """An environment at the start of a task; a horizon of five steps unless given."""
    horizon = kwargs.pop("horizon", 5)
    kwargs.setdefault("papers", TableSource())
    kwargs.setdefault("selector", TableSelector())
    env = PaperSearchEnv(queries=queries, **kwargs)
    env.horizon = horizon
    env.reset(seed=1, options={"task_id": task})
    return env


def outcomes(info: Mapping[str, Any]) -> list[tuple[str, float]]:
    """(status, reward) of each line of the last action."""
    return [(call["status"], call["reward"]) for call in json.loads(info["calls"])]
