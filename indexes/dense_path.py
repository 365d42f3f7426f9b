"""Which scan a Flat index uses for a batch: timed on its own first rows when it is opened.

What is fastest depends on the processor, on the BLAS that a wheel brought and on the threads that
are free; the answers are the same. A tenth of a second decides, and what was measured is kept for
``info``. Fewer than four queries always take FAISS's single scan: all others read the same bytes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from agentgym_suite.errors import UsageError
from agentgym_suite.files import Json
from agentgym_suite.indexes.dense_kinds import load_faiss
from agentgym_suite.indexes.dense_plan import available_memory
from agentgym_suite.indexes.dense_scan import (
    BFLOAT16,
    FAISS,
    NUMPY,
    BfloatScan,
    FaissScan,
    Floats,
    NumpyScan,
    Scan,
)

AUTO = "auto"
SCANS = (AUTO, FAISS, NUMPY, BFLOAT16)
FEW_QUERIES = 4
"""From here on FAISS goes through BLAS too (see ``lower_blas_threshold``)."""

_TIMED_FLOATS = 1 << 22
_FEW_SHARE = 4
"""Timed on all of the sample and on a quarter: the difference is what a row costs."""

_TIMED_QUERIES = 32
_TIMED_K = 10
_REPEATS = 2
_MEMORY_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class ChosenPath:
    """What a batch is searched with, and why.

    Attributes:
        name: ``faiss``, ``numpy`` or ``bfloat16``.
        reason: one sentence.
        estimated_ms: what 32 queries take by each way; empty if not timed.
        timed_rows: how many rows were searched to estimate it.
    """

    name: str
    reason: str
    estimated_ms: Mapping[str, float] = field(default_factory=dict)
    timed_rows: int = 0

    def to_json(self) -> dict[str, Json]:
        """For ``info``."""
        return {
            "few_queries": FAISS,
            "batches": self.name,
            "reason": self.reason,
            "estimated_ms": dict(self.estimated_ms),
            "timed_rows": self.timed_rows,
        }


def choose_path(vectors: Floats, largest_norm: float, wanted: str = AUTO) -> ChosenPath:
    """Time every way that this machine offers, unless one is asked for by name.

    Args:
        vectors: of the index.
        largest_norm: no row is longer.
        wanted: ``auto``, ``faiss``, ``numpy`` or ``bfloat16``.

    Raises:
        UsageError: there is no such way, or ``bfloat16`` is asked for without torch.
    """
    if wanted not in SCANS:
        raise UsageError(f"scan is {wanted!r}; give one of {', '.join(SCANS)}")
    if wanted != AUTO:
        if wanted == BFLOAT16 and find_spec("torch") is None:
            raise UsageError("scan 'bfloat16' needs torch; install it, or give another scan")
        return ChosenPath(wanted, "asked for by name")
    if vectors.size < _TIMED_FLOATS:
        return ChosenPath(FAISS, "a small index: every way takes a few milliseconds")
    unfit = _bfloat16_unfit(vectors)
    names = [FAISS, NUMPY] if unfit else [FAISS, NUMPY, BFLOAT16]
    rows = _TIMED_FLOATS // vectors.shape[1]
    some = np.array(vectors[:rows])
    few = some[: rows // _FEW_SHARE]
    timed = _time(names, (some, few), largest_norm)
    # What every search pays, such as scoring the candidates, does not grow with the rows.
    estimated = {
        name: round(many + (many - less) * (len(vectors) - rows) / (rows - len(few)), 2)
        for name, (many, less) in timed.items()
    }
    best = min(estimated, key=estimated.__getitem__)
    reason = "the fastest of those timed" + (f"; no bfloat16: {unfit}" if unfit else "")
    return ChosenPath(best, reason, estimated, rows)


def new_scan(name: str, index: object, vectors: Floats, largest_norm: float) -> Scan:
    """The scan of that name over a Flat index."""
    if name == NUMPY:
        return NumpyScan(vectors, largest_norm)
    if name == BFLOAT16:
        return BfloatScan(vectors, largest_norm)
    return FaissScan(index, vectors, largest_norm)


def _time(
    names: Sequence[str], samples: Sequence[Floats], largest_norm: float
) -> dict[str, list[float]]:
    """Milliseconds of each way on each sample: the best of interleaved runs after a first one."""
    # Neighbouring rows belong together; rows from all over are like different queries.
    rows = samples[0]
    queries = rows[:: max(1, len(rows) // _TIMED_QUERIES)][:_TIMED_QUERIES].copy()
    runs = [
        (name, place, new_scan(name, _flat(sample), sample, largest_norm))
        for name in names
        for place, sample in enumerate(samples)
    ]
    best = {name: [float("inf")] * len(samples) for name in names}
    for repeat in range(_REPEATS + 1):
        for name, place, scan in runs:
            count = min(scan.least(_TIMED_K), len(samples[place]))
            started = time.perf_counter()
            scan.candidates(queries, count)
            if repeat:
                took = (time.perf_counter() - started) * 1e3
                best[name][place] = min(best[name][place], took)
    return best


def _bfloat16_unfit(vectors: Floats) -> str | None:
    """Why a bfloat16 copy is out of the question here; None when it is not."""
    if find_spec("torch") is None:
        return "torch is not installed"
    if not _multiplies_bfloat16():
        return "the processor does not multiply it"
    copy = 2 * vectors.size
    if copy > _MEMORY_SHARE * available_memory():
        return f"a copy of {copy / 1e9:.1f} GB is too much for the memory that is free"
    return None


def _multiplies_bfloat16() -> bool:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    flags = text.partition("flags")[2].partition("\n")[0].split()
    return bool({"avx512_bf16", "amx_bf16"} & set(flags))


def _flat(sample: Floats) -> object:
    index = load_faiss().IndexFlatIP(sample.shape[1])
    index.add(sample)
    return index
