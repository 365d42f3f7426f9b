"""Building the postings arrays of a finished full-text table.

Terms are read a block at a time out of FTS5's vocabulary, grouped by row, and appended to files
whose size is known from the start. After each block a note says how far they are: a build that
was killed goes on behind it and gives the same bytes.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from agentgym_suite.errors import RetrievalError, UsageError
from agentgym_suite.files import Json, Progress, write_array, write_json_atomic
from agentgym_suite.indexes import postings as files
from agentgym_suite.indexes.fts5_table import FTS5Table

_INSTANCES_AT_ONCE = 1 << 20
_MOST_FREQUENCIES = 1 << 16
_NOTE = "filled.json"


def build_postings(
    folder: Path, database: Path, table: FTS5Table, progress: Progress | None = None
) -> None:
    """Write the arrays of ``postings.Postings`` into a folder.

    Args:
        folder: made if need be; what an earlier run for the same table left there is used.
        database: the SQLite file of the finished table, whose row ids are 1, 2, 3 and so on.
        table: its shape.
        progress: called with the phase ``postings`` and postings done.

    Raises:
        UsageError: a column counts nothing; then a row may match with a score of 0.
        RetrievalError: the rows are not numbered from 1 without gaps, or the columns' weights
            give too many different frequencies.
        OSError: a file cannot be written.
    """
    for column, weight in zip(table.columns, table.weights, strict=True):
        if weight <= 0:
            raise UsageError(f"the weight of {column} is {weight}; arrays need one above 0")
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / files.ABOUT).is_file():
        with closing(_connect(database, table)) as connection:
            lengths = _row_lengths(connection, table)
            write_array(folder / files.LENGTHS, lengths)
            vocabulary = _vocabulary(connection, table)
            _write_terms(folder, vocabulary)
            _fill(folder, connection, table, vocabulary, lengths, progress)
        write_json_atomic(folder / files.ABOUT, {"tokenizer": table.tokenizer})
    (folder / _NOTE).unlink(missing_ok=True)


def _fill(
    folder: Path,
    connection: sqlite3.Connection,
    table: FTS5Table,
    vocabulary: Sequence[tuple[str, int]],
    lengths: NDArray[np.int32],
    progress: Progress | None,
) -> None:
    total = sum(count for _, count in vocabulary)
    note = _load_note(folder)
    done_terms, done = note["terms"], note["postings"]
    frequencies = _Frequencies(note["frequencies"])
    weights = np.array(table.weights)
    factors = files.length_factors(lengths)
    with ExitStack() as stack:
        rows, parts, codes = (
            stack.enter_context(closing(_GrowingArray(folder / name, dtype, total, done)))
            for name, dtype in (
                (files.ROWS, np.int32),
                (files.PARTS, np.float32),
                (files.FREQUENCY_CODES, np.uint16),
            )
        )
        for block in _blocks(connection, table, vocabulary[done_terms:]):
            inverse = [files.inverse_frequency(len(lengths), count) for count in block.counts]
            numbers, counted = block.postings(weights)
            rows.append(numbers)
            weight = np.repeat(np.array(inverse), block.counts)
            parts.append(files.score_parts(weight, counted, factors[numbers]))
            codes.append(frequencies.codes(counted))
            done_terms += len(block.counts)
            done += len(numbers)
            for array in (rows, parts, codes):
                array.sync()
            write_json_atomic(
                folder / _NOTE,
                {"terms": done_terms, "postings": done, "frequencies": frequencies.values},
            )
            if progress is not None:
                progress("postings", done, total)
    write_array(folder / files.FREQUENCIES, np.array(frequencies.values, np.float64))


@dataclass(frozen=True, slots=True)
class _Block:
    """The occurrences of some terms, one after the other.

    Attributes:
        cells: row id times columns, plus column, of each occurrence; ascending within a term.
        occurrences: how many each term has.
        counts: in how many rows each term is.
        columns: how many columns there are.
    """

    cells: NDArray[np.int64]
    occurrences: list[int]
    counts: list[int]
    columns: int

    def postings(
        self, weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Row number from 0, and weighted count, of each (term, row) pair."""
        row_ids, columns = np.divmod(self.cells, self.columns)
        term = np.repeat(np.arange(len(self.occurrences)), self.occurrences)
        begins = np.ones(len(row_ids), bool)
        begins[1:] = (row_ids[1:] != row_ids[:-1]) | (term[1:] != term[:-1])
        firsts = np.flatnonzero(begins)
        if len(firsts) != sum(self.counts):
            raise RetrievalError(
                "the full-text table counts other rows than it holds; build it again"
            )
        return row_ids[firsts] - 1, np.add.reduceat(weights[columns], firsts)


def _blocks(
    connection: sqlite3.Connection, table: FTS5Table, vocabulary: Sequence[tuple[str, int]]
) -> Iterator[_Block]:
    columns = len(table.columns)
    number = " ".join(f"WHEN '{name}' THEN {place}" for place, name in enumerate(table.columns))
    statement = f"SELECT doc * {columns} + CASE col {number} END FROM instances WHERE term = ?"
    cells: list[int] = []
    occurrences: list[int] = []
    counts: list[int] = []
    for place, (term, count) in enumerate(vocabulary, start=1):
        before = len(cells)
        cells += [cell for (cell,) in connection.execute(statement, (term,))]
        occurrences.append(len(cells) - before)
        counts.append(count)
        if len(cells) >= _INSTANCES_AT_ONCE or place == len(vocabulary):
            yield _Block(np.array(cells, np.int64), occurrences, counts, columns)
            cells, occurrences, counts = [], [], []


class _Frequencies:
    """The distinct weighted counts met so far; a count's code is its place among them."""

    def __init__(self, values: list[float]) -> None:
        self.values = values
        self._codes = {value: code for code, value in enumerate(values)}

    def codes(self, counted: NDArray[np.float64]) -> NDArray[np.int64]:
        """The code of each count; new ones are added, ascending."""
        distinct, places = np.unique(counted, return_inverse=True)
        for value in distinct.tolist():
            if value not in self._codes:
                self._codes[value] = len(self.values)
                self.values.append(value)
        if len(self.values) > _MOST_FREQUENCIES:
            raise RetrievalError(
                f"more than {_MOST_FREQUENCIES} different weighted counts of a term; give the "
                "columns whole numbers as weights"
            )
        return np.array([self._codes[value] for value in distinct.tolist()], np.int64)[places]


class _GrowingArray:
    """A ``.npy`` file of known length that is written from front to back, in several runs.

    Written, not mapped: a full disk must raise, not end the process.
    """

    def __init__(self, path: Path, dtype: DTypeLike, length: int, filled: int) -> None:
        self._dtype = np.dtype(dtype)
        self._stream = path.open("r+b" if filled else "wb")
        if filled:
            np.lib.format.read_magic(self._stream)
            np.lib.format.read_array_header_1_0(self._stream)
            self._stream.seek(filled * self._dtype.itemsize, os.SEEK_CUR)
            self._stream.truncate()
        else:
            about = {
                "descr": np.lib.format.dtype_to_descr(self._dtype),
                "fortran_order": False,
                "shape": (length,),
            }
            np.lib.format.write_array_header_1_0(self._stream, about)

    def append(self, values: NDArray[Any]) -> None:
        self._stream.write(np.ascontiguousarray(values, self._dtype).data)

    def sync(self) -> None:
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        self._stream.close()


def _connect(database: Path, table: FTS5Table) -> sqlite3.Connection:
    address = f"{database.absolute().as_uri()}?mode=ro&immutable=1"
    connection = sqlite3.connect(address, uri=True, isolation_level=None)
    try:
        connection.execute(
            f"CREATE VIRTUAL TABLE temp.instances USING fts5vocab(main, {table.name}, instance)"
        )
    except BaseException:
        connection.close()
        raise
    return connection


def _vocabulary(connection: sqlite3.Connection, table: FTS5Table) -> list[tuple[str, int]]:
    """Every term with the number of its rows, sorted by the term's bytes."""
    return connection.execute(f"SELECT term, df FROM {table.name}_df ORDER BY term").fetchall()


def _write_terms(folder: Path, vocabulary: Sequence[tuple[str, int]]) -> None:
    encoded = [term.encode("utf-8") for term, _ in vocabulary]
    write_array(folder / files.TERMS, np.frombuffer(b"".join(encoded), np.uint8))
    write_array(folder / files.TERM_STARTS, _starts([len(term) for term in encoded]))
    write_array(folder / files.POSTING_STARTS, _starts([count for _, count in vocabulary]))


def _starts(sizes: Sequence[int]) -> NDArray[np.int64]:
    starts = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(np.array(sizes, np.int64), out=starts[1:])
    return starts


def _row_lengths(connection: sqlite3.Connection, table: FTS5Table) -> NDArray[np.int32]:
    """Tokens of each row over all columns, out of FTS5's own record of them."""
    name = f"{table.name}_docsize"
    rows, last = connection.execute(f"SELECT count(*), coalesce(max(id), 0) FROM {name}").fetchone()
    if rows != last:
        raise RetrievalError(f"{rows} rows are numbered up to {last}; build the index again")
    stored = connection.execute(f"SELECT sz FROM {name} ORDER BY id")
    return np.fromiter((_sum_of_varints(sizes) for (sizes,) in stored), np.int32, rows)


def _sum_of_varints(blob: bytes) -> int:
    """The sum of SQLite's variable-length integers (7 bits a byte, high bits first)."""
    total = value = 0
    for byte in blob:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            total += value
            value = 0
    return total


def _load_note(folder: Path) -> dict[str, Any]:
    nothing: dict[str, Json] = {"terms": 0, "postings": 0, "frequencies": []}
    try:
        note: dict[str, Any] = json.loads((folder / _NOTE).read_text("utf-8"))
    except FileNotFoundError:
        return nothing
    return note
