"""One generated question, before it is written in anybody's format."""

from __future__ import annotations

from dataclasses import dataclass

from agentgym_suite.multihop_qa.generator.world import Entity, Fact, World


@dataclass(frozen=True, slots=True)
class Answer:
    """What is asked for.

    Attributes:
        text: the canonical form.
        aliases: other accepted forms.
        id: the entity's id, an id of its own for a value, "" for yes and no.
    """

    text: str
    aliases: tuple[str, ...]
    id: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question with everything that the official formats hold.

    Attributes:
        kind: bridge, comparison, bridge-comparison or inference.
        text: the question.
        answer: its only answer.
        facts: what proves it, in hop order; one a hop, all told on different pages.
        steps: for a chain, each hop asked alone, "#1" for the answer of the first; else empty.
        shape: the relations, which keep questions from being all alike.
    """

    kind: str
    text: str
    answer: Answer
    facts: tuple[Fact, ...]
    steps: tuple[str, ...]
    shape: tuple[str, ...]

    @property
    def hops(self) -> int:
        """How many facts are needed."""
        return len(self.facts)

    @property
    def path(self) -> tuple[int, ...]:
        """The numbers of its facts; in order for a chain."""
        numbers = tuple(fact.number for fact in self.facts)
        return numbers if self.steps else tuple(sorted(numbers))

    @property
    def entities(self) -> frozenset[int]:
        """Every entity that its facts are about."""
        ends = (end for fact in self.facts for end in (fact.subject, fact.object))
        return frozenset(end for end in ends if end >= 0)


def answer_of(fact: Fact, world: World) -> Answer:
    """What a fact tells of its teller, as an answer."""
    if fact.value is not None:
        return Answer(fact.value.answer, fact.value.aliases, value_id(fact))
    return entity_answer(world.entities[fact.told])


def entity_answer(entity: Entity) -> Answer:
    """An entity as an answer."""
    return Answer(entity.title, (*entity.aliases, *entity.demonyms), entity.id)


def value_id(fact: Fact) -> str:
    """The id under which the written forms of a fact's value are found."""
    return f"V{fact.number + 1}"
