"""Blocks between tags: those of the plain patterns, found in linear time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.reply_tags import blocks, first_block, search_r1_turn

PIECES = st.sampled_from(["<a>", "</a>", "<b>", "</b>", "<A>", "x", "\n", " ", "<a", "é"])
TEXTS = st.lists(PIECES, max_size=12).map("".join)


@given(TEXTS, st.booleans())
def test_blocks_are_those_of_the_lazy_pattern(text: str, any_case: bool) -> None:
    pattern = re.compile("<a>(.*?)</a>", re.DOTALL | (re.IGNORECASE if any_case else 0))
    found = [(b.span, b.inner, b.text) for b in blocks(text, "a", any_case=any_case)]
    assert found == [(m.span(), m.span(1), m[1]) for m in pattern.finditer(text)]


@given(TEXTS, st.integers(0, 5))
def test_the_first_block_is_that_of_the_alternative_pattern(text: str, start: int) -> None:
    match = re.compile(r"<(a|b)>(.*?)</\1>", re.DOTALL).search(text, start)
    block = first_block(text, "a", "b", start=start)
    found = block and (block.tag, block.text, block.span)
    assert found == (match and (match[1], match[2], match.span()))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a</answer>b</search>c", "a</answer>b</search>"),
        ("a</answer>b", "a</answer>"),
        ("no end", "no end"),
        ("</SEARCH>x", "</SEARCH>x"),
        ("", ""),
    ],
)
def test_a_generation_ends_at_the_first_search_else_at_the_first_answer(
    text: str, kept: str
) -> None:
    assert search_r1_turn(text) == kept
