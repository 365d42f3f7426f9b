"""Ground actions that matter, found backward from what is wanted.

A planner needs few of a game's thousands of ground actions: those that make a wanted atom, and
what those need in turn. This grounds only them, from the domain as it was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from agentgym_suite.alfworld.conditions import (
    EQUAL,
    MOST_BRANCHES,
    TRUE,
    And,
    Branch,
    Condition,
    Literal,
    TooManyBranches,
    branches,
)
from agentgym_suite.alfworld.pddl import ROOT_TYPE, Action, Domain
from agentgym_suite.alfworld.planning import Operator, Wish

MOST_WAYS = 200_000  # bindings tried for one plan; the official games need under 1,000
Fact = tuple[str, ...]
Binding = dict[str, str]


class _Schema(NamedTuple):
    """One action under one branch of its condition, with every filter resolved to literals.

    A conditional effect gives a schema of its own, which needs the effect's condition too.
    """

    action: Action
    variables: Mapping[str, str]
    literals: tuple[Literal, ...]
    makes: tuple[Literal, ...]


class FactIndex:
    """Facts by predicate, and by one argument."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self._all: dict[str, list[Fact]] = {}
        self._by: dict[tuple[str, int, str], list[Fact]] = {}
        self._facts: set[Fact] = set()
        for fact in facts:
            self.add(fact)

    def __contains__(self, fact: Fact) -> bool:
        return fact in self._facts

    def add(self, fact: Fact) -> None:
        """Add one fact."""
        if fact not in self._facts:
            self._facts.add(fact)
            self._all.setdefault(fact[0], []).append(fact)
            for i in range(1, len(fact)):
                self._by.setdefault((fact[0], i, fact[i]), []).append(fact)

    def matching(self, literal: Literal, binding: Mapping[str, str]) -> Sequence[Fact]:
        """Facts that may match an atom; the shortest list that one bound argument gives."""
        best: Sequence[Fact] = self._all.get(literal.predicate, ())
        for i, term in enumerate(literal.terms, 1):
            value = _value(term, binding)
            if value is not None:
                found = self._by.get((literal.predicate, i, value), ())
                if len(found) < len(best):
                    best = found
        return best


class LiftedGame:
    """A game's actions and goal as read, ready to be grounded backward.

    Args:
        domain: the rules.
        types: id -> type of every object.
        goal: the condition to reach.
        facts: every true fact, static ones among them.

    Every method, and making it, raises ``TooManyBranches`` once ``MOST_WAYS`` were tried.
    """

    def __init__(
        self, domain: Domain, types: Mapping[str, str], goal: Condition, facts: Iterable[Fact]
    ) -> None:
        self._room = MOST_WAYS
        self._types = types
        self._parents = domain.parents
        self._goal = goal
        self._changing = {e.literal.predicate for a in domain.actions for e in a.effects}
        self._static = FactIndex(f for f in sorted(facts) if f[0] not in self._changing)
        members: dict[str, list[str]] = {}
        for name, type_ in self._types.items():
            members.setdefault(type_, []).append(name)
        parents = set(domain.parents.values())
        self._only = {t: m[0] for t, m in members.items() if len(m) == 1 and t not in parents}
        self._makers: dict[tuple[str, bool], list[tuple[_Schema, Literal]]] = {}
        for action in domain.actions:
            for schema in _schemas(action):
                self._take(len(schema.makes))
                for made in schema.makes:
                    key = (made.predicate, made.positive)
                    self._makers.setdefault(key, []).append((schema, made))

    def changing(self, facts: Iterable[Fact]) -> frozenset[Fact]:
        """The facts that actions can change."""
        return frozenset(fact for fact in facts if fact[0] in self._changing)

    def alternatives(self) -> list[frozenset[Wish]]:
        """The goal as alternatives over changing atoms, whatever is static decided."""
        found: dict[frozenset[Wish], None] = {}
        for branch in _resolved(branches(self._goal)):
            for binding in self._bindings(branch.literals, dict(branch.variables), {}, None):
                wishes = self._wishes(branch.literals, binding)
                if wishes is not None:
                    found[wishes] = None
        return list(found)

    def relevant(self, wanted: Iterable[Wish], state: frozenset[Fact]) -> list[Operator]:
        """Operators that make what is wanted and false, and what those need, and so on.

        Variables that nothing static binds are bound by the state's facts.
        """
        known = FactIndex(sorted(state))
        found: dict[Operator, None] = {}
        waiting = [wish for wish in sorted(wanted) if (wish.atom in state) != wish.holds]
        seen = set(waiting)
        while waiting:
            for operator in self._making(waiting.pop(), known, closed=False):
                if operator in found:
                    continue
                found[operator] = None
                for need in sorted(operator.needs):
                    if need not in seen and (need.atom in state) != need.holds:
                        seen.add(need)
                        waiting.append(need)
        return list(found)

    def making(self, wanted: Iterable[Wish], known: Iterable[Fact]) -> list[Operator]:
        """Operators that make something wanted and need only known atoms to be true."""
        index = FactIndex(sorted(known))
        found: dict[Operator, None] = {}
        for wish in sorted(wanted):
            for operator in self._making(wish, index, closed=True):
                found[operator] = None
        return list(found)

    def _making(self, wish: Wish, known: FactIndex, *, closed: bool) -> Iterator[Operator]:
        for schema, made in self._makers.get((wish.atom[0], wish.holds), ()):
            binding = self._unify(schema, made, wish.atom)
            if binding is None:
                continue
            for full in self._bindings(schema.literals, schema.variables, binding, known, closed):
                needs = self._wishes(schema.literals, full)
                if needs is not None and (
                    not closed or all(n.atom in known for n in needs if n.holds)
                ):
                    yield self._operator(schema, full, needs)

    def _unify(self, schema: _Schema, made: Literal, atom: Fact) -> Binding | None:
        binding: Binding = {}
        for term, value in zip(made.terms, atom[1:], strict=True):
            if not term.startswith("?"):
                if term != value:
                    return None
            elif binding.setdefault(term, value) != value or not self._fits(
                value, schema.variables[term]
            ):
                return None
        # the agent, usually: what there is one of needs no fact to be found
        for name, type_ in schema.variables.items():
            if name not in binding and type_ in self._only:
                binding[name] = self._only[type_]
        return binding

    def _bindings(
        self,
        literals: Sequence[Literal],
        variables: Mapping[str, str],
        binding: Binding,
        known: FactIndex | None,
        closed: bool = False,
    ) -> Iterator[Binding]:
        """Every way to bind all variables; ``known`` are the changing facts that may bind some."""
        best: list[tuple[int, Literal, Sequence[Fact]]] = []
        for literal in literals:
            if not literal.positive or literal.predicate == EQUAL:
                continue
            if all(_value(term, binding) is not None for term in literal.terms):
                continue
            changing = literal.predicate in self._changing
            if changing and known is None:
                continue
            index = known if changing and known is not None else self._static
            loose = all(_value(term, binding) is None for term in literal.terms)
            facts = index.matching(literal, binding)
            # a static look-up by a bound argument loses nothing; a changing fact is a choice
            rank = (2 if loose else 0) if not changing or closed else (3 if loose else 1)
            best.append((rank, literal, facts))
        if not best:
            yield from self._by_type(variables, binding)
            return
        rank = min(each[0] for each in best)
        chosen = [each for each in best if each[0] == rank]
        if rank != 1 or closed:
            chosen = [min(chosen, key=lambda each: len(each[2]))]
        for _, literal, facts in chosen:
            self._take(len(facts))
            for fact in facts:
                longer = self._match(literal, fact, binding, variables)
                if longer is not None:
                    yield from self._bindings(literals, variables, longer, known, closed)

    def _take(self, ways: int) -> None:
        self._room -= ways
        if self._room < 0:
            raise TooManyBranches

    def _by_type(self, variables: Mapping[str, str], binding: Binding) -> Iterator[Binding]:
        free = [name for name in variables if name not in binding]
        if not free:
            yield binding
            return
        members = [[i for i in self._types if self._fits(i, variables[name])] for name in free]
        self._take(prod(map(len, members)))
        for values in product(*members):
            yield binding | dict(zip(free, values, strict=True))

    def _match(
        self, literal: Literal, fact: Fact, binding: Binding, variables: Mapping[str, str]
    ) -> Binding | None:
        longer = dict(binding)
        for term, value in zip(literal.terms, fact[1:], strict=True):
            present = _value(term, longer)
            if present is None:
                if not self._fits(value, variables[term]):
                    return None
                longer[term] = value
            elif present != value:
                return None
        return longer

    def _wishes(self, literals: Iterable[Literal], binding: Binding) -> frozenset[Wish] | None:
        """The changing part of a ground conjunction; None when its static part is false."""
        wishes = set()
        for literal in literals:
            atom = _ground(literal, binding)
            if literal.predicate in self._changing:
                wishes.add(Wish(atom, literal.positive))
                continue
            same = literal.predicate == EQUAL and atom[1] == atom[2]
            if (same or atom in self._static) != literal.positive:
                return None
        contradictory = any(Wish(wish.atom, not wish.holds) in wishes for wish in wishes)
        return None if contradictory else frozenset(wishes)

    def _operator(self, schema: _Schema, binding: Binding, needs: frozenset[Wish]) -> Operator:
        makes: dict[Fact, bool] = {}
        for literal in schema.makes:
            atom = _ground(literal, binding)
            # an atom both deleted and added ends true
            makes[atom] = makes.get(atom, False) or literal.positive
        arguments = tuple(binding[name] for name, _ in schema.action.parameters)
        granted = frozenset(Wish(atom, holds) for atom, holds in makes.items())
        return Operator((schema.action.name, *arguments), needs, granted)

    def _fits(self, value: str, type_: str) -> bool:
        found = self._types.get(value, ROOT_TYPE)
        while found not in (type_, ROOT_TYPE):
            found = self._parents[found]
        return found == type_


def _schemas(action: Action) -> Iterator[_Schema]:
    always = tuple(e.literal for e in action.effects if e.condition == TRUE)
    cases: list[tuple[Condition, tuple[Literal, ...]]] = [(TRUE, always)]
    cases += [(e.condition, (*always, e.literal)) for e in action.effects if e.condition != TRUE]
    for condition, makes in cases:
        for branch in _resolved(branches(And((action.condition, condition)))):
            variables = dict(action.parameters) | dict(branch.variables)
            yield _Schema(action, variables, branch.literals, makes)


def _resolved(found: Iterable[Branch]) -> Iterator[Branch]:
    """Branches without filters: each disjunction chosen from in every way."""
    for branch in found:
        ways: list[tuple[Branch, ...]] = [branches(filter_) for filter_ in branch.filters]
        if prod(map(len, ways)) > MOST_BRANCHES:
            raise TooManyBranches
        for chosen in product(*ways):
            extra = tuple(x for way in chosen for x in way.literals)
            yield Branch(branch.variables, (*branch.literals, *extra))


def _ground(literal: Literal, binding: Mapping[str, str]) -> Fact:
    return (literal.predicate, *(binding.get(term, term) for term in literal.terms))


def _value(term: str, binding: Mapping[str, str]) -> str | None:
    return binding.get(term) if term.startswith("?") else term
