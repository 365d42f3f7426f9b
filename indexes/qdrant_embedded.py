"""Qdrant in this process: points in a folder, by qdrant-edge-py.

The engine searches in threads of its own. They do not survive a fork: a forked child opens the
folder again and leaves the parent's shard alone. Searching changes no file, so processes may share
the folder; but the engine opens its files for writing, so that it must be allowed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.errors import MissingExtra, RetrievalError, reason_of
from agentgym_suite.indexes.qdrant_points import (
    ANY_DAY,
    DAY,
    FULL_SCAN_KB,
    ID,
    INT8,
    Days,
    PointOptions,
    PointSearch,
    payloads,
)
from agentgym_suite.indexes.thread_counts import ProcessLock

_MEND = "build the index again"
_READ_ONLY = "it opens its files for writing: allow that, or copy the index to where it is allowed"
_NEVER_KB = 1 << 40
"""More than there will be."""


def load_edge() -> ModuleType:
    """The engine, imported when it is needed.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        import qdrant_edge
    except ImportError as error:
        raise MissingExtra("retrieval", "a Qdrant index in a folder") from error
    module: ModuleType = qdrant_edge
    return module


class EmbeddedPoints:
    """A folder of points, opened for searching; see ``Points``.

    Args:
        folder: what ``EmbeddedWriter`` filled.
        dim: numbers in a vector.
        rows: points that must be there.

    Raises:
        MissingExtra: the engine is not installed.
        RetrievalError: the engine cannot open the folder, or it holds other points.
    """

    def __init__(self, folder: Path, dim: int, rows: int) -> None:
        self.folder = folder
        self._edge = load_edge()
        self._lock = ProcessLock()
        self._opened: tuple[int, Any] | None = None
        self._of_parents: list[Any] = []
        found = self._shard().info().points_count
        if found != rows:
            raise RetrievalError(f"{folder} holds {found} points instead of {rows}; {_MEND}")
        self._dim = dim

    def search(
        self, vectors: NDArray[np.float32], how: PointSearch
    ) -> list[list[tuple[float, str]]]:
        """(score, id) of the nearest points of each vector; see ``Points``."""
        edge = self._edge
        quantization = edge.QuantizationSearchParams(rescore=True, oversampling=2.0)
        params = edge.SearchParams(
            hnsw_ef=how.ef,
            exact=how.exact,
            quantization=quantization if how.rescore else None,
        )
        requests = [
            edge.QueryRequest(
                query=edge.Query.Nearest(vector),
                limit=how.limit,
                filter=_filter(edge, how.days),
                params=params,
                with_payload=[ID],
            )
            for vector in vectors.tolist()
        ]
        shard = self._shard()
        with _explained(self.folder):
            found = shard.query_batch(edge.QueryBatchRequest(requests))
            return [[(point.score, point.payload[ID]) for point in points] for points in found]

    def count(self, days: Days) -> int:
        """How many points are of these days."""
        shard = self._shard()
        with _explained(self.folder):
            request = self._edge.CountRequest(exact=True, filter=_filter(self._edge, days))
            return int(shard.count(request))

    def engine(self) -> str:
        """Name and version of the engine."""
        return f"qdrant-edge-py {version('qdrant-edge-py')}"

    def close(self) -> None:
        """Close the folder; the next search opens it again."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None and opened[0] == os.getpid():
            opened[1].close()

    def _shard(self) -> Any:
        opened = self._opened
        if opened is None or opened[0] != os.getpid():
            with self._lock:
                opened = self._opened
                if opened is None or opened[0] != os.getpid():
                    if opened is not None:
                        # Letting go of it here would wait for threads that only the parent has.
                        self._of_parents.append(opened[1])
                    with _explained(self.folder):
                        opened = os.getpid(), self._edge.EdgeShard.load(str(self.folder))
                    self._opened = opened
        return opened[1]


class EmbeddedWriter:
    """Fills a folder with points; see ``PointWriter``.

    Args:
        folder: what is there is removed.
        dim: numbers in a vector.
        options: how they are stored.
        dated: whether the points have days.
        graph: whether they are joined into one; few are searched as fast without.
        threads: that join them into the graph; with 1 nothing depends on their timing.

    Raises:
        MissingExtra: the engine is not installed.
        RetrievalError: the engine cannot write there.
    """

    def __init__(
        self,
        folder: Path,
        dim: int,
        options: PointOptions,
        *,
        dated: bool,
        graph: bool,
        threads: int,
    ) -> None:
        self._edge = edge = load_edge()
        self._folder = folder
        if folder.is_dir():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        joined = edge.HnswIndexConfig(
            m=options.m,
            ef_construct=options.ef_construct,
            full_scan_threshold=FULL_SCAN_KB,
            max_indexing_threads=threads,
        )
        quantised = edge.ScalarQuantizationConfig(type=edge.ScalarType.Int8, always_ram=True)
        vectors = edge.EdgeVectorParams(
            size=dim,
            distance=edge.Distance.Dot,
            hnsw_config=joined,
            quantization_config=quantised if options.quantization == INT8 else None,
            memory=edge.Memory.Cold if options.on_disk else edge.Memory.Cached,
        )
        # One segment, so that one graph joins all points and a search walks only one.
        optimizers = edge.EdgeOptimizersConfig(
            default_segment_number=1,
            indexing_threshold=1 if graph else _NEVER_KB,
            max_segment_size=_NEVER_KB,
        )
        with _explained(folder):
            self._shard = edge.EdgeShard.create(
                str(folder),
                # Nobody reads a build that was killed, so that its log would be of no use.
                edge.EdgeConfig(vectors=vectors, optimizers=optimizers, wal_enabled=False),
            )
            if dated:
                self._shard.update(
                    edge.UpdateOperation.create_field_index(DAY, edge.PayloadSchemaType.Integer)
                )

    def add(
        self, first: int, ids: Sequence[str], vectors: NDArray[np.float32], days: Sequence[int]
    ) -> None:
        """Write the points ``first``, ``first + 1`` …; see ``PointWriter``."""
        rows = zip(vectors.tolist(), payloads(ids, days), strict=True)
        points = [
            self._edge.Point(first + place, vector, payload)
            for place, (vector, payload) in enumerate(rows)
        ]
        with _explained(self._folder):
            self._shard.update(self._edge.UpdateOperation.upsert_points(points))

    def finish(self) -> None:
        """Build the graph and bring everything to the disk."""
        with _explained(self._folder):
            self._shard.optimize()
            self._shard.flush()
            self._shard.close()
            # Opened for the first time the engine completes its settings; later it leaves them.
            self._edge.EdgeShard.load(str(self._folder)).close()


def _filter(edge: ModuleType, days: Days) -> Any:
    if days == ANY_DAY:
        return None
    allowed = edge.RangeFloat(gte=days.since, lt=days.before)
    return edge.Filter(must=[edge.FieldCondition(DAY, range=allowed)])


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    # The engine raises nothing narrower.
    except Exception as error:
        reason = reason_of(error)
        writable = all(os.access(path, os.W_OK) for path in (folder, *folder.rglob("*")))
        mend = _MEND if writable else _READ_ONLY
        raise RetrievalError(f"Qdrant fails in {folder} ({reason}); {mend}") from error
