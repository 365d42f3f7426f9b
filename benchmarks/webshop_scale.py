"""WebShop-v0 at 1.18 million generated products: build, start, memory, search, drift.

Each part runs in a process of its own through the commands and calls a user has: generate,
import, ``gym.make``, search, and 100,000 environment steps. Search is measured with distinct goal
texts without their price clause, the result cache off and the page cache warm: those of the
generated goals, and the 11,563 official ones where AGENTGYM_SUITE_SHARED has them; cold wall-clock
figures stand beside. A sample of the queries is ranked a second time by plain float arithmetic over
every posting.

Run: make scale, or python benchmarks/webshop_scale.py --products 100000 --folder DIR
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

OFFICIAL_PRODUCTS = 1_181_436
PARTS = ("generate", "build", "start", "search", "check", "steps")


def main() -> int:
    """Run every part, or the one this process was started for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("part", nargs="?", choices=PARTS)
    parser.add_argument("--products", type=int, default=OFFICIAL_PRODUCTS)
    parser.add_argument("--folder", type=Path, help="keep files and store here (else temporary)")
    parser.add_argument("--queries", type=int, default=10_000, help="distinct goal texts searched")
    parser.add_argument("--checked", type=int, default=50, help="queries ranked a second time")
    parser.add_argument("--steps", type=int, default=100_000, help="environment steps of the drift")
    options = parser.parse_args()
    if options.part:
        print(json.dumps(globals()[f"measure_{options.part}"](options)))
        return 0
    with tempfile.TemporaryDirectory(prefix="webshop-scale-") as temporary:
        options.folder = options.folder or Path(temporary)
        figures: dict[str, Any] = {"products": options.products}
        for part in PARTS:
            command = [sys.executable, __file__, part]
            for name in ("products", "folder", "queries", "checked", "steps"):
                command += [f"--{name}", str(getattr(options, name))]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
            if done.returncode:
                print(f"{part} failed with exit code {done.returncode}", file=sys.stderr)
                return 1
            figures[part] = json.loads(done.stdout)
            print(f"{part}: {json.dumps(figures[part])}", flush=True)
    return 0


def store_of(options: argparse.Namespace) -> Path:
    """Where the built store lies."""
    folder: Path = options.folder
    return folder / "store"


def run_command(arguments: list[str]) -> dict[str, Any]:
    """One run of the command line: seconds and the largest memory of the child."""
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "agentgym_suite", *arguments], check=True, stdout=sys.stderr
    )
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "wall_s": round(time.perf_counter() - started, 1),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_rss_mb": round(usage.ru_maxrss / 1024),
    }


def measure_generate(options: argparse.Namespace) -> dict[str, Any]:
    """Write the official files of a generated catalogue."""
    files = options.folder / "files"
    if files.exists():
        return {"kept": str(files)}
    from agentgym_suite.webshop.generator import generate

    started = time.perf_counter()
    generate(files, products=options.products)
    return {
        "wall_s": round(time.perf_counter() - started, 1),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "files_mb": disk_mb(files),
    }


def measure_build(options: argparse.Namespace) -> dict[str, Any]:
    """Import the files: store and index."""
    files, store = options.folder / "files", store_of(options)
    if store.exists():
        return {"kept": str(store)}
    figures = run_command(
        [
            "data", "import", "webshop",
            "--items", str(files / "items_shuffle.json"),
            "--attributes", str(files / "items_ins_v2.json"),
            "--human", str(files / "items_human_ins.json"),
            "--nouns", str(files / "title_nouns.jsonl"),
            "--out", str(store),
        ]
    )  # fmt: skip
    return {**figures, "store_mb": disk_mb(store), "index_mb": disk_mb(store / "index")}


def measure_start(options: argparse.Namespace) -> dict[str, Any]:
    """From nothing to the first observation, imports apart."""
    started = time.perf_counter()
    import gymnasium as gym

    import agentgym_suite  # noqa: F401

    imported = time.perf_counter()
    env = gym.make("WebShop-v0", data=str(store_of(options)))
    env.reset(seed=0)
    ready = time.perf_counter()
    env.step("search[shoes]")
    return {
        "imports_s": round(imported - started, 3),
        "ready_s": round(ready - imported, 3),
        "first_search_s": round(time.perf_counter() - ready, 3),
        "rss_mb": resident_mb(),
    }


def measure_search(options: argparse.Namespace) -> dict[str, Any]:
    """CPU of one search with distinct goal texts, warm; wall clock cold."""
    from agentgym_suite.indexes.analyzer import Analyzer
    from agentgym_suite.indexes.bm25 import BM25Index

    catalogue, generated = open_with_texts(options)
    index = BM25Index.open(store_of(options) / "index")
    analyze = Analyzer()
    figures: dict[str, Any] = {}
    for name, texts in (("generated", generated), ("official", official_texts(options))):
        if not texts:
            continue
        for path in (store_of(options) / "index").rglob("*"):
            drop_from_page_cache(path)
        words = [text.split(" ") for text in texts]
        cold = [seconds_of(catalogue.search, one, time.perf_counter) for one in words[:200]]
        for one in words:
            catalogue.search(one)
        warm = [seconds_of(catalogue.search, one, time.thread_time) for one in words]
        terms = [set(analyze(text.lower())) for text in texts]
        postings = [sum(e - s for s, e in map(index._terms.postings, found)) for found in terms]
        figures[name] = {
            "queries": len(texts),
            "distinct_terms_mean": round(float(np.mean([len(found) for found in terms])), 1),
            "postings": {f"p{p}": int(np.percentile(postings, p)) for p in (50, 99)},
            "warm_cpu_ms": {f"p{p}": milliseconds(warm, p) for p in (50, 90, 99)},
            "cold_wall_ms": {f"p{p}": milliseconds(cold, p) for p in (50, 99)},
        }
    return {**figures, "rss_mb": resident_mb()}


def measure_check(options: argparse.Namespace) -> dict[str, Any]:
    """Rank a sample again: every posting of every term, no blocks, no shortcuts."""
    from agentgym_suite.indexes import bm25_files as files
    from agentgym_suite.indexes.analyzer import Analyzer
    from agentgym_suite.indexes.bm25 import BM25Index

    catalogue, texts = open_with_texts(options)
    index = BM25Index.open(store_of(options) / "index")
    names = (files.DOCUMENTS, files.PAIRS, files.PAIR_TABLE, files.LENGTHS)
    documents, pairs, table, lengths = (np.load(index.folder / n, mmap_mode="r") for n in names)
    counts = index.manifest.counts
    scored, average = counts["scored_documents"], counts["tokens"] / counts["scored_documents"]
    decoded = files.code_lengths().astype(np.float32)
    one = np.float32(1)
    analyze = Analyzer()
    for text in texts[:: max(1, len(texts) // options.checked)]:
        totals = np.zeros(counts["documents"])
        for term, times in Counter(analyze(text.lower())).items():
            start, stop = index._terms.postings(term)
            found = documents[start:stop]
            frequency = table[pairs[start:stop], 0].astype(np.float32)
            odds = (scored - len(found) + 0.5) / (len(found) + 0.5)
            weight = np.float32(np.log(1 + odds)) * np.float32(times)
            length = decoded[lengths[found]] / np.float32(average)
            norm = one / (files.K1 * ((one - files.B) + files.B * length))
            totals[found] += weight - weight / (one + frequency * norm)
        scores = totals.astype(np.float32)
        order = np.lexsort((np.arange(len(scores)), -scores))[:50]
        expected = index._names(order[scores[order] > 0])
        if catalogue.search(text.split(" ")) != expected:
            raise SystemExit(f"another ranking for {text!r}")
    return {"queries_equal": options.checked}


def measure_steps(options: argparse.Namespace) -> dict[str, Any]:
    """Play at random; latency and memory of the first and the last tenth."""
    import gymnasium as gym

    import agentgym_suite  # noqa: F401

    env = gym.make("WebShop-v0", data=str(store_of(options)))
    game: Any = env.unwrapped
    rng = np.random.Generator(np.random.PCG64(0))
    env.reset(seed=0)
    tenth = options.steps // 10
    tenths = []
    memory = []
    for _ in range(10):
        started = time.process_time()
        for _ in range(tenth):
            *_, terminated, truncated, _ = env.step(game.random_action(rng))
            if terminated or truncated:
                env.reset()
        tenths.append(1e6 * (time.process_time() - started) / tenth)
        memory.append(resident_mb())
    return {
        "steps": 10 * tenth,
        "cpu_us_per_step_by_tenth": [round(value) for value in tenths],
        "rss_mb_by_tenth": memory,
    }


def open_with_texts(options: argparse.Namespace) -> tuple[Any, list[str]]:
    """The catalogue without result cache, and the distinct texts of its human goals."""
    from agentgym_suite.webshop.catalogue import open_catalogue
    from agentgym_suite.webshop.prices import without_price_clause

    catalogue = open_catalogue(store_of(options), cache_size=0)
    goals = catalogue.goals
    texts = (without_price_clause(goals[i].instruction) for i in range(min(len(goals), 12_000)))
    return catalogue, list(dict.fromkeys(text.lower() for text in texts))[: options.queries]


def official_texts(options: argparse.Namespace) -> list[str]:
    """The distinct official goal texts, if the benchmark data are there."""
    folder = os.environ.get("AGENTGYM_SUITE_SHARED")
    if not folder:
        return []
    path = Path(folder) / "data" / "webshop" / "human_goal_texts.json.xz"
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return list(dict.fromkeys(json.load(file)))[: options.queries]


def seconds_of(search: Callable[..., Any], words: list[str], clock: Callable[[], float]) -> float:
    """Seconds of one search by a clock."""
    started = clock()
    search(words)
    return clock() - started


def milliseconds(seconds: list[float], share: int) -> float:
    """A percentile in milliseconds."""
    return round(1e3 * float(np.percentile(seconds, share)), 2)


def resident_mb() -> int:
    """Resident memory of this process, mapped pages counted."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return round(int(status.partition("VmRSS:")[2].split()[0]) / 1024)


def disk_mb(folder: Path) -> int:
    """Size of a folder's files."""
    return round(sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) / 1e6)


def drop_from_page_cache(path: Path) -> None:
    """Let the kernel forget a file's pages."""
    if path.is_file():
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main())
