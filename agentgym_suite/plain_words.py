"""The words of a text that carry its content, for prompts of policies with a small vocabulary."""

from __future__ import annotations

import re

_LISTED = """
a an and are around at by can for from in into is it its looking middle of on or quickly see some
that the there this to up with you your
"""
STOP_WORDS = frozenset(_LISTED.split())
"""Words that a small policy does without; negations and numbers are none of them."""

_WORD = re.compile(r"[A-Za-z]+|[0-9]+")


def plain_words(text: str, limit: int) -> str:
    """The first words of a text in lower case, without stop words and punctuation.

    Args:
        text: any text.
        limit: most words kept.
    """
    words = (word.lower() for word in _WORD.findall(text))
    kept = [word for word in words if word not in STOP_WORDS]
    return " ".join(kept[:limit])
