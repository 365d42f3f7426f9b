"""The first pass of a build: every document's postings in a file, everything small in memory."""

from __future__ import annotations

import io
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.data import Progress
from agentgym_suite.errors import DataDamaged, UsageError
from agentgym_suite.indexes.bm25_files import length_codes
from agentgym_suite.indexes.bm25_invert import Batch, inverted

_POSTING_BYTES = 8


def collect(
    documents: Iterable[tuple[str, str]],
    forward: io.FileIO,
    workers: int,
    progress: Progress | None,
) -> Collection:
    """Analyse all documents; their postings go to ``forward``, an unbuffered file."""
    collection = Collection(forward)
    for ids, batch in inverted(documents, workers):
        collection.add(ids, batch)
        if progress is not None:
            progress("analyse", len(collection.ids), None)
    collection.finish()
    return collection


class Collection:
    """Analysed documents, numbered in the order in which they came.

    Attributes:
        ids: one a document.
        terms: the vocabulary, in the order in which it was met.
        distinct: int64, postings of each document; final after ``finish``.
        lengths: int64, tokens of each document; final after ``finish``.
        document_counts: int64, in how many documents each term occurs; final after ``finish``.
    """

    def __init__(self, forward: io.FileIO) -> None:
        self._forward = forward
        self._numbers: dict[str, int] = {}
        self._batches: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._pair_keys: set[int] = set()
        self._starts = np.zeros(1, np.int64)
        self.ids: list[str] = []
        self.terms: list[str] = []
        self.distinct = np.zeros(0, np.int64)
        self.lengths = np.zeros(0, np.int64)
        self.document_counts = np.zeros(1 << 16, np.int64)

    def add(self, ids: list[str], batch: Batch) -> None:
        """Append a batch of documents.

        Raises:
            UsageError: an id holds a lone surrogate, which no file can hold.
        """
        _refuse_unwritable(ids)
        numbers = self._numbers
        known = [numbers.setdefault(term, len(numbers)) for term in batch.vocabulary]
        terms = np.array(known, np.int32)[batch.terms]
        _write_all(self._forward, np.stack([terms, batch.frequencies], axis=1))
        self.ids += ids
        self._batches.append((batch.distinct, batch.lengths))
        codes = np.repeat(length_codes(batch.lengths), batch.distinct)
        keys = batch.frequencies.astype(np.int64) << 8 | codes
        self._pair_keys.update(np.unique(keys).tolist())
        while len(self.document_counts) < len(numbers):
            self.document_counts = np.concatenate(
                [self.document_counts, np.zeros_like(self.document_counts)]
            )
        # Within a document each term has one posting, so occurrences here are documents.
        np.add.at(self.document_counts, terms, 1)

    def finish(self) -> None:
        """Called after the last batch."""
        none = np.zeros(0, np.int64)
        self.distinct = np.concatenate([none, *(distinct for distinct, _ in self._batches)])
        self.lengths = np.concatenate([none, *(lengths for _, lengths in self._batches)])
        self._batches.clear()
        self.terms = list(self._numbers)
        self._numbers.clear()
        self.document_counts = self.document_counts[: len(self.terms)]
        self._starts = np.concatenate([self._starts, np.cumsum(self.distinct)])

    def pair_keys(self) -> NDArray[np.int64]:
        """The pairs that occur, ascending: term frequency * 256 + length code."""
        return np.array(sorted(self._pair_keys), np.int64)

    def postings(self, chosen: NDArray[np.int64]) -> NDArray[np.int32]:
        """(term, frequency) rows of some documents, one after the other."""
        rows = np.empty((int(self.distinct[chosen].sum()), 2), np.int32)
        target = rows.reshape(-1).view(np.uint8).data
        place = 0
        # Documents that came one after the other are read at once.
        breaks = np.flatnonzero(np.diff(chosen) != 1) + 1
        for run in np.split(chosen, breaks):
            first = int(self._starts[run[0]]) * _POSTING_BYTES
            size = int(self._starts[run[-1] + 1]) * _POSTING_BYTES - first
            self._forward.seek(first)
            _read_all(self._forward, target[place : place + size])
            place += size
        return rows


def _refuse_unwritable(ids: list[str]) -> None:
    try:
        "".join(ids).encode()
    except UnicodeEncodeError as error:
        around = error.object[max(0, error.start - 20) : error.end + 20]
        raise UsageError(
            f"a document id with a lone surrogate ({around!r}) cannot be written; mend that id"
        ) from error


def _write_all(stream: io.FileIO, rows: NDArray[np.int32]) -> None:
    left = memoryview(rows.tobytes())
    while left:
        left = left[stream.write(left) :]


def _read_all(stream: io.FileIO, target: memoryview) -> None:
    while target:
        count = stream.readinto(target)
        if not count:
            raise DataDamaged(f"{stream.name!s} ended early; run the same command again")
        target = target[count:]
