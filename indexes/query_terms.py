"""From the words of a query to the terms of an index, and which of them tell rows apart.

FTS5 itself splits and stems: a table in memory with the same tokenizer, into which the words go
as rows. There is no second stemmer that could differ from it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from agentgym_suite.indexes.fts5_connections import Connections
from agentgym_suite.indexes.fts5_table import TOKENIZERS, create_virtual_table

FREQUENT = 0.5
"""A term in at least this share of the rows weighs 1e-6 and costs a walk over them all."""

_REMEMBERED_WORDS = 1 << 16


class TermSplitter:
    """Says which terms a tokenizer makes of texts; threads and forked processes may share it.

    Args:
        tokenizer: a name of ``TOKENIZERS``.
    """

    def __init__(self, tokenizer: str) -> None:
        self._connections = Connections(lambda: _connect(TOKENIZERS[tokenizer]))
        self._known: dict[str, tuple[str, ...]] = {}

    def terms(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """The terms of each text, in order, repeats kept.

        Raises:
            RetrievalError: this was closed, or this SQLite has no FTS5.
        """
        with self._connections.lend() as connection:
            return _split(connection, texts)

    def word_terms(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        """The same for words, which are remembered."""
        known = self._known
        found = {word: known[word] for word in words if word in known}
        fresh = [word for word in dict.fromkeys(words) if word not in found]
        if fresh:
            found.update(zip(fresh, self.terms(fresh), strict=True))
            if len(known) > _REMEMBERED_WORDS:
                self._known = known = {}
            known.update(found)
        return [found[word] for word in words]

    def close(self) -> None:
        """Give back every connection."""
        self._connections.close()


def telling(counts: Sequence[int | None], rows: int, frequent: float = FREQUENT) -> list[bool]:
    """Which words of a query are worth searching for.

    Words that are nowhere find nothing. Frequent ones are left out as long as a rarer one is
    there to find rows: from ``FREQUENT`` on the ranking of what that finds stays the same, save
    among scores that differ by less than such weights. A smaller share is an approximation.

    Args:
        counts: in how many rows each word is; None when it is a phrase of several terms.
        rows: how many there are.
        frequent: the share of the rows from which on a word is frequent.
    """
    bound = rows * frequent
    rare = any(0 < count < bound for count in counts if count is not None)
    return [count is None or 0 < count < bound or (count > 0 and not rare) for count in counts]


def _connect(tokenize: str) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    try:
        create_virtual_table(
            connection,
            f"CREATE VIRTUAL TABLE texts USING fts5(text, content='', tokenize='{tokenize}')",
        )
        connection.execute("CREATE VIRTUAL TABLE terms USING fts5vocab(texts, instance)")
    except BaseException:
        connection.close()
        raise
    return connection


def _split(connection: sqlite3.Connection, texts: Sequence[str]) -> list[tuple[str, ...]]:
    terms: list[list[str]] = [[] for _ in texts]
    connection.execute("BEGIN")
    try:
        connection.executemany("INSERT INTO texts(rowid, text) VALUES (?, ?)", enumerate(texts))
        for number, term in connection.execute("SELECT doc, term FROM terms ORDER BY doc, offset"):
            terms[number].append(term)
    finally:
        connection.execute("ROLLBACK")
    return [tuple(found) for found in terms]
