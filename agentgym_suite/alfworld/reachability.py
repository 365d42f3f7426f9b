"""Which atoms could ever become true, when actions only ever add.

Needed only by games whose texts ask for explicit negative facts of a kind that an action deletes
without requiring them: the original gives such a delete no effect if its atom can never be true.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentgym_suite.alfworld.facts import Access, Atom, Row
from agentgym_suite.alfworld.plans import AllOf, Check, Formula, Members, Plan, Same, Scan
from agentgym_suite.alfworld.world import MOST_ANSWERS, World


def relaxed_reach(world: World, plans: Sequence[Plan]) -> frozenset[Atom]:
    """Every atom that is true at the start or that actions add when nothing is deleted.

    Args:
        world: the start.
        plans: how every ground action is found.
    """
    return _Reach(world, plans).fixpoint()


class _Reach:
    def __init__(self, world: World, plans: Sequence[Plan]) -> None:
        self.world = world
        self.plans = plans
        self.room = MOST_ANSWERS
        self.atoms: set[Atom] = set(world.start_atoms())
        self.indexes: dict[Access, dict[Row, list[Row]]] = {}

    def fixpoint(self) -> frozenset[Atom]:
        schemas = self.world.domain.schemas
        number = self.world.entities.number
        predicates = self.world.domain.predicates.number
        while True:
            self.indexes.clear()
            before = len(self.atoms)
            fresh: set[Atom] = set()
            for plan in self.plans:
                schema = schemas[plan.owner]
                names = [name for name, _ in schema.action.parameters]
                for binding in self.answers(plan, 0, self.world.unbound(plan)):
                    values = dict(zip(names, [binding[s] for s in plan.arguments], strict=True))
                    for effect in schema.action.effects:
                        literal = effect.literal
                        if literal.positive:
                            terms = [
                                values[t] if t in values else number.get(t, -1)
                                for t in literal.terms
                            ]
                            fresh.add((predicates[literal.predicate], *terms))
            self.atoms |= fresh
            if len(self.atoms) == before:
                return frozenset(self.atoms)

    def answers(self, plan: Plan, step: int, binding: list[int]) -> Iterator[list[int]]:
        """Complete bindings, negative conditions on changing facts taken as met."""
        steps = plan.steps
        while step < len(steps):
            todo = steps[step]
            step += 1
            if isinstance(todo, Scan | Members):
                for below in self.extended(todo, binding):
                    yield from self.answers(plan, step, below)
                return
            if not self.possible(todo, binding):
                return
        yield binding

    def take(self, answers: int) -> None:
        self.room -= answers
        if self.room < 0:
            raise self.world.overflow()

    def extended(self, todo: Scan | Members, binding: list[int]) -> Iterator[list[int]]:
        types = self.world.entities.types
        if isinstance(todo, Members):
            members = self.world.members(todo.type)
            self.take(len(members))
            for entity in members:
                below = binding.copy()
                below[todo.slot] = entity
                yield below
            return
        rows = self.rows(todo.access, [binding[slot] for slot in todo.given])
        self.take(len(rows))
        for row in rows:
            below = binding.copy()
            for position, slot, allowed in todo.binds:
                if allowed is not None and types[row[position]] not in allowed:
                    break
                below[slot] = row[position]
            else:
                if all(row[position] == below[slot] for position, slot in todo.repeats):
                    yield below

    def rows(self, access: Access, key: Sequence[int]) -> Sequence[Row]:
        index = self.indexes.get(access)
        if index is None:
            index = self.indexes[access] = {}
            for atom in self.atoms:
                if atom[0] == access.predicate:
                    index.setdefault(access.key(atom[1:]), []).append(atom[1:])
        return index.get(tuple(key), ())

    def possible(self, formula: Formula, binding: list[int]) -> bool:
        if isinstance(formula, Same):
            return (binding[formula.left] == binding[formula.right]) is formula.positive
        if isinstance(formula, Check):
            known = (formula.predicate, *[binding[slot] for slot in formula.slots]) in self.atoms
            return known if formula.positive else not (known and formula.static)
        if isinstance(formula, AllOf):
            return all(self.possible(part, binding) for part in formula.parts)
        return any(self.possible(part, binding) for part in formula.parts)
