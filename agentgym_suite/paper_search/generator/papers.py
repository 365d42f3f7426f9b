"""What each paper is: when it came, what it is about, and in the words of which school."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentgym_suite.dice import Dice
from agentgym_suite.paper_search.generator.identity import GENERATOR_VERSION
from agentgym_suite.paper_search.generator.vocabulary import PROPERTIES, SCHOOLS, Concept, Lexicon

FIRST_YEAR, YEARS = 2006, 15
MONTHS = 12 * YEARS

# A literature grows: each month brings this many per mille more than the one before.
_GROWTH = 16
_PROPERTY_CHANCES: Mapping[str, float] = {
    "data": 0.66,
    "language": 0.55,
    "setting": 0.62,
    "finding": 0.5,
}
# Who belongs to a school still says some things in the words of another one.
_FOREIGN_WORDING = 0.1
_NO_ABSTRACT = 0.02
_FIRST_NEW_FORM = 12 * (2007 - FIRST_YEAR) + 3  # April 2007
_FIRST_FIVE_DIGITS = 12 * (2015 - FIRST_YEAR)
_RUNNING_NUMBERS = 9_000


@dataclass(frozen=True, slots=True)
class Draft:
    """A paper before it is written.

    Attributes:
        number: its place, from the oldest on.
        month: of its publication, counted from January of ``FIRST_YEAR``.
        arxiv_id: an id of that month.
        concepts: what it is about, by kind; the kinds of ``TOPICS`` are always there.
        wordings: the same kinds -> the words it uses.
        has_abstract: False for the few that are known by their title alone; these are about
            nothing but what their title says.
    """

    number: int
    month: int
    arxiv_id: str
    concepts: Mapping[str, Concept]
    wordings: Mapping[str, str]
    has_abstract: bool


def month_text(month: int) -> str:
    """``YYYY-MM`` of a month's number."""
    return f"{FIRST_YEAR + month // 12:04}-{month % 12 + 1:02}"


def draw_papers(lexicon: Lexicon, count: int, seed: int) -> list[Draft]:
    """The papers of a literature, from the oldest to the newest."""
    dice = Dice(GENERATOR_VERSION, seed, "papers")
    weights = [10_000]  # whole numbers: the sum of fractions depends on the version of Python
    while len(weights) < MONTHS:
        weights.append(weights[-1] + weights[-1] * _GROWTH // 1_000)
    months = sorted(dice.weighted(weights) for _ in range(count))
    ids = _arxiv_ids(months, dice)
    return [
        _draw(lexicon, number, month, ids[number], Dice(GENERATOR_VERSION, seed, "paper", number))
        for number, month in enumerate(months)
    ]


def _draw(lexicon: Lexicon, number: int, month: int, arxiv_id: str, dice: Dice) -> Draft:
    field = lexicon.fields[dice.weighted(_falling(len(lexicon.fields), 8))]
    concepts = {
        "field": field.concept,
        "task": field.tasks[dice.weighted(_falling(len(field.tasks), 4))],
        "method": field.methods[dice.weighted(_falling(len(field.methods), 4))],
    }
    has_abstract = not dice.chance(_NO_ABSTRACT)
    properties = [kind for kind in PROPERTIES if dice.chance(_PROPERTY_CHANCES[kind])]
    for kind in properties if has_abstract else properties[:1]:
        choices = lexicon.properties[kind]
        concepts[kind] = choices[dice.weighted(_falling(len(choices), 12))]
    school = dice.below(SCHOOLS)
    wordings = {}
    for kind, concept in concepts.items():
        foreign = dice.chance(_FOREIGN_WORDING)
        spoken = dice.below(SCHOOLS) if foreign else school
        wordings[kind] = concept.forms[spoken]
    return Draft(number, month, arxiv_id, concepts, wordings, has_abstract)


def _falling(count: int, start: int) -> Sequence[int]:
    """Weights that fall slowly, so that no concept is rare."""
    return range(start + count, start, -1)


def _arxiv_ids(months: Sequence[int], dice: Dice) -> list[str]:
    """An id for each paper; running numbers rise within a month and leave gaps."""
    ids: list[str] = []
    for month, size in _runs(months):
        stride = max(_RUNNING_NUMBERS // size, 1)
        running = 0
        for _ in range(size):
            running += 1 + dice.below(stride)
            ids.append(_arxiv_id(month, running))
    return ids


def _runs(months: Sequence[int]) -> Iterator[tuple[int, int]]:
    first = 0
    for place in range(1, len(months) + 1):
        if place == len(months) or months[place] != months[first]:
            yield months[first], place - first
            first = place


def _arxiv_id(month: int, running: int) -> str:
    prefix = f"{(FIRST_YEAR + month // 12) % 100:02}{month % 12 + 1:02}"
    if month < _FIRST_NEW_FORM:
        return f"cs/{prefix}{running % 1_000:03}"
    return f"{prefix}.{running:05}" if month >= _FIRST_FIVE_DIGITS else f"{prefix}.{running:04}"
