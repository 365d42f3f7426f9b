"""The files beside the products, laid out by ASIN while a store is built.

At full scale they are too large to be held in memory, and they are in another order than
the products; a temporary SQLite file answers what belongs to one product.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agentgym_suite.data import Progress
from agentgym_suite.json_stream import iter_json_object
from agentgym_suite.webshop.nouns import read_noun_file
from agentgym_suite.webshop.official_files import OfficialFiles
from agentgym_suite.webshop.products import encodable

_BATCH = 5_000
_CACHE_KIB = 200_000


class SideTables:
    """What the attributes, human and nouns files say about each ASIN.

    Args:
        path: where the temporary file is made; it is removed on exit.
        official: the files to read.
        progress: called with the entries read of each file.
    """

    def __init__(self, path: Path, official: OfficialFiles, progress: Progress | None) -> None:
        path.unlink(missing_ok=True)
        self._path = path
        self._progress = progress
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        for table, file, read in (
            ("attributes", official.attributes, iter_json_object),
            ("human", official.human, iter_json_object),
            ("nouns", official.nouns, read_noun_file),
        ):
            self._database.execute(
                f"CREATE TABLE {table} (asin TEXT PRIMARY KEY, entry TEXT) WITHOUT ROWID"
            )
            if file is not None:
                self._fill(table, read(file))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._database.close()
        self._path.unlink(missing_ok=True)

    def attributes(self, asin: str) -> Any:
        """The entry of the attributes file; None if there is none."""
        return self._entry("attributes", asin)

    def human(self, asin: str) -> Any:
        """The human instructions of a product; None if there are none."""
        return self._entry("human", asin)

    def nouns(self, asin: str) -> tuple[str, ...] | None:
        """The nouns of a product's title; None if the file does not know the product."""
        entry = self._entry("nouns", asin)
        return None if entry is None else tuple(entry)

    def _entry(self, table: str, asin: str) -> Any:
        row = self._database.execute(
            f"SELECT entry FROM {table} WHERE asin = ?", (encodable(asin),)
        ).fetchone()
        return None if row is None else json.loads(row[0])

    def _fill(self, table: str, entries: Iterable[tuple[str, Any]]) -> None:
        # ASCII escapes carry lone surrogates, which SQLite's UTF-8 could not.
        rows = ((encodable(asin), json.dumps(entry)) for asin, entry in entries)
        done = 0
        self._database.execute("BEGIN")
        for batch in _batches(rows):
            self._database.executemany(f"INSERT OR REPLACE INTO {table} VALUES (?, ?)", batch)
            done += len(batch)
            if self._progress is not None:
                self._progress(table, done, None)
        self._database.execute("COMMIT")


def _batches(rows: Iterator[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    while batch := list(islice(rows, _BATCH)):
        yield batch
