"""Reciprocal rank fusion: several ranked lists become one, the same whatever their order."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm

from agentgym_suite.errors import UsageError
from agentgym_suite.indexes.hits import Hits

RRF_K = 60
"""What is added to every rank: the constant of Cormack, Clarke and Buettcher (SIGIR 2009)."""


def rrf(lists: Sequence[Sequence[str]], *, k: int = RRF_K) -> list[tuple[str, float]]:
    """Fuse ranked lists of ids: each adds ``1 / (k + rank)`` to an id, with ranks from 1.

    Order: score descending, compared as exact fractions; then the best single rank; then id
    ascending. An id that comes twice in a list counts once, at its better rank.

    Args:
        lists: ids, best first; any number of lists of any length.
        k: from 0 on; smaller values give more to the first ranks.

    Returns:
        Every id with its score.

    Raises:
        UsageError: ``k`` is no integer from 0 on.
    """
    if not isinstance(k, int) or isinstance(k, bool) or k < 0:
        raise UsageError(f"k of the fusion is {k!r}; give an integer from 0 on")
    distinct = [list(dict.fromkeys(ids)) for ids in lists]
    longest = max(map(len, distinct), default=0)
    # Over one common denominator the scores are integers: exact, and quick to compare.
    whole = lcm(*range(k + 1, k + longest + 1))
    parts = [whole // (k + rank) for rank in range(1, longest + 1)]
    totals: dict[str, int] = {}
    best_ranks: dict[str, int] = {}
    for ids in distinct:
        for rank, identifier in enumerate(ids):
            totals[identifier] = totals.get(identifier, 0) + parts[rank]
            best_ranks[identifier] = min(rank, best_ranks.get(identifier, rank))
    ordered = sorted(totals, key=lambda found: (-totals[found], best_ranks[found], found))
    return [(identifier, totals[identifier] / whole) for identifier in ordered]


def fuse(lists: Sequence[Hits], limit: int, *, k: int = RRF_K) -> Hits:
    """``rrf`` of result lists, whose equally scored ids are put in their order first.

    Args:
        lists: results of several indexes for one query.
        limit: at most so many ids are returned.
        k: as in ``rrf``.
    """
    ordered = []
    for hits in lists:
        pairs = sorted(zip(hits.ids, hits.scores, strict=True), key=lambda hit: (-hit[1], hit[0]))
        ordered.append([identifier for identifier, _ in pairs])
    fused = rrf(ordered, k=k)[:limit]
    return Hits(tuple(found for found, _ in fused), tuple(score for _, score in fused))
