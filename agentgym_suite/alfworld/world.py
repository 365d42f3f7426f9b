"""The objects of one game, its start facts, and the look-ups in them that all episodes share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from agentgym_suite.alfworld.domains import CompiledDomain
from agentgym_suite.alfworld.facts import Access, Atom, Entities, Row, Rows
from agentgym_suite.alfworld.pddl import ROOT_TYPE, Problem
from agentgym_suite.alfworld.plans import Plan
from agentgym_suite.alfworld.sources import Source
from agentgym_suite.errors import UnsupportedConstruct

NO_ROWS: Rows = ()
MOST_ANSWERS = 200_000  # partial answers of conditions; the official games need some thousands
Columns = list[list[int]]  # for each argument its entities, fact after fact


class World:
    """What is true at the start of a game.

    Read-only but for tables that are made when first asked for, the same whoever asks.

    Attributes:
        domain: what it shares with games of the same domain text.
        entities: its objects, by number in the order of their ids.
        size: number of entities.
        counted: the entities that occur in facts; these share the counters of the names.
        source: named by errors.
        room: how many more partial answers of conditions may be worked out.
    """

    def __init__(self, domain: CompiledDomain, problem: Problem, source: Source) -> None:
        self.domain = domain
        self.source = source
        self.room = MOST_ANSWERS
        self.entities = Entities({**dict(domain.domain.constants), **problem.objects})
        self.size = self.entities.size
        self._columns, self.counted = _numbered(problem, domain, self.entities, source)
        self._facts: dict[int, Rows] = {}
        self._rows: dict[Access, dict[Row, Rows | list[Row]]] = {}
        self._sets: dict[int, frozenset[Row]] = {}
        self._members: dict[str, frozenset[int]] = {}

    def overflow(self) -> UnsupportedConstruct:
        """The error for actions or conditions that can be met in too many ways."""
        return self.source._replace(part="domain").too_large(
            f"conditions that over {MOST_ANSWERS:,} combinations of objects may meet"
        )

    def few(self, predicate: int) -> int:
        """0 for no fact at the start, 1 for few, 2 for many; static ones count as many."""
        if predicate not in self.domain.predicates.changing:
            return 2
        count = len(self._start_facts(predicate))
        return 2 if count > 2 else min(count, 1)

    def start_rows(self, access: Access, key: Row) -> Rows:
        """The facts of a look-up at the start."""
        table = self._rows.get(access)
        if table is None:
            table = self._rows[access] = self._table(access)
        rows = table.get(key, NO_ROWS)
        if isinstance(rows, list):  # put in order when first asked for: most never are
            rows = table[key] = self.ordered(access, rows)
        return rows

    def accepts(self, access: Access, row: Row) -> bool:
        """Whether a row's entities have the types that an access asks for."""
        return bool(self.accepted(access, [row]))

    def accepted(self, access: Access, rows: Iterable[Row]) -> Iterable[Row]:
        """The rows whose entities have the types that an access asks for."""
        types = access.types
        if types is None:
            return rows
        own = self.entities.types
        for i, type_ in enumerate(types):
            if type_ != ROOT_TYPE:
                below = self.domain.types.below(type_)
                rows = [row for row in rows if own[row[i]] in below]
        return [row for row in rows if len(row) == len(types)]

    def ordered(self, access: Access, rows: Iterable[Row]) -> Rows:
        """Rows in the order in which texts visit them."""
        declared = access.types
        if declared is None:
            return tuple(rows)
        in_order = sorted(rows)
        tree = self.domain.types
        if not tree.exact(declared):
            types, visits = self.entities.types, tree.visits
            in_order = [
                row
                for _, row in sorted(
                    (place, row)
                    for row in in_order
                    for place in visits(declared, tuple([types[v] for v in row]))
                )
            ]
        return tuple(in_order)

    def holds_at_start(self, atom: Atom) -> bool:
        """Whether an atom is true at the start."""
        number = atom[0]
        count = self.domain.predicates.count
        if number >= count:
            if number < 2 * count:
                return False  # no explicit negative fact exists before an action made one
            number -= 2 * count
        rows = self._sets.get(number)
        if rows is None:
            rows = self._sets[number] = frozenset(self._start_facts(number))
        return atom[1:] in rows

    def members(self, type_: str) -> frozenset[int]:
        """The entities of a type and its subtypes; none for an undeclared type."""
        found = self._members.get(type_)
        if found is None:
            below = self.domain.types.below(type_)
            types = self.entities.types
            found = frozenset([i for i, own in enumerate(types) if own in below])
            self._members[type_] = found
        return found

    def unbound(self, plan: Plan, given: Sequence[int] = ()) -> list[int]:
        """A binding of a plan in which only its constants, and what is given, are bound."""
        number = self.entities.number
        binding = [number.get(id_, -1) for id_ in plan.constants]
        return [*binding, *given, *[-1] * (plan.size - len(binding) - len(given))]

    def start_atoms(self) -> list[Atom]:
        """The facts of the start, static ones among them."""
        numbers = range(self.domain.predicates.count)
        return [(n, *row) for n in numbers for row in self._start_facts(n)]

    def facts(self, atoms: Iterable[Atom]) -> list[tuple[str, ...]]:
        """Atoms as predicate and ids."""
        names, ids = self.domain.predicates.names, self.entities.ids
        return [(names[atom[0]], *[ids[i] for i in atom[1:]]) for atom in atoms]

    def shown(self, atom: Atom) -> str:
        """An atom in words, by ids."""
        ids = self.entities.ids
        arguments = ",".join([ids[i] for i in atom[1:]])
        return f"{self.domain.predicates.shown(atom[0])}({arguments})"

    def _start_facts(self, predicate: int) -> Rows:
        """The facts of a predicate without repeats, made into rows when first asked for."""
        rows = self._facts.get(predicate)
        if rows is None:
            runs = [zip(*run, strict=True) if run else [()] for run in self._columns[predicate]]
            rows = self._facts[predicate] = tuple(dict.fromkeys(chain.from_iterable(runs)))
        return rows

    def _table(self, access: Access) -> dict[Row, Rows | list[Row]]:
        number = access.predicate
        count = self.domain.predicates.count
        if number >= count:  # explicit negative facts are made by actions only
            number = number - 2 * count if number >= 2 * count else -1
        groups: dict[Row, Rows | list[Row]] = {}
        rows = self.accepted(access, self._start_facts(number) if number >= 0 else ())
        if not access.positions:
            return {(): list(rows)} if rows else groups
        key = access.key
        for row in rows:
            groups.setdefault(key(row), []).append(row)  # type: ignore[union-attr]
        return groups


def _numbered(
    problem: Problem, domain: CompiledDomain, entities: Entities, source: Source
) -> tuple[list[list[Columns]], set[int]]:
    """The facts of each declared predicate by argument, and all entities in any fact."""
    known = domain.predicates.number
    arity = domain.domain.predicates
    facts: list[list[Columns]] = [[] for _ in known]
    counted: set[int] = set()
    number = entities.number.__getitem__
    for name, words in problem.runs:
        try:
            columns = [list(map(number, column)) for column in words]
        except KeyError as missing:
            raise source.damaged(
                f"a fact about {missing.args[0]}, which is not among the objects"
            ) from None
        counted.update(*columns)
        # facts of a predicate that nothing declares count for names and match nothing
        if name in known and len(columns) == arity[name]:
            facts[known[name]].append(columns)
    return facts, counted
