"""How a condition is answered: the order in which its facts are looked up.

A plan is a list of steps over slots. Slots hold first the constants that the condition names,
then its variables. Predicates that have few facts come first, then whatever a bound variable
leads to; checks run as soon as their variables are bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agentgym_suite.alfworld.conditions import EQUAL, And, Branch, Condition, Literal, Or
from agentgym_suite.alfworld.facts import Access, TypeTree
from agentgym_suite.alfworld.pddl import ROOT_TYPE


# slots where every walk reads the fields, tuples elsewhere: their classes are made faster
@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """Look up facts and bind variables from them.

    Attributes:
        access: the look-up.
        given: the slots of its key.
        binds: (argument, slot, types that the value may have or None for any).
        repeats: (argument, slot bound by the same fact) of a repeated variable.
    """

    access: Access
    given: tuple[int, ...]
    binds: tuple[tuple[int, int, frozenset[str] | None], ...]
    repeats: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """A literal over bound slots."""

    predicate: int
    slots: tuple[int, ...]
    positive: bool
    static: bool


class Same(NamedTuple):
    """Whether two bound slots hold the same entity."""

    left: int
    right: int
    positive: bool


class AllOf(NamedTuple):
    """All parts hold."""

    parts: tuple[Formula, ...]


class AnyOf(NamedTuple):
    """One part holds."""

    parts: tuple[Formula, ...]


class Members(NamedTuple):
    """Bind a slot to every entity of a type."""

    slot: int
    type: str


Formula = Check | Same | AllOf | AnyOf
Step = Scan | Check | Same | AnyOf | AllOf | Members


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The steps that answer one branch of a condition.

    Attributes:
        constants: the ids in the first slots.
        size: number of slots.
        steps: in order.
        arguments: the slots of the declared parameters.
        owner: number of the action it finds ground actions of; -1 for a plain condition.
        branch: what it was made from.
    """

    constants: tuple[str, ...]
    size: int
    steps: tuple[Step, ...]
    arguments: tuple[int, ...]
    owner: int
    branch: Branch


class Predicates:
    """The predicates of a domain by number, and the accesses to them.

    For predicate number ``p`` of ``count``: ``p + count`` are its explicit negative facts and
    ``p + 2 * count`` its positive facts as the texts see them, where these differ.
    """

    def __init__(
        self, names: Iterable[str], changing: set[str], diverging: set[str], types: TypeTree
    ) -> None:
        self.types = types
        self.names = tuple(names)
        self.number = {name: i for i, name in enumerate(self.names)}
        self.count = len(self.names)
        self.changing = frozenset(self.number[n] for n in changing)
        self.diverging = frozenset(self.number[n] for n in diverging)
        self._accesses: dict[tuple[int, tuple[int, ...], tuple[str, ...] | None], Access] = {}

    def access(
        self, predicate: int, positions: tuple[int, ...], types: tuple[str, ...] | None = None
    ) -> Access:
        """The one access of this shape."""
        shape = (predicate, positions, types)
        found = self._accesses.get(shape)
        if found is None:
            static = predicate < self.count and predicate not in self.changing
            # setdefault, so that two threads agree on one object
            found = self._accesses.setdefault(shape, Access(predicate, positions, types, static))
        return found

    def text_number(self, name: str, negated: bool) -> int | None:
        """What a query's predicate means; None if nothing declares it."""
        number = self.number.get(name)
        if number is None:
            return None
        if negated:
            return number + self.count
        return number + 2 * self.count if number in self.diverging else number

    def shown(self, number: int) -> str:
        """A predicate's name for people."""
        kind, base = divmod(number, self.count)
        return ("", "not_", "text:")[kind] + self.names[base]


class _Drafting(NamedTuple):
    """A plan in the making: what is bound and which steps there are grow."""

    predicates: Predicates
    few: Callable[[int], int]
    types: dict[str, str]
    slots: dict[str, int]
    bound: set[str]
    steps: list[Step]


def make_plan(
    branch: Branch,
    parameters: Sequence[tuple[str, str]],
    predicates: Predicates,
    few: Callable[[int], int],
    *,
    owner: int = -1,
    given: bool = False,
) -> Plan:
    """Order one branch of a condition.

    Args:
        branch: the conjunction.
        parameters: the declared variables, which every answer binds.
        predicates: numbers of the predicates.
        few: predicate number -> 0 none, 1 few, 2 many facts at the start of the game.
        owner: the action it belongs to.
        given: whether the parameters are bound beforehand.
    """
    types = dict([*parameters, *branch.variables])
    constants = {id_: i for i, id_ in enumerate(constants_of(branch))}
    slots = {**constants, **{v: len(constants) + i for i, v in enumerate(types)}}
    bound = set(constants) | ({name for name, _ in parameters} if given else set())
    draft = _Drafting(predicates, few, types, slots, bound, [])
    _order(draft, list(branch.literals), list(branch.filters))
    return Plan(
        tuple(constants),
        len(slots),
        tuple(draft.steps),
        tuple(slots[name] for name, _ in parameters),
        owner,
        branch,
    )


def constants_of(branch: Branch) -> tuple[str, ...]:
    """The ids that a branch names, in order: the first slots of its plan."""
    literals = (*branch.literals, *(x for part in branch.filters for x in _literals(part)))
    terms = [term for literal in literals for term in literal.terms]
    return tuple(dict.fromkeys([term for term in terms if not term.startswith("?")]))


def _literals(condition: Condition) -> Iterable[Literal]:
    if isinstance(condition, Literal):
        yield condition
    elif isinstance(condition, And | Or):
        for part in condition.parts:
            yield from _literals(part)


def _order(draft: _Drafting, literals: list[Literal], filters: list[Or]) -> None:
    waiting = list(literals)
    while True:
        waiting, filters = _checks(draft, waiting, filters)
        scans = [x for x in waiting if x.positive and x.predicate != EQUAL]
        if not scans:
            break
        best = min(scans, key=lambda x: _cost(draft, x))
        waiting.remove(best)
        draft.steps.append(_scan(draft, best))
        draft.bound.update(best.terms)
    for variable, type_ in draft.types.items():
        if variable not in draft.bound:
            draft.steps.append(Members(draft.slots[variable], type_))
            draft.bound.add(variable)
            waiting, filters = _checks(draft, waiting, filters)


def _checks(
    draft: _Drafting, literals: list[Literal], filters: list[Or]
) -> tuple[list[Literal], list[Or]]:
    """Append what the bound variables decide, static checks first; return the rest."""
    ready = [x for x in literals if draft.bound.issuperset(x.terms)]
    made = [_check(draft, x) for x in ready]
    draft.steps.extend(sorted(made, key=lambda c: isinstance(c, Check) and not c.static))
    ripe = [f for f in filters if all(draft.bound.issuperset(x.terms) for x in _literals(f))]
    draft.steps.extend([_formula(draft, f) for f in ripe])
    return [x for x in literals if x not in ready], [f for f in filters if f not in ripe]


def _cost(draft: _Drafting, literal: Literal) -> tuple[int, bool, int, int]:
    """Cheapest first: few facts, then facts that a bound variable leads to, then constants."""
    number = draft.predicates.number[literal.predicate]
    known = [term for term in literal.terms if term in draft.bound]
    size = draft.few(number)
    if size == 2 and not any(term.startswith("?") for term in known):
        size = 3 if known else 4
    static = number not in draft.predicates.changing
    # among few facts the changing ones come first: they are what states differ in
    return size, static if size < 2 else not static, -len(known), len(literal.terms)


def _scan(draft: _Drafting, literal: Literal) -> Scan:
    number = draft.predicates.number[literal.predicate]
    given = tuple(i for i, term in enumerate(literal.terms) if term in draft.bound)
    binds: list[tuple[int, int, frozenset[str] | None]] = []
    repeats: list[tuple[int, int]] = []
    new: set[str] = set()
    for i, term in enumerate(literal.terms):
        if term in draft.bound:
            continue
        if term in new:
            repeats.append((i, draft.slots[term]))
            continue
        new.add(term)
        type_ = draft.types[term]
        below = None if type_ == ROOT_TYPE else draft.predicates.types.below(type_)
        binds.append((i, draft.slots[term], below))
    return Scan(
        draft.predicates.access(number, given),
        tuple(draft.slots[literal.terms[i]] for i in given),
        tuple(binds),
        tuple(repeats),
    )


def _check(draft: _Drafting, literal: Literal) -> Check | Same:
    slots = tuple(draft.slots[term] for term in literal.terms)
    if literal.predicate == EQUAL:
        return Same(slots[0], slots[1], literal.positive)
    number = draft.predicates.number[literal.predicate]
    return Check(number, slots, literal.positive, number not in draft.predicates.changing)


def _formula(draft: _Drafting, condition: Condition) -> Formula:
    if isinstance(condition, Literal):
        return _check(draft, condition)
    if isinstance(condition, And):
        return AllOf(tuple(_formula(draft, part) for part in condition.parts))
    if isinstance(condition, Or):
        return AnyOf(tuple(_formula(draft, part) for part in condition.parts))
    raise TypeError("a filter holds no exists")
