"""What all episodes of one game read: facts, names, texts and the tree of ground actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from agentgym_suite.alfworld.conditions import TRUE, Condition, Literal, safe_branches
from agentgym_suite.alfworld.domains import CompiledDomain, Schema
from agentgym_suite.alfworld.effects import GroundEffect, surviving
from agentgym_suite.alfworld.facts import Access, Atom, Row, Rows
from agentgym_suite.alfworld.forms import Run
from agentgym_suite.alfworld.grammars import Grammar
from agentgym_suite.alfworld.growth import Leaf, Lookup, Node, Progress, grow, grow_child
from agentgym_suite.alfworld.pddl import Problem
from agentgym_suite.alfworld.plans import Plan, make_plan
from agentgym_suite.alfworld.reachability import relaxed_reach
from agentgym_suite.alfworld.rules import MOST_EFFORT, Alternative, Context, tell
from agentgym_suite.alfworld.sources import GRAMMAR, Source
from agentgym_suite.alfworld.world import World
from agentgym_suite.errors import DataDamaged


class Outcome:
    """What executing a ground action does to an episode.

    Attributes:
        changes: (atom, whether it must then differ from the start, condition's node or None).
    """

    __slots__ = ("changes",)

    def __init__(self, changes: tuple[tuple[Atom, bool, Node | None], ...]) -> None:
        self.changes = changes


class GroundGame(World):
    """A game whose actions are found as episodes reach them.

    Read-only but for what it works out when first asked, which is the same whoever asks. To texts
    it is the state in which every episode starts: commands that no action can change are derived
    in it, once for all episodes.

    Attributes:
        game_id: the id of its file.
        data_version: "old", "move+help" or "custom".
        grammar: its texts.
        wanted: the goal of its problem.
        tracked: the predicates that anything reads; episodes keep no others.
        goal_reads: the changing predicates that the goal reads.
        effort: what the text that is being told has taken so far.
    """

    def __init__(
        self,
        game_id: str,
        domain: CompiledDomain,
        grammar: Grammar,
        problem: Problem,
        source: Source,
    ) -> None:
        super().__init__(domain, problem, source)
        self.game_id = game_id
        self.data_version = grammar.data_version
        self.grammar = grammar
        self.wanted = problem.goal
        self.effort = 0
        self._names: Sequence[str] | None = None
        goal_reads = domain.read_by(problem.goal.shape.condition)
        self.tracked = domain.read | grammar.reads | goal_reads
        self.goal_reads = goal_reads & domain.predicates.changing
        self._commands: dict[tuple[int, Row], str] = {}
        self._outcomes: dict[tuple[int, Row], Outcome] = {}

    @property
    def problem(self) -> Problem:
        """Objects, start facts and goal, by ids."""
        constants = dict(self.domain.domain.constants)
        entities = self.entities
        objects = {
            id_: type_
            for id_, type_ in zip(entities.ids, entities.types, strict=True)
            if id_ not in constants
        }
        facts = self.facts(self.start_atoms())
        runs = [Run(name, tuple([[id_] for id_ in ids])) for name, *ids in facts]
        return Problem(self.domain.domain.name, objects, runs, self.wanted)

    # ------------------------------------------------------- what episodes use

    @cached_property
    def names(self) -> list[str]:
        """Displayed names by entity, shadows included."""
        if self._names is not None:
            return list(self._names)
        return self.entities.named(self.entities.groups(self.counted).items())

    @cached_property
    def known_names(self) -> frozenset[str]:
        """The names of all objects that occur in facts."""
        return frozenset(self.names[i] for i in self.counted)

    @property
    def ids(self) -> list[str]:
        """Ids by entity, shadows included."""
        return self.entities.shadowed_ids

    @cached_property
    def types(self) -> list[str]:
        """Types by entity, shadows included."""
        return self.entities.shadowed_types

    def rows(self, access: Access, key: Row) -> Rows:
        """The facts of a look-up at the start."""
        return self.start_rows(access, key)

    def holds(self, atom: Atom) -> bool:
        """Whether an atom is true at the start."""
        return self.holds_at_start(atom)

    @cached_property
    def root(self) -> Node:
        """Where every walk for ground actions begins."""
        return grow(self, [Progress(plan, 0, self.unbound(plan)) for plan in self.plans])

    @cached_property
    def goal_node(self) -> Node:
        """Where every walk for the goal begins; any leaf means that it is reached."""
        plans = self.domain.goal_plans(self.wanted, self.few)
        return grow(self, [Progress(plan, 0, self.unbound(plan)) for plan in plans])

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        """How ground actions are found, given how many facts each predicate has."""
        few, condition_reads = self.few, self.domain.read
        numbers = range(self.domain.predicates.count)
        sizes = [few(n) if n in condition_reads else 2 for n in numbers]
        return self.domain.plans(tuple(sizes))

    def grow_below(self, lookup: Lookup, row: Row) -> Node:
        """The node below a look-up that a walk reaches for the first time."""
        return grow_child(self, lookup, row)

    def rule(self, name: str) -> tuple[Alternative, ...]:
        """The alternatives of a rule."""
        return self.grammar.rules.get(name, ())

    def no_rule(self, name: str) -> Exception:
        """The error for a rule none of whose alternatives applies."""
        return DataDamaged(
            f"game {self.source.game}: no alternative of the grammar's rule #{name}# applies; "
            "give the rule an alternative without condition"
        )

    def too_long(self) -> Exception:
        """The error for a text that does not come to an end."""
        return self.source._replace(part=GRAMMAR).too_large(
            f"a text of over {MOST_EFFORT:,} rules, answers and characters"
        )

    def context(self, schema: Schema, arguments: Row, only: Sequence[int] | None = None) -> Context:
        """The context of a ground action's texts.

        Args:
            schema: the action.
            arguments: the entities of its parameters.
            only: the parameters that the texts depend on; None for all.
        """
        context: Context = {}
        types = self.entities.types
        keys, parameters = schema.keys, schema.action.parameters
        for i in range(len(arguments)) if only is None else only:
            entity = arguments[i]
            if types[entity] != parameters[i][1]:
                entity += self.size
            name, key = keys[i]
            context[name] = context[key] = entity
        return context

    def leaf(self, plan: Plan, binding: Sequence[int]) -> Leaf | None:
        """The ground action of a complete binding; None if it does not exist."""
        if plan.owner < 0:
            return Leaf(-1, (), "")
        schema = self.domain.schemas[plan.owner]
        arguments = tuple([binding[slot] for slot in plan.arguments])
        if not schema.surely_exists(arguments):
            literals = plan.branch.literals
            if not self._effects(schema, arguments, literals, self._can_be_true):
                return None
        return Leaf(plan.owner, arguments, self._command(schema, arguments))

    def idle_command(self, plan: Plan, binding: Sequence[int]) -> str | None:
        """The command of an action that is possible but would change nothing."""
        schema = self.domain.schemas[plan.owner]
        return self._command(schema, tuple([binding[slot] for slot in plan.arguments]))

    def outcome(self, leaf: Leaf) -> Outcome:
        """What executing a ground action does."""
        found = self._outcomes.get(leaf[:2])
        if found is None:
            found = self._outcomes[leaf[:2]] = self._outcome(leaf)
        return found

    @cached_property
    def reachable(self) -> frozenset[Atom]:
        """Atoms that could become true if nothing were ever deleted."""
        return relaxed_reach(self, self.plans)

    # ------------------------------------------------------------------ inside

    def _command(self, schema: Schema, arguments: Row) -> str | None:
        wording = self.grammar.wordings[schema.number]
        if wording.parameters is None:
            return None
        key = (schema.number, tuple([arguments[i] for i in wording.parameters]))
        command = self._commands.get(key)
        if command is None:
            context = self.context(schema, arguments, wording.parameters)
            command = tell(wording.template.write, self, context)
            self._commands[key] = command
        return command

    def _effects(
        self,
        schema: Schema,
        arguments: Row,
        literals: Sequence[Literal],
        can_be_true: Callable[[Atom], bool],
    ) -> list[GroundEffect]:
        values = dict(zip([name for name, _ in schema.action.parameters], arguments, strict=True))
        number, predicate = self.entities.number, self.domain.predicates.number

        def ground(literal: Literal) -> Atom:
            terms = [values[t] if t in values else number.get(t, -1) for t in literal.terms]
            return (predicate.get(literal.predicate, -1), *terms)

        required = {
            ground(x): x.positive
            for x in literals
            if x.predicate in predicate and all(t in values or t in number for t in x.terms)
        }
        return surviving(schema.action.effects, required, ground, self._never_changes, can_be_true)

    def _never_changes(self, atom: Atom) -> bool | None:
        if atom[0] in self.domain.predicates.changing:
            return None
        return self.holds_at_start(atom)

    def _can_be_true(self, atom: Atom) -> bool:
        if self.holds_at_start(atom):
            return True
        return atom[0] in self.domain.added and atom in self.reachable

    def _may_be_told(self, atom: Atom) -> bool:
        """Whether a delete can matter: only a text that asks for explicit negatives could tell."""
        told = atom[0] + self.domain.predicates.count in self.tracked
        return not told or self._can_be_true(atom)

    def _outcome(self, leaf: Leaf) -> Outcome:
        schema = self.domain.schemas[leaf.owner]
        predicates = self.domain.predicates
        count, diverging, tracked = predicates.count, predicates.diverging, self.tracked
        effects = self._effects(schema, leaf.arguments, schema.required, self._may_be_told)
        changes: list[tuple[Atom, bool, Node | None]] = []

        def change(atom: Atom, true: bool, condition: Node | None = None) -> None:
            if atom[0] in tracked:
                changes.append((atom, true is not self.holds_at_start(atom), condition))

        for wanted in (False, True):  # in the true state an add wins over a delete
            for effect in effects:
                if effect.positive is wanted:
                    node = self._condition(effect.condition, schema, leaf.arguments)
                    change(effect.atom, wanted, node)
        for wanted in (True, False):  # in the texts' facts the delete comes last
            for effect in effects:
                if effect.positive is wanted:
                    number, *rest = effect.atom
                    change((number + count, *rest), not wanted)
                    if number in diverging:
                        change((number + 2 * count, *rest), wanted)
        return Outcome(tuple(changes))

    def _condition(self, condition: Condition, schema: Schema, arguments: Row) -> Node | None:
        if condition == TRUE:
            return None
        source = self.source._replace(part="domain")
        parameters = schema.action.parameters
        plans = [
            make_plan(b, parameters, self.domain.predicates, self.few, given=True)
            for b in safe_branches(condition, source, f"action {schema.action.name}")
        ]
        return grow(self, [Progress(plan, 0, self.unbound(plan, arguments)) for plan in plans])
