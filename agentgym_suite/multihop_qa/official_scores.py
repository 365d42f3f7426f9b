"""Scores of a whole set as the benchmarks' own scripts give them: answers, support, evidence.

Formulas only; ``prediction_files`` reads and writes what goes in. Missing predictions count 0,
and the divisor is the number of golds, in HotpotQA and 2Wiki; MuSiQue wants every row.
"""

from __future__ import annotations

import string
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from agentgym_suite.errors import DataError
from agentgym_suite.multihop_qa.scorers import NOTHING, SCORERS, AnswerScore, hotpot_pair

Triple: TypeAlias = tuple[str, str, str]
Fact: TypeAlias = tuple[str, int]

_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, slots=True)
class OfficialGold:
    """What a benchmark's script compares a prediction with.

    Attributes:
        id: the official id.
        answers: the accepted answers, the first one first.
        supporting: (title, sentence number); in MuSiQue (title, paragraph number).
        evidences: for each triple of 2Wiki its spellings, one for each pair of names of its ends.
        answerable: False for the unanswerable half of MuSiQue-Full.
    """

    id: str
    answers: tuple[str, ...]
    supporting: tuple[Fact, ...] = ()
    evidences: tuple[tuple[Triple, ...], ...] = ()
    answerable: bool = True


@dataclass(frozen=True, slots=True)
class Predictions:
    """A prediction file of HotpotQA or 2Wiki, by id.

    Attributes:
        answers: the answers.
        supporting: (title, sentence number) of the supporting facts.
        evidences: triples, 2Wiki alone.
    """

    answers: Mapping[str, str] = field(default_factory=dict)
    supporting: Mapping[str, Collection[Fact]] = field(default_factory=dict)
    evidences: Mapping[str, Collection[Triple]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MusiquePrediction:
    """A row of a prediction file of MuSiQue: paragraphs by number, and whether it has an answer."""

    id: str
    answer: str
    paragraphs: tuple[int, ...] = ()
    answerable: bool = True


def hotpot_scores(golds: Sequence[OfficialGold], told: Predictions) -> dict[str, float]:
    """HotpotQA's: ``em f1 prec recall``, the same of ``sp_`` and ``joint_``, as fractions.

    Raises:
        DataError: there are no golds.
    """
    rows = []
    for gold in golds:
        answer, facts = told.answers.get(gold.id), told.supporting.get(gold.id)
        parts = {
            "": None if answer is None else hotpot_pair(answer, gold.answers[0]),
            "sp_": None if facts is None else _overlap(set(facts), set(gold.supporting)),
        }
        rows.append(_row(parts))
    return _means(rows)


def twowiki_scores(golds: Sequence[OfficialGold], told: Predictions) -> dict[str, float]:
    """2Wiki's (v1.1): as HotpotQA's, with ``evi_`` and titles in lower case; times 100, rounded.

    Raises:
        DataError: there are no golds.
    """
    rows = []
    for gold in golds:
        answer, facts = told.answers.get(gold.id), told.supporting.get(gold.id)
        triples = told.evidences.get(gold.id)
        parts = {
            "": None if answer is None else SCORERS["2wiki"].official(answer, gold.answers),
            "sp_": None if facts is None else _overlap(_lower(facts), _lower(gold.supporting)),
            "evi_": None if triples is None else _evidence(triples, gold.evidences),
        }
        rows.append(_row(parts))
    return {name: round(value * 100, 2) for name, value in _means(rows).items()}


def musique_scores(
    golds: Sequence[OfficialGold], told: Sequence[MusiquePrediction]
) -> dict[str, float]:
    """MuSiQue's: ``answer_em answer_f1 support_f1``, of Full also the two of sufficiency.

    Answers and support count where the gold is answerable. Once a gold is unanswerable, every
    question has two rows, and its F1 counts in ``group_…`` only when both were told apart
    rightly. Three decimals.

    Raises:
        DataError: the rows are not those of the golds in their order, no gold is answerable, or
            a question of Full does not have its two rows.
    """
    if [gold.id for gold in golds] != [row.id for row in told]:
        raise DataError(
            f"the {len(told)} predictions are not the {len(golds)} golds in the same order; "
            "write one row for each row of the gold file"
        )
    rows, groups = [], defaultdict(list)
    for gold, row in zip(golds, told, strict=True):
        scores = _musique_row(gold, row)
        groups[gold.id].append((gold.answerable, row.answerable == gold.answerable, scores))
        if gold.answerable:
            rows.append(scores)
    found = _means(rows)
    if len(rows) < len(golds):
        found |= _means([_together(name, group) for name, group in groups.items()])
    return {name: round(value, 3) for name, value in found.items()}


def _musique_row(gold: OfficialGold, told: MusiquePrediction) -> dict[str, float]:
    answer = SCORERS["musique"].official(told.answer, gold.answers)
    support = _overlap(set(told.paragraphs), {number for _, number in gold.supporting})
    return {"answer_em": answer.em, "answer_f1": answer.f1, "support_f1": support.f1}


def _together(name: str, group: Sequence[tuple[bool, bool, dict[str, float]]]) -> dict[str, float]:
    """Sufficiency of one question from its (answerable, told rightly, scores) rows."""
    answerable = [scores for has_answer, _, scores in group if has_answer]
    if len(group) != 2 or len(answerable) != 1:
        raise DataError(
            f"question {name} has {len(group)} rows, {len(answerable)} of them answerable; give "
            "the gold file of MuSiQue-Full, in which every question comes once with and once "
            "without an answer"
        )
    told_apart = all(rightly for _, rightly, _ in group)
    return {
        "group_answer_sufficiency_f1": answerable[0]["answer_f1"] if told_apart else 0.0,
        "group_support_sufficiency_f1": answerable[0]["support_f1"] if told_apart else 0.0,
    }


def _overlap(told: Collection[object], gold: Collection[object]) -> AnswerScore:
    """Precision, recall and F1 of what was told; exact when nothing is missing or too much."""
    hits = sum(each in gold for each in told)
    missed = sum(each not in told for each in gold)
    precision = hits / len(told) if told else 0.0
    recall = hits / (hits + missed) if hits + missed else 0.0
    exact = hits == len(told) and not missed
    return AnswerScore(float(exact), _f1(precision, recall), precision, recall)


def _evidence(told: Collection[Triple], gold: Sequence[Collection[Triple]]) -> AnswerScore:
    """Triples against the spellings of each gold triple; articles count here."""
    said = {_plain(triple) for triple in told}
    spellings = [{_plain(triple) for triple in each} for each in gold]
    hits = sum(any(triple in each for each in spellings) for triple in said)
    precision = hits / len(said) if said else 0.0
    recall = hits / len(gold) if gold else 0.0
    exact = hits == len(said) == len(gold)
    return AnswerScore(float(exact), _f1(precision, recall), precision, recall)


def _plain(triple: Triple) -> Triple:
    """A triple in lower case, without punctuation, with single blanks."""
    first, second, third = (
        " ".join(part.lower().translate(_WITHOUT_PUNCTUATION).split()) for part in triple
    )
    return first, second, third


def _lower(facts: Collection[Fact]) -> list[Fact]:
    """The facts with titles in lower case; two that differ in case alone stay two."""
    return [(title.lower(), number) for title, number in set(facts)]


def _row(parts: Mapping[str, AnswerScore | None]) -> dict[str, float]:
    """The numbers of a question, 0 for parts that are missing; joint needs all of them."""
    row: dict[str, float] = {}
    for prefix, part in parts.items():
        row |= _named(prefix, part or NOTHING)
    em, precision, recall = 1.0, 1.0, 1.0
    for each in parts.values():
        part = each or NOTHING
        em, precision, recall = em * part.em, precision * part.precision, recall * part.recall
    return row | _named("joint_", AnswerScore(em, _f1(precision, recall), precision, recall))


def _named(prefix: str, part: AnswerScore) -> dict[str, float]:
    return {
        f"{prefix}em": part.em,
        f"{prefix}f1": part.f1,
        f"{prefix}prec": part.precision,
        f"{prefix}recall": part.recall,
    }


def _f1(precision: float, recall: float) -> float:
    total = precision + recall
    return 2 * precision * recall / total if total > 0 else 0.0


def _means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    if not rows:
        raise DataError("there is no gold with an answer to score; give the gold file of the set")
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}
