"""Pages: the facts of an entity in varied words, among sentences that state nothing of use.

A page is a function of the world's seed and the entity alone, so that any page can be written
again when a question needs it. Each fact is told once in the world: in one sentence of one passage.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agentgym_suite.dice import Dice
from agentgym_suite.multihop_qa.generator.identity import GENERATOR_VERSION
from agentgym_suite.multihop_qa.generator.references import Speaker
from agentgym_suite.multihop_qa.generator.tables import PageTable, Tables
from agentgym_suite.multihop_qa.generator.world import Entity, Fact, World

FEWEST_WORDS, MOST_WORDS = 60, 120
_TARGET_WORDS = (66, 106)
# how likely one, two or three passages are, by the number of facts
_PASSAGES = (
    (0.9, 0.1, 0.0),
    (0.9, 0.1, 0.0),
    (0.66, 0.31, 0.03),
    (0.46, 0.44, 0.1),
    (0.26, 0.52, 0.22),
    (0.0, 0.6, 0.4),
)
_TOGETHER = 0.36  # chance that two facts share a sentence
_MENTION = 0.24
_RELATED = 0.4  # of the other mentions: an entity whose own page names this one
_BY_ALIAS = 0.4
_NAMING = "[S] should not be confused with [M]."
_SLOT = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Passage:
    """One passage: its title, and sentences that make the text when joined; blanks lead them."""

    title: str
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """The passage as one paragraph."""
        return "".join(self.sentences)


@dataclass(frozen=True, slots=True)
class Page:
    """The passages of an entity, and where its facts stand: number -> (passage, sentence)."""

    passages: tuple[Passage, ...]
    places: dict[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Plan:
    """A sentence to be: its template, and what it tells or mentions."""

    template: str
    facts: tuple[Fact, ...] = ()
    mention: str = ""

    @property
    def words(self) -> int:
        return len(self.template.split()) + len(self.facts)

    @property
    def names_subject(self) -> bool:
        """Whether it would name the entity if it came first; without, only the title says it."""
        return any(blank in self.template for blank in ("[S", "[s", "[N", "[him"))


class PageWriter:
    """Writes the page of any entity of a world.

    Args:
        world: the world.
        tables: its tables.
        seed: the seed it was made with.
    """

    def __init__(self, world: World, tables: Tables, seed: int) -> None:
        self._world = world
        self._tables = tables
        self._seed = seed

    def page(self, number: int) -> Page:
        """The page of an entity, the same whenever it is written."""
        entity = self._world.entities[number]
        dice = Dice(GENERATOR_VERSION, self._seed, "page", number)
        draft = _Draft(self._world, self._tables, entity, dice)
        facts = dice.shuffled(self._world.pages[number])
        count = 1 + dice.weighted(_PASSAGES[min(len(facts), len(_PASSAGES) - 1)])
        passages: list[Passage] = []
        places: dict[int, tuple[int, int]] = {}
        for place in range(count):
            told = draft.passage(facts[place::count], opening=place == 0)
            for row, (_, plan) in enumerate(told):
                places.update({fact.number: (place, row) for fact in plan.facts})
            sentences = tuple(
                sentence if row == 0 else f" {sentence}" for row, (sentence, _) in enumerate(told)
            )
            passages.append(Passage(entity.title, sentences))
        return Page(tuple(passages), places)


class _Draft:
    """The page of one entity while it is written; no filler is used twice on it."""

    def __init__(self, world: World, tables: Tables, entity: Entity, dice: Dice) -> None:
        self._world = world
        self._table: PageTable = tables.pages[entity.kind]
        self._entity = entity
        self._dice = dice
        self._steady: dict[str, str] = {}
        self._fillers = dice.shuffled(self._table.fillers)
        # what fits every page sets its entity beside one of the same type
        mentions = [(False, line) for line in self._table.mentions]
        self._mentions = dice.shuffled(mentions + [(True, line) for line in tables.any_mentions])

    def passage(self, facts: Sequence[Fact], *, opening: bool) -> list[tuple[str, _Plan]]:
        """The sentences of a passage with their plans."""
        plans = self._tell(facts)
        head = [_Plan(self._dice.pick(self._table.openings))] if opening else []
        words = sum(plan.words for plan in (*head, *plans))
        target = self._dice.between(*_TARGET_WORDS)
        while words < target:
            plans.append(self._padding())
            words += plans[-1].words
        if not any(plan.names_subject for plan in (*head, *plans)):
            plans.append(_Plan(_NAMING, mention=self._mentioned(alike=True)))
        return self._fit([*head, *self._dice.shuffled(plans)])

    def _tell(self, facts: Sequence[Fact]) -> list[_Plan]:
        plans = []
        left = list(facts)
        while left:
            first = left.pop()
            joined = self._join(first, left[-1]) if left and self._dice.chance(_TOGETHER) else ""
            if joined:
                plans.append(_Plan(joined, (first, left.pop())))
            else:
                plans.append(_Plan(self._dice.pick(self._sentences(first)), (first,)))
        return plans

    def _join(self, first: Fact, second: Fact) -> str:
        """One template for two facts, [O] and [O2]; "" if they do not go together."""
        asides = self._table.tellings[first.relation].asides
        main = self._dice.pick(self._sentences(second)).replace("[O]", "[O2]")
        if asides and main.startswith("[S] "):
            aside = self._dice.pick(asides)
            return f"{aside}, [s] {main.removeprefix('[S] ')}"
        head = self._dice.pick(self._sentences(first))
        if main.startswith("[S] "):
            main = f"[s] {main.removeprefix('[S] ')}"
        elif main.startswith(("The ", "Its ")):
            main = main[0].lower() + main[1:]
        else:
            return ""
        return "" if "," in head else f"{head.removesuffix('.')}, and {main}"

    def _sentences(self, fact: Fact) -> tuple[str, ...]:
        return self._table.tellings[fact.relation].sentences

    def _padding(self) -> _Plan:
        if self._mentions and (self._dice.chance(_MENTION) or not self._fillers):
            alike, template = self._mentions.pop()
            return _Plan(template, mention=self._mentioned(alike))
        if not self._fillers:
            self._fillers = self._dice.shuffled(self._table.fillers)
        return _Plan(self._fillers.pop())

    def _mentioned(self, alike: bool) -> str:
        """Another entity's name: of the same type, or one whose page names this one, or any."""
        entities = self._world.entities
        others: Sequence[int] = self._world.kinds[self._entity.kind] if alike else ()
        if not alike and self._dice.chance(_RELATED):
            others = self._world.tellers[self._entity.number]
        other = self._entity
        while other is self._entity:
            number = self._dice.pick(others) if others else self._dice.below(len(entities))
            other = entities[number]
        by_alias = bool(other.aliases) and self._dice.chance(_BY_ALIAS)
        return other.named(self._dice.pick(other.aliases)) if by_alias else other.text

    def _fit(self, plans: list[_Plan]) -> list[tuple[str, _Plan]]:
        """The plans in words, lengthened or shortened until the passage has its length."""
        speaker = Speaker(self._entity, self._table.nouns, self._dice)
        told = [(self._say(speaker, plan), plan) for plan in plans]
        while _count(told) < FEWEST_WORDS:
            plan = self._padding()
            told.append((self._say(speaker, plan), plan))
        while _count(told) > MOST_WORDS:
            del told[_last_to_spare([plan for _, plan in told])]
        return told

    def _say(self, speaker: Speaker, plan: _Plan) -> str:
        fills = {
            blank: self._object(fact) for blank, fact in zip(("O", "O2"), plan.facts, strict=False)
        }
        return speaker.say(_SLOT.sub(self._slot, plan.template), **fills, M=plan.mention)

    def _object(self, fact: Fact) -> str:
        if fact.value is not None:
            return self._dice.pick(fact.value.written)
        return self._world.entities[fact.told].text

    def _slot(self, match: re.Match[str]) -> str:
        slot = match[1]
        if slot in self._steady:
            return self._steady[slot]
        by_role = slot == "trade" and self._table.trades
        words = self._dice.pick(by_role[self._entity.role] if by_role else self._table.slots[slot])
        if slot in self._table.steady:
            self._steady[slot] = words
        return words


def _last_to_spare(plans: Sequence[_Plan]) -> int:
    """The last sentence that tells nothing, but not the one in which the name stands."""
    named = next(row for row, plan in enumerate(plans) if plan.names_subject)
    return max(row for row, plan in enumerate(plans) if not plan.facts and row != named)


def _count(told: Sequence[tuple[str, _Plan]]) -> int:
    return sum(len(sentence.split()) for sentence, _ in told)
