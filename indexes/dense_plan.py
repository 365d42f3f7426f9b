"""Which kind of dense index fits a corpus and a machine."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from math import log2, sqrt
from pathlib import Path

from agentgym_suite.errors import RetrievalError, UsageError
from agentgym_suite.indexes.dense_kinds import EF_SEARCH, FLAT, FP16, HNSW, NPROBE

USABLE_SHARE = 0.6
"""Of the memory; the rest is for the encoder, the page cache and everything else."""

MOST_SCANNED_ROWS = 1_000_000
MOST_GRAPH_ROWS = 3_000_000
GRAPH_BYTES = 256
"""A row's links in HNSW32: 2 x 32 numbers of four bytes."""

_BYTES_PER_MS = 23e9 / 1e3
"""What one core reads; Flat search is bound by it."""

_FP16_COST = 0.42
_SQ8_COST = 0.39
"""Relative to float32, measured."""

_DISK_BYTES_PER_MS = 1e9 / 1e3
_LINKS = 32


@dataclass(frozen=True, slots=True)
class Plan:
    """A recommended index.

    Attributes:
        index_type: ``Flat``, ``fp16``, ``HNSW32`` or ``IVF<n>,SQ8``.
        bytes: its size; with ``mapped``, more than the memory that may be used.
        estimated_ms: one query on one core.
        mapped: whether it stays on the disk and only what a query touches is read.
        reason: one sentence.
    """

    index_type: str
    bytes: int
    estimated_ms: float
    mapped: bool
    reason: str


def recommend(rows: int, dim: int, ram_bytes: int, exact: bool = False) -> Plan:
    """The first kind that fits, the better ones first.

    Args:
        rows: passages.
        dim: numbers in a vector.
        ram_bytes: memory of the machine.
        exact: refuse what does not find exactly the best.

    Raises:
        UsageError: a number is below 1.
        RetrievalError: nothing fits; names the bytes needed and those that may be used.
    """
    for what, value in (("rows", rows), ("dim", dim), ("ram_bytes", ram_bytes)):
        if value < 1:
            raise UsageError(f"{what} is {value}; give at least 1")
    usable = int(USABLE_SHARE * ram_bytes)
    flat = 4 * rows * dim
    flat_ms = flat / _BYTES_PER_MS
    scanned = rows <= MOST_SCANNED_ROWS
    if scanned and flat <= usable:
        return Plan(
            FLAT, flat, flat_ms, False, f"exact, and {_size(flat)} fit into {_size(usable)}"
        )
    if scanned and flat // 2 <= usable:
        return Plan(
            FP16,
            flat // 2,
            flat_ms * _FP16_COST,
            False,
            f"half the bytes of float32 ({_size(flat)}), which do not fit into {_size(usable)}",
        )
    if exact:
        raise RetrievalError(
            f"an exact index of {rows:,} x {dim} needs {_size(flat)} and {flat_ms:,.0f} ms a "
            f"query; {_size(usable)} may be used, and exact ones are recommended up to "
            f"{MOST_SCANNED_ROWS:,} rows: ask for Flat by name, or allow others"
        )
    graph = rows * (4 * dim + GRAPH_BYTES)
    if rows <= MOST_GRAPH_ROWS and graph <= usable:
        graph_ms = EF_SEARCH * _LINKS * 4 * dim / _BYTES_PER_MS
        return Plan(HNSW, graph, graph_ms, False, f"too many rows to scan ({flat_ms:,.0f} ms)")
    return _grouped(rows, dim, usable)


def list_count(rows: int) -> int:
    """How many lists an IVF of so many rows gets: the power of two nearest to 8 roots of it."""
    wanted = 8 * sqrt(rows)
    below: int = 2 ** int(log2(wanted))
    return below if wanted - below <= 2 * below - wanted else 2 * below


def machine_memory() -> int:
    """The bytes of memory of this machine, or of the container that limits it."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # no control groups, or no limit ("max")
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return total


def available_memory() -> int:
    """The bytes that can be taken now without pushing others out."""
    with suppress(OSError, ValueError, IndexError):
        text = Path("/proc/meminfo").read_text()
        return min(int(text.partition("MemAvailable:")[2].split()[0]) * 1024, machine_memory())
    return machine_memory() // 2


def _grouped(rows: int, dim: int, usable: int) -> Plan:
    lists = list_count(rows)
    centres = 4 * lists * dim
    size = rows * (dim + 8) + centres
    name = f"IVF{lists},SQ8"
    probed = min(NPROBE, lists) / lists
    search_ms = (_SQ8_COST * 4 * rows * dim * probed + centres) / _BYTES_PER_MS
    if size <= usable:
        return Plan(name, size, search_ms, False, f"one byte a number, {_size(size)} in all")
    if centres <= usable:
        read = int(rows * (dim + 8) * probed)
        cold_ms = read / _DISK_BYTES_PER_MS
        return Plan(
            name,
            size,
            search_ms,
            True,
            f"{_size(size)} do not fit into {_size(usable)}: mapped from the disk, a query reads "
            f"{_size(read)}, {cold_ms:,.0f} ms from a disk of 1 GB/s; {_size_of_ram(size)} of "
            "memory would hold it",
        )
    raise RetrievalError(
        f"an index of {rows:,} x {dim} needs {_size(size)} as {name}, and mapped from the disk "
        f"still {_size(centres)} of memory, but {_size(usable)} may be used; the smallest plan, "
        f"{name} mapped, fits a machine with {_size_of_ram(centres)}"
    )


def _size_of_ram(needed: int) -> str:
    return _size(int(needed / USABLE_SHARE) + 1)


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"
