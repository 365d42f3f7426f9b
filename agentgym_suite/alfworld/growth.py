"""The tree of ground actions of one game, grown where an episode goes and shared by all episodes.

A node stands for a partly answered plan. What never changes in a game is joined once, when the
node is grown; what may change is left as tests and look-ups that every walk through the tree
repeats. So the leaves under the node of a place are the ground actions possible there, and a
step visits only the few nodes of the facts that hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from agentgym_suite.alfworld.facts import Access, Atom, Row, Rows
from agentgym_suite.alfworld.plans import AllOf, Check, Formula, Members, Plan, Same, Scan

Clause = tuple[tuple[Atom, bool], ...]
Gate = tuple[Clause, ...]


class Leaf(NamedTuple):
    """A ground action: sorts in the engine's own order.

    Attributes:
        owner: number of the action in the domain.
        arguments: the entities of its parameters.
        command: what the player types; None if it depends on the state.
    """

    owner: int
    arguments: Row
    command: str | None


class Ground(Protocol):
    """What growing needs to know of a game."""

    @property
    def types(self) -> list[str]:
        """Types by entity."""
        ...

    room: int

    def overflow(self) -> Exception:
        """The error for a game with too many ground actions."""
        ...

    def start_rows(self, access: Access, key: Row) -> Rows:
        """The facts of a look-up at the start, which for a static one is always."""
        ...

    def holds_at_start(self, atom: Atom) -> bool:
        """Whether an atom is true at the start."""
        ...

    def members(self, type_: str) -> frozenset[int]:
        """The entities of a type."""
        ...

    def leaf(self, plan: Plan, binding: Sequence[int]) -> Leaf | None:
        """The ground action of a complete binding; None if it does not exist."""
        ...

    def idle_command(self, plan: Plan, binding: Sequence[int]) -> str | None:
        """The command of an action that is possible but would change nothing."""
        ...


class Progress(NamedTuple):
    """A plan answered up to a step."""

    plan: Plan
    step: int
    binding: list[int]


class Lookup:
    """The look-up of changing facts at a node, with the nodes that its rows lead to."""

    __slots__ = ("access", "children", "key", "progress")

    def __init__(self, access: Access, key: Row) -> None:
        self.access = access
        self.key = key
        self.progress: list[Progress] = []
        self.children: dict[Row, Node] = {}


class Node:
    """A partly answered condition.

    Attributes:
        leaves: the ground actions whose condition is met here.
        commands: their commands, in the same order.
        dynamic: ground actions whose command depends on the state.
        idle: commands whose condition is met here and that would change nothing.
        tests: (atom, wanted, node below): wanted is whether the atom must have changed.
        gates: (clauses, node below): of each clause, one test must be met.
        lookups: the changing facts to look up.
    """

    __slots__ = ("commands", "dynamic", "gates", "idle", "leaves", "lookups", "tests")

    def __init__(self) -> None:
        self.leaves: tuple[Leaf, ...] = ()
        self.commands: tuple[str, ...] = ()
        self.dynamic: tuple[Leaf, ...] = ()
        self.idle: tuple[str, ...] = ()
        self.tests: tuple[tuple[Atom, bool, Node], ...] = ()
        self.gates: tuple[tuple[Gate, Node], ...] = ()
        self.lookups: tuple[Lookup, ...] = ()

    @property
    def fruitless(self) -> bool:
        """Whether nothing can come from here."""
        return not (self.leaves or self.dynamic or self.tests or self.gates or self.lookups)


def grow(ground: Ground, roots: Iterable[Progress]) -> Node:
    """The node of some plans answered so far."""
    draft = _Draft(ground)
    for plan, step, binding in roots:
        draft.advance(plan, step, binding)
    return draft.node()


def grow_child(ground: Ground, lookup: Lookup, row: Row) -> Node:
    """The node below a look-up for one of its rows, remembered there."""
    draft = _Draft(ground)
    draft.take(len(lookup.progress))
    for plan, step, binding in lookup.progress:
        scan = plan.steps[step]
        below = draft.bound(scan, binding, row) if isinstance(scan, Scan) else None
        if below is not None:
            draft.advance(plan, step + 1, below)
    return lookup.children.setdefault(row, draft.node())


class _Draft:
    """What a node will hold, collected from all plans that reach it."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.leaves: dict[Leaf, None] = {}
        self.idle: dict[str, None] = {}
        self.tests: dict[tuple[Atom, bool], list[Progress]] = {}
        self.gates: dict[Gate, list[Progress]] = {}
        self.lookups: dict[tuple[Access, Row], Lookup] = {}

    def take(self, answers: int) -> None:
        """Count partial answers: a game that has too many would take all time and memory."""
        self.ground.room -= answers
        if self.ground.room < 0:
            raise self.ground.overflow()

    def node(self) -> Node:
        node = Node()
        if self.leaves:
            node.leaves = tuple([leaf for leaf in self.leaves if leaf.command is not None])
            node.commands = tuple([leaf.command or "" for leaf in node.leaves])
            node.dynamic = tuple([leaf for leaf in self.leaves if leaf.command is None])
        node.idle = tuple(self.idle)
        if self.tests:
            tests = [(*test, grow(self.ground, onward)) for test, onward in self.tests.items()]
            node.tests = tuple([test for test in tests if not test[2].fruitless])
        if self.gates:
            gates = [(gate, grow(self.ground, onward)) for gate, onward in self.gates.items()]
            node.gates = tuple([gate for gate in gates if not gate[1].fruitless])
        node.lookups = tuple(self.lookups.values())
        return node

    def advance(self, plan: Plan, step: int, binding: list[int]) -> None:
        """Follow a plan through all that never changes, up to what may."""
        steps = plan.steps
        while step < len(steps):
            todo = steps[step]
            if isinstance(todo, Scan):
                self._scan(plan, step, todo, binding)
                return
            if isinstance(todo, Members):
                members = self.ground.members(todo.type)
                self.take(len(members))
                for entity in sorted(members):
                    below = binding.copy()
                    below[todo.slot] = entity
                    self.advance(plan, step + 1, below)
                return
            residue = self.residue(todo, binding)
            if residue is False:
                return
            step += 1
            if residue is not True:
                progress = Progress(plan, step, binding)
                if len(residue) == 1 and len(residue[0]) == 1:
                    self.tests.setdefault(residue[0][0], []).append(progress)
                else:
                    self.gates.setdefault(tuple(residue), []).append(progress)
                return
        leaf = self.ground.leaf(plan, binding)
        if leaf is not None:
            self.leaves[leaf] = None
        elif command := self.ground.idle_command(plan, binding):
            self.idle[command] = None

    def _scan(self, plan: Plan, step: int, scan: Scan, binding: list[int]) -> None:
        access = scan.access
        key = tuple([binding[slot] for slot in scan.given])
        if not access.static:
            lookup = self.lookups.get((access, key))
            if lookup is None:
                lookup = self.lookups[access, key] = Lookup(access, key)
            lookup.progress.append(Progress(plan, step, binding))
            return
        rows = self.ground.start_rows(access, key)
        self.take(len(rows))
        for row in rows:
            below = self.bound(scan, binding, row)
            if below is not None:
                self.advance(plan, step + 1, below)

    def bound(self, scan: Scan, binding: list[int], row: Row) -> list[int] | None:
        """The binding extended by a row; None if the row does not fit."""
        below = binding.copy()
        types = self.ground.types
        for position, slot, allowed in scan.binds:
            value = row[position]
            if allowed is not None and types[value] not in allowed:
                return None
            below[slot] = value
        for position, slot in scan.repeats:
            if row[position] != below[slot]:
                return None
        return below

    def residue(self, formula: Formula, binding: list[int]) -> bool | list[Clause]:
        """What a formula still depends on: clauses that must all be met, or its truth."""
        if isinstance(formula, Check):
            atom = (formula.predicate, *[binding[slot] for slot in formula.slots])
            truth = self.ground.holds_at_start(atom)
            if formula.static:
                return truth is formula.positive
            return [((atom, truth is not formula.positive),)]
        if isinstance(formula, Same):
            return (binding[formula.left] == binding[formula.right]) is formula.positive
        whole = isinstance(formula, AllOf)
        parts: list[list[Clause]] = []
        for part in formula.parts:
            left = self.residue(part, binding)
            if not isinstance(left, bool):
                parts.append(left)
            elif left is not whole:
                return left
        if not parts:
            return whole
        if whole:
            return [clause for clauses in parts for clause in clauses]
        joined: list[Clause] = [()]
        for clauses in parts:
            self.take(len(joined) * len(clauses))
            joined = [(*clause, *more) for clause in joined for more in clauses]
        return joined
