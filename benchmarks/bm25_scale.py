"""BM25 at the size of the full shop: build, open, memory, CPU per query, cold reads.

    python benchmarks/bm25_scale.py [--documents 1180000] [--folder DIR] [--workers 1]

Every part runs in a process of its own, so that one part's memory is not another's. A sample
of the queries is ranked a second time by a plain implementation; any difference ends the run
with exit code 1. Figures are printed as one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
from zipf_texts import ZipfTexts

from agentgym_suite.indexes import bm25_files as files
from agentgym_suite.indexes.bm25 import BM25Index
from agentgym_suite.indexes.bm25_build import build

_K = 50


def main() -> int:
    """Run all parts, or the one part that this process was started for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("part", nargs="?", choices=["build", "search", "check"])
    parser.add_argument("--documents", type=int, default=1_180_000)
    parser.add_argument("--folder", type=Path, help="keep the index here (default: temporary)")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--check", type=int, default=100, help="queries ranked a second time")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.part is not None:
        return {"build": _build, "search": _search, "check": _check}[options.part](options)
    with tempfile.TemporaryDirectory(prefix="bm25-scale-") as temporary:
        options.folder = options.folder or Path(temporary) / "index"
        figures: dict[str, object] = {"machine": platform.processor() or platform.machine()}
        for part in ("build", "search", "check"):
            command = [sys.executable, __file__, part, "--folder", str(options.folder)]
            for name in ("documents", "workers", "queries", "check", "seed"):
                command += [f"--{name}", str(getattr(options, name))]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
            if done.returncode:
                print(f"{part} ended with exit code {done.returncode}", file=sys.stderr)
                return 1
            figures[part] = json.loads(done.stdout)
    print(json.dumps(figures, indent=1))
    return 0


def _texts(options: argparse.Namespace) -> ZipfTexts:
    return ZipfTexts(options.documents, options.seed)


def _build(options: argparse.Namespace) -> int:
    phases: dict[str, float] = {}
    started = time.perf_counter()

    def progress(phase: str, done: int, total: int | None) -> None:
        phases[phase] = time.perf_counter() - started
        if done % (1 << 17) == 0:
            print(f"{phase} {done}", file=sys.stderr)

    manifest = build(
        options.folder,
        _texts(options),
        inputs={"generator": "zipf/1", "documents": options.documents, "seed": options.seed},
        workers=options.workers,
        progress=progress,
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    report = {
        "wall_s": round(time.perf_counter() - started, 1),
        "phase_ended_s": {phase: round(at, 1) for phase, at in phases.items()},
        "peak_rss_mb": round(peak),
        "disk_mb": round(sum(entry.size for entry in manifest.files.values()) / 1e6),
        **manifest.counts,
    }
    print(json.dumps(report))
    return 0


def _search(options: argparse.Namespace) -> int:
    started = time.perf_counter()
    index = BM25Index.open(options.folder)
    ready = time.perf_counter() - started
    opened = _resident()
    texts = _texts(options)

    _drop_page_cache(options.folder)
    cold = []
    for query in texts.queries(100, skip=1):
        before = time.perf_counter()
        index.search(query, _K)
        cold.append(time.perf_counter() - before)

    queries = texts.queries(options.queries)
    terms = [len(set(query.split())) for query in queries]
    for query in queries:  # Every page that a query needs is in the page cache after this.
        index.search(query, _K)
    warm = []
    for query in queries:
        before = time.thread_time()
        index.search(query, _K)
        warm.append(time.thread_time() - before)
    postings = [
        sum(stop - start for start, stop in map(index._terms.postings, set(query.split())))
        for query in queries
    ]
    report = {
        "ready_ms": round(ready * 1e3, 1),
        "queries": len(queries),
        "terms_mean": round(float(np.mean(terms)), 1),
        "postings_p50": int(np.percentile(postings, 50)),
        "postings_p99": int(np.percentile(postings, 99)),
        "warm_cpu_p50_ms": _percentile(warm, 50),
        "warm_cpu_p99_ms": _percentile(warm, 99),
        "cold_wall_p50_ms": _percentile(cold, 50),
        "cold_wall_p99_ms": _percentile(cold, 99),
        "rss_opened_mb": opened,
        "rss_mb": _resident(),
    }
    print(json.dumps(report))
    return 0


def _check(options: argparse.Namespace) -> int:
    """Rank a sample of the queries again: every posting, no blocks, no pieces."""
    index = BM25Index.open(options.folder)
    arrays = {
        name: np.load(options.folder / name, mmap_mode="r")
        for name in (files.DOCUMENTS, files.PAIRS, files.PAIR_TABLE, files.LENGTHS)
    }
    counts = index.manifest.counts
    average = np.float32(counts["tokens"] / counts["scored_documents"])
    decoded = files.code_lengths().astype(np.float32)
    one = np.float32(1)
    for query in _texts(options).queries(options.check):
        totals = np.zeros(counts["documents"])
        for term, times in Counter(query.split()).items():
            start, stop = index._terms.postings(term)
            numbers = arrays[files.DOCUMENTS][start:stop]
            frequency = arrays[files.PAIR_TABLE][arrays[files.PAIRS][start:stop], 0]
            lengths = decoded[arrays[files.LENGTHS][numbers]]
            odds = (counts["scored_documents"] - len(numbers) + 0.5) / (len(numbers) + 0.5)
            weight = np.float32(np.log1p(odds)) * np.float32(times)
            norm = one / (files.K1 * ((one - files.B) + files.B * lengths / average))
            totals[numbers] += weight - weight / (one + frequency.astype(np.float32) * norm)
        scores = totals.astype(np.float32)
        order = np.lexsort((np.arange(len(scores)), -scores))[:_K]
        order = order[scores[order] > 0]
        hits = index.search(query, _K)
        expected = index._names(order)
        if hits.ids != expected or hits.scores != tuple(scores[order].tolist()):
            print(f"different result for {query!r}", file=sys.stderr)
            return 1
    print(json.dumps({"queries_equal": options.check}))
    return 0


def _drop_page_cache(folder: Path) -> None:
    for path in folder.iterdir():
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def _resident() -> int:
    """Resident memory of this process in MB, mapped pages counted."""
    text = Path("/proc/self/status").read_text()
    return round(int(text.partition("VmRSS:")[2].split()[0]) / 1024)


def _percentile(seconds: list[float], share: int) -> float:
    return round(float(np.percentile(seconds, share)) * 1e3, 2)


if __name__ == "__main__":
    sys.exit(main())
