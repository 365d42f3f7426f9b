"""The best k of a score for every document."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BLOCK = 256
"""Documents that share one maximum."""

_ROUNDING = 1e-6
"""Relative; more than casting a score to float32 can change it."""


def best_documents(
    totals: NDArray[np.float64], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The k best documents and their float32 scores: score descending, then number ascending.

    Scores are cast before ties are decided: two float64 sums that differ may be one float32.

    Args:
        totals: one score a document, 0 for those without any term; a multiple of ``BLOCK`` long.
        k: how many at most.
    """
    if len(totals) // BLOCK <= max(k, 50):
        return _best(np.flatnonzero(totals), totals, k)
    return best_by_blocks(totals, k)


def best_by_blocks(
    totals: NDArray[np.float64], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The same, looking only into blocks that can hold one of the k best."""
    blocks = totals.reshape(-1, BLOCK)
    maxima = np.maximum.reduceat(totals, np.arange(0, len(totals), BLOCK))
    # The k-th best block has a document this good, so k documents are.
    floor = np.partition(maxima, len(maxima) - k)[len(maxima) - k] if k <= len(maxima) else 0.0
    floor = max(floor * (1 - _ROUNDING), np.nextafter(0, 1))
    chosen = np.flatnonzero(maxima >= floor)
    rows, columns = np.nonzero(blocks[chosen] >= floor)
    return _best(chosen[rows] * BLOCK + columns, totals, k)


def _best(
    documents: NDArray[np.int64], totals: NDArray[np.float64], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Order ascending document numbers by their scores, keeping the first k."""
    scores = totals[documents].astype(np.float32)
    surplus = len(scores) - k
    if surplus > 0:
        kept = np.flatnonzero(scores >= np.partition(scores, surplus)[surplus])
        documents, scores = documents[kept], scores[kept]
    # Stable, so equal scores stay in the order of their documents.
    order = np.argsort(-scores, kind="stable")[:k]
    return documents[order], scores[order]
