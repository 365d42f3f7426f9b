"""What Qdrant is asked for, whether it runs in this process or as a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.errors import UsageError
from agentgym_suite.files import Json

ID, DAY = "id", "day"
"""The payload of a point: the passage's id, and a day as YYYYMMDD where there are days."""

INT8 = "int8"
UPSERT_POINTS = 1_000
FULL_SCAN_KB = 10
"""Below this the engine scans by itself; kept small, because it guesses at random around it."""


@dataclass(frozen=True, slots=True)
class PointOptions:
    """How the points are stored and joined into a graph.

    Attributes:
        m: neighbours of a point in the HNSW graph.
        ef_construct: candidates while the graph is built.
        quantization: ``int8`` keeps a byte a number beside the vectors for the graph, and rescores
            with the vectors; None uses the vectors alone.
        on_disk: leave the vectors on the disk and the memory to the quantised ones.

    Raises:
        UsageError: one of them is wrong.
    """

    m: int = 32
    ef_construct: int = 200
    quantization: str | None = None
    on_disk: bool = False

    def __post_init__(self) -> None:
        for name, value in (("m", self.m), ("ef_construct", self.ef_construct)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 4:
                raise UsageError(f"{name} is {value!r}; give an integer of at least 4")
        if self.quantization not in (None, INT8):
            raise UsageError(f"quantization is {self.quantization!r}; give {INT8!r} or None")

    def to_json(self) -> dict[str, Json]:
        """What the manifest says of them."""
        return {
            "m": self.m,
            "ef_construct": self.ef_construct,
            "quantization": self.quantization,
            "on_disk": self.on_disk,
        }


@dataclass(frozen=True, slots=True)
class Days:
    """Which days are searched: from ``since`` on, strictly before ``before``; None is open."""

    since: int | None = None
    before: int | None = None


ANY_DAY = Days()


@dataclass(frozen=True, slots=True)
class PointSearch:
    """One way of searching the points.

    Attributes:
        limit: at most so many points.
        days: only points of these days; the engine filters while it searches.
        exact: look at every point instead of walking the graph.
        ef: candidates while the graph is walked.
        rescore: whether quantised scores are computed again from the vectors.
    """

    limit: int
    days: Days
    exact: bool
    ef: int
    rescore: bool


class Points(Protocol):
    """The points of one index, numbered by row; threads may share it."""

    def search(
        self, vectors: NDArray[np.float32], how: PointSearch
    ) -> list[list[tuple[float, str]]]:
        """(score, id) of the nearest points of each vector, in no order that can be relied on.

        Raises:
            RetrievalError: the engine gives no usable answer.
        """
        ...

    def count(self, days: Days) -> int:
        """How many points are of these days.

        Raises:
            RetrievalError: the engine gives no usable answer.
        """
        ...

    def engine(self) -> str:
        """Name and version of the engine."""
        ...

    def close(self) -> None:
        """Give back files and connections; may be called twice."""
        ...


class PointWriter(Protocol):
    """Fills an empty place with points."""

    def add(
        self, first: int, ids: Sequence[str], vectors: NDArray[np.float32], days: Sequence[int]
    ) -> None:
        """Write the points ``first``, ``first + 1`` …, over what is there.

        Args:
            first: number of the first point.
            ids: of the passages.
            vectors: [ids, dim].
            days: of each, or none at all.

        Raises:
            RetrievalError: the engine refuses them.
        """
        ...

    def finish(self) -> None:
        """Build the graph, bring everything to the disk, and let go.

        Raises:
            RetrievalError: the engine fails.
        """
        ...


def payloads(ids: Sequence[str], days: Sequence[int]) -> list[dict[str, str | int]]:
    """The payload of each point; the same in both forms."""
    if not days:
        return [{ID: identifier} for identifier in ids]
    return [{ID: identifier, DAY: day} for identifier, day in zip(ids, days, strict=True)]
