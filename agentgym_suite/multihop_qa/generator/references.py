"""How a passage speaks of the entity it is about: by name at first, then by pronoun or noun.

Blanks of the sentence tables: [S] [S's] subject at the start of a sentence, [s] [s's] within it,
[him] object, [S2] a full mention, [N] the name, [alias] its other names, [O] what a fact names,
[M] an entity mentioned beside.
"""

from __future__ import annotations

import re

from agentgym_suite.dice import Dice
from agentgym_suite.multihop_qa.generator.naming import with_article_for_vowels
from agentgym_suite.multihop_qa.generator.world import Entity

_BLANK = re.compile(r"\[(S's|S2|S|s's|s|him|O2|O|N|alias|M)\]")
# subject, possessive, object
_PRONOUNS = {"f": ("she", "her", "her"), "m": ("he", "his", "him"), "": ("it", "its", "it")}


class Speaker:
    """Fills the blanks of one passage, sentence after sentence.

    Args:
        entity: whom the passage is about.
        nouns: what it may be called, such as "river".
        dice: chooses among the ways to speak of it.
    """

    def __init__(self, entity: Entity, nouns: tuple[str, ...], dice: Dice) -> None:
        self._entity = entity
        self._nouns = nouns
        self._dice = dice
        self._subject, self._possessive, self._object = _PRONOUNS[entity.gender]
        self._named = False
        self._fills: dict[str, str] = {}

    def say(self, template: str, **fills: str) -> str:
        """A sentence with its blanks filled: ``O``, ``O2`` and ``M`` by ``fills``."""
        self._fills = fills
        text = with_article_for_vowels(_BLANK.sub(self._fill, template))
        return text[0].upper() + text[1:]

    def _fill(self, match: re.Match[str]) -> str:
        blank = match[1]
        if blank in self._fills:
            return self._fills[blank]
        if blank == "alias":
            return self._other_names()
        if blank == "N" or not self._named:
            self._named = True
            return _possessive(self._entity.text) if "'" in blank else self._entity.text
        if blank in ("S's", "s's"):
            return self._possessive
        if blank == "him":
            return self._object
        if blank == "s":
            return self._subject
        return self._mention(pronoun_allowed=blank == "S")

    def _mention(self, *, pronoun_allowed: bool) -> str:
        short = self._entity.text
        if self._entity.gender:
            short = self._entity.title.split()[-1]
        turn = self._dice.roll()
        if pronoun_allowed and turn < 0.4:
            return self._subject
        if turn < 0.6 and not self._entity.gender:
            return f"the {self._dice.pick(self._nouns)}"
        return short

    def _other_names(self) -> str:
        names = self._entity.aliases
        if not names:
            return ""
        word = "formerly" if self._entity.former else self._dice.pick(_ALSO)
        return f" ({word} {' or '.join(names)})"


_ALSO = ("also known as", "also called", "sometimes called")


def _possessive(name: str) -> str:
    return f"{name}'s"
