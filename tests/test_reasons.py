"""What a library says of an error, as a part of one of our sentences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.errors import reason_of


@pytest.mark.parametrize(
    ("said", "most", "reason"),
    [
        ("short", 200, "short"),
        ("two\n\tlines\n", 200, "two lines"),
        ("exactly so", 10, "exactly so"),
        ("one word too many", 12, "one word …"),
        ("unbroken", 4, "unbr …"),
        ("", 4, ""),
    ],
)
def test_reasons_are_cut_between_words(said: str, most: int, reason: str) -> None:
    assert reason_of(ValueError(said), most) == reason


@given(st.text(), st.integers(1, 50))
def test_reasons_are_one_short_line(said: str, most: int) -> None:
    reason = reason_of(said, most)
    assert len(reason) <= most + 2 and len(reason.splitlines()) <= 1
