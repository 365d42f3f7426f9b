"""The goals of games: those that differ in their objects only are read and planned once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from agentgym_suite.alfworld.conditions import Branch, Condition, renamed, safe_branches
from agentgym_suite.alfworld.forms import Form, are_words
from agentgym_suite.alfworld.sources import Source

_MOST_SHAPES = 256

Pattern = str | tuple["Pattern", ...]


@dataclass(frozen=True, slots=True, eq=False)
class GoalShape:
    """A goal with numbers where its objects stand: ``0`` for the first, ``1`` for the next.

    Attributes:
        condition: with the numbers as terms.
        branches: its conjunctions.
    """

    condition: Condition
    branches: tuple[Branch, ...]


class Goal(NamedTuple):
    """The goal of one game.

    Attributes:
        shape: what it has in common with others.
        ids: the objects that its numbers stand for.
    """

    shape: GoalShape
    ids: tuple[str, ...]

    @property
    def condition(self) -> Condition:
        """The goal as written."""
        return renamed(self.shape.condition, {str(i): id_ for i, id_ in enumerate(self.ids)})


class Goals:
    """The shapes of goals that were met so far."""

    def __init__(self) -> None:
        self._shapes: dict[Pattern, GoalShape] = {}

    def read(self, form: Form, condition_of: Callable[[Form], Condition], source: Source) -> Goal:
        """The goal that a form says.

        Args:
            form: as written.
            condition_of: reads and checks a form; asked for new shapes only.
            source: named by errors.

        Raises:
            UnsupportedConstruct: for a condition of more than 1,024 branches.
        """
        numbers: dict[str, str] = {}
        pattern = _pattern(form, numbers)
        shape = self._shapes.get(pattern)
        if shape is None:
            condition = renamed(condition_of(form), numbers)
            shape = GoalShape(condition, safe_branches(condition, source, "the goal"))
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            self._shapes[pattern] = shape
        return Goal(shape, tuple(numbers))


def _pattern(form: Form, numbers: dict[str, str]) -> Pattern:
    """A form with its objects numbered in order; what binds variables stays as it is."""
    if isinstance(form, str):
        return form
    if form[:1] == ["exists"]:
        return ("exists", *map(_frozen, form[1:2]), *[_pattern(x, numbers) for x in form[2:]])
    if are_words(form):
        terms = [
            str(x) if x[:1] == "?" else numbers.setdefault(str(x), str(len(numbers)))
            for x in form[1:]
        ]
        return (*map(str, form[:1]), *terms)
    return tuple([_pattern(x, numbers) for x in form])


def _frozen(form: Form) -> Pattern:
    return form if isinstance(form, str) else tuple(map(_frozen, form))
