"""From text to index terms, exactly as Lucene 8's English analysis in Anserini does it.

StandardTokenizer (Unicode word breaks, UAX #29) -> English possessive -> lower-case ->
stop words -> Porter. The order of the terms is that of the text, and repeats are kept.
"""

from __future__ import annotations

from agentgym_suite.indexes.porter import stem
from agentgym_suite.indexes.tokenizer import is_connectors, tokenize

# fmt: off
STOP_WORDS = frozenset({
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it",
    "no", "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these",
    "they", "this", "to", "was", "will", "with",
})
# fmt: on

DEFAULT_CACHE_SIZE = 1 << 16
"""Tokens whose terms an analyzer remembers: a few megabytes."""

_MAX_CACHED_LENGTH = 64


class Analyzer:
    """Turns text into terms; one instance may serve several threads.

    Args:
        cache_size: how many tokens it remembers the terms of, before it starts anew.
    """

    def __init__(self, cache_size: int = DEFAULT_CACHE_SIZE) -> None:
        self._terms = _TermCache(cache_size)

    def __call__(self, text: str) -> list[str]:
        """The terms of a text, in order, repeats kept."""
        return [term for term in map(self._terms.__getitem__, tokenize(text)) if term]

    def __reduce__(self) -> tuple[type[Analyzer], tuple[int]]:
        return Analyzer, (self._terms.limit,)


class _TermCache(dict[str, str]):
    """Token -> term, the empty string for tokens that give none; filled on first use."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def __missing__(self, token: str) -> str:
        term = _filter(token)
        if len(token) <= _MAX_CACHED_LENGTH:
            if len(self) >= self.limit:
                self.clear()
            self[token] = term
        return term


def _filter(token: str) -> str:
    """Possessive, lower-case, stop words, Porter; the empty string for no term."""
    if is_connectors(token):
        return ""
    if len(token) >= 2 and token[-1] in "sS" and token[-2] in "'\u2019\uff07":
        token = token[:-2]
    # One code point at a time: Python's `lower` turns U+0130 into two, Lucene into a plain i.
    word = "".join("i" if letter == "\u0130" else letter.lower() for letter in token)
    if word in STOP_WORDS:
        return ""
    if word and max(word) > "\uffff":
        return _from_utf16_units(stem(_to_utf16_units(word)))
    return stem(word)


def _to_utf16_units(word: str) -> str:
    """Surrogate pairs as two characters each, which is how the Java stemmer counts them."""
    units = word.encode("utf-16-be", "surrogatepass")
    return "".join(chr(high << 8 | low) for high, low in zip(units[::2], units[1::2], strict=True))


def _from_utf16_units(units: str) -> str:
    return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
