"""Searching a full-text table of SQLite FTS5.

Scores are FTS5's own ``bm25``, with k1 1.2, b 0.75, and the sign turned: higher is better.
"""

from __future__ import annotations

import sqlite3

from agentgym_suite.indexes.fts5_connections import Connections
from agentgym_suite.indexes.fts5_table import FTS5Table
from agentgym_suite.indexes.match_query import match_any, query_words
from agentgym_suite.indexes.postings import Postings
from agentgym_suite.indexes.query_terms import TermSplitter, telling


class FTS5Search:
    """A finished table, open for any number of threads.

    Args:
        table: its shape.
        connections: to its database.
        rows: how many rows it has.
        postings: its arrays, which answer what they can; None when there are none.
    """

    def __init__(
        self,
        table: FTS5Table,
        connections: Connections,
        rows: int,
        postings: Postings | None = None,
    ) -> None:
        self._connections = connections
        self._rows = rows
        self._postings = postings
        self._splitter = TermSplitter(table.tokenizer)
        weights = ", ".join(map(repr, table.weights))
        # The row id as second key keeps ties stable; this is twice as fast as ORDER BY rank.
        self._best = (
            f"SELECT rowid, bm25({table.name}, {weights}) AS score FROM {table.name} "
            f"WHERE {table.name} MATCH ? ORDER BY score, rowid LIMIT ?"
        )
        self._df = f"SELECT df FROM {table.name}_df WHERE term = ?"

    def best(self, query: str, k: int) -> list[tuple[int, float]]:
        """The (row id, score) of the k best rows: score descending, then row id ascending.

        Raises:
            UsageError: the query is not text.
            RetrievalError: this was closed.
            sqlite3.Error: the database is damaged.
        """
        if self._postings is not None:
            ranked = self._postings.best(query, k)
            if ranked is not None:
                return ranked
        match = self.match(query)
        if not match:
            return []
        with self._connections.lend() as connection:
            found = connection.execute(self._best, (match, min(k, self._rows))).fetchall()
        return [(rowid, 0.0 - score) for rowid, score in found]

    def match(self, query: str) -> str:
        """The MATCH string of a query: its words that tell rows apart; empty when none is known."""
        words = query_words(query)
        if not words:
            return ""
        terms = self._splitter.word_terms(words)
        with self._connections.lend() as connection:
            counts = [self._count(connection, one) for one in terms]
        kept = telling(counts, self._rows)
        return match_any([word for word, keep in zip(words, kept, strict=True) if keep])

    def close(self) -> None:
        """Give back every connection."""
        self._connections.close()
        self._splitter.close()
        if self._postings is not None:
            self._postings.close()

    def _count(self, connection: sqlite3.Connection, terms: tuple[str, ...]) -> int | None:
        """In how many rows a word is; None when it is a phrase of several terms."""
        if len(terms) > 1:
            return None
        row = connection.execute(self._df, terms).fetchone() if terms else None
        return row[0] if row else 0
