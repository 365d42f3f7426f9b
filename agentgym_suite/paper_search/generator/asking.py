"""Questions for papers: constraints that some papers fulfil, a date, and words for them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from agentgym_suite.dice import Dice
from agentgym_suite.errors import DataError
from agentgym_suite.files import Progress
from agentgym_suite.paper_search.generator.identity import (
    BROAD_SET,
    GENERATOR_VERSION,
    NARROW_SET,
)
from agentgym_suite.paper_search.generator.papers import FIRST_YEAR, MONTHS, Draft
from agentgym_suite.paper_search.generator.vocabulary import (
    PROPERTIES,
    SCHOOLS,
    TOPICS,
    Concept,
    Lexicon,
    fill,
)

FEWEST_CONSTRAINTS, MOST_CONSTRAINTS = 2, 4

# How many papers are relevant: 1 to 65 with a mean near 12, and 1 to 16 with one near 2.5.
_SIZES: Mapping[str, tuple[tuple[float, float], ...]] = {
    BROAD_SET: (
        (0.0, 1.0),
        (0.1, 3.0),
        (0.35, 6.5),
        (0.6, 11.0),
        (0.8, 18.5),
        (0.92, 33.0),
        (0.98, 50.0),
        (1.0, 65.99),
    ),
    NARROW_SET: ((0.0, 1.0), (0.45, 2.0), (0.68, 3.0), (0.9, 5.5), (0.98, 9.0), (1.0, 16.99)),
}
# No question is older: before, there is little to be found and less to be led astray by.
_FIRST_CUTOFF = 12 * 5
_SLACK = 3  # papers that fulfil the constraints too late, at most this many times the relevant
_TRIES = 60  # draws for a question of one size
# The larger, the rarer a question has the words of the papers that answer it.
_OTHER_SCHOOLS = 2
_STRIDE = 100

Constraints = tuple[Concept, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question.

    Attributes:
        text: its words.
        constraints: what papers must be about.
        relevant: the numbers of all papers that fulfil them and were there before the cut-off.
        cutoff: the day of the question, ``YYYYMMDD``.
    """

    text: str
    constraints: Constraints
    relevant: tuple[int, ...]
    cutoff: str


class Asker:
    """Draws questions over a literature, none twice, and none of one split like any of another.

    Args:
        lexicon: its tables.
        papers: its papers, oldest first.
        seed: which literature.
    """

    def __init__(self, lexicon: Lexicon, papers: Sequence[Draft], seed: int) -> None:
        self._lexicon = lexicon
        self._papers = papers
        self._seed = seed
        fulfilled: defaultdict[Constraints, list[int]] = defaultdict(list)
        for paper in papers:
            for constraints in _constraints(paper):
                fulfilled[constraints].append(paper.number)
        self._cells = sorted(fulfilled.items(), key=lambda cell: len(cell[1]))
        self._sizes = [len(numbers) for _, numbers in self._cells]
        self._owners: dict[Constraints, str] = {}
        self._asked: set[tuple[Constraints, int]] = set()

    def ask(
        self, set_name: str, split: str, count: int, progress: Progress | None = None
    ) -> list[Asked]:
        """The questions of one split of a set, whose constraints are in no split before it.

        Raises:
            DataError: the literature is too small for so many.
        """
        dice = Dice(GENERATOR_VERSION, self._seed, "questions", set_name, split)
        asked = []
        for done in range(1, count + 1):
            wanted = int(dice.quantile(_SIZES[set_name]))
            asked.append(self._one(f"{set_name}/{split}", wanted, dice))
            if progress is not None and (done % _STRIDE == 0 or done == count):
                progress(f"draw questions of {set_name}/{split}", done, count)
        return asked

    def _one(self, owner: str, wanted: int, dice: Dice) -> Asked:
        while wanted:
            first = bisect_left(self._sizes, wanted)
            last = bisect_right(self._sizes, _SLACK * wanted + 2)
            for _ in range(_TRIES if first < last else 0):
                constraints, numbers = self._cells[first + dice.below(last - first)]
                month = self._cutoff_month(numbers, wanted, dice)
                free = self._owners.get(constraints, owner) == owner
                if month is not None and free and (constraints, wanted) not in self._asked:
                    self._owners[constraints] = owner
                    self._asked.add((constraints, wanted))
                    return self._worded(constraints, numbers[:wanted], month, dice)
            wanted -= 1 + wanted // 10  # everything with so many papers has been asked for
        raise DataError(
            f"{len(self._papers)} papers are too few for so many questions; make more papers"
        )

    def _cutoff_month(self, numbers: Sequence[int], wanted: int, dice: Dice) -> int | None:
        """A month before which exactly the first of the papers were there; None if none is."""
        first = max(self._papers[numbers[wanted - 1]].month + 1, _FIRST_CUTOFF)
        last = self._papers[numbers[wanted]].month if wanted < len(numbers) else MONTHS
        return dice.between(first, last) if first <= last else None

    def _worded(
        self, constraints: Constraints, numbers: Sequence[int], month: int, dice: Dice
    ) -> Asked:
        lexicon = self._lexicon
        school = self._school(constraints, numbers, dice)
        words = {each.kind: each.forms[school] for each in constraints}
        topics = [kind for kind in TOPICS if kind in words]
        topic = dice.pick(lexicon.topics["both" if len(topics) > 1 else topics[0]])
        parts = [dice.pick(lexicon.parts[kind]) for kind in PROPERTIES if kind in words]
        frame = dice.pick(lexicon.frames)
        text = fill(frame.replace("{topic}", topic + "".join(parts)), words, dice)
        day = dice.between(1, 28)
        cutoff = f"{FIRST_YEAR + month // 12:04}{month % 12 + 1:02}{day:02}"
        return Asked(text, constraints, tuple(numbers), cutoff)

    def _school(self, constraints: Constraints, numbers: Sequence[int], dice: Dice) -> int:
        """Whose words the question uses: those of a school with many relevant papers, rather."""
        weights = [_OTHER_SCHOOLS] * SCHOOLS
        for number in numbers:
            for concept in constraints:
                spoken = self._papers[number].wordings[concept.kind]
                weights[concept.forms.index(spoken)] += 1
        return dice.weighted(weights)


def _constraints(paper: Draft) -> Iterator[Constraints]:
    """Everything that can be asked of a paper; a field is named where no task or method is."""
    concepts = paper.concepts
    field, task, method = (concepts[kind] for kind in TOPICS)
    own = [concepts[kind] for kind in PROPERTIES if kind in concepts]
    for topics in ((field,), (task,), (method,), (task, method)):
        least = max(FEWEST_CONSTRAINTS - len(topics), 0)
        for count in range(least, MOST_CONSTRAINTS - len(topics) + 1):
            for properties in combinations(own, count):
                yield (*topics, *properties)
