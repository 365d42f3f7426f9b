"""A few invented pages and questions, and an index of them that ranks by shared words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentgym_suite.data import Contents, publish
from agentgym_suite.errors import RetrievalError
from agentgym_suite.files import Json
from agentgym_suite.indexes.passages import Found, Passage, check_search
from agentgym_suite.multihop_qa.env import MultiHopQAEnv
from agentgym_suite.multihop_qa.question_folder import (
    CORPUS_NAME,
    QUESTIONS_KIND,
    QUESTIONS_VERSION,
    write_questions,
)
from agentgym_suite.multihop_qa.question_set import QuestionSet, open_finished
from agentgym_suite.multihop_qa.questions import Question
from agentgym_suite.multihop_qa.scorers import normalise

PASSAGES = (
    Passage(
        "p1", "Odrin Vale", "Odrin Vale wrote the novel Grey Lantern.\nHe was born in Tessaly."
    ),
    Passage("p2", "Grey Lantern", "Grey Lantern is a novel about a lighthouse."),
    Passage("p3", "Tessaly", "Tessaly is a town on the river Morne."),
    Passage("p4", "Morne", "The Morne flows through Tessaly and Harrow."),
    Passage("p5", "Harrow", "Harrow is a port with 4,000 people."),
    Passage("p6", "Tessaly (ship)", "Tessaly is a town on  the river Morne."),
)
QUESTIONS = (
    Question(
        "q1",
        "small",
        "train",
        "On which river is the town where the writer of Grey Lantern was born?",
        "Morne",
        ("the Morne river",),
        kind="bridge",
        hops=3,
        supporting=(("Odrin Vale", 0), ("Tessaly", 0)),
        evidences=(
            ("Odrin Vale", "wrote", "Grey Lantern"),
            ("Odrin Vale", "was born in", "Tessaly"),
            ("Tessaly", "is on the river", "Morne"),
        ),
    ),
    Question("q2", "small", "train", "Which novel is about a lighthouse?", "Grey Lantern"),
    Question("q3", "small", "dev", "Which port has 4,000 people?", "Harrow", ("Harrow port",)),
    Question("q4", "small", "dev", "Which article is definite?", "The"),
)


class WordIndex:
    """Ranks by how many words a passage shares with the query; what it was asked is ``asked``."""

    def __init__(self, passages: Sequence[Passage] = PASSAGES) -> None:
        self._passages = passages
        self.asked: list[tuple[tuple[str, ...], int]] = []
        self.broken = False
        self.closed = 0

    @property
    def digest(self) -> str:
        return "sha256:words"

    def __len__(self) -> int:
        return len(self._passages)

    def retrieve(self, queries: Sequence[str], k: int) -> list[list[Found]]:
        check_search(queries, k)
        self.asked.append((tuple(queries), k))
        if self.broken:
            raise RetrievalError("the index is gone; build it again")
        return [self._ranked(query)[:k] for query in queries]

    def _ranked(self, query: str) -> list[Found]:
        wanted = set(normalise(query).split())
        found = [
            Found(p, float(len(wanted & set(normalise(f"{p.title} {p.text}").split()))))
            for p in self._passages
        ]
        hits = [one for one in found if one.score]
        return sorted(hits, key=lambda one: (-one.score, one.passage.id))

    def info(self) -> dict[str, Json]:
        return {"kind": "word-index", "rows": len(self), "encoder": {"name": "words"}, "path": "x"}

    def close(self) -> None:
        self.closed += 1


def small_questions(
    folder: Path, questions: Sequence[Question] = QUESTIONS, *, with_corpus: bool = False
) -> QuestionSet:
    def write(partial: Path) -> Contents:
        if with_corpus:
            rows = [{"id": p.id, "title": p.title, "text": p.text} for p in PASSAGES]
            text = "".join(f"{json.dumps(row)}\n" for row in rows)
            (partial / CORPUS_NAME).write_text(text, encoding="utf-8")
        return Contents(write_questions(partial, questions), {"dataset": "small"})

    publish(folder, kind=QUESTIONS_KIND, version=QUESTIONS_VERSION, inputs={}, write=write)
    return open_finished(folder)


def small_env(questions: QuestionSet, task: str = "small/train/q1", **kwargs: Any) -> MultiHopQAEnv:
    """An environment at the start of a task; a horizon of five steps unless given."""
    horizon = kwargs.pop("horizon", 5)
    kwargs.setdefault("passages", WordIndex())
    env = MultiHopQAEnv(questions=questions, **kwargs)
    env.horizon = horizon
    env.reset(seed=1, options={"task_id": task})
    return env
