"""One episode of a compiled game: what differs from its start, and nothing else.

The state is the set of atoms whose truth is not what it was at the start. Everything that never
changes, and every start fact, stays in the shared game.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from agentgym_suite.alfworld.domains import Schema
from agentgym_suite.alfworld.facts import Access, Atom, Row, Rows
from agentgym_suite.alfworld.grammars import INTRO
from agentgym_suite.alfworld.ground_game import GroundGame
from agentgym_suite.alfworld.growth import Leaf, Node
from agentgym_suite.alfworld.refusals import explain_refusal
from agentgym_suite.alfworld.rules import Alternative, reference, tell

NOTHING_HAPPENS = "Nothing happens."  # the original engine's own words, in no file

_MISSING = object()


class Opening(NamedTuple):
    """How every episode of a game begins: what a ``Play`` starts from.

    It holds no play and no game: games would otherwise refer to themselves, and stay until the
    garbage collector finds them.
    """

    nodes: list[Node]
    admissible: tuple[str, ...]
    won: bool
    observation: str


class Play:
    """The state of one episode.

    Attributes:
        game: what all its episodes read.
        names: displayed names by entity.
        observation: the text shown last; after the start, the first observation.
        admissible: the commands that do something now, sorted, without repeats.
        won: whether the goal holds now.
        effort: what the text that is being told has taken so far.
    """

    __slots__ = (
        "_canonical",
        "_changed",
        "_nodes",
        "_views",
        "admissible",
        "effort",
        "game",
        "names",
        "observation",
        "won",
    )

    def __init__(self, game: GroundGame, opening: Opening) -> None:
        self.game = game
        self.names = game.names
        self.admissible = opening.admissible
        self.won = opening.won
        self.observation = opening.observation
        self.effort = 0
        self._nodes = opening.nodes
        self._changed: set[Atom] = set()
        self._views: dict[int, dict[Access, dict[Row, Rows | None]]] = {}
        self._canonical: str | None = None

    @property
    def ids(self) -> list[str]:
        """Ids by entity, shadows included."""
        return self.game.entities.shadowed_ids

    @property
    def types(self) -> list[str]:
        """Types by entity, shadows included."""
        return self.game.entities.shadowed_types

    def step(self, command: str) -> tuple[str, bool]:
        """Execute a command that equals an admissible one but for outer white space.

        Returns:
            The reply, and whether anything was executed.
        """
        leaf = self._leaf(command.strip())
        if leaf is None:
            self.observation = NOTHING_HAPPENS
            return NOTHING_HAPPENS, False
        self._execute(leaf)
        context = self.game.context(self._schema(leaf), leaf.arguments)
        self.observation = tell(
            self.game.grammar.wordings[leaf.owner].feedback.write, self, context
        )
        return self.observation, True

    def copy(self) -> Play:
        """An episode in the same state that goes its own way from here."""
        other = object.__new__(Play)
        other.game = self.game
        other.names = self.names
        other._changed = self._changed.copy()
        other._views = {
            number: {access: view.copy() for access, view in views.items()}
            for number, views in self._views.items()
        }
        other._canonical = self._canonical
        other._nodes = self._nodes
        other.admissible = self.admissible
        other.won = self.won
        other.observation = self.observation
        other.effort = 0
        return other

    def canonical_state(self) -> str:
        """JSON of what differs from the start of the game; equal for equal states only."""
        if self._canonical is None:
            shown = self.game.shown
            self._canonical = json.dumps(
                sorted([shown(atom) for atom in self._changed]), separators=(",", ":")
            )
        return self._canonical

    def facts(self) -> tuple[tuple[str, ...], ...]:
        """The true facts that conditions and texts can read: predicate, then ids."""
        game = self.game
        count = game.domain.predicates.count
        start = game.start_atoms()
        true = [atom for atom in start if atom not in self._changed]
        true += self._changed.difference(start)
        return tuple(game.facts(sorted(atom for atom in true if atom[0] < count)))

    def command_for(self, action: str, arguments: Sequence[str]) -> str | None:
        """The command that executes a ground action now; None if it is not possible.

        Args:
            action: name in the domain, lower case.
            arguments: the ids of its parameters.
        """
        number = self.game.entities.number
        wanted = tuple([number.get(id_, -1) for id_ in arguments])
        for node in self._nodes:
            for leaf in (*node.leaves, *node.dynamic):
                if leaf.arguments == wanted and self._schema(leaf).action.name == action:
                    return leaf.command if leaf.command is not None else self._command(leaf)
        return None

    def is_idle(self, command: str) -> bool:
        """Whether a command fails only because it would change nothing."""
        return any(command in node.idle for node in self._nodes)

    def why_not(self, command: str) -> str:
        """Why a command does nothing now, one sentence; "" for an admissible one."""
        return explain_refusal(
            command,
            self.admissible,
            is_idle=self.is_idle,
            wordings=self.game.grammar.wordings,
            names=self.game.known_names,
        )

    # ---------------------------------------------------- what texts and plans read

    def rule(self, name: str) -> tuple[Alternative, ...]:
        """The alternatives of a rule."""
        return self.game.grammar.rules.get(name, ())

    def no_rule(self, name: str) -> Exception:
        """The error for a rule none of whose alternatives applies."""
        return self.game.no_rule(name)

    def too_long(self) -> Exception:
        """The error for a text that does not come to an end."""
        return self.game.too_long()

    def holds(self, atom: Atom) -> bool:
        """Whether an atom is true now."""
        return (atom in self._changed) is not self.game.holds_at_start(atom)

    def rows(self, access: Access, key: Row) -> Rows:
        """The facts of a look-up now."""
        views = self._views.get(access.predicate)
        if views is None:  # no such fact has ever changed
            return self.game.start_rows(access, key)
        view = views.get(access)
        if view is None:
            view = views[access] = self._view(access)
        rows = view.get(key, _MISSING)
        if rows is _MISSING:
            return self.game.start_rows(access, key)
        if rows is None:
            rows = view[key] = self._changed_rows(access, key)
        return rows  # type: ignore[return-value]

    # ------------------------------------------------------------------ inside

    def _view(self, access: Access) -> dict[Row, Rows | None]:
        """An access used for the first time: all that changed so far is stale in it."""
        number = access.predicate
        return {access.key(atom[1:]): None for atom in self._changed if atom[0] == number}

    def _changed_rows(self, access: Access, key: Row) -> Rows:
        game = self.game
        rows = set(game.start_rows(access, key))
        for atom in self._changed:
            if atom[0] == access.predicate:
                row = atom[1:]
                if access.key(row) == key and game.accepts(access, row):
                    rows ^= {row}
        return game.ordered(access, rows)

    def _execute(self, leaf: Leaf) -> None:
        changes = [
            (atom, changed)
            for atom, changed, condition in self.game.outcome(leaf).changes
            if condition is None or self._reaches(condition)
        ]
        touched = set()
        for atom, changed in changes:
            if changed is (atom in self._changed):
                continue
            if changed:
                self._changed.add(atom)
            else:
                self._changed.discard(atom)
            number, row = atom[0], atom[1:]
            touched.add(number)
            for access, view in self._views.setdefault(number, {}).items():
                view[access.key(row)] = None
        if touched:
            self._canonical = None
            self._refresh()
            if not touched.isdisjoint(self.game.goal_reads):
                self.won = self._reaches(self.game.goal_node)

    def _refresh(self) -> None:
        """Walk the tree of ground actions: which nodes are reached now, and their commands."""
        changed = self._changed
        nodes: list[Node] = []
        waiting = [self.game.root]
        while waiting:
            node = waiting.pop()
            if node.leaves or node.dynamic or node.idle:
                nodes.append(node)
            for atom, wanted, below in node.tests:
                if (atom in changed) is wanted:
                    waiting.append(below)
            for gate, below in node.gates:
                if _opens(gate, changed):
                    waiting.append(below)
            for lookup in node.lookups:
                children = lookup.children
                for row in self.rows(lookup.access, lookup.key):
                    child = children.get(row)
                    if child is None:
                        child = self.game.grow_below(lookup, row)
                    waiting.append(child)
        self._nodes = nodes
        commands = set().union(*[node.commands for node in nodes])
        commands.update(self._command(leaf) for node in nodes for leaf in node.dynamic)
        self.admissible = tuple(sorted(commands))

    def _reaches(self, root: Node) -> bool:
        """Whether a condition's tree has a leaf in this state."""
        changed = self._changed
        waiting = [root]
        while waiting:
            node = waiting.pop()
            if node.leaves:
                return True
            waiting += [below for atom, wanted, below in node.tests if (atom in changed) is wanted]
            waiting += [below for gate, below in node.gates if _opens(gate, changed)]
            for lookup in node.lookups:
                for row in self.rows(lookup.access, lookup.key):
                    child = lookup.children.get(row)
                    waiting.append(child or self.game.grow_below(lookup, row))
        return False

    def _leaf(self, command: str) -> Leaf | None:
        """The first ground action, in the engine's order, that has this command."""
        found = [
            node.leaves[i]
            for node in self._nodes
            if command in node.commands
            for i, own in enumerate(node.commands)
            if own == command
        ]
        found += [
            leaf for node in self._nodes for leaf in node.dynamic if self._command(leaf) == command
        ]
        return min(found, key=lambda leaf: leaf[:2]) if found else None

    def _schema(self, leaf: Leaf) -> Schema:
        return self.game.domain.schemas[leaf.owner]

    def _command(self, leaf: Leaf) -> str:
        """The command of a ground action whose template reads the state."""
        context = self.game.context(self._schema(leaf), leaf.arguments)
        return tell(self.game.grammar.wordings[leaf.owner].template.write, self, context)


def _opens(gate: tuple[tuple[tuple[Atom, bool], ...], ...], changed: set[Atom]) -> bool:
    return all(any((atom in changed) is wanted for atom, wanted in clause) for clause in gate)


def open_game(game: GroundGame) -> Opening:
    """How every episode of a game begins."""
    first = Play(game, Opening([], (), False, ""))
    first._refresh()
    won = first._reaches(game.goal_node)
    return Opening(first._nodes, first.admissible, won, tell(reference(INTRO), game, {}))
