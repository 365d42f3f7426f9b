"""Writing a generated literature: papers, citations, and questions as PaSa publishes its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agentgym_suite.dice import Dice
from agentgym_suite.files import Progress
from agentgym_suite.paper_search.generator.asking import Asked
from agentgym_suite.paper_search.generator.identity import (
    BROAD_SET,
    DEFAULT_PAPERS,
    DEFAULT_SEED,
    GENERATOR_VERSION,
    NARROW_SET,
    QUERY_COUNTS,
)
from agentgym_suite.paper_search.generator.literature import Literature, Written, make_literature
from agentgym_suite.paper_search.generator.papers import FIRST_YEAR, month_text

CORPUS_NAME, CITATIONS_NAME = "corpus.jsonl", "citations.tsv"

# As in the published files: ids with a version, an id given twice, a question with a line end.
_VERSIONED, _TWICE = 0.05, 0.01


def generate(
    folder: Path,
    *,
    papers: int = DEFAULT_PAPERS,
    seed: int = DEFAULT_SEED,
    queries: Mapping[str, int] = QUERY_COUNTS,
    progress: Progress | None = None,
) -> dict[str, int]:
    """Write a literature and two sets of questions over it.

    The files are corpus.jsonl (rows ``{paper_id, arxiv_id, title, abstract, year, published,
    venue, authors}``), citations.tsv (``citing<TAB>cited``), and RealScholarQuery/ and
    AutoScholarQuery/ with train, dev and test in PaSa's format. The bytes are a function of
    (``GENERATOR_VERSION``, papers, seed, queries).

    Args:
        folder: where the files go; created if missing. They are written in place: publishing them
            whole is the caller's business.
        papers: how many papers.
        seed: any integer.
        queries: split -> how many questions each of the two sets has in it.
        progress: called with (phase, done, total).

    Returns:
        How many papers, citations and questions of each split of each set there are.

    Raises:
        UsageError: there would be no paper.
        DataError: the papers are too few for so many questions.
    """
    made = make_literature(papers, seed, queries, progress)
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / CORPUS_NAME, (_line(_paper_row(paper)) for paper in made.papers))
    _write(folder / CITATIONS_NAME, _citation_lines(made))
    counts = {
        "papers": len(made.papers),
        "citations": sum(len(paper.references) for paper in made.papers),
    }
    for name, label in ((BROAD_SET, "real"), (NARROW_SET, "auto")):
        for split in queries:
            asked = made.questions[name][split]
            rows = _query_rows(made, asked, f"{name}_{split}", seed)
            _write(folder / name / f"{split}.jsonl", map(_line, rows))
            counts[f"{label}_{split}"] = len(asked)
    return counts


def _paper_row(paper: Written) -> dict[str, Any]:
    draft = paper.draft
    return {
        "paper_id": draft.arxiv_id,
        "arxiv_id": draft.arxiv_id,
        "title": paper.title,
        "abstract": paper.abstract or None,
        "year": FIRST_YEAR + draft.month // 12,
        "published": month_text(draft.month),
        "venue": paper.venue or None,
        "authors": list(paper.authors),
    }


def _citation_lines(made: Literature) -> Iterable[str]:
    yield "citing\tcited\n"
    for paper in made.papers:
        for cited in paper.references:
            yield f"{paper.draft.arxiv_id}\t{made.papers[cited].draft.arxiv_id}\n"


def _query_rows(
    made: Literature, asked: Iterable[Asked], name: str, seed: int
) -> Iterable[dict[str, Any]]:
    dice = Dice(GENERATOR_VERSION, seed, "rows", name)
    for number, question in enumerate(asked):
        relevant = [made.papers[each] for each in dice.shuffled(question.relevant)]
        if dice.chance(_TWICE):
            relevant.append(dice.pick(relevant))
        yield {
            "qid": f"{name}_{number}",
            "question": question.text + ("" if number else "\n"),
            "answer": [paper.title for paper in relevant],
            "answer_arxiv_id": [
                paper.draft.arxiv_id + (f"v{dice.between(1, 3)}" if dice.chance(_VERSIONED) else "")
                for paper in relevant
            ],
            "source_meta": {"published_time": question.cutoff},
        }


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def _write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(lines)
