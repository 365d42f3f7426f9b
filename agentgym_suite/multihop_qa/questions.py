"""One question, whatever data set it comes from, and its form on the disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from agentgym_suite.official_rows import json_line

UNANSWERABLE = "~unanswerable"


@dataclass(frozen=True, slots=True)
class Question:
    """A question with the answers that its data set accepts.

    Attributes:
        id: the official id; a row number as text where the data set has none.
        dataset: ``hotpotqa``, ``2wikimultihopqa``, ``musique``, ``nq`` and so on.
        split: ``train``, ``dev`` or ``test``.
        question: the text.
        answer: the first accepted answer, "" where the publisher keeps it back.
        aliases: the other accepted answers, without ``answer``.
        kind: ``bridge``, ``comparison``, ``bridge-comparison``, ``inference``,
            ``compositional``, as far as the data set says; "" unknown.
        level: ``easy``, ``medium`` or ``hard``; "" unknown.
        hops: how many steps lead to the answer, 0 unknown.
        supporting: (title, number) of what proves the answer: the number of the sentence in
            HotpotQA and 2Wiki, of the paragraph in MuSiQue, -1 unknown.
        evidences: (subject, relation, object) in the order of the hops; 2Wiki alone has them.
        answerable: False in the half of MuSiQue-Full whose paragraphs lack a step.
    """

    id: str
    dataset: str
    split: str
    question: str
    answer: str
    aliases: tuple[str, ...] = ()
    kind: str = ""
    level: str = ""
    hops: int = 0
    supporting: tuple[tuple[str, int], ...] = ()
    evidences: tuple[tuple[str, str, str], ...] = ()
    answerable: bool = True

    @property
    def golds(self) -> tuple[str, ...]:
        """Every accepted answer, the first one first; empty where the publisher has kept it."""
        return (self.answer, *self.aliases) if self.answer or self.aliases else ()

    @property
    def task_id(self) -> str:
        """``<dataset>/<split>/<official id>``; an unanswerable twin is marked as such."""
        mark = "" if self.answerable else UNANSWERABLE
        return f"{self.dataset}/{self.split}/{self.id}{mark}"

    @property
    def family(self) -> str:
        """The kind, else the hops as ``2hop``, else ""."""
        return self.kind or (f"{self.hops}hop" if self.hops else "")

    @property
    def supporting_titles(self) -> tuple[str, ...]:
        """The titles of the supporting passages, each once, in their order."""
        return tuple(dict.fromkeys(title for title, _ in self.supporting))


# Of a field that must be given, the default is a mark of dataclasses that no value equals.
_DEFAULTS: Mapping[str, Any] = {field.name: field.default for field in fields(Question)}
_NAMES = tuple(field.name for field in fields(Question))


def question_line(question: Question) -> bytes:
    """One line of JSON, without the fields that say nothing."""
    row = {name: getattr(question, name) for name in _NAMES}
    return json_line({name: value for name, value in row.items() if value != _DEFAULTS[name]})


def read_question(line: str) -> Question:
    """The question of such a line."""
    values = json.loads(line)
    values["aliases"] = tuple(values.get("aliases", ()))
    values["supporting"] = tuple((title, number) for title, number in values.get("supporting", ()))
    values["evidences"] = tuple((s, r, o) for s, r, o in values.get("evidences", ()))
    return Question(**values)
