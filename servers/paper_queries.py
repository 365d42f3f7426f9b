"""What a request to the paper server asks for: its parameters, read and checked.

Names and forms are those of Lewen's API, whose own words are Semantic Scholar's; ``from`` and
``to`` are StepPO's, ``before`` and ``depth`` ours. An empty parameter counts as absent, an unknown
one is ignored. So is a filter for what a store does not know of its papers: the answer says so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.datastructures import QueryParams

from agentgym_suite.errors import UsageError
from agentgym_suite.indexes.paper_dates import UNDATED, cutoff_day
from agentgym_suite.indexes.paper_index import RETRIEVALS
from agentgym_suite.indexes.paper_store import Paper
from agentgym_suite.servers.bodies import invalid

DEFAULT_LIMIT, MOST_PAPERS = 10, 100
DEEPEST = 10_000
"""How far down a result list a search may reach."""

ALWAYS_SHOWN = ("paperId", "title")
FIELDS = (
    *ALWAYS_SHOWN,
    "abstract",
    "year",
    "authors",
    "venue",
    "externalIds",
    "citationCount",
    "publicationDate",
    "referenceCount",
    "openAccessPdf",
    "fieldsOfStudy",
    "publicationTypes",
    "journal",
)
UNKNOWN_OF_PAPERS = ("fieldsOfStudy", "publicationTypes")
"""Filters that are taken and do nothing: a store does not know such things of its papers."""

_ALL_FIELDS = ("*", "all")
_YEARS = re.compile(r"(\d{4})|(\d{4})?-(\d{4})?", re.ASCII)
_MONTH = re.compile(r"(\d{4})-?(0[1-9]|1[0-2])", re.ASCII)
_SHOWN_CHARACTERS = 80

_SINGLE = (
    "query",
    "retrieval",
    "year",
    "minCitationCount",
    "openAccessPdf",
    "from",
    "to",
    "before",
    "offset",
    "limit",
    "depth",
)
"""Parameters that mean one thing; ``fields`` and ``venue`` add up."""

Parameters = QueryParams


@dataclass(frozen=True, slots=True)
class Days:
    """The papers of some time.

    Attributes:
        since: only papers with at least this day; None for all.
        before: only papers with a smaller day; see ``paper_dates.cutoff_day``.
    """

    since: int | None = None
    before: int | None = None


@dataclass(frozen=True, slots=True)
class Search:
    """A search, by all that papers say or by their titles.

    Attributes:
        query: the words; nothing is found for a blank one.
        retrieval: how to search; None for the best way there is.
        fields: what to tell of each paper.
        offset: papers to leave out.
        limit: at most so many.
        depth: papers to rank, at least.
        days: only papers of these.
        venues: only papers of one of these, casefolded; empty for all.
        fewest_citations: only papers cited so often.
        open_access: only papers that anybody can read.
        ignored: filters that did nothing.
    """

    query: str
    retrieval: str | None
    fields: tuple[str, ...]
    offset: int
    limit: int
    depth: int
    days: Days
    venues: frozenset[str]
    fewest_citations: int
    open_access: bool
    ignored: tuple[str, ...]

    @property
    def end(self) -> int:
        """The place behind the last paper asked for."""
        return self.offset + self.limit

    @property
    def filters(self) -> bool:
        """Whether ``admits`` refuses any paper."""
        return bool(self.venues or self.fewest_citations or self.open_access)

    def admits(self, paper: Paper) -> bool:
        """Whether a paper passes what is no matter of its day."""
        return (
            (not self.venues or _folded(paper.venue) in self.venues)
            and paper.citation_count >= self.fewest_citations
            and (not self.open_access or paper.arxiv_id is not None)
        )


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The papers that cite a paper, or those that it cites.

    Attributes:
        paper_id: the paper, in any spelling.
        fields: what to tell of each.
        offset: papers to leave out.
        limit: at most so many.
        before: only papers with a smaller day; None for all.
    """

    paper_id: str
    fields: tuple[str, ...]
    offset: int
    limit: int
    before: int | None


def read_search(given: Parameters, retrievals: Sequence[str] = RETRIEVALS) -> Search:
    """What ``/paper/search`` and ``/paper/search/title`` ask for.

    Args:
        given: the parameters.
        retrievals: the ways of searching that there are.

    Raises:
        Problem: ``invalid``, naming the parameter.
    """
    _refuse_repeated(given)
    query = given.get("query")
    if query is None:
        raise invalid("query", "is missing; give the words to search for")
    offset, limit = _read_place(given)
    if offset + limit > DEEPEST:
        raise invalid(
            "offset", f"and limit reach {offset + limit:,}; lists end at {DEEPEST:,}, ask for less"
        )
    return Search(
        query=query,
        retrieval=_read_retrieval(given, retrievals),
        fields=read_fields(given),
        offset=offset,
        limit=limit,
        depth=_count(given, "depth", default=0, least=0, most=DEEPEST),
        days=_read_days(given),
        venues=_read_venues(given),
        fewest_citations=_count(given, "minCitationCount", default=0, least=0),
        open_access=bool(given.get("openAccessPdf")),
        ignored=tuple(name for name in UNKNOWN_OF_PAPERS if given.get(name)),
    )


def read_neighbours(paper_id: str, given: Parameters) -> Neighbours:
    """What the citations and references of a paper are asked for.

    Raises:
        Problem: ``invalid``, naming the parameter.
    """
    _refuse_repeated(given)
    offset, limit = _read_place(given)
    return Neighbours(paper_id, read_fields(given), offset, limit, _read_before(given))


def read_fields(given: Parameters) -> tuple[str, ...]:
    """What to tell of a paper: id and title always, then what ``fields`` names.

    Raises:
        Problem: ``invalid``: it names something that papers do not have.
    """
    written = ",".join(given.getlist("fields"))
    names = tuple(filter(None, (name.strip() for name in written.split(","))))
    if any(name in _ALL_FIELDS for name in names):
        return FIELDS
    for name in names:
        if name not in FIELDS:
            raise invalid(
                "fields", f"has {_quoted(name)}, which papers do not have; use {', '.join(FIELDS)}"
            )
    return tuple(dict.fromkeys((*ALWAYS_SHOWN, *names)))


def read_id(path: str) -> str:
    """The id in an address, in whatever spelling; it may have slashes and be an address itself."""
    # proxies make one slash of two
    return re.sub(r"^(https?):/(?!/)", r"\1://", path, flags=re.IGNORECASE)


def _refuse_repeated(given: Parameters) -> None:
    """Refuse a parameter that is given twice and can only mean one thing."""
    for name, count in Counter(name for name, _ in given.multi_items()).items():
        if count > 1 and name in _SINGLE:
            raise invalid(name, f"is given {count} times; give it once")


def _read_venues(given: Parameters) -> frozenset[str]:
    """The venues asked for: each value as it stands, a comma being part of many, and its parts."""
    values = given.getlist("venue")
    names = [*values, *(part for value in values for part in value.split(","))]
    return frozenset(filter(None, map(_folded, names)))


def _read_place(given: Parameters) -> tuple[int, int]:
    return (
        _count(given, "offset", default=0, least=0),
        _count(given, "limit", default=DEFAULT_LIMIT, least=1, most=MOST_PAPERS),
    )


def _read_retrieval(given: Parameters, retrievals: Sequence[str]) -> str | None:
    name = given.get("retrieval") or None
    if name is None or name in retrievals:
        return name
    if name in RETRIEVALS:
        raise invalid(
            "retrieval",
            f"is {name}, but the store of this server has no vectors; "
            f"use {' or '.join(retrievals)}, or leave it out",
        )
    raise invalid("retrieval", f"is {_quoted(name)}; use {', '.join(retrievals)}")


def _read_days(given: Parameters) -> Days:
    """The days that pass ``year``, ``from``, ``to`` and ``before`` alike."""
    first, last = _read_years(given)
    start, end = _read_months(given, "from", 0), _read_months(given, "to", 1)
    if start and end and start >= end:
        raise invalid("from", f"is {given['from']!r}, after to, {given['to']!r}; exchange the two")
    since = [first, *start]
    before = [last, *end, _read_before(given)]
    return Days(
        since=max((day for day in since if day is not None), default=None),
        before=min((day for day in before if day is not None), default=None),
    )


def _read_years(given: Parameters) -> tuple[int | None, int | None]:
    """The days of ``2019``, ``2016-2020``, ``2010-`` or ``-2015``; undated papers are in none."""
    years = given.get("year", "").strip()
    if not years:
        return None, None
    found = _YEARS.fullmatch(years)
    single, first, last = found.groups() if found else (None, None, None)
    first, last = first or single, last or single
    if not (first or last) or (first and last and first > last):
        raise invalid("year", f"is {_quoted(years)}; use 2019, 2016-2020, 2010- or -2015")
    return (
        int(first) * 10_000 if first else None,
        min((int(last) + 1) * 10_000, UNDATED) if last else UNDATED,
    )


def _read_months(given: Parameters, name: str, later: int) -> list[int]:
    """The first day of a month, or of one some months later; nothing where none is given."""
    month = given.get(name, "").strip()
    if not month:
        return []
    found = _MONTH.fullmatch(month)
    if not found:
        raise invalid(name, f"is {_quoted(month)}; give a month as YYYY-MM")
    year, index = divmod(int(found[1]) * 12 + int(found[2]) - 1 + later, 12)
    # a paper of which only the year is known counts to the end of that year
    return [year * 10_000 + (index + 1) * 100 if index else year * 10_000]


def _read_before(given: Parameters) -> int | None:
    try:
        return cutoff_day(given.get("before"))
    except UsageError:
        text = _quoted(given["before"])
        raise invalid("before", f"is no date: {text}; give YYYYMMDD, YYYY-MM or YYYY") from None


def _count(
    given: Parameters, name: str, *, default: int, least: int, most: int | None = None
) -> int:
    text = given.get(name, "").strip()
    if not text:
        return default
    bounds = f"from {least} to {most:,}" if most is not None else f"from {least} on"
    # longer numbers are out of every bound, and slow to read
    number = int(text) if re.fullmatch(r"-?\d{1,15}", text, re.ASCII) else least - 1
    if number < least or (most is not None and number > most):
        raise invalid(name, f"is {_quoted(text)}; give a whole number {bounds}")
    return number


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _quoted(text: str) -> str:
    return repr(text[:_SHOWN_CHARACTERS])
