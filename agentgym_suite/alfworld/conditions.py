"""PDDL conditions and effects as read from a domain or problem: lifted, negations at the atoms.

``branches`` turns a condition into the joins that answer it: each branch is a list of literals
and of small disjunctions over variables that the literals bind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count, product
from typing import NamedTuple

from agentgym_suite.alfworld.sources import Source

MOST_BRANCHES = 1024
_MOST_PARTS = 100  # literals or variables of one conjunction; the official ones have at most 7


class Literal(NamedTuple):
    """An atom that must hold, or must not; terms starting with ``?`` are variables."""

    predicate: str
    terms: tuple[str, ...]
    positive: bool = True

    def renamed(self, names: Mapping[str, str]) -> Literal:
        """The same literal with other terms in the place of some."""
        terms = tuple(names.get(term, term) for term in self.terms)
        return Literal(self.predicate, terms, self.positive)


class _Junction:
    """Conditions joined by a word: no tuple, because the same parts under another word differ."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[Condition, ...]) -> None:
        self.parts = parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Junction) and (type(self), self.parts) == (
            type(other),
            other.parts,
        )

    def __hash__(self) -> int:
        return hash((type(self), self.parts))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.parts!r})"


class And(_Junction):
    """All parts hold; without parts, true."""

    __slots__ = ()


class Or(_Junction):
    """One part holds; without parts, false."""

    __slots__ = ()


class Exists(NamedTuple):
    """Some objects of the variables' types make the part hold."""

    variables: tuple[tuple[str, str], ...]
    part: Condition


Condition = Literal | And | Or | Exists

EQUAL = "="  # the predicate of identity, decided without facts
TRUE = And(())


class Effect(NamedTuple):
    """One atom that an action makes true or false, when a condition held before.

    Attributes:
        literal: the atom; ``positive`` adds it, otherwise it is deleted.
        condition: ``TRUE`` for an unconditional effect.
    """

    literal: Literal
    condition: Condition = TRUE


class Branch(NamedTuple):
    """One conjunction of a condition: a join over facts.

    Attributes:
        variables: the extra ``exists`` variables with their types, named apart.
        literals: what must hold.
        filters: disjunctions whose variables the literals bind.
    """

    variables: tuple[tuple[str, str], ...] = ()
    literals: tuple[Literal, ...] = ()
    filters: tuple[Or, ...] = ()


class TooManyBranches(Exception):
    """A condition falls apart into more conjunctions than can be planned."""


def branches(condition: Condition) -> tuple[Branch, ...]:
    """The conjunctions whose disjunction is the condition.

    Raises:
        TooManyBranches: above 1,024 of them.
    """
    return tuple(_branches(condition, {}, count(1)))


def safe_branches(condition: Condition, source: Source, place: str) -> tuple[Branch, ...]:
    """The branches of a condition.

    Raises:
        UnsupportedConstruct: for a condition of more than 1,024 branches, or of more than 100
            literals or variables in one of them.
    """
    try:
        found = branches(condition)
    except TooManyBranches:
        raise source.unsupported(f"a condition of over 1,024 alternatives in {place}") from None
    for branch in found:
        size = max(len(branch.variables), len(branch.literals) + len(branch.filters))
        if size > _MOST_PARTS:
            raise source.too_large(f"a condition of {size:,} parts in {place}")
    return found


def literals_of(condition: Condition) -> Iterator[Literal]:
    """Every literal of a condition, in order."""
    if isinstance(condition, Literal):
        yield condition
    elif isinstance(condition, Exists):
        yield from literals_of(condition.part)
    else:
        for part in condition.parts:
            yield from literals_of(part)


def renamed(condition: Condition, names: Mapping[str, str]) -> Condition:
    """The same condition with other terms in the place of some."""
    if isinstance(condition, Literal):
        return condition.renamed(names)
    if isinstance(condition, Exists):
        return Exists(condition.variables, renamed(condition.part, names))
    return type(condition)(tuple(renamed(part, names) for part in condition.parts))


def _branches(condition: Condition, names: Mapping[str, str], fresh: Iterator[int]) -> list[Branch]:
    if isinstance(condition, Literal):
        return [Branch(literals=(condition.renamed(names),))]
    if isinstance(condition, Exists):
        # named apart, so that two exists over the same name never meet in one join
        new = {name: f"{name}#{next(fresh)}" for name, _ in condition.variables}
        typed = tuple((new[name], type_) for name, type_ in condition.variables)
        return [
            Branch((*typed, *b.variables), b.literals, b.filters)
            for b in _branches(condition.part, {**names, **new}, fresh)
        ]
    if isinstance(condition, Or):
        found = [b for part in condition.parts for b in _branches(part, names, fresh)]
        if len(found) > MOST_BRANCHES:
            raise TooManyBranches
        return found
    bound = {
        names.get(term, term)
        for part in condition.parts
        if isinstance(part, Literal) and part.positive and part.predicate != EQUAL
        for term in part.terms
    }
    filters: list[Or] = []
    pieces: list[list[Branch]] = []
    size = 1
    for part in condition.parts:
        if isinstance(part, Or) and _is_filter(part, names, bound):
            filters.append(Or(tuple(renamed(p, names) for p in part.parts)))
            continue
        pieces.append(_branches(part, names, fresh))
        size *= max(1, len(pieces[-1]))
        if size > MOST_BRANCHES:
            raise TooManyBranches
    return [
        Branch(
            tuple(v for b in chosen for v in b.variables),
            tuple(x for b in chosen for x in b.literals),
            (*filters, *(f for b in chosen for f in b.filters)),
        )
        for chosen in product(*pieces)
    ]


def _is_filter(part: Or, names: Mapping[str, str], bound: set[str]) -> bool:
    return not _has_exists(part) and all(
        names.get(term, term) in bound
        for literal in literals_of(part)
        for term in literal.terms
        if term.startswith("?")
    )


def _has_exists(condition: Condition) -> bool:
    if isinstance(condition, Exists):
        return True
    return isinstance(condition, And | Or) and any(_has_exists(p) for p in condition.parts)
