"""Exact search over float32 vectors by several ways of scanning, all with one identical answer.

A scan only finds candidates, with whatever arithmetic is fast, and says how good a row that it did
not list can be at most. The candidates are scored anew in one way (products and sums in float64,
rounded once to float32), and the list is final when its k-th score is above that bound; otherwise
more candidates are asked for. So batch size, threads and kernels decide the time, never a score.

Bounds, for a query q and a row x of the index, with u the rounding unit 2**-24 of float32:

* float32 in any order of summation: |q| |x| (dim + 2) u.
* bfloat16: q and x are rounded, q = q' + e, x = x' + f, so the product changes by at most
  |e| |x| + |q'| |f|; all four are known. The sum is kept in float32, its result is rounded by at
  most 2**-8 of itself. This is tighter than the general 2**-7 + 2**-8 of unit vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.indexes.dense_kinds import load_faiss
from agentgym_suite.indexes.thread_counts import ProcessLock

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]

FAISS, NUMPY, BFLOAT16 = "faiss", "numpy", "bfloat16"

_UNIT = 2.0**-24
_BFLOAT_UNIT = 2.0**-8
_SLACK = 1.01
"""The bounds are themselves computed in floating point."""

_TINY = 1e-30
"""More than products that are too small for a float can add up to."""

_SCORED_AT_ONCE = 1024
_MOST_SCORES = 1 << 26
"""Scores that a matrix product may hold at once: 256 MB."""

_CONVERTED_AT_ONCE = 1 << 14

_NOTHING: tuple[Rows, Floats] = (np.empty(0, np.int64), np.empty(0, np.float32))


@dataclass(frozen=True, slots=True)
class Candidates:
    """What a scan lists for one query.

    Attributes:
        rows: rows of the index, in any order.
        scores: their scores as they are reported, float32.
        ceiling: no row that is not listed has a higher score.
    """

    rows: Rows
    scores: Floats
    ceiling: float


class Scan(Protocol):
    """One way of finding candidates."""

    def least(self, k: int) -> int:
        """How many candidates to ask for first."""
        ...

    def candidates(self, queries: Floats, count: int) -> list[Candidates]:
        """At least the ``count`` best for each query by the scan's own arithmetic, all if fewer."""
        ...


def best_rows(
    scan: Scan, queries: Floats, k: int, rows: int, fallback: Scan | None = None
) -> list[tuple[Rows, Floats]]:
    """All rows whose score is one of the k best, ties of the k-th included, in any order.

    Args:
        scan: finds the candidates.
        queries: one a row.
        k: at least 1.
        rows: how many the index has.
        fallback: takes over when the scan's bound is too loose to settle a query.
    """
    found: list[tuple[Rows, Floats]] = [_NOTHING] * len(queries)
    pending = np.arange(len(queries))
    count = min(rows, scan.least(k))
    while len(pending):
        left = []
        for place, listed in zip(pending, scan.candidates(queries[pending], count), strict=True):
            kept = _settled(listed, k, count, rows)
            if kept is None:
                left.append(place)
            else:
                found[place] = kept
        pending = np.array(left, np.int64)
        count = min(2 * count, rows)
        if fallback is not None and count > max(16 * scan.least(k), rows // 16):
            scan, fallback = fallback, None
            count = min(rows, scan.least(k))
    return found


def _settled(listed: Candidates, k: int, count: int, rows: int) -> tuple[Rows, Floats] | None:
    """The rows that are certainly the best, or None when others could be among them."""
    scores = listed.scores
    if len(scores) < k:
        return listed.rows, scores  # there are no more
    kth = np.partition(scores, len(scores) - k)[len(scores) - k]
    if count < rows and len(scores) >= count and not kth > listed.ceiling:
        return None
    kept = np.flatnonzero(scores >= kth)
    return listed.rows[kept], scores[kept]


def exact_scores(vectors: Floats, rows: Rows, query: Floats) -> Floats:
    """The inner products of some rows with a query: summed in float64, rounded once to float32.

    A product of two float32 is exact in float64, and numpy sums a row of one length always in the
    same order, so a score depends on the query and the row alone.
    """
    scores = np.empty(len(rows), np.float32)
    wide = query.astype(np.float64)
    for start in range(0, len(rows), _SCORED_AT_ONCE):
        chosen = slice(start, start + _SCORED_AT_ONCE)
        products = vectors[rows[chosen]] * wide
        scores[chosen] = products.sum(axis=1)
    return scores


class FaissScan:
    """FAISS Flat: single scans for a few queries, BLAS for more (see ``lower_blas_threshold``)."""

    name = FAISS

    def __init__(self, index: Any, vectors: Floats, largest_norm: float) -> None:
        self._index = index
        self._vectors = vectors
        self._largest = largest_norm

    def least(self, k: int) -> int:
        """A few more than k: float32 hardly changes an order."""
        return 2 * k + 8

    def candidates(self, queries: Floats, count: int) -> list[Candidates]:
        """See ``Scan``."""
        scores, rows = self._index.search(queries, count)
        margins = _float32_margins(queries, self._largest)
        return _rescored(self._vectors, queries, rows, scores[:, -1] + margins)


class NumpyScan:
    """One matrix product over all rows, and a partition."""

    name = NUMPY

    def __init__(self, vectors: Floats, largest_norm: float) -> None:
        self._vectors = vectors
        self._largest = largest_norm

    def least(self, k: int) -> int:
        """A few more than k: float32 hardly changes an order."""
        return 2 * k + 8

    def candidates(self, queries: Floats, count: int) -> list[Candidates]:
        """See ``Scan``."""
        return in_pieces(queries, len(self._vectors), lambda piece: self._piece(piece, count))

    def _piece(self, queries: Floats, count: int) -> list[Candidates]:
        scores = queries @ self._vectors.T
        surplus = scores.shape[1] - count
        rows = np.argpartition(scores, surplus, axis=1)[:, surplus:]
        last = np.take_along_axis(scores, rows[:, :1], axis=1)[:, 0]
        margins = _float32_margins(queries, self._largest)
        return _rescored(self._vectors, queries, rows, last + margins)


class BfloatScan:
    """A bfloat16 copy of the vectors, multiplied by torch; made at the first search.

    Worth it on processors that multiply bfloat16 (``avx512_bf16``, ``amx_bf16``).
    """

    name = BFLOAT16

    def __init__(self, vectors: Floats, largest_norm: float) -> None:
        self._vectors = vectors
        self._largest = largest_norm
        self._lock = ProcessLock()
        self._copy: tuple[Any, float] | None = None

    def least(self, k: int) -> int:
        """Enough that the bound of bfloat16 mostly settles it at once."""
        return max(64, 4 * k)

    def candidates(self, queries: Floats, count: int) -> list[Candidates]:
        """See ``Scan``."""
        return in_pieces(queries, len(self._vectors), lambda piece: self._piece(piece, count))

    def _piece(self, queries: Floats, count: int) -> list[Candidates]:
        import torch

        narrow, largest_error = self._narrow()
        with torch.inference_mode():
            own = torch.from_numpy(queries).to(torch.bfloat16)
            best = torch.topk(own @ narrow.T, count, dim=1)
            rows = best.indices.numpy()
            last = best.values[:, -1].float().numpy().astype(np.float64)
            kept = own.float().numpy().astype(np.float64)
        lost = np.linalg.norm(queries - kept, axis=1)
        size = np.linalg.norm(kept, axis=1)
        margins = lost * self._largest + size * largest_error
        margins += 2 * size * self._largest * queries.shape[1] * _UNIT
        margins += _BFLOAT_UNIT * np.abs(last)
        return _rescored(self._vectors, queries, rows, last + margins * _SLACK + _TINY)

    def _narrow(self) -> tuple[Any, float]:
        """The copy, and the length of the largest rounding error of a row."""
        if self._copy is None:
            with self._lock:
                if self._copy is None:
                    self._copy = _to_bfloat16(self._vectors)
        return self._copy


class ListedScan:
    """A kind of index that reports its own scores: what FAISS lists is what is found.

    Args:
        index: a FAISS index.
        one_by_one: for IVF, whose choice of lists goes through BLAS in a batch.
    """

    def __init__(self, index: Any, one_by_one: bool) -> None:
        self._index = index
        self._one_by_one = one_by_one

    def least(self, k: int) -> int:
        """A few more than k, so that ties of the k-th are seen."""
        return k + 8

    def candidates(self, queries: Floats, count: int) -> list[Candidates]:
        """See ``Scan``; without the padding of -1 that stands for "nothing more"."""
        step = 1 if self._one_by_one else len(queries)
        found = []
        for start in range(0, len(queries), step):
            for scores, rows in zip(
                *self._index.search(queries[start : start + step], count), strict=True
            ):
                there = rows >= 0
                found.append(Candidates(rows[there], scores[there], float(scores[-1])))
        return found


def lower_blas_threshold(dim: int) -> int:
    """Let FAISS use BLAS for batches of four queries and more of this dimension.

    The variable belongs to the whole process and is compared with queries x dimension. As shipped
    (128,000) batches run as single scans, and at 20 single queries pay for BLAS. It is only ever
    lowered, so that the smallest dimension in the process decides.
    """
    faiss = load_faiss()
    threshold = min(int(faiss.cvar.distance_compute_blas_threshold), 4 * dim)
    faiss.cvar.distance_compute_blas_threshold = threshold
    return threshold


def in_pieces(
    queries: Floats, rows: int, search: Callable[[Floats], Sequence[Candidates]]
) -> list[Candidates]:
    """Search as many queries at once as their scores may take memory."""
    step = max(1, _MOST_SCORES // max(rows, 1))
    found: list[Candidates] = []
    for start in range(0, len(queries), step):
        found += search(queries[start : start + step])
    return found


def _float32_margins(queries: Floats, largest_norm: float) -> NDArray[np.float64]:
    lengths = np.linalg.norm(queries.astype(np.float64), axis=1)
    margins: NDArray[np.float64] = (
        lengths * (largest_norm * (queries.shape[1] + 2) * _UNIT * _SLACK) + _TINY
    )
    return margins


def _rescored(
    vectors: Floats, queries: Floats, rows: Rows, ceilings: NDArray[np.float64]
) -> list[Candidates]:
    found = []
    for query, listed, ceiling in zip(queries, rows, ceilings, strict=True):
        there = listed[listed >= 0]  # FAISS pads with -1
        found.append(Candidates(there, exact_scores(vectors, there, query), float(ceiling)))
    return found


def _to_bfloat16(vectors: Floats) -> tuple[Any, float]:
    import torch

    rows, dim = vectors.shape
    narrow = torch.empty((rows, dim), dtype=torch.bfloat16)
    largest = 0.0
    for start in range(0, rows, _CONVERTED_AT_ONCE):
        # A copy: torch warns of arrays that it may not write, such as mapped ones.
        piece = torch.from_numpy(np.array(vectors[start : start + _CONVERTED_AT_ONCE]))
        rounded = piece.to(torch.bfloat16)
        narrow[start : start + len(piece)] = rounded
        lost = torch.linalg.vector_norm(piece - rounded.float(), dim=1)
        largest = max(largest, float(lost.max()))
    return narrow, largest
