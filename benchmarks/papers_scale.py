"""Search by words in a store of a million papers: the arrays, and plain FTS5 beside them.

    python benchmarks/papers_scale.py [--rows 1000000] [--data DIR] [--folder DIR] [--report FILE]

The papers are recombined from the titles and sentences of the real abstracts in the folder that
AGENTGYM_SUITE_SHARED names, or in `--data`; the questions are LitSearch's. Every question is timed
in CPU time of its one thread, pages warm. A sample of them is ranked by FTS5 as well, as the OR of
all their words: lists and scores must be equal, else the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import platform
import re
import resource
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random

import numpy as np

from agentgym_suite.indexes.fts5_connections import connect_read_only
from agentgym_suite.indexes.match_query import match_any, query_words
from agentgym_suite.indexes.paper_store import PaperStore
from agentgym_suite.indexes.paper_store_build import build_paper_store
from agentgym_suite.indexes.paper_tables import DATABASE

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_SENTENCES = (4, 9)
_FTS5 = (
    "SELECT rowid, -bm25(texts, 2.0, 1.0) AS score FROM texts WHERE texts MATCH ? "
    "ORDER BY score DESC, rowid LIMIT ?"
)


def main() -> int:
    """Write the papers, build their store, search, compare, print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="papers (default: 1,000,000)")
    parser.add_argument("--data", type=Path, help="folder of the real papers and questions")
    parser.add_argument("--folder", type=Path, help="keep the store here (default: temporary)")
    parser.add_argument("--check", type=int, default=40, help="questions ranked by FTS5 too")
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path, help="write the figures here too")
    options = parser.parse_args()
    shared = os.environ.get("AGENTGYM_SUITE_SHARED")
    if options.data is None and not shared:
        parser.error("AGENTGYM_SUITE_SHARED is not set: give --data FOLDER")
    data = options.data or Path(str(shared)) / "data" / "papers"
    with tempfile.TemporaryDirectory(prefix="papers-scale-") as temporary:
        folder = (options.folder or Path(temporary)) / f"papers-{options.rows}-{options.seed}"
        figures: dict[str, object] = {"machine": platform.processor() or platform.machine()}
        if not folder.is_dir():
            figures["build"] = _build(folder, data, options)
        store = PaperStore.open(folder)
        figures["searches"], differing = _search(store, _questions(data), options)
        store.close()
    text = json.dumps(figures, indent=1)
    print(text)
    if options.report is not None:
        options.report.write_text(text + "\n", "utf-8")
    return 1 if differing else 0


def _build(folder: Path, data: Path, options: argparse.Namespace) -> dict[str, object]:
    corpus = folder.with_name(folder.name + ".jsonl")
    corpus.parent.mkdir(parents=True, exist_ok=True)
    _write_papers(corpus, data, options.rows, Random(options.seed))
    ended: dict[str, float] = {}
    started = time.perf_counter()

    def progress(phase: str, done: int, total: int | None) -> None:
        ended[phase] = round(time.perf_counter() - started, 1)
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{phase} {done:,}            ")

    before = time.process_time()
    manifest = build_paper_store(folder, corpus, progress=progress)
    figures = {
        "wall_s": round(time.perf_counter() - started, 1),
        "cpu_s": round(time.process_time() - before, 1),
        "phase_last_seen_s": ended,
        "peak_resident_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "corpus_mb": corpus.stat().st_size // 1_000_000,
        "store_mb": {name: entry.size // 1_000_000 for name, entry in manifest.files.items()},
        **manifest.counts,
    }
    corpus.unlink()
    return figures


def _write_papers(path: Path, data: Path, rows: int, draw: Random) -> None:
    """Titles of real papers over sentences out of several real abstracts."""
    titles, sentences = [], []
    with lzma.open(data / "corpus.jsonl.xz", "rt", encoding="utf-8") as lines:
        for line in lines:
            paper = json.loads(line)
            if paper["abstract"]:
                titles.append(paper["title"])
                sentences += _SENTENCE_END.split(paper["abstract"])
    with path.open("w", encoding="utf-8") as out:
        for number in range(rows):
            paper = {
                "paper_id": f"p{number:08}",
                "title": draw.choice(titles),
                "abstract": " ".join(draw.choices(sentences, k=draw.randint(*_SENTENCES))),
                "published": f"{draw.randint(1991, 2025)}-{draw.randint(1, 12):02}",
            }
            out.write(json.dumps(paper, ensure_ascii=False) + "\n")


def _questions(data: Path) -> list[str]:
    lines = (data / "litsearch_queries.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line)["query"] for line in lines]


def _search(
    store: PaperStore, questions: Sequence[str], options: argparse.Namespace
) -> tuple[dict[str, object], int]:
    k = options.k
    middle = int(np.median(store.days))
    for question in questions:  # Every page that a question needs is in the page cache after this.
        store.search_rows(question, k)
    arrays = _timed(lambda question: store.search_rows(question, k), questions)
    dated = _timed(lambda question: store.search_rows(question, k, middle), questions)
    checked = questions[:: max(1, len(questions) // options.check)][: options.check]
    connection = connect_read_only(store.folder / DATABASE)
    plain, differing = [], 0
    for question in checked:
        before = time.thread_time()
        expected = _by_fts5(connection, question, k)
        plain.append(time.thread_time() - before)
        differing += store.search_rows(question, k) != expected
    connection.close()
    return {
        "papers": len(store),
        "questions": len(questions),
        "words_a_question": statistics.median(len(query_words(one)) for one in questions),
        "k": k,
        "arrays_cpu_ms": _percentiles(arrays),
        "arrays_before_a_date_cpu_ms": _percentiles(dated),
        "fts5_full_or_cpu_ms": _percentiles(plain),
        "times_fts5_at_p50": round(statistics.median(plain) / statistics.median(arrays), 1),
        "lists_and_scores_compared": len(checked),
        "differing": differing,
    }, differing


def _by_fts5(connection: sqlite3.Connection, question: str, k: int) -> list[tuple[int, float]]:
    match = match_any(query_words(question))
    return connection.execute(_FTS5, (match, k)).fetchall()


def _timed(search: Callable[[str], object], questions: Iterable[str]) -> list[float]:
    times = []
    for question in questions:
        before = time.thread_time()
        search(question)
        times.append(time.thread_time() - before)
    return times


def _percentiles(seconds: Sequence[float]) -> dict[str, float]:
    values = np.array(seconds) * 1000
    return {
        "p50": round(float(np.percentile(values, 50)), 2),
        "p99": round(float(np.percentile(values, 99)), 2),
        "worst": round(float(values.max()), 2),
    }


if __name__ == "__main__":
    sys.exit(main())
