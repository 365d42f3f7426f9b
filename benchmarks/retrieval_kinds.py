"""The kinds of dense index side by side: recall, time, bytes, build, and memory when mapped.

    python benchmarks/retrieval_kinds.py [--rows 100000] [--vectors FILE.npy] [--json FILE]

Vectors come from a .npy file, or the papers of the test data are encoded (kept in --folder, so
that a second run has them). More rows than there are vectors are made by one rule: a made vector is
w a + (1 - w) b + e with a and b two of the real vectors, w even in [0.6, 0.95] and e normal noise
of length 0.1, brought to length 1. Queries are encoded questions of the test data, else vectors
made by that rule and kept out of the index.

recall@10 is the share of the exact ten best that a kind lists. Times are CPU of one thread for one
query at a time, and per query in batches of 32. Every index is written, mapped anew in a process of
its own, and its resident memory taken before, after opening, and after 100 searches; beside it, the
same file read whole.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.indexes.dense_kinds import (
    FLAT,
    DenseKind,
    flat_vectors,
    load_faiss,
    map_index,
    new_index,
    parse_kind,
    threads_of_faiss,
    training_places,
    write_index,
)
from agentgym_suite.indexes.dense_path import new_scan
from agentgym_suite.indexes.dense_plan import list_count, machine_memory, recommend
from agentgym_suite.indexes.dense_scan import (
    BFLOAT16,
    FAISS,
    NUMPY,
    Floats,
    ListedScan,
    Scan,
    best_rows,
    lower_blas_threshold,
)
from agentgym_suite.indexes.thread_counts import limit_threads

_K = 10
_BATCH = 32
_RESIDENT_SEARCHES = 100
_MADE_AT_ONCE = 1 << 14


def main() -> int:
    """Measure the kinds, or the memory of the one file that this process was started for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--vectors", type=Path, help="a .npy file of unit vectors")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--encoded", type=int, help="encode so many papers only (default: all)")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--kinds", help="default: all, with as many lists as are recommended")
    parser.add_argument("--folder", type=Path, help="keep vectors and indexes here")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resident", nargs=4, metavar=("FILE", "KIND", "HOW", "QUERIES"))
    options = parser.parse_args()
    if options.resident:
        return _resident_part(*options.resident)
    with tempfile.TemporaryDirectory(prefix="retrieval-kinds-") as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        report = _measure(options, folder)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


def _measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    limit_threads(1)
    real, queries = _real_vectors(options, folder)
    dice = np.random.default_rng(options.seed)
    vectors = _enlarged(real, options.rows, dice)
    if queries is None:
        queries = _made(real, options.queries, np.random.default_rng(options.seed + 1))
    queries = queries[: options.queries]
    rows, dim = vectors.shape
    made = max(0, rows - len(real))
    print(
        f"{rows:,} x {dim}: {rows - made:,} real, {made:,} made; {len(queries)} queries, k = {_K}"
    )
    print(f"recommended here: {recommend(rows, dim, machine_memory())}\n")
    lower_blas_threshold(dim)
    np.save(folder / "queries.npy", queries)
    exact: list[set[int]] = []
    figures = []
    print(
        f"{'kind':<20}{'recall@10':>10}{'ms':>8}{'ms in 32':>10}{'bytes/row':>11}{'build s':>9}"
        f"{'MB before':>11}{'opened':>8}{'searched':>10}{'read whole':>12}"
    )
    for kind in map(parse_kind, _kind_names(options.kinds or _all_kinds(rows))):
        path = folder / f"{kind.name}-{rows}.faiss"
        build_s = _build(kind, vectors, path)
        index = map_index(path, kind, dim, rows)
        if kind.name != FLAT:
            scans: dict[str, Scan] = {kind.name: ListedScan(index, bool(kind.lists))}
        else:
            largest = float(np.linalg.norm(vectors.astype(np.float64), axis=1).max())
            mapped = flat_vectors(index)
            names = (FAISS, NUMPY, BFLOAT16)
            scans = {f"Flat, {name}": new_scan(name, index, mapped, largest) for name in names}
        memory = {how: _resident(path, kind, how, folder) for how in ("mapped", "whole")}
        for name, scan in scans.items():
            found = _found(scan, queries, rows)
            exact = exact or found
            figure = {
                "kind": name,
                "recall_at_10": round(_recall(found, exact), 4),
                **_times(scan, queries, rows),
                "bytes_per_row": round(path.stat().st_size / rows, 1),
                "build_s": round(build_s, 1),
                "resident_mb": memory,
            }
            if kind.name == FLAT and found != exact:
                raise SystemExit(f"{name} differs from {FAISS}")
            figures.append(figure)
            _print(figure)
    return {"rows": rows, "dim": dim, "real": rows - made, "made": made, "kinds": figures}


def _print(figure: dict[str, Any]) -> None:
    mapped, whole = figure["resident_mb"]["mapped"], figure["resident_mb"]["whole"]
    print(
        f"{figure['kind']:<20}{figure['recall_at_10']:>10.4f}{figure['ms']:>8.2f}"
        f"{figure['ms_in_batches']:>10.2f}{figure['bytes_per_row']:>11.1f}{figure['build_s']:>9.1f}"
        f"{mapped['before']:>11}{mapped['opened']:>8}{mapped['searched']:>10}{whole['opened']:>12}",
        flush=True,
    )


def _all_kinds(rows: int) -> str:
    return f"Flat,fp16,SQ8,HNSW32,IVF{list_count(rows)},SQ8"


def _kind_names(text: str) -> Iterator[str]:
    """Names in one text; a comma inside IVF<n>,SQ8 separates nothing."""
    parts = text.split(",")
    while parts:
        name = parts.pop(0)
        yield f"{name},{parts.pop(0)}" if name.startswith("IVF") and parts else name


def _real_vectors(options: argparse.Namespace, folder: Path) -> tuple[Floats, Floats | None]:
    if options.vectors:
        return np.ascontiguousarray(np.load(options.vectors), np.float32), None
    shared = os.environ.get("AGENTGYM_SUITE_SHARED")
    if not shared:
        raise SystemExit("give --vectors, or set AGENTGYM_SUITE_SHARED to the test data")
    kept = folder / f"papers-{options.encoder}-{options.encoded or 'all'}.npz"
    if not kept.exists():
        from agentgym_suite.indexes.encoders import open_encoder

        papers = Path(shared) / "data" / "papers"
        texts = list(_papers(papers / "corpus.jsonl.xz"))[: options.encoded]
        lines = (papers / "litsearch_queries.jsonl").read_text("utf-8").splitlines()
        encoder = open_encoder(options.encoder, threads=1)
        passages = encoder.encode_passages(texts, _counter(len(texts)))
        questions = encoder.encode_queries([json.loads(line)["query"] for line in lines])
        np.savez(kept, passages=passages, questions=questions)
    with np.load(kept) as arrays:
        return arrays["passages"], arrays["questions"]


def _papers(path: Path) -> Iterator[str]:
    """Title, blank, abstract; those with an abstract first, which are the harder ones to place."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    for row in sorted(rows, key=lambda row: not row["abstract"]):
        yield f"{row['title']} {row['abstract'] or ''}".strip()


def _counter(total: int) -> Any:
    done = 0

    def on_done(more: int) -> None:
        nonlocal done
        done += more
        print(f"\rencoded {done:,} of {total:,}", end="", file=sys.stderr, flush=True)

    return on_done


def _enlarged(real: Floats, rows: int, dice: np.random.Generator) -> Floats:
    if rows <= len(real):
        return np.ascontiguousarray(real[:rows])
    return np.concatenate([real, _made(real, rows - len(real), dice)])


def _made(real: Floats, count: int, dice: np.random.Generator) -> Floats:
    """The rule of this file's first lines."""
    vectors = np.empty((count, real.shape[1]), np.float32)
    for start in range(0, count, _MADE_AT_ONCE):
        stop = min(start + _MADE_AT_ONCE, count)
        one, other = dice.integers(0, len(real), (2, stop - start))
        weight = dice.uniform(0.6, 0.95, (stop - start, 1)).astype(np.float32)
        noise = dice.standard_normal((stop - start, real.shape[1]), np.float32)
        mixed = weight * real[one] + (1 - weight) * real[other]
        mixed += noise * np.float32(0.1 / np.sqrt(real.shape[1]))
        vectors[start:stop] = mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
    return vectors


def _build(kind: DenseKind, vectors: Floats, path: Path) -> float:
    """Build as ``dense_build`` does, with one thread; CPU seconds of training and adding."""
    started = time.process_time()
    index = new_index(kind, vectors.shape[1])
    with threads_of_faiss(1):
        places = training_places(kind, len(vectors))
        if len(places):
            index.train(vectors[places])
        for start in range(0, len(vectors), _MADE_AT_ONCE):
            index.add(vectors[start : start + _MADE_AT_ONCE])
    took = time.process_time() - started
    write_index(index, path)
    return took


def _found(scan: Scan, queries: Floats, rows: int) -> list[set[int]]:
    return [set(best.tolist()) for best, _ in best_rows(scan, queries, _K, rows)]


def _recall(found: list[set[int]], exact: list[set[int]]) -> float:
    # Ties of the tenth are listed too, so a set may be larger than ten.
    return float(np.mean([len(a & b) / len(b) for a, b in zip(found, exact, strict=True)]))


def _times(scan: Scan, queries: Floats, rows: int) -> dict[str, float]:
    def per_query(size: int) -> float:
        taken = []
        for start in range(0, len(queries) - size + 1, size):
            before = time.process_time()
            best_rows(scan, queries[start : start + size], _K, rows)
            taken.append((time.process_time() - before) / size)
        return round(float(np.median(taken)) * 1e3, 3)

    return {"ms": per_query(1), "ms_in_batches": per_query(min(_BATCH, len(queries)))}


def _resident(path: Path, kind: DenseKind, how: str, folder: Path) -> dict[str, int]:
    arguments = [str(path), kind.name, how, str(folder / "queries.npy")]
    command = [sys.executable, __file__, "--resident", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, int] = json.loads(done.stdout)
    return found


def _resident_part(file: str, name: str, how: str, queries_file: str) -> int:
    faiss = load_faiss()
    queries: NDArray[np.float32] = np.load(queries_file)
    path, kind = Path(file), parse_kind(name)
    before = _resident_mb()
    if how == "mapped":
        header = faiss.read_index(file, faiss.IO_FLAG_MMAP_IFC)
        dim, rows = header.d, header.ntotal
        del header
        index = map_index(path, kind, dim, rows)
    else:
        index = faiss.read_index(file)
    opened = _resident_mb()
    for place in range(_RESIDENT_SEARCHES):
        index.search(queries[place % len(queries)][None], _K)
    print(json.dumps({"before": before, "opened": opened, "searched": _resident_mb()}))
    return 0


def _resident_mb() -> int:
    """Resident memory of this process in MB, mapped pages counted."""
    text = Path("/proc/self/status").read_text()
    return round(int(text.partition("VmRSS:")[2].split()[0]) / 1024)


if __name__ == "__main__":
    sys.exit(main())
