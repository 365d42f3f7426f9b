"""Dates of papers as integers, and the one comparison that hides what came later."""

from __future__ import annotations

import re
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.errors import UsageError
from agentgym_suite.indexes.paper_dates import UNDATED, cutoff_day, paper_day, read_date, visible


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("20200415", "20200415"),
        ("2020-04-15", "20200415"),
        ("2020/04/15", "20200415"),
        (" 2020-04-15T10:00:00Z ", "20200415"),
        ("20200415 10:00:00.123+02:00", "20200415"),
        ("2020-04-15T10", "20200415"),
        (20200415, "20200415"),
        ("2020-04", "2020-04"),
        ("202004", "2020-04"),
        ("2020", "2020"),
        (2020, "2020"),
        ("", ""),
        ("  ", ""),
        ("20200229", "20200229"),
    ],
)
def test_every_spelling_of_a_date(text: str | int, written: str) -> None:
    assert read_date(text) == written
    assert read_date(written) == written


@pytest.mark.parametrize(
    "text",
    ["20201301", "20200230", "2020-00", "20190229", "soon", "20-04-15", "2020-4", "0000", True, -1]
    + ["20190101T99", "20190101T", "20190101 soon", "20190101T10:99", "20190101T10:00x"]
    + ["٢٠٢٠", "2020041", "2020-04-15x", "20200415000000"],
)
def test_what_is_no_date(text: str | int) -> None:
    with pytest.raises(ValueError, match="is no date"):
        read_date(text)
    with pytest.raises(UsageError, match="the cut-off .* is no date"):
        cutoff_day(text)


@pytest.mark.parametrize(
    ("published", "arxiv_id", "year", "day"),
    [
        ("20200415", "2003.00001", 2019, 20200415),
        ("2020-04", "2003.00001", 2019, 20200499),
        ("", "2003.00001", 2019, 20200399),
        ("2020", "2003.00001", None, 20200399),
        ("", "0704.0001", None, 20070499),
        ("", "hep-th/9901001", None, 19990199),
        ("", "cs/0112017", 2010, 20011299),
        ("", "math/9107001", None, 19910799),
        ("", None, 2019, 20199999),
        ("2018", None, 2019, 20189999),
        ("", None, None, UNDATED),
        ("", "", None, UNDATED),
    ],
)
def test_the_last_day_a_paper_may_be_of(
    published: str, arxiv_id: str | None, year: int | None, day: int
) -> None:
    assert paper_day(published, arxiv_id, year) == day


def test_cutoffs() -> None:
    assert cutoff_day(None) is None and cutoff_day("") is None and cutoff_day("  ") is None
    assert cutoff_day("20241001") == cutoff_day(20241001) == cutoff_day("2024-10-01") == 20241001
    assert cutoff_day("2024-10") == 20241000
    assert cutoff_day("2024") == 20240000
    assert visible(UNDATED, None) and not visible(UNDATED, cutoff_day("9999-12-31"))


DAYS = st.dates(date(1950, 1, 1), date(2049, 12, 31))


@given(DAYS, DAYS, st.sampled_from(["day", "month", "year"]), st.sampled_from(["day", "month"]))
def test_strictly_before_as_the_rule_says(paper: date, cut: date, known: str, given: str) -> None:
    """Each precision compares at its own level; a month as cut-off hides that month."""
    published = {"day": f"{paper:%Y%m%d}", "month": f"{paper:%Y-%m}", "year": f"{paper:%Y}"}[known]
    cutoff = f"{cut:%Y%m%d}" if given == "day" else f"{cut:%Y-%m}"
    if known == "year":
        expected = paper.year < cut.year
    elif known == "month" or given == "month":
        expected = (paper.year, paper.month) < (cut.year, cut.month)
    else:
        expected = paper < cut
    assert visible(paper_day(published), cutoff_day(cutoff)) is expected


@given(st.text(max_size=12) | st.integers())
def test_any_text_is_a_date_or_refused(text: str | int) -> None:
    try:
        written = read_date(text)
    except ValueError:
        return
    assert re.fullmatch(r"|\d{8}|\d{4}-\d{2}|\d{4}", written)
    assert 0 < paper_day(written) <= UNDATED
