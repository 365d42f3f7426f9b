"""A corpus of passages read by offset: a file of JSON lines, and where its rows and ids are.

The file stays where it is and is never loaded. Into the folder of an index goes, under
``corpus/``, what finds a row: the byte where each begins, the ids, and their order; and a short
digest of each, so that no row of an edited file is given out. A file that cannot be read by offset
(packed, or one JSON list) is written there anew as JSON lines.
"""

from __future__ import annotations

import codecs
import json
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.data import Manifest
from agentgym_suite.errors import DataDamaged, RetrievalError
from agentgym_suite.files import (
    Json,
    Progress,
    damaged,
    explain_damage,
    explain_unreadable,
    load_array,
    sha256_file,
)
from agentgym_suite.indexes.corpus_rows import (
    FOLDER,
    ID_ORDER,
    ID_STARTS,
    IDS,
    ROW_DIGESTS,
    ROW_STARTS,
    UNPACKED,
    CorpusFacts,
    load_facts,
    prepare_corpus,
    row_digest,
    to_passage,
)
from agentgym_suite.indexes.passages import Passage

__all__ = ["Corpus", "CorpusFacts", "corpus_inputs", "prepare_corpus", "verify_corpus"]

_ROWS_AT_ONCE = 512


def corpus_inputs(path: Path | str, progress: Progress | None = None) -> dict[str, Json]:
    """What the manifest of an index says of its corpus: absolute path, bytes, SHA-256.

    Raises:
        DataMissing: there is no such file.
    """
    path = Path(os.path.abspath(path))
    sha256 = sha256_file(path, progress)
    return {"path": path.as_posix(), "bytes": path.stat().st_size, "sha256": sha256}


class Corpus:
    """The passages of a corpus, each read from the file when it is asked for.

    Threads and forked processes may share one. ``close`` gives the file back.

    Args:
        path: the corpus file that was prepared.
        folder: the folder of the index, which holds ``corpus/``.

    Raises:
        RetrievalError: the file is gone, or has another size.
        DataDamaged: the folder is not as it was built.
    """

    def __init__(self, path: Path | str, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.facts = load_facts(self.folder)
        here = self.folder / FOLDER
        self.path = here / UNPACKED if self.facts.unpacked else Path(path)
        with explain_damage(self.folder):
            rows = self.facts.rows
            self._starts = _mapped(here / ROW_STARTS, np.uint64, rows + 1)
            self._ids = _mapped(here / IDS, np.uint8, None)
            self._id_starts = _mapped(here / ID_STARTS, np.int64, rows + 1)
            self.id_order: NDArray[np.uint32] = _mapped(here / ID_ORDER, np.uint32, rows)
            # An index of an older build has none; in a newer one its absence is seen by the sizes.
            digests = here / ROW_DIGESTS
            self._digests = _mapped(digests, np.uint64, rows) if digests.exists() else None
            self._size = int(self._starts[-1])
            if not self.facts.unpacked and self._size != self.facts.bytes:
                raise ValueError(f"the rows end at {self._size}, the file at {self.facts.bytes}")
        self._check_size()
        with explain_unreadable(self.path):
            self._file: _OpenFile | None = _OpenFile(self.path)

    @classmethod
    def of(cls, folder: Path | str, manifest: Manifest) -> Corpus:
        """The corpus of a finished index: where it was, else beside the index's folder.

        Raises:
            RetrievalError: the file is gone, or has another size.
            DataDamaged: the folder is not as it was built.
        """
        return cls(_corpus_path(Path(folder), manifest), folder)

    def __len__(self) -> int:
        return self.facts.rows

    def __reduce__(self) -> tuple[type[Corpus], tuple[Path, Path]]:
        return type(self), (self.path, self.folder)

    def id(self, row: int) -> str:
        """The id of a row.

        Raises:
            DataDamaged: the folder is not as it was built.
        """
        try:
            start, stop = self._id_starts[row : row + 2].tolist()
            if not 0 <= start <= stop <= len(self._ids):
                raise ValueError(f"the id of row {row} lies from {start} to {stop}")
            return self._ids[start:stop].tobytes().decode("utf-8")
        except ValueError as error:
            raise damaged(self.folder, error) from error

    def position(self, identifier: str) -> int | None:
        """The row of an id; None when no row has it."""
        if identifier.isdecimal() and len(identifier) < 12:
            row = int(identifier)  # most corpora number their rows
            if row < len(self) and self.id(row) == identifier:
                return row
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self.id(int(self.id_order[middle])) < identifier:
                low = middle + 1
            else:
                high = middle
        if low == len(self):
            return None
        row = int(self.id_order[low])
        return row if self.id(row) == identifier else None

    def row(self, row: int) -> Passage:
        """The passage of a row, counted from 0.

        Raises:
            DataDamaged: the row is no longer what was prepared, or the folder is not.
            RetrievalError: this corpus was closed.
        """
        return next(self.rows(range(row, row + 1)))

    def rows(self, rows: range) -> Iterator[Passage]:
        """The passages of several rows; neighbours are read at once.

        Raises:
            DataDamaged: a row is no longer what was prepared, or the folder is not.
            RetrievalError: this corpus was closed.
        """
        if rows.step != 1:
            for row in rows:
                yield self.row(row)
            return
        for first in range(rows.start, rows.stop, _ROWS_AT_ONCE):
            last = min(first + _ROWS_AT_ONCE, rows.stop)
            starts = self._starts_of(first, last)
            block = memoryview(self._read(starts[0], starts[-1]))
            for row in range(first, last):
                begin, end = starts[row - first], starts[row - first + 1]
                yield self._decode(row, bytes(block[begin - starts[0] : end - starts[0]]))

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        """The passages of these ids, in order.

        Raises:
            DataDamaged: a row is no longer what was prepared, or the folder is not.
            RetrievalError: there is no such id, or this corpus was closed.
        """
        found = []
        for identifier in ids:
            row = self.position(identifier)
            if row is None:
                raise RetrievalError(f"corpus {self.path} has no passage with id {identifier!r}")
            found.append(self.row(row))
        return found

    def close(self) -> None:
        """Give the file back, once no thread reads it any more."""
        self._file = None

    def _starts_of(self, first: int, last: int) -> list[int]:
        """Where these rows begin, and where the last one ends."""
        starts: list[int] = self._starts[first : last + 1].tolist()
        if starts != sorted(starts) or len(starts) != last - first + 1 or starts[-1] > self._size:
            place = ValueError(f"rows {first} to {last - 1} have no place in {self._size} bytes")
            raise damaged(self.folder, place) from place
        return starts

    def _read(self, start: int, stop: int) -> bytes:
        file = self._file
        if file is None:
            raise RetrievalError(f"corpus {self.path} was closed; open the index again")
        with explain_unreadable(self.path):
            return file.read(start, stop)

    def _decode(self, row: int, line: bytes) -> Passage:
        wanted = self.id(row)
        try:
            if self._digests is not None and row_digest(line) != int(self._digests[row]):
                raise ValueError("its digest differs")
            passage = to_passage(json.loads(line.removeprefix(codecs.BOM_UTF8)), row)
            if passage.id != wanted:
                raise ValueError(f"id {passage.id!r} instead of {wanted!r}")
        except (ValueError, RecursionError) as error:
            raise DataDamaged(
                f"corpus {self.path} changed since the index was built (row {row}: {error}); "
                "bring the old file back, or build the index again"
            ) from error
        return passage

    def _check_size(self) -> None:
        try:
            size = self.path.stat().st_size
        except OSError as error:
            raise RetrievalError(
                f"corpus {self.path} of the index {self.folder} is gone ({error.strerror}); bring "
                f"it back, put a copy beside that folder, or build the index again"
            ) from error
        if size != self._size:
            raise RetrievalError(
                f"corpus {self.path} has {size} bytes, the index {self.folder} was built from "
                f"{self._size}; bring the old file back, or build the index again"
            )


class _OpenFile:
    """A file open for reading at any place; closed when nobody holds it any more.

    Read, not mapped: a mapped file that is cut short would end the process.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        closing = weakref.finalize(self, os.close, self._descriptor)
        # At exit abandoned threads may still read; the system closes what is open.
        closing.atexit = False

    def read(self, start: int, stop: int) -> bytes:
        """The bytes between two offsets; fewer at the end of the file."""
        data = b""
        while len(data) < stop - start:
            more = os.pread(self._descriptor, stop - start - len(data), start + len(data))
            if not more:
                break
            data += more
        return data


def verify_corpus(folder: Path | str, manifest: Manifest, progress: Progress | None = None) -> None:
    """Recompute the digest of the corpus of a finished index.

    One that was unpacked into the folder is a file of the index and verified with it.

    Raises:
        DataDamaged: the file differs from what the index was built from.
        RetrievalError: it is gone, or has another size.
    """
    corpus = Corpus.of(folder, manifest)
    corpus.close()
    if corpus.facts.unpacked:
        return
    found = sha256_file(corpus.path, progress)
    if found != corpus.facts.sha256:
        raise DataDamaged(
            f"corpus {corpus.path} has SHA-256 {found}, the index {folder} was built from "
            f"{corpus.facts.sha256}; bring the old file back, or build the index again"
        )


def _corpus_path(folder: Path, manifest: Manifest) -> Path:
    recorded = manifest.inputs.get("corpus")
    if not isinstance(recorded, Mapping) or "path" not in recorded:
        raise RetrievalError(
            f"{folder} holds a {manifest.kind} that was not built from a corpus of passages; build "
            "one with `agentgym-suite index build`"
        )
    path = Path(str(recorded["path"]))
    beside = folder.parent / path.name
    return beside if not path.exists() and beside.exists() else path


def _mapped(path: Path, dtype: type[np.generic], length: int | None) -> NDArray[Any]:
    """An array in its file; of any length for None."""
    array = load_array(path)
    if array.dtype != dtype or array.ndim != 1 or length not in (None, len(array)):
        raise ValueError(f"{path.name} holds {array.dtype} {array.shape}")
    return array
