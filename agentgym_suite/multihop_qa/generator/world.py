"""The world as it is: entities, the facts that hold between them, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agentgym_suite.multihop_qa.generator.naming import ARTICLE
from agentgym_suite.multihop_qa.generator.tables import Relation
from agentgym_suite.multihop_qa.generator.values import Value


@dataclass(slots=True)
class Entity:
    """Something with a page.

    Attributes:
        number: its place in the world.
        kind: its type.
        title: its name and the title of its page.
        article: whether running text puts "the" before the name.
        gender: "f" or "m" for people, else "".
        role: the part in life of a person, else "".
        year: when it began; 0 where that is not told of its type.
        twin: the entity whose name is deliberately like this one's; -1 if none.
        aliases: its other names.
        former: whether the aliases are names of former times.
        demonyms: what its people are called.
    """

    number: int
    kind: str
    title: str
    article: bool
    gender: str = ""
    role: str = ""
    year: int = 0
    twin: int = -1
    aliases: tuple[str, ...] = ()
    former: bool = False
    demonyms: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The name in running text."""
        return self.named(self.title)

    @property
    def id(self) -> str:
        """The id that evidences and alias rows know it by."""
        return f"Q{self.number + 1}"

    def named(self, name: str) -> str:
        """One of its names in running text."""
        if not self.article:
            return name
        # names of species are common nouns
        return ARTICLE + (name[0].lower() + name[1:] if self.kind == "species" else name)


@dataclass(frozen=True, slots=True)
class Fact:
    """A relation of an entity to another one, or to a value.

    Attributes:
        number: its place in the world.
        relation: which one.
        subject: the entity of the domain.
        object: the entity of the range; -1 for a value.
        value: the value, else None.
        teller: the entity whose page tells it.
    """

    number: int
    relation: str
    subject: int
    object: int
    value: Value | None
    teller: int

    @property
    def forward(self) -> bool:
        """Whether it is told from the domain's side."""
        return self.teller == self.subject

    @property
    def told(self) -> int:
        """The entity that the page of the teller names; -1 for a value."""
        return self.object if self.forward else self.subject


@dataclass(slots=True)
class World:
    """All entities and facts.

    Attributes:
        relations: the declared relations.
        entities: by number.
        facts: by number.
        pages: the facts that each entity's page tells.
        tellers: the entities whose pages name each entity in a fact.
        kinds: the numbers of the entities of each type.
    """

    relations: dict[str, Relation]
    entities: list[Entity] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    pages: list[list[Fact]] = field(default_factory=list)
    tellers: list[list[int]] = field(default_factory=list)
    kinds: dict[str, list[int]] = field(default_factory=dict)
    _links: dict[tuple[str, bool, int], list[Fact]] = field(default_factory=dict)

    def add(self, entity: Entity) -> None:
        """Put an entity into the world; its number must be the next one."""
        self.entities.append(entity)
        self.pages.append([])
        self.tellers.append([])
        self.kinds.setdefault(entity.kind, []).append(entity.number)

    def state(
        self, relation: str, subject: int, object: int, value: Value | None, teller: int
    ) -> None:
        """Let a fact hold, told on the page of one of its two sides."""
        fact = Fact(len(self.facts), relation, subject, object, value, teller)
        self.facts.append(fact)
        self.pages[teller].append(fact)
        if fact.told >= 0:
            self.tellers[fact.told].append(teller)
        self._links.setdefault((relation, True, subject), []).append(fact)
        if object >= 0:
            self._links.setdefault((relation, False, object), []).append(fact)

    def linked(self, relation: str, forward: bool, entity: int) -> Sequence[Fact]:
        """The facts of a relation that an entity takes part in, on that side."""
        return self._links.get((relation, forward, entity), ())

    def targets(self, relation: str, forward: bool, starts: frozenset[int]) -> frozenset[int | str]:
        """Where a relation leads from any of some entities, whoever tells it: numbers, or answers.

        A symmetric relation is followed from both sides.
        """
        found: set[int | str] = set()
        sides = (True, False) if self.relations[relation].symmetric else (forward,)
        for start in starts:
            for side in sides:
                for fact in self.linked(relation, side, start):
                    end = fact.object if side else fact.subject
                    found.add(fact.value.answer if fact.value is not None else end)
        return frozenset(found)

    def answers(self, start: int, path: Sequence[tuple[str, bool]]) -> frozenset[int | str]:
        """Everything that a path of (relation, forward) leads to over all facts."""
        ends: frozenset[int | str] = frozenset((start,))
        for relation, forward in path:
            entities = frozenset(end for end in ends if isinstance(end, int))
            ends = self.targets(relation, forward, entities)
        return ends
