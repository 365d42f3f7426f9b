"""Recall of supporting passages at 5 and 10: words, vectors, and both together.

    python benchmarks/retrieval_recall.py [--data FOLDER] [--folder DIR] [--encoder minilm]

The questions are the samples of HotpotQA (distractor) and MuSiQue in the folder that
AGENTGYM_SUITE_SHARED names, or in `--data`; each corpus is the distinct passages of their contexts.
A HotpotQA passage counts as found by its title, a MuSiQue one by title and text. Indexes are kept
in `--folder` (default: a temporary one); encoding takes about 200 s of CPU time.

Needs the extra `retrieval`.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from agentgym_suite.indexes.bm25_passages import build_bm25
from agentgym_suite.indexes.dense_build import build_dense
from agentgym_suite.indexes.fts5_build import build_fts5
from agentgym_suite.indexes.hybrid import build_hybrid
from agentgym_suite.indexes.opening import open_index
from agentgym_suite.indexes.passages import Passage, PassageIndex

_DEPTHS = (5, 10)
_KINDS = ("bm25", "fts5", "dense", "hybrid")

Texts = list[tuple[str, str]]
Question = tuple[str, set[tuple[str, ...]]]


def main() -> int:
    """Build every index, search with every question, print one table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of the samples")
    parser.add_argument("--folder", type=Path, help="keep corpora and indexes here")
    parser.add_argument("--encoder", default="minilm")
    options = parser.parse_args()
    shared = os.environ.get("AGENTGYM_SUITE_SHARED")
    if options.data is None and not shared:
        parser.error("AGENTGYM_SUITE_SHARED is not set: give --data FOLDER")
    data = options.data or Path(str(shared)) / "data" / "qa"
    print("| questions | index | recall@5 | recall@10 | all found@5 | all found@10 |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="recall-") as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name, (texts, question_sets) in (
            ("hotpot", _hotpot(data)),
            ("musique", _musique(data)),
        ):
            corpus = _write_corpus(folder / f"{name}.jsonl", texts)
            for kind, index in _indexes(folder / name, corpus, options.encoder):
                for split, questions in question_sets.items():
                    figures = " | ".join(f"{share:.4f}" for share in _recall(index, questions))
                    print(f"| {name} {split} ({len(questions)}) | {kind} | {figures} |", flush=True)
                index.close()
    return 0


def _hotpot(data: Path) -> tuple[Texts, dict[str, list[Question]]]:
    texts: Texts = []
    question_sets = {}
    for split in ("train", "dev"):
        rows = json.loads((data / f"hotpot_distractor_{split}100.json").read_text("utf-8"))
        texts += [(title, " ".join(parts)) for row in rows for title, parts in row["context"]]
        question_sets[split] = [
            (row["question"], {(title.strip(),) for title, _ in row["supporting_facts"]})
            for row in rows
        ]
    return texts, question_sets


def _musique(data: Path) -> tuple[Texts, dict[str, list[Question]]]:
    lines = (data / "musique_100.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    texts = [(p["title"], p["paragraph_text"]) for row in rows for p in row["paragraphs"]]
    return texts, {"train": [(row["question"], _supporting(row)) for row in rows]}


def _supporting(row: dict[str, Any]) -> set[tuple[str, ...]]:
    return {
        (paragraph["title"].strip(), paragraph["paragraph_text"].strip())
        for paragraph in row["paragraphs"]
        if paragraph["is_supporting"]
    }


def _write_corpus(path: Path, texts: Iterable[tuple[str, str]]) -> Path:
    stripped = ((title.strip(), text.strip()) for title, text in texts)
    distinct = dict.fromkeys(pair for pair in stripped if pair[1])
    rows = [{"title": title, "text": text} for title, text in distinct]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def _indexes(place: Path, corpus: Path, encoder: str) -> Iterator[tuple[str, PassageIndex]]:
    folders = {kind: place.with_name(f"{place.name}-{kind}") for kind in _KINDS}
    build_bm25(folders["bm25"], corpus)
    build_fts5(folders["fts5"], corpus)
    build_dense(folders["dense"], corpus, encoder=encoder)
    build_hybrid(folders["hybrid"], folders["fts5"], folders["dense"])
    for kind, folder in folders.items():
        yield kind, open_index(folder)


def _recall(index: PassageIndex, questions: Sequence[Question]) -> list[float]:
    """Mean recall at each depth, then how often everything was found at each depth."""
    results = index.retrieve([question for question, _ in questions], max(_DEPTHS))
    shares: dict[int, list[float]] = {depth: [] for depth in _DEPTHS}
    for (_, wanted), found in zip(questions, results, strict=True):
        for depth in _DEPTHS:
            keys = {key for one in found[:depth] for key in _keys(one.passage)}
            shares[depth].append(len(wanted & keys) / len(wanted))
    count = len(questions)
    means = [sum(shares[depth]) / count for depth in _DEPTHS]
    return [*means, *(shares[depth].count(1.0) / count for depth in _DEPTHS)]


def _keys(passage: Passage) -> tuple[tuple[str, ...], ...]:
    return (passage.title,), (passage.title, passage.text)


if __name__ == "__main__":
    raise SystemExit(main())
