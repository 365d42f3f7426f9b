"""Rows of 2WikiMultihopQA: HotpotQA's with evidence triples; aliases are in a file apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agentgym_suite.multihop_qa.hotpot_files import hotpot_question, is_hotpot
from agentgym_suite.multihop_qa.questions import Question
from agentgym_suite.official_rows import BadRows, Row, iter_rows, list_of, text_of
from agentgym_suite.source_texts import SourceText

Aliases = Mapping[str, tuple[str, ...]]
"""Id of an entity -> its other names and its demonyms."""


def is_twowiki(row: Row) -> bool:
    """Whether a row is one of 2Wiki."""
    return is_hotpot(row) and "evidences" in row


def is_alias_row(row: Row) -> bool:
    """Whether a row is one of ``id_aliases``."""
    return "Q_id" in row and "aliases" in row


def twowiki_question(row: Row, dataset: str, split: str, aliases: Aliases) -> Question:
    """The question of a row, with the aliases of its answer; hops are its evidences.

    Args:
        row: of either release: only the newer one has ``answer_id``, which aliases need.
        dataset: what to call the data set.
        split: ``train``, ``dev`` or ``test``.
        aliases: of every entity.

    Raises:
        ValueError: a field is absent or of another form; the sentence says which.
    """
    question = hotpot_question(row, dataset, split)
    evidences = tuple(triple_of(each) for each in list_of(row, "evidences"))
    entity = row.get("answer_id")
    known = aliases.get(entity, ()) if isinstance(entity, str) else ()
    others = dict.fromkeys((*question.aliases, *known))
    others.pop(question.answer, None)
    return replace(question, aliases=tuple(others), evidences=evidences, hops=len(evidences))


def read_aliases(text: SourceText | None, bad: BadRows) -> dict[str, tuple[str, ...]]:
    """The names of every entity that the file has any for; none without a file.

    Raises:
        DataMissing: there is no such file.
        DataDamaged: a row is bad and not to be skipped.
    """
    found: dict[str, tuple[str, ...]] = {}
    if text is None:
        return found
    for line, row in iter_rows(text, bad):
        try:
            names = (*_names(row, "aliases"), *_names(row, "demonyms"))
            entity = text_of(row, "Q_id")
        except ValueError as error:
            bad.add(text, line, error)
            continue
        if names:
            found[entity] = tuple(dict.fromkeys((*found.get(entity, ()), *names)))
    return found


def _names(row: Row, key: str) -> list[str]:
    names = list_of(row, key) if row.get(key) is not None else []
    if not all(isinstance(name, str) for name in names):
        raise ValueError(f"{key!r} is {names!r:.80}, not a list of names")
    return names


def triple_of(value: object) -> tuple[str, str, str]:
    """(subject, relation, object) of a list of three.

    Raises:
        ValueError: it is something else.
    """
    parts = list(value) if isinstance(value, list | tuple) else []
    if len(parts) != 3 or not all(isinstance(part, str) for part in parts):
        raise ValueError(f"'evidences' holds {value!r:.80}, not [subject, relation, object]")
    return parts[0], parts[1], parts[2]
