"""When a paper appeared, and whether a query with a cut-off may see it.

A date is known to the day, to the month (from an arXiv id) or to the year. What counts is the
last day that it may be: written as one integer, "strictly before the cut-off" is one comparison,
the same in SQL, in a filter of Qdrant and over an array.
"""

from __future__ import annotations

import re
from datetime import date

from agentgym_suite.errors import UsageError

UNDATED = 99_999_999
"""The day of a paper of which no date is known: no cut-off shows it."""

_LAST_MONTH_AND_DAY = 99_99
_LAST_DAY = 99
_TIME = (
    r"[T ]\s*(?:[01]\d|2[0-4])(?::?[0-5]\d(?::?[0-6]\d(?:[.,]\d+)?)?)?"
    r"\s*(?:Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?"
)
_DATE = re.compile(rf"(\d{{4}})(?:[-/]?(\d{{2}})(?:[-/]?(\d{{2}})(?:{_TIME})?)?)?", re.ASCII)
_FIRST_OLD_YEAR = 91
_DATE_FORMS = "YYYYMMDD, YYYY-MM-DD, YYYY-MM or YYYY"


def read_date(text: str | int) -> str:
    """A date in its one spelling: ``YYYYMMDD``, ``YYYY-MM``, ``YYYY``; empty when it is empty.

    Args:
        text: the same with or without ``-`` or ``/`` between the parts, or as an integer; a time
            of day behind it does not count.

    Raises:
        ValueError: that is no date.
    """
    written = str(text).strip()
    if not written:
        return ""
    found = None if isinstance(text, bool) else _DATE.fullmatch(written)
    if found is None:
        raise ValueError(f"{text!r} is no date; write {_DATE_FORMS}")
    year, month, day = found.groups()
    try:
        date(int(year), int(month or 1), int(day or 1))
    except ValueError as error:
        raise ValueError(f"{text!r} is no date ({error}); write {_DATE_FORMS}") from error
    if day is not None:
        return f"{year}{month}{day}"
    return f"{year}-{month}" if month is not None else str(year)


def paper_day(published: str = "", arxiv_id: str | None = None, year: int | None = None) -> int:
    """The last day that a paper may be of, as ``YYYYMMDD``.

    A date to the day counts before the month of an arXiv id, and any month before a mere year.
    A month alone ends with the day 99, a year with the month and day 9999: no real day of the
    same month or year comes behind them, and every day of the next one does.

    Args:
        published: as ``read_date`` writes it.
        arxiv_id: as ``paper_ids.normalize_arxiv_id`` writes it.
        year: of publication.
    """
    if len(published) == 8:
        return int(published)
    month = published.replace("-", "") if "-" in published else _arxiv_month(arxiv_id)
    if month:
        return int(month) * 100 + _LAST_DAY
    if published:
        year = int(published)
    return UNDATED if year is None else year * 10_000 + _LAST_MONTH_AND_DAY


def cutoff_day(value: str | int | None) -> int | None:
    """The integer of a cut-off: papers with a smaller day are visible; None hides none.

    A month as cut-off hides that month, a year that year.

    Args:
        value: a date as ``read_date`` takes it; empty is None.

    Raises:
        UsageError: that is no date.
    """
    if value is None or value == "":
        return None
    try:
        written = read_date(value).replace("-", "")
    except ValueError as error:
        raise UsageError(f"the cut-off {error}") from error
    return int(written.ljust(8, "0")) if written else None


def visible(day: int, before: int | None) -> bool:
    """Whether a paper of that day is strictly before a cut-off (see ``cutoff_day``)."""
    return before is None or day < before


def _arxiv_month(arxiv_id: str | None) -> str:
    """``YYYYMM`` of an arXiv id; empty without one."""
    if not arxiv_id:
        return ""
    digits = arxiv_id.rpartition("/")[2]
    old = "/" in arxiv_id and int(digits[:2]) >= _FIRST_OLD_YEAR
    return f"{'19' if old else '20'}{digits[:4]}"
