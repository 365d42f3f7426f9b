"""Facts as tuples of small numbers, and the ways in which they are looked up.

An atom is ``(predicate, argument, …)``. Entities are numbered in the order of their ids, so that
sorting numbers sorts ids. Beside a predicate stand two more numbers: the explicit negative facts
that texts can ask for, and the text's own copy where it differs from the true state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from math import prod

Atom = tuple[int, ...]
Row = tuple[int, ...]
Rows = tuple[Row, ...]


_NO_TYPES: frozenset[str] = frozenset()


class TypeTree:
    """The types of a domain, and the order in which subtypes are visited."""

    def __init__(self, parents: dict[str, str], root: str) -> None:
        self._below: dict[str, list[str]] = {root: []}
        for type_ in parents:
            self._below.setdefault(type_, [])
        for type_ in sorted(parents):
            above: str | None = parents[type_]
            while above is not None:
                self._below[above].append(type_)
                above = parents.get(above)
        self._families = {type_: frozenset((type_, *b)) for type_, b in self._below.items()}
        self._visits: dict[tuple[str, ...], dict[tuple[str, ...], list[int]]] = {}

    def __contains__(self, type_: str) -> bool:
        return type_ in self._below

    def below(self, type_: str) -> frozenset[str]:
        """The type and its descendants; empty if nothing declares it."""
        return self._families.get(type_, _NO_TYPES)

    def exact(self, types: Iterable[str]) -> bool:
        """Whether none of the types has a subtype, so that no order among types arises."""
        return not any(self._below.get(type_) for type_ in types)

    def most_visits(self, types: Sequence[str]) -> int:
        """At most how many combinations of types ``visits`` looks at for these."""
        families = [self.below(type_) for type_ in types]
        steps = sum(len(self._below[below]) for family in families for below in family)
        return prod(map(len, families)) * max(1, steps)

    def visits(self, declared: tuple[str, ...], actual: tuple[str, ...]) -> tuple[int, ...]:
        """When facts of the actual types are visited among the answers for the declared types.

        Breadth-first from the declared types, argument by argument from the left. The original
        counts every descendant of a type as its child, in alphabetical order, and does not mark
        the first generation as seen: what is below another of it is visited twice.
        """
        visits = self._visits.get(declared)
        if visits is None:
            visits = {declared: [0]}
            seen: set[tuple[str, ...]] = set()
            queue = self._expanded(declared)
            for place, types in enumerate(queue, 1):
                visits.setdefault(types, []).append(place)
                for below in self._expanded(types):
                    if below not in seen:
                        seen.add(below)
                        queue.append(below)
            self._visits[declared] = visits
        return tuple(visits[actual])

    def _expanded(self, types: tuple[str, ...]) -> list[tuple[str, ...]]:
        return [
            (*types[:i], below, *types[i + 1 :])
            for i, type_ in enumerate(types)
            for below in self._below[type_]
        ]


class Access:
    """One way to look facts up: a predicate with some arguments given.

    Attributes:
        predicate: its number.
        positions: which arguments are given.
        types: the types asked for, which also order the rows; None for a join of the planner's,
            where neither matters.
        static: whether no action changes the predicate.
    """

    __slots__ = ("__weakref__", "_single", "positions", "predicate", "static", "types")

    def __init__(
        self,
        predicate: int,
        positions: tuple[int, ...],
        types: tuple[str, ...] | None,
        static: bool,
    ) -> None:
        self.predicate = predicate
        self.positions = positions
        self.types = types
        self.static = static
        self._single = positions[0] if len(positions) == 1 else -1

    def key(self, row: Sequence[int]) -> Row:
        """The given arguments of a row."""
        if self._single >= 0:
            return (row[self._single],)
        return tuple([row[i] for i in self.positions])


class Entities:
    """The objects of one game by number: ids, types, displayed names.

    A parameter declared with a wider type than its object's own stands, in texts, for another
    thing than the object of the facts: the original compares both name and type. Its number is
    the object's plus ``size``, which no fact holds.

    Args:
        types: id -> type of every object.
    """

    def __init__(self, types: dict[str, str]) -> None:
        self.ids = sorted(types)
        self.types = [types[id_] for id_ in self.ids]
        self.number = dict(zip(self.ids, range(len(self.ids)), strict=True))
        self.size = len(self.ids)

    @cached_property
    def shadowed_ids(self) -> list[str]:
        """Ids by number, shadows included."""
        return self.ids * 2

    @cached_property
    def shadowed_types(self) -> list[str]:
        """Types by number, shadows included."""
        return self.types * 2

    def groups(self, counted: Iterable[int]) -> dict[str, list[int]]:
        """Base name -> the entities that share its counter, in the order of their ids.

        Args:
            counted: the entities that occur in facts.
        """
        groups: dict[str, list[int]] = {}
        ids = self.ids
        last, group = "", []  # of the id before: ids of one base mostly follow each other
        for i in sorted(counted):
            id_ = ids[i]
            base, bar, _ = id_.partition("_bar_")
            if bar:
                if "basin" in id_:
                    base += "basin"
                if base != last:
                    last, group = base, groups.setdefault(base, [])
                group.append(i)
        return groups

    def named(self, groups: Iterable[tuple[str, Sequence[int]]]) -> list[str]:
        """Displayed names, shadows included: the first of a group gets the highest number."""
        names = [f"{id_} " for id_ in self.ids]
        for base, group in groups:
            size = len(group)
            for place, i in enumerate(group):
                names[i] = f"{base} {size - place}"
        return names + names
