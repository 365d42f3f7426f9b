"""Recall of supporting passages on the real samples: the specification's figures, exactly."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite.indexes.fts5 import FTS5Index
from agentgym_suite.indexes.fts5_build import build_fts5
from agentgym_suite.indexes.passages import Found, Passage
from tests.indexes.corpus_files import write_corpus

Question = tuple[str, set[tuple[str, ...]]]


def index_of(texts: Iterable[tuple[str, str]], folder: Path, expected_rows: int) -> FTS5Index:
    """FTS5 as it comes, over the distinct (title, text) pairs."""
    stripped = ((title.strip(), text.strip()) for title, text in texts)
    distinct = dict.fromkeys(pair for pair in stripped if pair[1])
    assert len(distinct) == expected_rows
    rows = [Passage(str(row), *pair) for row, pair in enumerate(distinct)]
    build_fts5(folder / "index", write_corpus(folder / "corpus.jsonl", rows))
    return FTS5Index.open(folder / "index")


def recall(
    index: FTS5Index, questions: Sequence[Question], fields: Sequence[str], k: int
) -> tuple[float, float]:
    """Mean recall of what supports a question, and how often all of it is found."""
    found = index.retrieve([question for question, _ in questions], k)
    return recall_of(found, questions, fields, k)


def recall_of(
    found: Sequence[Sequence[Found]],
    questions: Sequence[Question],
    fields: Sequence[str],
    k: int,
) -> tuple[float, float]:
    shares = []
    for (_, wanted), passages in zip(questions, found, strict=True):
        got = {tuple(getattr(one.passage, field) for field in fields) for one in passages[:k]}
        shares.append(len(wanted & got) / len(wanted))
    full = sum(share == 1 for share in shares)
    return round(sum(shares) / len(shares), 4), round(full / len(shares), 4)


def hotpot(shared: Path, split: str) -> Any:
    return json.loads((shared / "data" / "qa" / f"hotpot_distractor_{split}100.json").read_text())


@pytest.fixture(scope="module")
def hotpot_index(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> FTS5Index:
    rows = [*hotpot(shared, "train"), *hotpot(shared, "dev")]
    texts = [(title, " ".join(sentences)) for row in rows for title, sentences in row["context"]]
    assert len(texts) == 1600
    return index_of(texts, tmp_path_factory.mktemp("hotpot"), 1599)


@pytest.mark.parametrize(
    ("split", "k", "expected"),
    [
        ("train", 5, (0.8063, 0.6125)),
        ("train", 10, (0.8688, 0.7375)),
        ("dev", 5, (0.7750, 0.5500)),
        ("dev", 10, (0.9125, 0.8250)),
    ],
)
def test_hotpot(
    shared: Path, hotpot_index: FTS5Index, split: str, k: int, expected: tuple[float, float]
) -> None:
    questions: list[Question] = [
        (row["question"], {(title.strip(),) for title, _ in row["supporting_facts"]})
        for row in hotpot(shared, split)
    ]
    assert len(questions) == 80
    assert recall(hotpot_index, questions, ["title"], k) == expected


def test_musique(shared: Path, tmp_path: Path) -> None:
    lines = (shared / "data" / "qa" / "musique_100.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    texts = [(p["title"], p["paragraph_text"]) for row in rows for p in row["paragraphs"]]
    index = index_of(texts, tmp_path, 1352)
    questions: list[Question] = [
        (
            row["question"],
            {
                (p["title"].strip(), p["paragraph_text"].strip())
                for p in row["paragraphs"]
                if p["is_supporting"]
            },
        )
        for row in rows
    ]
    assert len(questions) == 70
    assert recall(index, questions, ["title", "text"], 5) == (0.5143, 0.1571)
    assert recall(index, questions, ["title", "text"], 10) == (0.6119, 0.2571)
    index.close()


def test_papers(shared: Path, tmp_path: Path) -> None:
    """The full-text table that a store of papers stands on, over titles and abstracts."""
    folder = shared / "data" / "papers"
    with lzma.open(folder / "corpus.jsonl.xz", "rt", encoding="utf-8") as lines:
        papers = [json.loads(line) for line in lines]
    rows = [Passage(p["paper_id"], p["title"], p.get("abstract") or "") for p in papers]
    build_fts5(tmp_path / "index", write_corpus(tmp_path / "corpus.jsonl", rows))
    index = FTS5Index.open(tmp_path / "index")
    with (folder / "litsearch_queries.jsonl").open(encoding="utf-8") as lines:
        asked = [json.loads(line) for line in lines]
    questions: list[Question] = [(q["query"], {(name,) for name in q["gold"]}) for q in asked]
    assert (len(rows), len(questions)) == (41_099, 170)
    found = index.retrieve([question for question, _ in questions], 50)
    figures = [recall_of(found, questions, ["id"], k)[0] for k in (5, 20, 50)]
    assert figures == [0.3765, 0.5147, 0.5971]
    full = [place for place, about in enumerate(asked) if about["coverage"] == "full"]
    assert len(full) == 144
    found, questions = [found[place] for place in full], [questions[place] for place in full]
    figures = [recall_of(found, questions, ["id"], k)[0] for k in (5, 20, 50)]
    assert figures == [0.4132, 0.5694, 0.6597]
    index.close()
