"""Qdrant in this process at 100,000 vectors: recall, time, and the same list every time.

    python benchmarks/qdrant_embedded.py [--rows 100000] [--dim 384] [--vectors FILE.npy]
                                         [--quantization int8] [--folder DIR]

Recall is against the exact top 10 by numpy; the same index is searched with and without a date
that hides a part of the points. The vectors are made up (see `retrieval_vectors`) unless
`--vectors` names a file of unit vectors. Building takes about 2 minutes of CPU time.

Needs the extra `retrieval`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from retrieval_vectors import LookupEncoder, write_vectors

from agentgym_suite.indexes.qdrant import QdrantIndex
from agentgym_suite.indexes.qdrant_build import build_qdrant
from agentgym_suite.indexes.qdrant_points import INT8, PointOptions

_K = 10
_QUERIES = 300
_REPEATS = 100
_THREADS = 8
_PASSES = 5  # the least CPU time of them counts, because other processes disturb it
_SHARES = (1.0, 0.5, 0.15, 0.05)
_WANTED_RECALL, _WANTED_MS = 0.95, 2.0


def main() -> int:
    """Build, search, compare; 1 when a list changed or the target was missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--vectors", type=Path, help="a .npy file of unit vectors to use instead")
    parser.add_argument("--quantization", choices=[INT8])
    parser.add_argument("--folder", type=Path, help="keep vectors and index here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="qdrant-") as temporary:
        return _measure(options.folder or Path(temporary), options)


def _measure(folder: Path, options: argparse.Namespace) -> int:
    if not (folder / "corpus.jsonl").exists():
        write_vectors(
            folder,
            rows=options.rows,
            dim=options.dim,
            queries=_QUERIES,
            given=options.vectors,
        )
    vectors, queries = np.load(folder / "vectors.npy"), np.load(folder / "queries.npy")
    days = np.random.default_rng(1).integers(0, 10_000, len(vectors))
    encoder = LookupEncoder(folder)
    place = folder / f"index-{options.quantization or 'float32'}"
    wall, cpu = time.monotonic(), time.process_time()
    manifest = build_qdrant(
        place,
        folder / "corpus.jsonl",
        encoder=encoder,
        days=days.tolist(),
        options=PointOptions(quantization=options.quantization),
    )
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    points = sum(e.size for name, e in manifest.files.items() if name.startswith("points"))
    print(f"{len(vectors):,} x {vectors.shape[1]}: built in {cpu:,.0f} s of CPU time, ", end="")
    print(f"{wall:,.0f} s wall; the points take {points / 1e6:,.0f} MB\n")
    index = QdrantIndex.open(place, encoder)
    print("| points searched | recall@10 | CPU ms | wall ms p50 | p99 |")
    print("|---|---|---|---|---|")
    good = True
    for share in _SHARES:
        before = None if share == 1.0 else int(10_000 * share)
        allowed = days < (10_000 if before is None else before)
        recall, each, p50, p99 = _search(index, vectors, queries, allowed, before)
        print(f"| {int(allowed.sum()):,} | {recall:.4f} | {each:.2f} | {p50:.2f} | {p99:.2f} |")
        good &= recall >= _WANTED_RECALL and (before is not None or each < _WANTED_MS)
    same = _always_the_same(index, queries, 5_000)
    print(f"\nthe same lists {_REPEATS} times over and in {_THREADS} threads: {same}")
    index.close()
    return 0 if same and good else 1


def _search(
    index: QdrantIndex,
    vectors: NDArray[np.float32],
    queries: NDArray[np.float32],
    allowed: NDArray[np.bool_],
    before: int | None,
) -> tuple[float, float, float, float]:
    """Recall, then the least CPU ms a query, then the median and the 99th percentile of wall ms."""
    scores = np.where(allowed, queries @ vectors.T, -np.inf)
    exact = np.argpartition(-scores, _K, axis=1)[:, :_K]
    for query in queries[:20]:
        index.search_vectors(query[None], _K, before)  # pages and threads are there then
    found, walls, cpu = 0, [], []
    for _ in range(_PASSES):
        busy = time.process_time()
        for query, wanted in zip(queries, exact, strict=True):
            started = time.perf_counter()
            hits = index.search_vectors(query[None], _K, before)[0]
            walls.append((time.perf_counter() - started) * 1000)
            found += len({*map(int, hits.ids)} & {*wanted.tolist()})
        cpu.append((time.process_time() - busy) * 1000 / len(queries))
    p50, p99 = np.percentile(walls, [50, 99])
    return found / (exact.size * _PASSES), min(cpu), float(p50), float(p99)


def _always_the_same(index: QdrantIndex, queries: NDArray[np.float32], before: int) -> bool:
    same = True
    for date in (None, before):
        first = index.search_vectors(queries[:8], _K, date)
        for _ in range(_REPEATS):
            same &= index.search_vectors(queries[:8], _K, date) == first
        with ThreadPoolExecutor(_THREADS) as pool:
            asked = [
                pool.submit(index.search_vectors, queries[row : row + 1], _K, date)
                for row in range(8)
                for _ in range(_THREADS)
            ]
            results = [future.result()[0] for future in asked]
        same &= results == [hits for hits in first for _ in range(_THREADS)]
    return same


if __name__ == "__main__":
    raise SystemExit(main())
