"""The questions of the three splits: how many of each kind, and what keeps the splits apart.

A part of the entities is kept from training: no train question touches them, most dev and test
questions do. No question and no path of facts is shared by two splits, nor is one of dev or test
contained in a longer path of train.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from agentgym_suite.dice import Dice
from agentgym_suite.errors import DataError
from agentgym_suite.files import Progress
from agentgym_suite.multihop_qa.generator.drawing import Drawer
from agentgym_suite.multihop_qa.generator.identity import GENERATOR_VERSION
from agentgym_suite.multihop_qa.generator.questions import Question
from agentgym_suite.multihop_qa.generator.tables import Tables
from agentgym_suite.multihop_qa.generator.world import World

# kind, hops, and how many of a hundred questions
MIX = (
    ("bridge", 2, 29),
    ("comparison", 2, 13),
    ("inference", 2, 8),
    ("bridge", 3, 30),
    ("bridge", 4, 12),
    ("bridge-comparison", 4, 8),
)
_HELD_BACK = 0.25  # of the entities
_MUST_BE_NEW = 0.85  # of the dev and test questions
# the largest part of a split with the same answer, or with the same relations
_SAME_ANSWER, _SAME_SHAPE = 110, 30
_LENIENT_AFTER, _GIVE_UP_AFTER = 300, 20_000
_PROGRESS_STRIDE = 50


def draw_splits(
    world: World,
    tables: Tables,
    seed: int,
    counts: Mapping[str, int],
    progress: Progress | None = None,
) -> dict[str, list[Question]]:
    """The questions of every split.

    Raises:
        DataError: the world has too few facts for so many questions.
    """
    dice = Dice(GENERATOR_VERSION, seed, "questions")
    held_back = {e.number for e in world.entities if dice.chance(_HELD_BACK)}
    drawer = Drawer(world, tables)
    drawn = _Drawn()
    splits: dict[str, list[Question]] = {}
    total, done = sum(counts.values()), 0
    # train comes last, so that it can keep clear of the others
    for split in sorted(counts, key=("test", "dev", "train").index):
        chance = Dice(GENERATOR_VERSION, seed, split)
        splits[split] = []
        limits = _Limits(counts[split])
        for kind, hops in _agenda(counts[split], chance):
            question = _next(drawer, kind, hops, split, held_back, drawn, limits, chance)
            splits[split].append(question)
            done += 1
            if progress is not None and (done % _PROGRESS_STRIDE == 0 or done == total):
                progress("draw questions", done, total)
    return splits


class _Drawn:
    """What has been drawn: nothing of it is drawn again."""

    def __init__(self) -> None:
        self._texts: set[str] = set()
        self._paths: set[tuple[int, ...]] = set()
        self._held_back: set[tuple[int, ...]] = set()

    def is_new(self, question: Question, *, train: bool) -> bool:
        """Whether it was not drawn, and for train no part of its path by dev or test."""
        if question.text in self._texts or question.path in self._paths:
            return False
        return not train or self._held_back.isdisjoint(_parts(question))

    def keep(self, question: Question, *, train: bool) -> None:
        """Remember it."""
        self._texts.add(question.text)
        self._paths.add(question.path)
        if not train:
            self._held_back.add(question.path)


class _Limits:
    """How often a split may have the same answer or the same relations."""

    def __init__(self, count: int) -> None:
        self._same_answer = max(3, count // _SAME_ANSWER)
        self._same_shape = max(3, count // _SAME_SHAPE)
        self._answers: Counter[str] = Counter()
        self._shapes: Counter[tuple[str, ...]] = Counter()

    def allow(self, question: Question, *, lenient: bool) -> bool:
        """Whether one more is not too many; lenient: of these relations."""
        if question.answer.id and self._answers[question.answer.text] >= self._same_answer:
            return False
        return lenient or self._shapes[question.shape] < self._same_shape

    def count(self, question: Question) -> None:
        """Enter a question."""
        self._answers[question.answer.text] += 1
        self._shapes[question.shape] += 1


def _agenda(count: int, dice: Dice) -> list[tuple[str, int]]:
    """The kinds and hops of a split's questions, in an order of chance; halves and tenths exact."""
    agenda: list[tuple[str, int]] = []
    share = 0
    for kind, hops, parts in MIX:
        share += parts
        agenda += [(kind, hops)] * (count * share // 100 - len(agenda))
    return dice.shuffled(agenda)


def _next(
    drawer: Drawer,
    kind: str,
    hops: int,
    split: str,
    held_back: set[int],
    drawn: _Drawn,
    limits: _Limits,
    dice: Dice,
) -> Question:
    train = split == "train"
    must_be_new = not train and dice.chance(_MUST_BE_NEW)

    def allowed(entity: int) -> bool:
        return not train or entity not in held_back

    for attempt in range(_GIVE_UP_AFTER):
        question = drawer.draw(kind, hops, allowed, dice)
        if question is None or not limits.allow(question, lenient=attempt > _LENIENT_AFTER):
            continue
        if must_be_new and not question.entities & held_back:
            continue
        if drawn.is_new(question, train=train):
            drawn.keep(question, train=train)
            limits.count(question)
            return question
    raise DataError(
        f"the world has too few facts for another {hops}-hop {kind} question of {split}: "
        "generate fewer questions or a larger world"
    )


def _parts(question: Question) -> Iterator[tuple[int, ...]]:
    """The shorter paths inside a question's path."""
    numbers = tuple(fact.number for fact in question.facts)
    if question.steps:
        for length in range(2, len(numbers)):
            for first in range(len(numbers) - length + 1):
                yield numbers[first : first + length]
    elif len(numbers) == 4:
        yield numbers[0], numbers[2]
        yield numbers[1], numbers[3]
        yield tuple(sorted(numbers[2:]))
