"""Searching a BM25 index with exactly Lucene's scores and order, without Java.

Bag of words: a term that occurs n times in the query weighs n, and no character is an
operator. A term adds ``w - w / (1 + f * inv)`` to each of its documents, in float32 as
Lucene's BM25Similarity computes it (k1 0.9, b 0.4, Anserini's); the parts are summed in
float64, where the order of the terms cannot matter, and the sum is cast to float32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from math import log
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.data import Manifest, read_manifest
from agentgym_suite.errors import UsageError
from agentgym_suite.files import explain_damage
from agentgym_suite.indexes import bm25_files as files
from agentgym_suite.indexes.analyzer import Analyzer
from agentgym_suite.indexes.bm25_postings import PIECE, ArrayFile, Terms, mapped
from agentgym_suite.indexes.bm25_top import BLOCK, best_documents
from agentgym_suite.indexes.hits import Hits

__all__ = ["BM25Index", "Hits"]

_RARE = 1024
"""A term with at most as many postings is summed together with others, without a table."""

_IDLE_WORKSPACES = 4
"""Buffers kept for reuse between searches: 8 bytes a document each."""


class BM25Index:
    """A built index, opened for searching; threads and forked processes may share it.

    Made by ``open``. Pickling keeps the folder's path only: the copy opens it again.

    Args:
        folder: where the index lies.
        manifest: its manifest, checked.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        counts = self.manifest.counts
        with explain_damage(folder):
            self._size = counts["documents"]
            self._scored = counts["scored_documents"]
            self._terms = Terms(
                mapped(folder / files.TERMS),
                mapped(folder / files.TERM_STARTS),
                mapped(folder / files.POSTING_STARTS),
            )
            self._documents = ArrayFile(folder / files.DOCUMENTS)
            self._pairs = ArrayFile(folder / files.PAIRS)
            self._denominators = files.pair_denominators(
                mapped(folder / files.PAIR_TABLE), counts["tokens"], self._scored
            )
            self._ids = mapped(folder / files.IDS).data
            self._id_starts = mapped(folder / files.ID_STARTS)
        self._analyzer = Analyzer()
        self._idle: list[_Workspace] = []

    @classmethod
    def open(cls, folder: Path | str) -> BM25Index:
        """Open the index in ``folder``; reads the manifest and no posting.

        Raises:
            DataMissing: no index is there.
            DataVersion: it was written in another format version.
            DataDamaged: a file is absent, has another size than its manifest says, or is no array.
        """
        folder = Path(folder)
        manifest = read_manifest(folder, kind=files.KIND, version=files.VERSION, mend=files.MEND)
        return cls(folder, manifest)

    def __reduce__(self) -> tuple[Callable[[Path], BM25Index], tuple[Path]]:
        return type(self).open, (self.folder,)

    def __len__(self) -> int:
        return self._size

    @property
    def digest(self) -> str:
        """``sha256:<hex>`` of the index's contents."""
        return self.manifest.digest

    def search(self, query: str, k: int = 50) -> Hits:
        """The k best documents for a query, which is analysed as the documents were.

        Raises:
            UsageError: ``k`` is below 1.
            DataDamaged: the index is not as it was built.
        """
        return self.search_tokens(self._analyzer(query), k)

    def search_tokens(self, tokens: Iterable[str], k: int = 50) -> Hits:
        """The k best documents for a query that is analysed already; order has no meaning.

        Raises:
            UsageError: ``k`` is below 1.
            DataDamaged: the index is not as it was built.
        """
        if k < 1:
            raise UsageError(f"k is {k}; ask for at least 1 document")
        counted = Counter(tokens)
        with explain_damage(self.folder):
            return self._best(counted, k)

    def _best(self, counted: Counter[str], k: int) -> Hits:
        terms = []
        for term, times in counted.items():
            start, stop = self._terms.postings(term)
            if start < stop:
                terms.append((start, stop, self._weight(stop - start, times)))
        if not terms:
            return Hits((), ())
        try:
            space = self._idle.pop()
        except IndexError:
            space = _Workspace(self._size, self._pairs.dtype)
        rare = [term for term in terms if term[1] - term[0] <= _RARE]
        self._add_rare(space, rare)
        for start, stop, weight in terms:
            if stop - start > _RARE:
                self._add_frequent(space, start, stop, weight)
        documents, scores = best_documents(space.totals, k)
        space.totals.fill(0)
        if len(self._idle) < _IDLE_WORKSPACES:
            self._idle.append(space)
        return Hits(self._names(documents), tuple(scores.tolist()))

    def _weight(self, document_count: int, times: int) -> np.float32:
        odds = (self._scored - document_count + 0.5) / (document_count + 0.5)
        return np.float32(log(1 + odds)) * np.float32(times)

    def _add_rare(self, space: _Workspace, terms: list[tuple[int, int, np.float32]]) -> None:
        """Add the parts of terms with few postings, many terms at a time."""
        most = PIECE // _RARE
        for first in range(0, len(terms), most):
            filled = 0
            counts = []
            weights = []
            for start, stop, weight in terms[first : first + most]:
                count = stop - start
                self._documents.read(start, space.documents[filled : filled + count])
                self._pairs.read(start, space.pairs[filled : filled + count])
                filled += count
                counts.append(count)
                weights.append(weight)
            weight_of = np.repeat(np.array(weights, np.float32), counts)
            parts = weight_of - weight_of / self._denominators[space.pairs[:filled]]
            places = space.places[:filled]
            places[:] = space.documents[:filled]
            np.add.at(space.totals, places, parts.astype(np.float64))

    def _add_frequent(self, space: _Workspace, start: int, stop: int, weight: np.float32) -> None:
        """Add the parts of one term with many postings, through the table of pairs."""
        gains = (weight - weight / self._denominators).astype(np.float64)
        for first in range(start, stop, PIECE):
            count = min(PIECE, stop - first)
            documents, pairs = space.documents[:count], space.pairs[:count]
            self._documents.read(first, documents)
            self._pairs.read(first, pairs)
            places, parts = space.places[:count], space.parts[:count]
            places[:] = documents
            # "clip" writes straight into `out`; no pair is out of range.
            np.take(gains, pairs, out=parts, mode="clip")
            np.add.at(space.totals, places, parts)

    def _names(self, documents: NDArray[np.int64]) -> tuple[str, ...]:
        starts = self._id_starts[documents].tolist()
        stops = self._id_starts[documents + 1].tolist()
        ids = self._ids
        return tuple(
            [str(ids[start:stop], "utf-8") for start, stop in zip(starts, stops, strict=True)]
        )


class _Workspace:
    """The buffers of one search: a total for every document, and one piece of postings."""

    def __init__(self, documents: int, pair_dtype: np.dtype[np.generic]) -> None:
        self.totals = np.zeros(-(-documents // BLOCK) * BLOCK, np.float64)
        self.documents = np.empty(PIECE, np.int32)
        self.pairs = np.empty(PIECE, pair_dtype)
        self.places = np.empty(PIECE, np.int64)
        self.parts = np.empty(PIECE, np.float64)
