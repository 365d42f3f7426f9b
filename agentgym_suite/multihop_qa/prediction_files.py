"""Prediction and gold files of the benchmarks' own evaluation, read and written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from agentgym_suite.data import write_json_atomic
from agentgym_suite.errors import DataDamaged, DataMissing
from agentgym_suite.files import explain_unreadable, write_atomic
from agentgym_suite.multihop_qa.hotpot_files import supporting_facts
from agentgym_suite.multihop_qa.official_scores import (
    MusiquePrediction,
    OfficialGold,
    Predictions,
    Triple,
)
from agentgym_suite.multihop_qa.questions import Question
from agentgym_suite.multihop_qa.row_formats import RowPlace, format_of
from agentgym_suite.multihop_qa.twowiki_files import Aliases, read_aliases, triple_of
from agentgym_suite.official_rows import BadRows, Row, iter_rows, json_line, text_of
from agentgym_suite.source_texts import SourceText


def read_golds(path: Path | str, aliases: Path | str | None = None) -> list[OfficialGold]:
    """The golds of an official file of HotpotQA, 2Wiki or MuSiQue, in its order.

    Args:
        path: the file.
        aliases: 2Wiki's ``id_aliases``, which widen answers and evidences.

    Raises:
        DataMissing: there is no such file.
        DataDamaged: it is damaged, or a row is in no official format.
    """
    bad = BadRows()
    known = read_aliases(None if aliases is None else SourceText(Path(aliases)), bad)
    text = SourceText(Path(path))
    golds = []
    for number, (line, row) in enumerate(iter_rows(text, bad)):
        form = format_of(row)
        try:
            if form is None:
                raise ValueError("a row in no format that is known")
            question = form.question(row, RowPlace(form.dataset, "dev", number, known))
            golds.append(_gold(question, _evidences(row, question, known)))
        except ValueError as error:
            bad.add(text, line, error)
    return golds


def gold_of(question: Question) -> OfficialGold:
    """The gold of a loaded question; evidences have the one spelling that it keeps."""
    return _gold(question, tuple((each,) for each in question.evidences))


def read_predictions(path: Path | str) -> Predictions:
    """A prediction file of HotpotQA or 2Wiki: ``{answer: {id: text}, sp: …, evidence: …}``.

    Raises:
        DataMissing: there is no such file.
        DataDamaged: it is not such a file.
    """
    path = Path(path)
    if not path.is_file():
        raise DataMissing(f"there is no file {path}; check the path")
    with explain_unreadable(path):
        content = path.read_bytes()
    try:
        value = json.loads(content)
        if not isinstance(value, dict):
            raise ValueError(f"a {type(value).__name__} instead of an object")
        answers, facts = _part(value, "answer"), _part(value, "sp")
        triples = _part(value, "evidence")
        return Predictions(
            answers={name: text_of(answers, name) for name in answers},
            supporting={name: supporting_facts(each) for name, each in facts.items()},
            evidences={name: tuple(map(triple_of, each)) for name, each in triples.items()},
        )
    except (ValueError, TypeError, RecursionError) as error:
        raise DataDamaged(
            f"{path} is no prediction file ({error}); it is a JSON object "
            '{"answer": {id: text}, "sp": {id: [[title, number]]}}'
        ) from error


def write_predictions(path: Path | str, told: Predictions) -> None:
    """Write such a file, whole or not at all."""
    value: dict[str, Any] = {
        "answer": dict(told.answers),
        "sp": {name: [list(fact) for fact in facts] for name, facts in told.supporting.items()},
    }
    if told.evidences:
        value["evidence"] = {
            name: [list(triple) for triple in each] for name, each in told.evidences.items()
        }
    write_json_atomic(path, value)


def read_musique_predictions(path: Path | str) -> list[MusiquePrediction]:
    """A prediction file of MuSiQue, in its order.

    Raises:
        DataMissing: there is no such file.
        DataDamaged: a row is not one of such a file.
    """
    bad = BadRows()
    text = SourceText(Path(path))
    rows = []
    for line, row in iter_rows(text, bad):
        try:
            rows.append(_musique_row(row))
        except ValueError as error:
            bad.add(text, line, error)
    return rows


def write_musique_predictions(path: Path | str, told: Sequence[MusiquePrediction]) -> None:
    """Write such a file, whole or not at all."""
    lines = (
        json_line(
            {
                "id": row.id,
                "predicted_answer": row.answer,
                "predicted_support_idxs": list(row.paragraphs),
                "predicted_answerable": row.answerable,
            }
        )
        for row in told
    )
    write_atomic(path, b"".join(lines))


def _gold(question: Question, evidences: tuple[tuple[Triple, ...], ...]) -> OfficialGold:
    return OfficialGold(
        id=question.id,
        answers=question.golds or ("",),
        supporting=question.supporting,
        evidences=evidences,
        answerable=question.answerable,
    )


def _evidences(row: Row, question: Question, aliases: Aliases) -> tuple[tuple[Triple, ...], ...]:
    """Each triple under every name of its two ends, which ``evidences_id`` leads to."""
    ids = row.get("evidences_id") or [(None, None, None)] * len(question.evidences)
    if not isinstance(ids, list) or len(ids) != len(question.evidences):
        raise ValueError("'evidences_id' does not fit 'evidences'")
    return tuple(
        tuple(
            (first, relation, last)
            for first, last in product(
                _names(subject, known[0], aliases), _names(obj, known[-1], aliases)
            )
        )
        for (subject, relation, obj), known in zip(question.evidences, ids, strict=True)
    )


def _names(name: str, entity: object, aliases: Aliases) -> tuple[str, ...]:
    others = aliases.get(entity, ()) if isinstance(entity, str) else ()
    return tuple(dict.fromkeys((name, *others)))


def _part(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    part = value.get(key, {})
    if not isinstance(part, dict):
        raise ValueError(f"{key!r} is {part!r:.80}, not an object")
    return part


def _musique_row(row: Row) -> MusiquePrediction:
    numbers = row.get("predicted_support_idxs", [])
    if not isinstance(numbers, list) or not all(type(each) is int for each in numbers):
        raise ValueError(f"'predicted_support_idxs' is {numbers!r:.80}, not a list of numbers")
    answerable = row.get("predicted_answerable", True)
    if not isinstance(answerable, bool):
        raise ValueError(f"'predicted_answerable' is {answerable!r:.80}, not true or false")
    answer = text_of(row, "predicted_answer")
    return MusiquePrediction(text_of(row, "id"), answer, tuple(numbers), answerable)
