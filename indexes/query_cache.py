"""Vectors of queries that were encoded before: the same search comes again and again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.indexes.thread_counts import ProcessLock


class QueryCache:
    """Keeps the vectors of the queries used last; threads may share it.

    Args:
        size: how many are kept; 0 keeps none.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._known: OrderedDict[str, NDArray[np.float32]] = OrderedDict()
        self._lock = ProcessLock()

    def vectors(
        self,
        queries: Sequence[str],
        encode: Callable[[Sequence[str]], NDArray[np.float32]],
    ) -> NDArray[np.float32]:
        """A [queries, dim] array; those that are not known are encoded in one batch.

        Args:
            queries: at least one, blank ones left out.
            encode: gives the vectors of different texts.
        """
        with self._lock:
            found = {query: self._known[query] for query in queries if query in self._known}
        fresh = [query for query in dict.fromkeys(queries) if query not in found]
        if fresh:
            # Copies, because a view would keep the vectors of a whole batch alive.
            found.update(
                (query, row.copy()) for query, row in zip(fresh, encode(fresh), strict=True)
            )
        with self._lock:
            for query in queries:
                self._known[query] = found[query]
                self._known.move_to_end(query)
            while len(self._known) > self._size:
                self._known.popitem(last=False)
        return np.stack([found[query] for query in queries])
