"""Reading an index's files: small arrays mapped, postings read in pieces, terms looked up."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.errors import DataDamaged
from agentgym_suite.files import load_array
from agentgym_suite.literals import reread

PIECE = 1 << 15
"""Postings read at a time; what a piece needs stays in the processor's cache."""

_TERM_CACHE_SIZE = 1 << 16


def mapped(path: Path) -> NDArray[Any]:
    """A memory-mapped array; nothing is read before it is used."""
    try:
        return load_array(path)
    except ValueError as error:
        raise DataDamaged(f"{path} is not an array file; build the index again") from error


class ArrayFile:
    """A one-dimensional ``.npy`` array whose pieces are read into the caller's buffers.

    Mapping it would count every posting ever touched as this process's memory, and fault it
    in page by page when the page cache is cold.
    """

    def __init__(self, path: Path) -> None:
        try:
            shape, dtype, self._offset = reread(lambda: _header(path))
        except ValueError as error:
            raise DataDamaged(f"{path} is not an array file; build the index again") from error
        self.dtype = dtype
        self.size = int(shape[0])
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY)
        self.close = weakref.finalize(self, os.close, self._descriptor)
        # At exit abandoned threads may still read; the system closes what is open.
        self.close.atexit = False

    def read(self, start: int, out: NDArray[Any]) -> None:
        """Fill ``out`` with the elements from ``start`` on; safe in several threads at once."""
        target = out.data.cast("B")
        offset = self._offset + start * out.itemsize
        while target:
            count = os.preadv(self._descriptor, [target], offset)
            if count <= 0:
                raise DataDamaged(f"{self._path} ends early; build the index again")
            target = target[count:]
            offset += count


def _header(path: Path) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape and type of an array file, and where its numbers begin."""
    with path.open("rb") as stream:
        np.lib.format.read_magic(stream)
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        return shape, dtype, stream.tell()


class Terms:
    """The term dictionary: where a term's postings are.

    Args:
        terms: every term in UTF-8, sorted by its bytes, end to end.
        term_starts: offsets into it, one more than there are terms.
        posting_starts: offsets into the postings, one more than there are terms.
    """

    def __init__(
        self,
        terms: NDArray[np.uint8],
        term_starts: NDArray[np.int64],
        posting_starts: NDArray[np.int64],
    ) -> None:
        self._terms = terms.data
        self._term_starts = term_starts
        self._posting_starts = posting_starts
        self._known: dict[str, tuple[int, int]] = {}

    def postings(self, term: str) -> tuple[int, int]:
        """The first posting of a term and the one behind its last; equal for unknown terms."""
        found = self._known.get(term)
        if found is None:
            found = self._find(term.encode("utf-8", "surrogatepass"))
            if len(self._known) >= _TERM_CACHE_SIZE:
                self._known.clear()
            self._known[term] = found
        return found

    def _find(self, wanted: bytes) -> tuple[int, int]:
        low, high = 0, len(self._term_starts) - 1
        end = high
        while low < high:
            middle = (low + high) // 2
            if self._term(middle) < wanted:
                low = middle + 1
            else:
                high = middle
        if low == end or self._term(low) != wanted:
            return 0, 0
        return int(self._posting_starts[low]), int(self._posting_starts[low + 1])

    def _term(self, number: int) -> bytes:
        return bytes(self._terms[self._term_starts[number] : self._term_starts[number + 1]])
