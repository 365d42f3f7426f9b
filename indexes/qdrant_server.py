"""Qdrant as a server: the points of one collection, through qdrant-client.

The client can also run without a server, over lists in its own memory. That mode looks at every
point in numpy and is refused for more than 20,000 of them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from importlib.metadata import version
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.errors import RetrievalError
from agentgym_suite.indexes.qdrant_connection import QdrantServer
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

LOCAL_MODE_POINTS = 20_000

_POLL_S = 1.0


class ServerPoints:
    """The points of a collection, opened for searching; see ``Points``.

    Args:
        server: where it is.
        collection: its name.
        dim: numbers in a vector; None for what the collection says.
        rows: points that must be there; None for what the collection says.

    Raises:
        RetrievalError: no usable answer came, there is no such collection, it has another
            dimension or number of points, or it is too large for the client's local mode.
    """

    def __init__(
        self, server: QdrantServer, collection: str, dim: int | None, rows: int | None
    ) -> None:
        self.server = server
        self.collection = collection
        about = server.ask(lambda client: client.get_collection(collection))
        found_dim = _dimension(about)
        if found_dim is None or dim not in (None, found_dim):
            raise RetrievalError(
                f"collection {collection} of {server} has vectors of dimension {found_dim}, not "
                f"{dim}; build the index again"
            )
        self.dim = found_dim
        self.rows = self.count(ANY_DAY)
        if rows not in (None, self.rows):
            raise RetrievalError(
                f"collection {collection} of {server} holds {self.rows} points instead of {rows}; "
                "build the index again"
            )
        refuse_local_mode(server, self.rows)

    def search(
        self, vectors: NDArray[np.float32], how: PointSearch
    ) -> list[list[tuple[float, str]]]:
        """(score, id) of the nearest points of each vector; see ``Points``."""
        from qdrant_client import models

        params = None
        if not self.server.local_mode:  # which is always exact, and warns of them
            rescored = models.QuantizationSearchParams(rescore=True, oversampling=2.0)
            params = models.SearchParams(
                hnsw_ef=how.ef, exact=how.exact, quantization=rescored if how.rescore else None
            )
        allowed = _filter(models, how.days)
        timeout = self.server.timeout_s
        if len(vectors) == 1:
            answers = [
                self.server.ask(
                    lambda client: client.query_points(
                        self.collection,
                        query=vectors[0].tolist(),
                        query_filter=allowed,
                        search_params=params,
                        limit=how.limit,
                        with_payload=[ID],
                        timeout=timeout,
                    )
                )
            ]
        else:
            requests = [
                models.QueryRequest(
                    query=vector,
                    filter=allowed,
                    params=params,
                    limit=how.limit,
                    with_payload=[ID],
                )
                for vector in vectors.tolist()
            ]
            answers = self.server.ask(
                lambda client: client.query_batch_points(
                    self.collection, requests=requests, timeout=timeout
                )
            )
        if len(answers) != len(vectors):
            raise self._unusable(f"{len(answers)} lists for {len(vectors)} queries")
        return [[self._scored(point) for point in answer.points] for answer in answers]

    def count(self, days: Days) -> int:
        """How many points are of these days."""
        from qdrant_client import models

        allowed = _filter(models, days)
        answer = self.server.ask(
            lambda client: client.count(
                self.collection, count_filter=allowed, exact=True, timeout=self.server.timeout_s
            )
        )
        return int(answer.count)

    def engine(self) -> str:
        """Name and version of the client."""
        return f"{self.server}, collection {self.collection}, qdrant-client " + version(
            "qdrant-client"
        )

    def close(self) -> None:
        """Close the connections."""
        self.server.close()

    def _scored(self, point: Any) -> tuple[float, str]:
        identifier = (point.payload or {}).get(ID)
        if not isinstance(identifier, str) or not math.isfinite(point.score):
            raise self._unusable(f"point {point.id} with score {point.score} and id {identifier!r}")
        return float(point.score), identifier

    def _unusable(self, what: str) -> RetrievalError:
        return RetrievalError(
            f"collection {self.collection} of {self.server} gave {what}; build the index again"
        )


class ServerWriter:
    """Fills a collection with points; see ``PointWriter``. It is made when it is not there.

    Args:
        server: where.
        collection: its name.
        dim: numbers in a vector.
        options: how they are stored.
        dated: whether the points have days.
        rows: how many will come.

    Raises:
        RetrievalError: no usable answer came, a collection of that name has another dimension, or
            there would be too many points for the client's local mode.
    """

    def __init__(
        self,
        server: QdrantServer,
        collection: str,
        dim: int,
        options: PointOptions,
        *,
        dated: bool,
        rows: int,
    ) -> None:
        from qdrant_client import models

        self._server = server
        self._collection = collection
        quantised = models.ScalarQuantization(
            scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
        )
        if not check_collection(server, collection, dim, rows):
            server.ask(
                lambda client: client.create_collection(
                    collection,
                    vectors_config=models.VectorParams(
                        size=dim, distance=models.Distance.DOT, on_disk=options.on_disk
                    ),
                    hnsw_config=models.HnswConfigDiff(
                        m=options.m,
                        ef_construct=options.ef_construct,
                        full_scan_threshold=FULL_SCAN_KB,
                    ),
                    quantization_config=quantised if options.quantization == INT8 else None,
                    timeout=server.timeout_s,
                )
            )
        if dated and not server.local_mode:  # which has no payload indexes, and warns of it
            server.ask(
                lambda client: client.create_payload_index(
                    collection, DAY, models.PayloadSchemaType.INTEGER, timeout=server.timeout_s
                )
            )

    def add(
        self, first: int, ids: Sequence[str], vectors: NDArray[np.float32], days: Sequence[int]
    ) -> None:
        """Write the points ``first``, ``first + 1`` …; see ``PointWriter``."""
        from qdrant_client import models

        batch = models.Batch(
            ids=list(range(first, first + len(ids))),
            vectors=vectors.tolist(),
            payloads=payloads(ids, days),
        )
        self._server.ask(
            lambda client: client.upsert(
                self._collection, batch, wait=True, timeout=self._server.timeout_s
            )
        )

    def finish(self) -> None:
        """Wait until the server has joined the points into its graph."""
        from qdrant_client import models

        def status() -> Any:
            return self._server.ask(lambda client: client.get_collection(self._collection)).status

        while status() == models.CollectionStatus.YELLOW:
            time.sleep(_POLL_S)
        self._server.close()


def check_collection(server: QdrantServer, collection: str, dim: int, points: int) -> bool:
    """Whether the collection is there; asked before anything is encoded for it.

    Raises:
        RetrievalError: no usable answer came, it has another dimension, or these are too many
            points for the client's local mode.
    """
    refuse_local_mode(server, points)
    if not server.ask(lambda client: client.collection_exists(collection)):
        return False
    found = _dimension(server.ask(lambda client: client.get_collection(collection)))
    if found != dim:
        raise RetrievalError(
            f"{server} has a collection {collection} with vectors of dimension {found}, not "
            f"{dim}; name another collection, or remove that one"
        )
    return True


def refuse_local_mode(server: QdrantServer, points: int) -> None:
    """See that the client's local mode is not used for more than it can do.

    Raises:
        RetrievalError: it is; names the two other ways.
    """
    if server.local_mode and points > LOCAL_MODE_POINTS:
        raise RetrievalError(
            f"qdrant-client without a server compares a query with each of the {points:,} points "
            f"in numpy, which is refused above {LOCAL_MODE_POINTS:,}; start a Qdrant server and "
            "give its url, or build the index in a folder, which runs the engine in this process"
        )


def _dimension(about: Any) -> int | None:
    vectors = about.config.params.vectors
    size = getattr(vectors, "size", None)  # None where there are several vectors to a point
    return int(size) if size is not None else None


def _filter(models: ModuleType, days: Days) -> Any:
    if days == ANY_DAY:
        return None
    allowed = models.Range(gte=days.since, lt=days.before)
    return models.Filter(must=[models.FieldCondition(key=DAY, range=allowed)])
