"""Ranking the papers of a store by the words of a query, before a day if one is given."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.indexes.fts5_connections import Connections
from agentgym_suite.indexes.match_query import match_any, query_words
from agentgym_suite.indexes.paper_tables import TEXTS
from agentgym_suite.indexes.postings import Postings
from agentgym_suite.indexes.query_terms import FREQUENT, TermSplitter, telling

Ranked = list[tuple[int, float]]
"""(row id, score): score descending, then row id ascending."""

_ESSENTIAL_ROWS = 10_000
_STEPS_BETWEEN_LOOKS = 1_000
_LATEST = (1 << 31) - 1

_FROM = (
    f"SELECT texts.rowid, bm25(texts, {', '.join(map(repr, TEXTS.weights))}) AS score FROM texts "
)
_BEST = f"{_FROM} WHERE texts MATCH ? ORDER BY score, texts.rowid LIMIT ?"
_BEST_BETWEEN = (
    f"{_FROM} CROSS JOIN papers ON papers.rowid = texts.rowid WHERE texts MATCH ? "
    "AND papers.day >= ? AND papers.day < ? ORDER BY score, texts.rowid LIMIT ?"
)


class PaperRanking:
    """What ranks; threads and forked processes may share it.

    Args:
        connections: to the store's database.
        days: the day of each paper, by row id less one.
        splitter: for the tokenizer of the full-text table.
        postings: the same table's arrays; None when there are none.
        frequent: see ``query_terms.telling``.
    """

    def __init__(
        self,
        connections: Connections,
        days: NDArray[np.int32],
        splitter: TermSplitter,
        postings: Postings | None,
        frequent: float = FREQUENT,
    ) -> None:
        self._connections = connections
        self._days = days
        self._splitter = splitter
        self._postings = postings
        self._frequent = frequent

    def best(self, query: str, k: int, before: int | None, since: int | None) -> Ranked:
        """The k best papers whose day is at least ``since`` and less than ``before``.

        Raises:
            UsageError: the query is not text.
            RetrievalError: the store was closed.
            sqlite3.Error: the database is damaged.
        """
        found = self._by_arrays(query, k, before, since)
        if found is not None:
            return found
        words = self._telling_words(query)
        if not words:
            return []
        with self._connections.lend() as connection:
            return self._by_fts5(connection, [word for word, _ in words], k, before, since)

    def within(
        self, query: str, k: int, seconds: float, before: int | None, since: int | None
    ) -> tuple[Ranked, bool]:
        """The same in a limited time, and whether that was too short for the true answer.

        FTS5 knows nothing of a ranking before it has scored every match. So the rarest words
        are searched first, and what they found is the answer when the time is up before the
        whole query is done. The arrays need no limit: they take milliseconds.
        """
        found = self._by_arrays(query, k, before, since)
        if found is not None:
            return found, False
        ranked: Ranked = []
        words = self._telling_words(query)
        essential = _essential(words)
        everything = [word for word, _ in words]
        with self._connections.lend() as connection, _limited(connection, seconds):
            try:
                if essential and len(essential) < len(everything):
                    ranked = self._by_fts5(connection, essential, k, before, since)
                if everything:
                    ranked = self._by_fts5(connection, everything, k, before, since)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname != "SQLITE_INTERRUPT":
                    raise
                return ranked, True
        return ranked, False

    def _by_arrays(
        self, query: str, k: int, before: int | None, since: int | None
    ) -> Ranked | None:
        """What the arrays find; None where there are none, or where the query needs FTS5."""
        if self._postings is None:
            return None
        return self._postings.best(query, k, self._visible(before, since))

    def _visible(self, before: int | None, since: int | None) -> NDArray[np.bool_] | None:
        if since is None:
            return None if before is None else self._days < before
        after = self._days >= since
        return after if before is None else after & (self._days < before)

    def _by_fts5(
        self,
        connection: sqlite3.Connection,
        words: Sequence[str],
        k: int,
        before: int | None,
        since: int | None,
    ) -> Ranked:
        match, most = match_any(words), min(k, len(self._days))
        if before is None and since is None:
            found = connection.execute(_BEST, (match, most))
        else:
            latest = _LATEST if before is None else min(before, _LATEST)
            days = (min(since or 0, _LATEST), latest)
            found = connection.execute(_BEST_BETWEEN, (match, *days, most))
        return [(rowid, 0.0 - score) for rowid, score in found.fetchall()]

    def _telling_words(self, query: str) -> list[tuple[str, int]]:
        """The words worth searching for, with the rows of each; 0 for a phrase."""
        words = query_words(query)
        if not words:
            return []
        terms = self._splitter.word_terms(words)
        with self._connections.lend() as connection:
            counts = [_count(connection, one) for one in terms]
        kept = telling(counts, len(self._days), self._frequent)
        return [
            (word, count or 0)
            for word, count, keep in zip(words, counts, kept, strict=True)
            if keep
        ]


def document_frequency(connection: sqlite3.Connection, term: str) -> int:
    """In how many papers a term is."""
    row = connection.execute("SELECT df FROM df WHERE term = ?", (term,)).fetchone()
    return row[0] if row else 0


def _count(connection: sqlite3.Connection, terms: tuple[str, ...]) -> int | None:
    """In how many papers a word is; None when it is a phrase of several terms."""
    if len(terms) > 1:
        return None
    return document_frequency(connection, terms[0]) if terms else 0


def _essential(words: Sequence[tuple[str, int]]) -> list[str]:
    """The rarest words: as many as match few rows together, and at least one."""
    chosen: list[str] = []
    rows = 0
    for word, count in sorted(words, key=lambda one: one[1]):
        rows += count
        if chosen and rows > _ESSENTIAL_ROWS:
            break
        chosen.append(word)
    return chosen


@contextmanager
def _limited(connection: sqlite3.Connection, seconds: float) -> Iterator[None]:
    """Interrupt what the connection runs once the time is up."""
    deadline = time.monotonic() + seconds
    connection.set_progress_handler(lambda: int(time.monotonic() > deadline), _STEPS_BETWEEN_LOOKS)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)
