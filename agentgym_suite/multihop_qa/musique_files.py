"""Rows of MuSiQue, Ans and Full: in Full every question comes twice, with and without an answer."""

from __future__ import annotations

import re
from typing import Any

from agentgym_suite.multihop_qa.questions import Question
from agentgym_suite.official_rows import Row, answers_of, list_of, text_of

_HOPS = re.compile(r"([2-9])hop")


def is_musique(row: Row) -> bool:
    """Whether a row is one of MuSiQue."""
    return "paragraphs" in row and "question" in row


def musique_question(row: Row, dataset: str, split: str) -> Question:
    """The question of a row; supporting paragraphs come in the order of the steps.

    Raises:
        ValueError: a field is absent or of another form; the sentence says which.
    """
    identity = text_of(row, "id")
    hops = _HOPS.match(identity)
    answer = text_of(row, "answer", "")
    others = answers_of(row, "answer_aliases") if row.get("answer_aliases") is not None else ()
    answerable = row.get("answerable", True)
    if not isinstance(answerable, bool):
        raise ValueError(f"'answerable' is {answerable!r:.80}, not true or false")
    return Question(
        id=identity,
        dataset=dataset,
        split=split,
        question=text_of(row, "question"),
        answer=answer,
        aliases=tuple(other for other in others if other != answer),
        hops=int(hops[1]) if hops else 0,
        supporting=_supporting(row),
        answerable=answerable,
    )


def musique_paragraphs(row: Row) -> list[tuple[str, str]]:
    """(title, text) of the paragraphs of a row.

    Raises:
        ValueError: a paragraph is of another form.
    """
    return [
        (text_of(paragraph, "title"), text_of(paragraph, "paragraph_text"))
        for paragraph in _paragraphs(row)
    ]


def _supporting(row: Row) -> tuple[tuple[str, int], ...]:
    titles: dict[int, str] = {}
    for place, paragraph in enumerate(_paragraphs(row)):
        number = paragraph.get("idx", place)
        if paragraph.get("is_supporting") is True:
            titles[number] = text_of(paragraph, "title")
    steps = row.get("question_decomposition")
    named = [
        step.get("paragraph_support_idx")
        for step in (steps if isinstance(steps, list) else [])
        if isinstance(step, dict)
    ]
    # what no step names comes after the others, in the order of the paragraphs
    order = sorted(titles, key=lambda n: named.index(n) if n in named else len(named))
    return tuple((titles[number], number) for number in order)


def _paragraphs(row: Row) -> list[dict[str, Any]]:
    paragraphs = list_of(row, "paragraphs")
    for paragraph in paragraphs:
        if not isinstance(paragraph, dict):
            raise ValueError(f"'paragraphs' holds {paragraph!r:.80}, not an object")
        number = paragraph.get("idx", 0)
        if isinstance(number, bool) or not isinstance(number, int):
            raise ValueError(f"the 'idx' of a paragraph is {number!r:.80}, not a number")
    return paragraphs
