"""Who cites whom: earlier papers only, close ones first, and the cited are cited again.

Each pair of concepts has an urn that holds every paper about both, once for being there and
once more for each citation it has got. To draw a reference is to choose one of a paper's own
pairs and to take a paper out of its urn: topic closeness and preferential attachment at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations, groupby

from agentgym_suite.dice import Dice
from agentgym_suite.files import Progress
from agentgym_suite.paper_search.generator.identity import GENERATOR_VERSION
from agentgym_suite.paper_search.generator.papers import Draft
from agentgym_suite.paper_search.generator.vocabulary import KINDS

FEWEST_REFERENCES, MOST_REFERENCES = 5, 40

_LENGTHS = ((0.0, 5.0), (0.25, 12.0), (0.6, 19.0), (0.9, 30.0), (1.0, 40.99))
# How a reference is found: by a shared pair of concepts, by the task, by the field, or anyhow.
_BY_PAIR, _BY_TASK, _BY_FIELD = 0.72, 0.88, 0.97
_TRIES = 8  # draws for each reference before any earlier paper will do
_STRIDE = 500

Key = tuple[tuple[str, int], ...]


def draw_citations(
    papers: Sequence[Draft], seed: int, progress: Progress | None = None
) -> list[list[int]]:
    """The references of each paper: numbers of papers of earlier months, ascending."""
    dice = Dice(GENERATOR_VERSION, seed, "citations")
    urns: defaultdict[Key, list[int]] = defaultdict(list)
    keys = [_Urns(paper) for paper in papers]
    references: list[list[int]] = []
    for _, month in groupby(papers, key=lambda paper: paper.month):
        fresh = list(month)
        earlier = len(references)
        for paper in fresh:
            chosen = _references(keys[paper.number], urns, earlier, dice)
            references.append(sorted(chosen))
            if progress is not None and len(references) % _STRIDE == 0:
                progress("draw citations", len(references), len(papers))
        # Only now: papers of one month do not know each other.
        for paper in fresh:
            for number in (paper.number, *references[paper.number]):
                for key in keys[number].every():
                    urns[key].append(number)
    return references


class _Urns:
    """The urns that hold a paper."""

    __slots__ = ("anything", "field", "pairs", "task")

    def __init__(self, paper: Draft) -> None:
        own = [(kind, paper.concepts[kind].number) for kind in KINDS if kind in paper.concepts]
        self.field: Key = (own[0],)
        self.task: Key = (own[1],)
        self.anything: Key = ()
        # The field goes with properties alone: its tasks and methods imply it.
        self.pairs: list[Key] = [
            pair for pair in combinations(own, 2) if pair[1][0] not in ("task", "method")
        ]
        self.pairs.append((own[1], own[2]))

    def every(self) -> Iterator[Key]:
        """Each of them once."""
        yield from (self.anything, self.field, self.task)
        yield from self.pairs


def _references(
    keys: _Urns, urns: defaultdict[Key, list[int]], earlier: int, dice: Dice
) -> set[int]:
    wanted = min(int(dice.quantile(_LENGTHS)), earlier)
    chosen: set[int] = set()
    for _ in range(_TRIES * wanted):
        if len(chosen) == wanted:
            return chosen
        roll = dice.roll()
        if roll < _BY_PAIR:
            key = dice.pick(keys.pairs)
        elif roll < _BY_TASK:
            key = keys.task
        else:
            key = keys.field if roll < _BY_FIELD else keys.anything
        if urn := urns.get(key):
            chosen.add(dice.pick(urn))
    missing = max(min(FEWEST_REFERENCES, earlier) - len(chosen), 0)
    rest = [number for number in range(earlier) if number not in chosen] if missing else []
    return chosen | set(dice.sample(rest, missing))
