"""The kinds of FAISS index: making one, filling it the same way every time, and opening it mapped.

All compare by inner product. Flat keeps float32 and is exact; fp16 and SQ8 keep two bytes and one
byte a number; HNSW32 walks a graph; ``IVF<n>,SQ8`` looks into the nearest of n groups.
"""

from __future__ import annotations

import errno
import os
import re
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.errors import DataDamaged, MissingExtra, UsageError, reason_of
from agentgym_suite.files import Json

FLAT, FP16, SQ8, HNSW = "Flat", "fp16", "SQ8", "HNSW32"
EF_CONSTRUCTION = 200
EF_SEARCH = 128
NPROBE = 64
SEED = 1234
TRAINING_ROWS_A_LIST = 64
TRAINING_ROWS = 1 << 18
"""Rows that a scalar quantiser sees to learn its ranges, at most."""

_FACTORY = {FLAT: "Flat", FP16: "SQfp16", SQ8: "SQ8", HNSW: "HNSW32,Flat"}
_IVF = re.compile(r"IVF([1-9]\d{0,6}),SQ8")


@dataclass(frozen=True, slots=True)
class DenseKind:
    """One kind of index.

    Attributes:
        name: ``Flat``, ``fp16``, ``SQ8``, ``HNSW32`` or ``IVF<n>,SQ8``.
        lists: the n of IVF, else 0.
    """

    name: str
    lists: int = 0

    def parameters(self) -> dict[str, Json]:
        """What decides how it is built and searched, for the manifest."""
        if self.name == HNSW:
            return {"M": 32, "efConstruction": EF_CONSTRUCTION, "efSearch": EF_SEARCH}
        if self.lists:
            return {"nlist": self.lists, "nprobe": min(NPROBE, self.lists), "seed": SEED}
        return {}

    def training_rows(self, rows: int) -> int:
        """How many rows it learns from, of so many."""
        if self.lists:
            return min(rows, max(TRAINING_ROWS_A_LIST * self.lists, TRAINING_ROWS))
        return min(rows, TRAINING_ROWS) if self.name == SQ8 else 0


def parse_kind(text: str) -> DenseKind:
    """The kind of a name.

    Raises:
        UsageError: there is no such kind.
    """
    if text in _FACTORY:
        return DenseKind(text)
    if match := _IVF.fullmatch(text):
        return DenseKind(text, int(match[1]))
    raise UsageError(
        f"index type is {text!r}; give {', '.join(_FACTORY)}, IVF<n>,SQ8 (such as IVF4096,SQ8), "
        "or auto"
    )


def load_faiss() -> types.ModuleType:
    """FAISS, imported when it is needed.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        import faiss
    except ImportError as error:
        raise MissingExtra("retrieval", "a dense index") from error
    module: types.ModuleType = faiss
    return module


def new_index(kind: DenseKind, dim: int) -> Any:
    """An empty FAISS index with the parameters of its kind."""
    faiss = load_faiss()
    factory = f"IVF{kind.lists},SQ8" if kind.lists else _FACTORY[kind.name]
    index = faiss.index_factory(dim, factory, faiss.METRIC_INNER_PRODUCT)
    if kind.name == HNSW:
        index.hnsw.efConstruction = EF_CONSTRUCTION
        index.hnsw.efSearch = EF_SEARCH
    if kind.lists:
        index.cp.seed = SEED
        # FAISS complains on stderr of fewer than 39 rows a list; small corpora have fewer.
        index.cp.min_points_per_centroid = 1
        index.cp.max_points_per_centroid = 256
    return index


def check_rows(kind: DenseKind, rows: int) -> None:
    """See that an index of this kind can be made of so many rows.

    Raises:
        UsageError: there are fewer rows than lists.
    """
    if rows < kind.lists:
        raise UsageError(
            f"index type {kind.name} has {kind.lists} lists and the corpus {rows} rows; give "
            "fewer lists, or Flat"
        )


def training_places(kind: DenseKind, rows: int) -> NDArray[np.int64]:
    """Which rows the index learns from: evenly spread, the same ones every time."""
    count = kind.training_rows(rows)
    return np.arange(count, dtype=np.int64) * rows // max(count, 1)


@contextmanager
def threads_of_faiss(threads: int | None) -> Iterator[None]:
    """Let FAISS compute with so many threads inside the block; None changes nothing."""
    if threads is None:
        yield
        return
    faiss = load_faiss()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(threads)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def write_index(index: Any, path: Path) -> None:
    """Write an index.

    Raises:
        OSError: there is no space left, or the file cannot be written.
    """
    try:
        load_faiss().write_index(index, str(path))
    except RuntimeError as error:  # all that FAISS says of a failed write is in its text
        code = errno.ENOSPC if os.strerror(errno.ENOSPC) in str(error) else errno.EIO
        raise OSError(code, os.strerror(code), str(path)) from error


def map_index(path: Path, kind: DenseKind, dim: int, rows: int) -> Any:
    """Open a written index memory-mapped: nothing is read before it is searched.

    Processes share the pages. ``IO_FLAG_MMAP`` would read Flat and SQ files whole.

    Raises:
        DataDamaged: it is no index, or not of this size.
    """
    faiss = load_faiss()
    flags = faiss.IO_FLAG_MMAP_IFC | faiss.IO_FLAG_READ_ONLY
    try:
        index = faiss.read_index(str(path), flags)
    except RuntimeError as error:
        reason = reason_of(error)
        raise DataDamaged(f"{path} is no FAISS index ({reason}); build it again") from error
    found: Mapping[str, int] = {"dimension": index.d, "rows": index.ntotal}
    for what, wanted in (("dimension", dim), ("rows", rows)):
        if found[what] != wanted:
            raise DataDamaged(
                f"{path} has {what} {found[what]}, its manifest says {wanted}; build it again"
            )
    if kind.name == HNSW:
        index.hnsw.efSearch = EF_SEARCH
    if kind.lists:
        index.nprobe = min(NPROBE, kind.lists)
    return index


def flat_vectors(index: Any) -> NDArray[np.float32]:
    """The vectors of a Flat index, rows x dim, where they lie in the mapped file."""
    faiss = load_faiss()
    flat: NDArray[np.float32] = faiss.rev_swig_ptr(index.get_xb(), index.ntotal * index.d)
    vectors = flat.reshape(index.ntotal, index.d)
    vectors.flags.writeable = False
    return vectors
