"""Rows of HotpotQA, as published and as the model hub keeps them; 2Wiki's rows begin the same."""

from __future__ import annotations

from typing import Any, TypeAlias

from agentgym_suite.multihop_qa.questions import Question
from agentgym_suite.official_rows import Row, answers_of, list_of, text_of

Context: TypeAlias = list[tuple[str, list[str]]]
"""Passages as (title, sentences)."""


def is_hotpot(row: Row) -> bool:
    """Whether a row has HotpotQA's form, whichever of the two spellings."""
    return "context" in row and "question" in row


def hotpot_question(row: Row, dataset: str, split: str) -> Question:
    """The question of a row.

    Raises:
        ValueError: a field is absent or of another form; the sentence says which.
    """
    golds = answers_of(row, "answer") if row.get("answer") is not None else ("",)
    return Question(
        id=text_of(row, "_id" if "_id" in row else "id"),
        dataset=dataset,
        split=split,
        question=text_of(row, "question"),
        answer=golds[0] if golds else "",
        aliases=golds[1:],
        kind=text_of(row, "type", "").replace("_", "-"),
        level=text_of(row, "level", ""),
        supporting=supporting_facts(row.get("supporting_facts")),
    )


def hotpot_context(row: Row) -> Context:
    """The passages of a row, untouched: sentences after the first begin with a blank.

    Raises:
        ValueError: the context is of neither form.
    """
    found = row.get("context")
    pairs = _columns(found, "title", "sentences") if isinstance(found, dict) else found
    pairs = pairs if isinstance(pairs, list | tuple) else list_of(row, "context")
    context: Context = []
    for pair in pairs:
        title, sentences = _pair(pair, "context")
        if not isinstance(title, str) or not _is_text_list(sentences):
            raise ValueError(f"'context' holds {pair!r:.80}, not [title, [sentences]]")
        context.append((title, list(sentences)))
    return context


def supporting_facts(found: Any) -> tuple[tuple[str, int], ...]:
    """(title, sentence number) of either spelling; empty where the publisher keeps them back.

    Raises:
        ValueError: they are of neither form.
    """
    if found is None:
        return ()
    pairs = _columns(found, "title", "sent_id") if isinstance(found, dict) else found
    if not isinstance(pairs, list | tuple):
        raise ValueError(f"'supporting_facts' is {found!r:.80}, not a list")
    facts = []
    for pair in pairs:
        title, number = _pair(pair, "supporting_facts")
        if not isinstance(title, str) or isinstance(number, bool) or not isinstance(number, int):
            raise ValueError(f"'supporting_facts' holds {pair!r:.80}, not [title, number]")
        facts.append((title, number))
    return tuple(facts)


def _columns(found: dict[str, Any], first: str, second: str) -> list[tuple[Any, Any]]:
    """The pairs of the hub's form, which keeps each field of all of them in a list."""
    left, right = list_of(found, first), list_of(found, second)
    if len(left) != len(right):
        raise ValueError(f"{len(left)} of {first!r} and {len(right)} of {second!r}")
    return list(zip(left, right, strict=True))


def _pair(value: Any, name: str) -> tuple[Any, Any]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError(f"{name!r} holds {value!r:.80}, not a pair")
    return value[0], value[1]


def _is_text_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
