"""A compiled domain: everything about the actions that no single game changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from agentgym_suite.alfworld.conditions import (
    EQUAL,
    TRUE,
    And,
    Branch,
    Condition,
    Literal,
    literals_of,
    safe_branches,
)
from agentgym_suite.alfworld.facts import Row, TypeTree
from agentgym_suite.alfworld.goals import Goal, Goals, GoalShape
from agentgym_suite.alfworld.pddl import ROOT_TYPE, Action, Domain
from agentgym_suite.alfworld.plans import Plan, Predicates, make_plan
from agentgym_suite.alfworld.rules import RuleCompiler
from agentgym_suite.alfworld.sources import Source

Size = tuple[int, ...]
_MOST_GOALS = 256
_MOST_PARAMETERS = 50  # of an action; the official ones have at most 6


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """An action of the domain, prepared.

    Attributes:
        action: as read.
        number: its place in the domain, which orders ground actions.
        keys: for each parameter its variable and placeholder in a context.
        branches: the conjunctions of its condition.
        required: literals that hold whenever the action is executed.
        always_exists: whether no ground action of it can turn out to do nothing.
        moves: for each fact that it requires and deletes, the arguments of that fact and of those
            of the same predicate that it adds; a ground action exists wherever one of them goes
            without coming back.
    """

    action: Action
    number: int
    keys: tuple[tuple[str, str], ...]
    branches: tuple[Branch, ...]
    required: tuple[Literal, ...]
    always_exists: bool
    moves: tuple[tuple[tuple[int, ...], tuple[tuple[int, ...], ...]], ...]

    def surely_exists(self, arguments: Row) -> bool:
        """Whether a ground action changes something, by the cheap test that decides most."""
        if self.always_exists:
            return True
        for gone, made in self.moves:
            before = [arguments[i] for i in gone]
            for come in made:
                if before == [arguments[i] for i in come]:
                    break
            else:
                return True
        return False


class CompiledDomain:
    """What all games of one domain text share; immutable but for caches that only grow.

    Args:
        domain: the domain as read.
        source: named by errors.
    """

    def __init__(self, domain: Domain, source: Source) -> None:
        self.domain = domain
        self.types = TypeTree(domain.parents, ROOT_TYPE)
        effects = [effect for action in domain.actions for effect in action.effects]
        self.predicates = Predicates(
            (name for name in domain.predicates if name != EQUAL),
            changing={e.literal.predicate for e in effects},
            diverging={e.literal.predicate for e in effects if e.condition != TRUE},
            types=self.types,
        )
        self.added = frozenset(
            self.predicates.number[e.literal.predicate] for e in effects if e.literal.positive
        )
        self.rules = RuleCompiler(self.predicates, self.types)
        self.schemas = tuple(_schema(a, i, source) for i, a in enumerate(domain.actions))
        self._plans: dict[Size, tuple[Plan, ...]] = {}
        self.goals = Goals()
        self._goal_plans: dict[tuple[GoalShape, Size], tuple[Plan, ...]] = {}

    @cached_property
    def read(self) -> frozenset[int]:
        """The predicates that conditions of actions read."""
        conditions = [a.condition for a in self.domain.actions]
        conditions += [e.condition for a in self.domain.actions for e in a.effects]
        return frozenset(n for c in conditions for n in self.read_by(c))

    def read_by(self, condition: Condition) -> frozenset[int]:
        """The predicates that a condition reads."""
        names = {x.predicate for x in literals_of(condition) if x.predicate != EQUAL}
        return frozenset(self.predicates.number[name] for name in names)

    def plans(self, sizes: Size) -> tuple[Plan, ...]:
        """How to find every ground action, for predicates with none, few or many facts."""
        plans = self._plans.get(sizes)
        if plans is None:
            plans = self._plans[sizes] = tuple(
                make_plan(
                    branch,
                    schema.action.parameters,
                    self.predicates,
                    sizes.__getitem__,
                    owner=schema.number,
                )
                for schema in self.schemas
                for branch in schema.branches
            )
        return plans

    def goal_plans(self, goal: Goal, few: Callable[[int], int]) -> tuple[Plan, ...]:
        """How to test a goal; those that differ in their objects only share the work.

        Args:
            goal: of a game.
            few: predicate number -> 0 none, 1 few, 2 many facts.
        """
        shape = goal.shape
        sizes = tuple([few(n) for n in sorted(self.read_by(shape.condition))])
        plans = self._goal_plans.get((shape, sizes))
        if plans is None:
            if len(self._goal_plans) >= _MOST_GOALS:
                self._goal_plans.clear()
            plans = tuple(make_plan(b, (), self.predicates, few) for b in shape.branches)
            self._goal_plans[shape, sizes] = plans
        return tuple(
            [replace(p, constants=tuple([goal.ids[int(n)] for n in p.constants])) for p in plans]
        )


def _schema(action: Action, number: int, source: Source) -> Schema:
    adds = [e for e in action.effects if e.literal.positive and e.condition == TRUE]
    read_true = {x.predicate for x in literals_of(action.condition) if x.positive}
    # an unconditional add that the condition never asks for is an effect of every ground action
    always = any(e.literal.predicate not in read_true for e in adds)
    place = f"action {action.name}"
    if len(action.parameters) > _MOST_PARAMETERS:
        raise source.too_large(f"{len(action.parameters):,} parameters of {place}")
    return Schema(
        action,
        number,
        tuple((name[1:], f"{name[1:]}:{type_}") for name, type_ in action.parameters),
        safe_branches(action.condition, source, place),
        tuple(_required(action.condition)),
        always,
        tuple(_moves(action)),
    )


def _moves(action: Action) -> Iterator[tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]]:
    place = {name: i for i, (name, _) in enumerate(action.parameters)}
    required = [x for x in _required(action.condition) if x.positive]
    for effect in action.effects:
        gone = effect.literal
        if gone.positive or effect.condition != TRUE:
            continue
        made = [
            e.literal
            for e in action.effects
            if e.literal.positive and e.literal.predicate == gone.predicate
        ]
        if Literal(gone.predicate, gone.terms) in required and all(
            term in place for literal in (gone, *made) for term in literal.terms
        ):
            yield (
                tuple(place[term] for term in gone.terms),
                tuple(tuple(place[term] for term in x.terms) for x in made),
            )


def _required(condition: Condition) -> list[Literal]:
    if isinstance(condition, Literal):
        return [condition] if condition.predicate != EQUAL else []
    if isinstance(condition, And):
        return [x for part in condition.parts for x in _required(part)]
    return []
