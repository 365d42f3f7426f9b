"""How questions are worded, and whether a wording gives anything away."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from agentgym_suite.dice import Dice
from agentgym_suite.multihop_qa.generator.tables import PageTable, Tables, Telling
from agentgym_suite.multihop_qa.generator.world import Entity, Fact, World

_WITH_NOUN = ("book", "film", "ship", "band")  # whose titles do not say what they are
_NOUN_CHANCE = 0.6
_NOT_A_WORD = re.compile(r"[\W_]+")


class Asker:
    """Words the questions of a world.

    Args:
        world: the world.
        tables: its tables.
    """

    def __init__(self, world: World, tables: Tables) -> None:
        self._world = world
        self._pages = tables.pages

    def telling(self, fact: Fact) -> Telling:
        """How the fact is told where it is told."""
        page: PageTable = self._pages[self._world.entities[fact.teller].kind]
        return page.tellings[fact.relation]

    def name(self, entity: Entity, dice: Dice) -> str:
        """An entity as a question names it, such as "the film Hidden Tightrope"."""
        if entity.kind in _WITH_NOUN and dice.chance(_NOUN_CHANCE):
            return f"the {dice.pick(self._pages[entity.kind].nouns)} {entity.title}"
        return entity.text

    def phrase(self, start: str, facts: Sequence[Fact], dice: Dice) -> str:
        """What a path leads to, described from its start: "the birthplace of the author of …"."""
        for place, fact in enumerate(facts):
            phrases = self.telling(fact).phrases
            start = dice.pick(_readable(phrases, place)).replace("[X]", start)
        return start

    def ask(self, start: str, facts: Sequence[Fact], dice: Dice) -> str:
        """A question for the end of a path."""
        *before, last = facts
        subject = self.phrase(start, before, dice)
        asks = _readable(self.telling(last).asks, len(before))
        return capital(dice.pick(asks).replace("[X]", subject))


def _readable(wordings: Sequence[str], depth: int) -> Sequence[str]:
    """Those that put a long description last, so that no sentence closes over another."""
    if not depth:
        return wordings
    most = 1 if depth == 1 else 0
    light = [w for w in wordings if len(w.partition("[X]")[2].strip(" ?").split()) <= most]
    return light or wordings


def capital(text: str) -> str:
    """The text with a capital first letter."""
    return text[0].upper() + text[1:]


def plain(text: str) -> str:
    """Lower case, words separated and surrounded by single blanks."""
    return f" {_NOT_A_WORD.sub(' ', text.casefold()).strip()} "


def gives_away(question: str, names: Iterable[str]) -> bool:
    """Whether any of the names occurs in the question, as whole words."""
    text = plain(question)
    return any(plain(name) in text for name in names)
