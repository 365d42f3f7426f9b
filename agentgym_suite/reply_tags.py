"""Text between tags of a model's reply, found in time linear in its length.

A pattern such as ``<a>(.*?)</a>`` finds the same blocks, but takes quadratic time on a reply that
opens a tag a thousand times and never closes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_SEARCH_R1_STOPS = ("</search>", "</answer>")


@dataclass(frozen=True, slots=True)
class Block:
    """One ``<tag>…</tag>`` of a text.

    Attributes:
        tag: the tag's name, as it was asked for.
        span: character offsets of the block, tags included.
        inner: character offsets of what is between the tags.
        text: what is between the tags.
    """

    tag: str
    span: tuple[int, int]
    inner: tuple[int, int]
    text: str


def blocks(text: str, tag: str, *, start: int = 0, any_case: bool = False) -> Iterator[Block]:
    """The blocks of a tag from ``start`` on, each up to the first closing tag behind it."""
    flags = re.ASCII | (re.IGNORECASE if any_case else re.NOFLAG)
    opening, closing = re.compile(f"<{tag}>", flags), re.compile(f"</{tag}>", flags)
    while (opened := opening.search(text, start)) is not None:
        closed = closing.search(text, opened.end())
        if closed is None:
            return
        inner = (opened.end(), closed.start())
        yield Block(tag, (opened.start(), closed.end()), inner, text[slice(*inner)])
        start = closed.end()


def first_block(text: str, *tags: str, start: int = 0, any_case: bool = False) -> Block | None:
    """The block that opens first, of any of the tags; None if none is closed."""
    found = (next(blocks(text, tag, start=start, any_case=any_case), None) for tag in tags)
    return min((b for b in found if b is not None), key=lambda b: b.span, default=None)


def search_r1_turn(text: str) -> str:
    """What Search-R1 keeps of a generation: up to the first ``</search>``, else ``</answer>``."""
    for stop in _SEARCH_R1_STOPS:
        end = text.find(stop)
        if end >= 0:
            return text[: end + len(stop)]
    return text
