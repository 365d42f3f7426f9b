"""Texts with a shop's statistics: a Zipf vocabulary that keeps growing, lengths around 108.

Deterministic: f(seed, number of documents). Nothing of it is meant to be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

VOCABULARY = 700_000
_EXPONENT = 1.0
_OFFSET = 6.0
_REPEATED = 0.27
"""Share of a document's tokens that repeat another one of its tokens."""

_BATCH = 4_096
_CONSONANTS = "bdfgklmnprtvxz"
_VOWELS = "aeiou"


@dataclass(frozen=True)
class ZipfTexts:
    """A seeded source of documents and of queries that resemble their titles.

    Attributes:
        documents: how many documents there are.
        seed: what they are drawn from.
    """

    documents: int
    seed: int = 0

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """(id, text) of every document; the ids are unique and not in order."""
        words = vocabulary()
        shares = _cumulative_shares()
        for batch, first in enumerate(range(0, self.documents, _BATCH)):
            random = np.random.default_rng([self.seed, 0, batch])
            count = min(_BATCH, self.documents - first)
            lengths = _lengths(random, count)
            stops = np.cumsum(lengths)
            ranks = np.searchsorted(shares, random.random(int(stops[-1])))
            starts = np.repeat(stops - lengths, lengths)
            copied = np.flatnonzero(random.random(len(ranks)) < _REPEATED)
            within = random.random(len(copied)) * np.repeat(lengths, lengths)[copied]
            ranks[copied] = ranks[starts[copied] + within.astype(np.int64)]
            tokens = words[ranks]
            for number in range(count):
                text = tokens[stops[number] - lengths[number] : stops[number]]
                yield self.identifier(first + number), " ".join(text)

    def identifier(self, number: int) -> str:
        """Ten characters, like an ASIN; a bijection scatters them over their order."""
        scattered = number * 2_654_435_761 % (1 << 32)
        return f"B{scattered:09X}"

    def queries(self, count: int, *, words_each: float = 11.3, skip: int = 0) -> list[str]:
        """Distinct queries with the vocabulary's own word frequencies."""
        words = vocabulary()
        shares = _cumulative_shares()
        random = np.random.default_rng([self.seed, 1, skip])
        found: dict[str, None] = {}
        while len(found) < count:
            length = max(3, int(random.normal(words_each, 2.5)))
            chosen = np.searchsorted(shares, random.random(length))
            found.setdefault(" ".join(words[chosen]))
        return list(found)


def vocabulary() -> NDArray[np.object_]:
    """Words by falling frequency, all different: syllables that spell the rank."""
    syllables = [c + v + e for c in _CONSONANTS for v in _VOWELS for e in ("", "n", "k", "t")]
    base = len(syllables)
    words = []
    for rank in range(VOCABULARY):
        spelled = []
        rest = rank
        while True:
            spelled.append(syllables[rest % base])
            rest //= base
            if not rest:
                break
        # A digit ends the word, so that no stemmer makes two of them one.
        words.append("".join(spelled) + str(rank % 10))
    return np.array(words, object)


def _cumulative_shares() -> NDArray[np.float64]:
    weights = 1 / (np.arange(VOCABULARY) + _OFFSET) ** _EXPONENT
    shares = np.cumsum(weights)
    return shares / shares[-1]


def _lengths(random: np.random.Generator, count: int) -> NDArray[np.int64]:
    """Log-normal, mean about 108, between 4 and 1,919 tokens."""
    return np.clip(random.lognormal(4.45, 0.67, count), 4, 1_919).astype(np.int64)
