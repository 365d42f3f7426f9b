"""Pauses between tries: what a server asks for, and what is waited without it."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.errors import UsageError
from agentgym_suite.retries import RetryPolicy, retry_after_s

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("120", 120.0),
        (" 1.5 ", 1.5),
        ("-5", 0.0),
        ("inf", None),
        ("nan", None),
        ("Thu, 01 Jan 2026 12:01:00 GMT", 60.0),
        ("Thu, 01 Jan 2026 13:01:00 +0100", 60.0),
        ("Thursday, 01-Jan-26 12:01:00 GMT", 60.0),
        ("Thu Jan  1 12:01:00 2026", 60.0),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0.0),
        ("tomorrow", None),
    ],
)
def test_what_a_server_asks_for(value: str | None, seconds: float | None) -> None:
    assert retry_after_s(value, NOON) == seconds


@given(
    st.text(max_size=30)
    | st.from_regex(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{1,5} \d\d:\d\d:\d\d [A-Z+\-0-9]{1,5}")
)
def test_any_header_is_seconds_or_nothing(value: str) -> None:
    seconds = retry_after_s(value, NOON)
    assert seconds is None or 0 <= seconds < float("inf")


@given(
    st.integers(1, 10**6),
    st.none() | st.floats(0, 1e6),
    st.integers(0, 2**63),
    st.floats(1e-3, 1e3),
)
def test_a_pause_is_bounded_jittered_and_at_least_what_is_asked(
    sent: int, asked: float | None, seed: int, first: float
) -> None:
    policy = RetryPolicy(first_pause_s=first, longest_pause_s=30.0)
    pause = policy.pause_s(sent, asked, random.Random(seed))
    own = policy.pause_s(sent, None, random.Random(seed))
    assert pause == max(own, asked or 0.0)
    whole = min(first * 2.0 ** min(sent - 1, 60), 30.0)
    assert whole / 2 <= own <= whole


@pytest.mark.parametrize("wrong", [{"tries": 0}, {"first_pause_s": 0.0}, {"total_s": float("inf")}])
def test_wrong_numbers_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        RetryPolicy(**wrong)  # type: ignore[arg-type]
