"""Planning with ground operators: relaxed plans, and an A* search that they guide.

A relaxed plan forgets that anything is ever lost (Hoffmann and Nebel, "The FF planning system",
JAIR 2001); its length estimates how far the goal is.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import NamedTuple

Atom = tuple[str, ...]
State = frozenset[Atom]
_MOST_WORK = 500_000  # operators looked at in one search; the official games need about 1,000


class Wish(NamedTuple):
    """An atom that shall be true, or shall be false."""

    atom: Atom
    holds: bool

    def met(self, state: State) -> bool:
        """Whether a state grants it."""
        return (self.atom in state) == self.holds


class Operator(NamedTuple):
    """A ground action.

    Attributes:
        key: the action's name and its arguments.
        needs: what must hold before.
        makes: what holds afterwards.
    """

    key: Atom
    needs: frozenset[Wish]
    makes: frozenset[Wish]

    def applicable(self, state: State) -> bool:
        """Whether it can be executed in a state."""
        return all((atom in state) == holds for atom, holds in self.needs)

    def apply(self, state: State) -> State:
        """The state after it."""
        added = [atom for atom, holds in self.makes if holds]
        return state.difference(atom for atom, holds in self.makes if not holds).union(added)


class Relaxation:
    """Operators with what is needed to relax them quickly."""

    def __init__(self, operators: Sequence[Operator]) -> None:
        self.operators = operators
        self._waiting: dict[Wish, list[int]] = {}
        for number, operator in enumerate(operators):
            for need in operator.needs:
                self._waiting.setdefault(need, []).append(number)
        self._open = [len(operator.needs) for operator in operators]

    def makers(self, state: State, goal: Iterable[Wish] | None = None) -> dict[Wish, int]:
        """Every wish that is not granted but can be -> the first operator that grants it.

        Args:
            state: where to begin.
            goal: stop as soon as all of these are granted.
        """
        found: dict[Wish, int] = {}
        still_open = self._open.copy()
        missing = None if goal is None else {wish for wish in goal if not wish.met(state)}
        fresh = [number for number, n in enumerate(still_open) if not n]
        frontier = [wish for wish in self._waiting if wish.met(state)]
        while fresh or frontier:
            for wish in frontier:
                for number in self._waiting.get(wish, ()):
                    still_open[number] -= 1
                    if not still_open[number]:
                        fresh.append(number)
            frontier = []
            for number in fresh:
                for wish in self.operators[number].makes:
                    if wish not in found and not wish.met(state):
                        found[wish] = number
                        frontier.append(wish)
            fresh = []
            if missing is not None:
                missing.difference_update(frontier)
                if not missing:
                    break
        return found

    def relaxed_plan(
        self, state: State, goal: Iterable[Wish], makers: Mapping[Wish, int]
    ) -> list[Operator] | None:
        """Operators that grant the goal if nothing is ever lost; None if none do."""
        steps: dict[int, None] = {}
        seen: set[Wish] = set()
        waiting = list(goal)
        while waiting:
            wish = waiting.pop()
            if wish in seen or wish.met(state):
                continue
            seen.add(wish)
            number = makers.get(wish)
            if number is None:
                return None
            steps[number] = None
            waiting += self.operators[number].needs
        return [self.operators[number] for number in steps]


def search(
    operators: Sequence[Operator], state: State, goal: frozenset[Wish], most_states: int
) -> tuple[Operator, ...] | None:
    """A short sequence of operators from a state to the goal; None if none was found.

    Args:
        operators: what may be used.
        state: where to begin.
        goal: what shall be granted.
        most_states: how many states may be looked at; fewer where there are very many operators.
    """
    relaxation = Relaxation(operators)

    def distance(place: State) -> int | None:
        plan = relaxation.relaxed_plan(place, goal, relaxation.makers(place, goal))
        return None if plan is None else len(plan)

    # atoms that nothing reads do not tell two states apart
    read = {wish.atom for wish in goal} | {w.atom for o in operators for w in o.needs}
    start = state & read
    order = count()
    depths: dict[State, int] = {start: 0}
    ways: dict[State, tuple[State, Operator]] = {}
    waiting: list[tuple[int, int, int, State]] = [(0, 0, 0, start)]
    done: set[State] = set()
    work = 0
    while waiting and len(done) < most_states and work < _MOST_WORK:
        place = heapq.heappop(waiting)[3]
        if place in done:
            continue
        if all(wish.met(place) for wish in goal):
            return _way(place, ways)
        done.add(place)
        depth = depths[place] + 1
        work += len(operators)
        for operator in operators:
            if not operator.applicable(place):
                continue
            after = operator.apply(place) & read
            if depths.get(after, depth + 1) <= depth:
                continue
            far = distance(after)
            work += len(operators)
            if far is not None:
                depths[after], ways[after] = depth, (place, operator)
                # among equals the deeper one: more of its way is certain
                heapq.heappush(waiting, (depth + far, far, next(order), after))
    return None


def _way(place: State, ways: Mapping[State, tuple[State, Operator]]) -> tuple[Operator, ...]:
    operators = []
    while place in ways:
        place, operator = ways[place]
        operators.append(operator)
    return tuple(reversed(operators))
