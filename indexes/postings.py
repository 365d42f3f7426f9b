"""FTS5's own ranking out of arrays: each term's rows with what it adds to their scores.

A question in natural language is an OR of words that match nearly every row, and FTS5 decodes
and scores each match anew. Here the finished parts of the scores lie on disk, so that a query is
the sum of a few arrays and the top of that sum. The sum is of float32 and leaves out words that
are in half of the rows; every row that this could have kept out of the best k is computed again
in float64, with all words, in the order of FTS5's ``bm25``: scores and lists are FTS5's.

    terms.npy            uint8    every term in UTF-8, sorted by its bytes, end to end
    term_starts.npy      int64    terms + 1 offsets into it
    posting_starts.npy   int64    terms + 1 offsets into the next three
    rows.npy             int32    row numbers from 0, ascending within a term
    parts.npy            float32  what the term adds to the row's score
    frequency_codes.npy  uint16   place in frequencies.npy of how often the row has the term
    frequencies.npy      float64  occurrences, each counting the weight of its column
    lengths.npy          int32    tokens of each row, over all columns
    about.json                    the tokenizer
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import log
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.files import load_array
from agentgym_suite.indexes.bm25_postings import Terms, mapped
from agentgym_suite.indexes.match_query import query_words
from agentgym_suite.indexes.query_terms import FREQUENT, TermSplitter, telling

FOLDER = "postings"
TERMS = "terms.npy"
TERM_STARTS = "term_starts.npy"
POSTING_STARTS = "posting_starts.npy"
ROWS = "rows.npy"
PARTS = "parts.npy"
FREQUENCY_CODES = "frequency_codes.npy"
FREQUENCIES = "frequencies.npy"
LENGTHS = "lengths.npy"
ABOUT = "about.json"

ROWS_WORTH_IT = 20_000
"""From this many rows on the arrays are built; FTS5 alone is quick below."""

_K1 = 1.2
_B = 0.75
_LEAST_WEIGHT = 1e-6
"""What FTS5 gives a term that is in at least half of the rows."""

_BLOCK = 256
"""Rows that share one maximum."""


def inverse_frequency(rows: int, count: int) -> float:
    """The weight of a term that is in ``count`` of the rows, as FTS5 computes it."""
    weight = log((rows - count + 0.5) / (count + 0.5))
    return weight if weight > 0 else _LEAST_WEIGHT


def length_factors(lengths: NDArray[np.int32]) -> NDArray[np.float64]:
    """What stands beside the frequency in BM25's denominator, for each row; FTS5's k1 and b."""
    average = int(lengths.sum(dtype=np.int64)) / max(len(lengths), 1)
    factors: NDArray[np.float64] = _K1 * (1 - _B + _B * lengths.astype(np.float64) / average)
    return factors


def score_parts(
    weight: float | NDArray[np.float64],
    frequencies: NDArray[np.float64],
    factors: NDArray[np.float64],
) -> NDArray[np.float64]:
    """What one term adds to the scores of rows; the operations are in the order of FTS5."""
    return weight * ((frequencies * (_K1 + 1)) / (frequencies + factors))


class Postings:
    """The arrays of one full-text table; made by ``postings_build.build_postings``.

    Threads and forked processes may share them: nothing is ever written.

    Args:
        folder: where they lie.
        frequent: below the default, words in at least this share of the rows are left out
            altogether while a rarer one is there: quicker, and approximate.

    Raises:
        DataDamaged: a file is no array.
        OSError: a file is not there.
    """

    def __init__(self, folder: Path, frequent: float = FREQUENT) -> None:
        self._starts = mapped(folder / POSTING_STARTS)
        self._terms = Terms(mapped(folder / TERMS), mapped(folder / TERM_STARTS), self._starts)
        self._rows = mapped(folder / ROWS)
        self._parts = mapped(folder / PARTS)
        self._codes = mapped(folder / FREQUENCY_CODES)
        self._frequencies = load_array(folder / FREQUENCIES, mapped=False)
        self._lengths = mapped(folder / LENGTHS)
        self._factors = length_factors(self._lengths)
        self._frequent = frequent
        about = json.loads((folder / ABOUT).read_text("utf-8"))
        self._splitter = TermSplitter(about["tokenizer"])

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self._lengths)

    @property
    def postings(self) -> int:
        """How many (term, row) pairs there are."""
        return len(self._rows)

    @property
    def terms(self) -> int:
        """How many terms there are."""
        return len(self._starts) - 1

    @property
    def average_length(self) -> float:
        """Tokens of a row, on average."""
        return int(self._lengths.sum(dtype=np.int64)) / max(len(self), 1)

    def best(
        self, query: str, k: int, visible: NDArray[np.bool_] | None = None
    ) -> list[tuple[int, float]] | None:
        """The (row id, score) of the k best rows: score descending, then row id ascending.

        Args:
            query: any text.
            k: at most so many.
            visible: one flag a row; the others are left out before the best are taken.

        Returns:
            What FTS5 gives for an OR of all words of the query, row ids from 1; None when a word
            is a phrase of several terms, which only FTS5 itself can search.

        Raises:
            UsageError: the query is not text.
            RetrievalError: this was closed.
        """
        words = self._splitter.word_terms(query_words(query))
        if any(len(terms) > 1 for terms in words):
            return None
        spans = [self._terms.postings(terms[0]) for terms in words if terms]
        spans = [span for span in spans if span[0] < span[1]]
        if not spans:
            return []
        counts = [stop - start for start, stop in spans]
        kept = telling(counts, len(self), self._frequent)
        summed = [span for span, keep in zip(spans, kept, strict=True) if keep]
        if self._frequent < FREQUENT:
            spans = summed
        scores = self._sums(summed, visible)
        if len(summed) < len(spans) and np.count_nonzero(scores) < k:
            summed = spans
            scores = self._sums(summed, visible)
        rows = _within_rounding(scores, k, len(summed), len(spans) - len(summed))
        exact = self._exact(rows, spans)
        order = np.argsort(-exact, kind="stable")[:k]
        return list(zip((rows[order] + 1).tolist(), exact[order].tolist(), strict=True))

    def close(self) -> None:
        """Give back what splits words; the arrays go when nobody holds them any more."""
        self._splitter.close()

    def _sums(
        self, spans: Sequence[tuple[int, int]], visible: NDArray[np.bool_] | None
    ) -> NDArray[np.float32]:
        """The parts of some words, summed for every row; 0 where a row is not visible."""
        scores = np.zeros(len(self), np.float32)
        for start, stop in spans:
            np.add.at(scores, self._rows[start:stop], self._parts[start:stop])
        if visible is not None:
            scores *= visible
        return scores

    def _exact(
        self, rows: NDArray[np.int64], spans: Sequence[tuple[int, int]]
    ) -> NDArray[np.float64]:
        """The scores of some rows, ascending, as FTS5 sums them: word after word."""
        scores = np.zeros(len(rows))
        factors = self._factors[rows]
        wanted = rows.astype(np.int32)
        for start, stop in spans:
            places = np.searchsorted(self._rows[start:stop], wanted) + start
            places = np.minimum(places, stop - 1)
            found = np.flatnonzero(self._rows[places] == wanted)
            frequencies = self._frequencies[self._codes[places[found]]]
            weight = inverse_frequency(len(self), stop - start)
            scores[found] += score_parts(weight, frequencies, factors[found])
        return scores


def _within_rounding(
    scores: NDArray[np.float32], k: int, terms: int, frequent: int
) -> NDArray[np.int64]:
    """The rows, ascending, that may be among the k best once their scores are exact.

    A float32 sum of so many positive parts, each rounded, is off by at most that many units of
    2**-24 of itself; so a row below the k-th best by twice that, and by all that the words left
    out can add, cannot be one.

    Args:
        scores: sums in float32, 0 for rows without any term.
        k: how many are wanted.
        terms: how many parts each sum has at most.
        frequent: how many words were left out, of those that weigh ``_LEAST_WEIGHT``.
    """
    margin = 1 - (2 * terms + 8) * 2.0**-24
    slack = frequent * _LEAST_WEIGHT * (_K1 + 1)
    floor = 0.0
    maxima = np.maximum.reduceat(scores, np.arange(0, len(scores), _BLOCK))
    if k <= len(maxima):
        # The k-th best block has a row this good, so k rows are.
        floor = _nth_largest(maxima, k) * margin - slack
    rows = np.flatnonzero(scores >= floor) if floor > 0 else np.flatnonzero(scores)
    if len(rows) > k:
        held = scores[rows]
        rows = rows[held >= _nth_largest(held, k) * margin - slack]
    return rows


def _nth_largest(values: NDArray[np.float32], n: int) -> float:
    place = len(values) - n
    return float(np.partition(values, place)[place])
