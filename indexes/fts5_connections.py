"""SQLite connections for searching: one for each search at a time, kept for the next one."""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agentgym_suite.errors import RetrievalError

_MAPPED_BYTES = 8 << 30
_CACHE_KIB = 256 << 10


class Connections:
    """Connections that are alike, lent to one thread at a time.

    There are as many as searches ever ran at the same time. One that is in use is never closed
    by another thread: after ``close`` its user closes it when giving it back. A forked process
    opens its own and leaves its parent's alone.

    Args:
        connect: opens one, with ``check_same_thread=False``.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._inherited: list[list[sqlite3.Connection]] = []
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._idle: list[sqlite3.Connection] = []
        self._close_idle = weakref.finalize(self, _close_all, self._idle, self._process)

    @contextmanager
    def lend(self) -> Iterator[sqlite3.Connection]:
        """A connection for the caller alone.

        Raises:
            RetrievalError: this was closed.
            sqlite3.Error: no connection can be opened.
        """
        if self._closed:
            raise RetrievalError("the index was closed; open it again to search")
        if self._process != os.getpid():
            # Kept, open and unused: SQLite's connections may not cross a fork, nor be closed there.
            self._inherited.append(self._idle)
            self._close_idle.detach()
            self._begin()
        idle = self._idle
        try:
            connection = idle.pop()
        except IndexError:
            connection = self._connect()
        try:
            yield connection
        finally:
            idle.append(connection)
            if self._closed:
                _close_all(idle, self._process)

    def close(self) -> None:
        """Close the connections that nobody uses; the others follow when they are given back."""
        self._closed = True
        self._close_idle()


def connect_read_only(path: Path) -> sqlite3.Connection:
    """Open a SQLite file that nobody writes any more.

    Raises:
        sqlite3.Error: it cannot be opened.
    """
    # The file never changes: immutable spares every lock and every look for a journal.
    address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    connection = sqlite3.connect(address, uri=True, check_same_thread=False)
    try:
        for pragma in (
            "query_only = 1",
            f"mmap_size = {_MAPPED_BYTES}",
            f"cache_size = -{_CACHE_KIB}",
            "temp_store = 2",
        ):
            connection.execute(f"PRAGMA {pragma}").close()
    except BaseException:
        connection.close()
        raise
    return connection


def _close_all(idle: list[sqlite3.Connection], owner: int) -> None:
    if owner != os.getpid():
        return
    while True:
        try:
            connection = idle.pop()
        except IndexError:
            return
        connection.close()
