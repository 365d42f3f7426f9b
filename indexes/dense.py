"""Searching passages by meaning: a FAISS index of their vectors, and the encoder of the queries."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.data import Manifest, read_manifest
from agentgym_suite.errors import RetrievalError, UsageError
from agentgym_suite.files import Json, explain_damage
from agentgym_suite.indexes.corpus import Corpus
from agentgym_suite.indexes.dense_kinds import (
    FLAT,
    DenseKind,
    flat_vectors,
    load_faiss,
    map_index,
    parse_kind,
)
from agentgym_suite.indexes.dense_path import AUTO, FEW_QUERIES, ChosenPath, choose_path, new_scan
from agentgym_suite.indexes.dense_scan import (
    FAISS,
    Floats,
    ListedScan,
    Rows,
    Scan,
    best_rows,
    lower_blas_threshold,
)
from agentgym_suite.indexes.digests import ranking_digest
from agentgym_suite.indexes.encoders import Encoder
from agentgym_suite.indexes.hits import Hits
from agentgym_suite.indexes.passages import Found, Passage, check_search
from agentgym_suite.indexes.query_encoder import QueryEncoder
from agentgym_suite.indexes.thread_counts import ProcessThreads

KIND = "dense-index"
VERSION = 1
MEND = "build it with `agentgym-suite index build dense`"
VECTORS = "vectors.faiss"
MEASURES = "vectors.json"


@dataclass(frozen=True, slots=True)
class _Scans:
    """How an index is searched.

    Attributes:
        few: by fewer than ``FEW_QUERIES`` queries.
        many: by more.
        fallback: settles what ``many`` leaves open; None where nothing can be open.
        path: why ``many`` is what it is; None where there is no choice.
    """

    few: Scan
    many: Scan
    fallback: Scan | None = None
    path: ChosenPath | None = None


class DenseIndex:
    """A built index, opened for searching; threads and forked processes may share it.

    Made by ``open``. Pickling keeps the folder's path and the options: the copy opens it again.
    A forked child computes with one thread (see ``thread_counts``).

    Args:
        folder: where the index lies.
        manifest: its manifest, checked.
        encoder: of the queries; None for the one that the manifest names, opened when needed.
        threads: of the processor, None for what the libraries choose.
        scan: what a batch is searched with in a Flat index, by ``choose_path``.

    Raises:
        MissingExtra: FAISS is not installed.
        RetrievalError: the corpus is gone or has another size, or the encoder is another one.
        DataDamaged: the folder is not as it was built.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        encoder: Encoder | str | Path | None = None,
        *,
        threads: int | None = None,
        scan: str = AUTO,
    ) -> None:
        self.folder = folder
        self.manifest = manifest
        self._threads = ProcessThreads(threads)
        self._wanted_scan = scan
        with explain_damage(folder):
            self.dim = manifest.counts["dim"]
            self.kind = parse_kind(str(manifest.inputs["index_type"]))
            measures = json.loads((folder / MEASURES).read_text("utf-8"))
            largest_norm = float(measures["largest_norm"])
        self._encoder = QueryEncoder.of(folder, manifest, encoder, threads=threads)
        self._corpus = Corpus.of(folder, manifest)
        self._index = map_index(folder / VECTORS, self.kind, self.dim, len(self._corpus))
        self._threshold = lower_blas_threshold(self.dim)
        self._threads.apply()
        self._scans = _open_scans(self._index, self.kind, largest_norm, scan)
        self._closed = False

    @classmethod
    def open(
        cls,
        folder: Path | str,
        encoder: Encoder | str | Path | None = None,
        *,
        threads: int | None = None,
        scan: str = AUTO,
    ) -> DenseIndex:
        """Open the index in ``folder``, memory-mapped.

        Args:
            folder: where the index lies.
            encoder: of the queries, itself or as ``open_encoder`` takes it; None for the one that
                the manifest names, opened when the first text comes.
            threads: of the processor, None for what the libraries choose.
            scan: what batches are searched with in a Flat index: ``auto`` (timed now), ``faiss``,
                ``numpy`` or ``bfloat16``; the answers are the same.

        Raises:
            DataMissing: no index is there.
            DataVersion: it was written in another format version.
            DataDamaged: a file is absent or has another size than its manifest says.
            RetrievalError: the corpus is gone or has another size, or the encoder is another one.
            MissingExtra: FAISS is not installed.
            UsageError: ``threads`` or ``scan`` is wrong.
        """
        folder = Path(folder)
        manifest = read_manifest(folder, kind=KIND, version=VERSION, mend=MEND)
        return cls(folder, manifest, encoder, threads=threads, scan=scan)

    def __reduce__(self) -> tuple[Callable[..., DenseIndex], tuple[Any, ...]]:
        options = (self.folder, self._encoder.given, self._threads.threads, self._wanted_scan)
        return _reopen, options

    def __len__(self) -> int:
        return len(self._corpus)

    @property
    def digest(self) -> str:
        """``sha256:<hex>`` of the corpus's contents and of what decides the scores."""
        return ranking_digest(self.manifest, self._corpus.facts.sha256)

    def search(self, query: str, k: int) -> Hits:
        """The k best passages for a query; see ``RankedIndex``."""
        return self.search_batch([query], k)[0]

    def search_batch(self, queries: Sequence[str], k: int) -> list[Hits]:
        """``search`` for all queries at once, encoded as one batch."""
        return [hits for hits, _ in self._search_texts(queries, k)]

    def search_vectors(self, vectors: NDArray[np.floating[Any]], k: int) -> list[Hits]:
        """The k best passages for each vector, by inner product.

        Args:
            vectors: [queries, dim], cast to float32.
            k: at most so many for each.

        Raises:
            UsageError: ``k`` is below 1, or what is given are no real, finite numbers.
            RetrievalError: the vectors have another dimension than the index.
        """
        check_search([], k)
        array = _real_numbers(vectors)
        if array.ndim != 2 or array.shape[1] != self.dim:
            raise RetrievalError(
                f"vectors have the shape {array.shape}, the index {self.folder} has dimension "
                f"{self.dim}; give one row of {self.dim} numbers for each query"
            )
        if not np.isfinite(array).all():
            raise UsageError("a number of the query vectors is not finite; check their encoder")
        return [hits for hits, _ in self._search(np.ascontiguousarray(array), k)]

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        """The passages of these ids; see ``RankedIndex``."""
        return self._corpus.passages(ids)

    def retrieve(self, queries: Sequence[str], k: int) -> list[list[Found]]:
        """The best passages for each query; see ``PassageIndex``."""
        return [
            list(map(Found, map(self._corpus.row, rows), hits.scores))
            for hits, rows in self._search_texts(queries, k)
        ]

    def info(self) -> dict[str, Json]:
        """Kind, rows, corpus, encoder, parameters, engine, and how a batch is searched."""
        path = self._scans.path
        return {
            "kind": KIND,
            "rows": len(self),
            "dim": self.dim,
            "digest": self.digest,
            "corpus_sha256": self._corpus.facts.sha256,
            **self.manifest.inputs,
            "engine": f"FAISS {load_faiss().__version__}",
            "search_path": None if path is None else path.to_json(),
            "blas_threshold": self._threshold,
            "threads": self._threads.threads,
        }

    def close(self) -> None:
        """Give back the corpus file and refuse further searches; may be called twice."""
        self._closed = True
        self._corpus.close()

    def _search_texts(self, queries: Sequence[str], k: int) -> list[tuple[Hits, list[int]]]:
        check_search(queries, k)
        places = [place for place, query in enumerate(queries) if query.strip()]
        found: list[tuple[Hits, list[int]]] = [(Hits((), ()), []) for _ in queries]
        if places:
            vectors = self._encoder.vectors([queries[place] for place in places])
            for place, best in zip(places, self._search(vectors, k), strict=True):
                found[place] = best
        return found

    def _search(self, vectors: Floats, k: int) -> list[tuple[Hits, list[int]]]:
        if self._closed:
            raise RetrievalError(f"index {self.folder} was closed; open it again")
        self._threads.apply()
        scans = self._scans
        scan = scans.few if len(vectors) < FEW_QUERIES else scans.many
        fallback = None if scan is scans.fallback else scans.fallback
        best = best_rows(scan, vectors, k, len(self._corpus), fallback)
        return [self._ordered(rows, scores, k) for rows, scores in best]

    def _ordered(self, rows: Rows, scores: Floats, k: int) -> tuple[Hits, list[int]]:
        """Score descending, then id ascending, at most k."""
        found = [
            (-score, self._corpus.id(row), row)
            for score, row in zip(scores.tolist(), rows.tolist(), strict=True)
        ]
        found.sort()
        del found[k:]
        hits = Hits(tuple(one[1] for one in found), tuple(0.0 - one[0] for one in found))
        return hits, [one[2] for one in found]


def _open_scans(index: Any, kind: DenseKind, largest_norm: float, wanted: str) -> _Scans:
    if kind.name != FLAT:
        if wanted not in (AUTO, FAISS):
            raise UsageError(f"scan is {wanted!r}; an index of type {kind.name} has only {FAISS!r}")
        listed = ListedScan(index, one_by_one=bool(kind.lists))
        return _Scans(listed, listed)
    vectors = flat_vectors(index)
    path = choose_path(vectors, largest_norm, wanted)
    few = new_scan(FAISS, index, vectors, largest_norm)
    many = few if path.name == FAISS else new_scan(path.name, index, vectors, largest_norm)
    return _Scans(few, many, few, path)


def _real_numbers(vectors: object) -> Floats:
    """Vectors cast to float32; text and complex numbers would be cast in silence, or not at all."""
    try:
        array = np.asarray(vectors)
    except ValueError as error:  # rows of different lengths
        raise UsageError(f"the query vectors are no array ({error}); give equal rows") from error
    if array.dtype.kind not in "fiu":
        raise UsageError(f"the query vectors hold {array.dtype}; give an array of real numbers")
    with np.errstate(over="ignore"):  # too large is not finite, which is told
        return array.astype(np.float32)


def _reopen(
    folder: Path, encoder: Encoder | str | Path | None, threads: int | None, scan: str
) -> DenseIndex:
    return DenseIndex.open(folder, encoder, threads=threads, scan=scan)
