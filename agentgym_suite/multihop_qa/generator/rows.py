"""Questions in the official formats: a row of HotpotQA, 2WikiMultihopQA, MuSiQue and FlashRAG."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from agentgym_suite.multihop_qa.generator.contexts import Contexts, Paragraph
from agentgym_suite.multihop_qa.generator.questions import Question, value_id
from agentgym_suite.multihop_qa.generator.wording import Asker
from agentgym_suite.multihop_qa.generator.world import Fact, World

Row = dict[str, Any]

_TWOWIKI_TYPES = {"bridge": "compositional", "bridge-comparison": "bridge_comparison"}
_LEVELS = {2: "medium", 3: "hard", 4: "hard"}


class RowMaker:
    """Makes the rows of questions.

    Args:
        world: the world.
        asker: knows how a fact is told.
        contexts: knows where a fact stands.
    """

    def __init__(self, world: World, asker: Asker, contexts: Contexts) -> None:
        self._world = world
        self._asker = asker
        self._contexts = contexts

    def hotpot(self, question: Question, paragraphs: Sequence[Paragraph]) -> Row:
        """A HotpotQA row; its type knows comparisons and bridges only."""
        return {
            "_id": question_id(question),
            "answer": question.answer.text,
            "question": question.text,
            "supporting_facts": self.supporting_facts(question),
            "context": [[p.passage.title, list(p.passage.sentences)] for p in paragraphs],
            "type": "comparison" if "comparison" in question.kind else "bridge",
            "level": "easy" if question.kind == "comparison" else _LEVELS[question.hops],
        }

    def twowiki(self, question: Question, hotpot: Row) -> Row:
        """A row of 2WikiMultihopQA in its newer release, with the ids that aliases need."""
        facts = question.facts
        return {
            "_id": hotpot["_id"],
            "type": _TWOWIKI_TYPES.get(question.kind, question.kind),
            "question": question.text,
            "context": hotpot["context"],
            "entity_ids": "_".join(self._world.entities[fact.teller].id for fact in facts),
            "supporting_facts": hotpot["supporting_facts"],
            "evidences": [self.evidence(fact) for fact in facts],
            "answer": question.answer.text,
            "evidences_id": [self._evidence_ids(fact) for fact in facts],
            "answer_id": question.answer.id or None,
        }

    def musique(self, question: Question, paragraphs: Sequence[Paragraph]) -> Row:
        """A MuSiQue row of a chain: its hops one by one, "#1" for the answer of the first."""
        where = {p.step: idx for idx, p in enumerate(paragraphs)}
        steps = zip(question.steps, question.facts, strict=True)
        return {
            "id": f"{question.hops}hop__{'_'.join(str(number) for number in question.path)}",
            "paragraphs": [
                {
                    "idx": idx,
                    "title": p.passage.title,
                    "paragraph_text": p.passage.text,
                    "is_supporting": p.step >= 0,
                }
                for idx, p in enumerate(paragraphs)
            ],
            "question": question.text,
            "question_decomposition": [
                {
                    "id": fact.number,
                    "question": step,
                    "answer": self._object(fact),
                    "paragraph_support_idx": where[place],
                }
                for place, (step, fact) in enumerate(steps)
            ],
            "answer": question.answer.text,
            "answer_aliases": list(question.answer.aliases),
            "answerable": True,
        }

    def flashrag(self, question: Question, hotpot: Row, name: str) -> Row:
        """A FlashRAG row."""
        return {
            "id": name,
            "question": question.text,
            "golden_answers": [question.answer.text, *question.answer.aliases],
            "metadata": {
                "type": question.kind,
                "level": hotpot["level"],
                "hops": question.hops,
                "supporting_facts": hotpot["supporting_facts"],
                "evidences": [self.evidence(fact) for fact in question.facts],
            },
        }

    def supporting_facts(self, question: Question) -> list[list[str | int]]:
        """Title and sentence number of each fact, in hop order."""
        places = (self._contexts.place(fact) for fact in question.facts)
        return [[passage.title, sentence] for passage, sentence in places]

    def evidence(self, fact: Fact) -> list[str]:
        """A fact as (title of the page that tells it, relation, object)."""
        label = self._asker.telling(fact).label
        return [self._world.entities[fact.teller].title, label, self._object(fact)]

    def aliases(self) -> Iterator[Row]:
        """The rows of id_aliases: every entity that has other names, every value's other forms."""
        for entity in self._world.entities:
            if entity.aliases or entity.demonyms:
                yield {
                    "Q_id": entity.id,
                    "aliases": list(entity.aliases),
                    "demonyms": list(entity.demonyms),
                }
        for fact in self._world.facts:
            if fact.value is not None and fact.value.aliases:
                yield {"Q_id": value_id(fact), "aliases": list(fact.value.aliases), "demonyms": []}

    def _object(self, fact: Fact) -> str:
        if fact.value is not None:
            return fact.value.answer
        return self._world.entities[fact.told].title

    def _evidence_ids(self, fact: Fact) -> list[str]:
        end = value_id(fact) if fact.value is not None else self._world.entities[fact.told].id
        return [self._world.entities[fact.teller].id, self._asker.telling(fact).label, end]


def question_id(question: Question) -> str:
    """The 24 hexadecimal digits of a question's id, a function of its text."""
    return hashlib.blake2b(question.text.encode(), digest_size=12).hexdigest()
