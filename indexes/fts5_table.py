"""A full-text table of SQLite FTS5: its shape, and how it is made.

Nothing here knows what the rows are: an index of passages and a store of papers both stand on
it. ``fts5_search`` and ``postings`` ask it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from agentgym_suite.errors import RetrievalError, UsageError

TOKENIZERS: Mapping[str, str] = MappingProxyType(
    {
        "porter": "porter unicode61 remove_diacritics 2",
        "unicode61": "unicode61 remove_diacritics 2",
        "trigram": "trigram",
    }
)
"""Name -> FTS5's ``tokenize`` option."""


LARGEST_WEIGHT = 1000.0
"""Beyond all use, and far from where a score is no finite number any more."""


@dataclass(frozen=True, slots=True)
class FTS5Table:
    """The shape of one full-text table.

    Attributes:
        name: its name in the database.
        columns: the indexed columns.
        weights: how much a word counts in each column.
        content: the table that holds the texts; empty when they lie outside the database.
        tokenizer: a name of ``TOKENIZERS``.
    """

    name: str
    columns: tuple[str, ...]
    weights: tuple[float, ...]
    content: str = ""
    tokenizer: str = "porter"

    def __post_init__(self) -> None:
        if self.tokenizer not in TOKENIZERS:
            raise UsageError(
                f"tokenizer is {self.tokenizer!r}; choose one of {', '.join(TOKENIZERS)}"
            )
        for column, weight in zip(self.columns, self.weights, strict=True):
            if not 0 <= weight <= LARGEST_WEIGHT:
                raise UsageError(
                    f"the weight of {column} is {weight}; give a number from 0 to "
                    f"{LARGEST_WEIGHT:.0f}"
                )
        if not any(self.weights):
            raise UsageError(
                f"the weights of {' and '.join(self.columns)} are all 0, so that all scores would "
                "be; give one a number above"
            )

    def create(self, connection: sqlite3.Connection) -> None:
        """Make the empty table.

        Raises:
            RetrievalError: this SQLite has no FTS5.
        """
        source = f"content='{self.content}'"
        if self.content:
            source += ", content_rowid='rowid'"
        create_virtual_table(
            connection,
            f"CREATE VIRTUAL TABLE {self.name} USING fts5({', '.join(self.columns)}, {source}, "
            f"tokenize='{TOKENIZERS[self.tokenizer]}')",
        )

    def insert(self, connection: sqlite3.Connection, rows: Sequence[tuple[int | str, ...]]) -> None:
        """Index rows of (rowid, text of each column); fastest with ascending row ids."""
        names = ", ".join(("rowid", *self.columns))
        marks = ", ".join("?" * (1 + len(self.columns)))
        connection.executemany(f"INSERT INTO {self.name}({names}) VALUES ({marks})", rows)

    def finish(self, connection: sqlite3.Connection) -> None:
        """After the last row: merge the index, and count in how many rows each term is."""
        name = self.name
        connection.execute(f"INSERT INTO {name}({name}) VALUES ('optimize')")
        connection.execute(f"CREATE VIRTUAL TABLE {name}_terms USING fts5vocab({name}, row)")
        connection.execute(
            f"CREATE TABLE {name}_df(term TEXT PRIMARY KEY, df INTEGER) WITHOUT ROWID"
        )
        connection.execute(f"INSERT INTO {name}_df SELECT term, doc FROM {name}_terms")
        connection.execute(f"DROP TABLE {name}_terms")


def create_virtual_table(connection: sqlite3.Connection, statement: str) -> None:
    """Run a ``CREATE VIRTUAL TABLE`` for FTS5.

    Raises:
        RetrievalError: this SQLite has no FTS5, or not that tokenizer.
    """
    try:
        connection.execute(statement)
    except sqlite3.OperationalError as error:
        if "no such" not in str(error):
            raise
        raise RetrievalError(
            f"SQLite {sqlite3.sqlite_version} of this Python cannot do it ({error}); use a Python "
            "whose SQLite has FTS5, 3.34 or later"
        ) from error
