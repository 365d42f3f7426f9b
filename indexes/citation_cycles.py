"""Finding out whether papers cite each other in circles, which dates should make impossible."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def papers_in_cycles(src: NDArray[np.int32], dst: NDArray[np.int32], papers: int) -> int:
    """How many papers lie on a circle of citations, or on a path from one circle to another.

    Papers that nobody left cites, then those that cite nobody left, are taken away until none
    is; what remains are those.

    Args:
        src: the citing paper of each edge, numbered from 0.
        dst: the cited one.
        papers: how many there are.
    """
    alive = _peeled(src, dst, np.ones(papers, bool))
    inner = alive[src] & alive[dst]
    return int(_peeled(dst[inner], src[inner], alive).sum())


def _peeled(
    src: NDArray[np.int32], dst: NDArray[np.int32], alive: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Who is left after taking away, again and again, every paper that no edge leads to."""
    alive = alive.copy()
    order = np.argsort(src, kind="stable")
    heads = dst[order]
    starts = np.searchsorted(src[order], np.arange(len(alive) + 1))
    incoming = np.bincount(dst, minlength=len(alive))
    gone = np.flatnonzero(alive & (incoming == 0))
    while len(gone):
        alive[gone] = False
        sizes = starts[gone + 1] - starts[gone]
        # The edges of all who go, end to end: places 0, 1, 2 … behind each one's start.
        behind = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        reached, lost = np.unique(
            heads[np.repeat(starts[gone], sizes) + behind], return_counts=True
        )
        incoming[reached] -= lost
        gone = reached[(incoming[reached] == 0) & alive[reached]]
    return alive
