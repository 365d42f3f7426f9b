"""Names that exist nowhere: drawn from syllables and word lists, each given out once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from agentgym_suite.dice import Dice
from agentgym_suite.multihop_qa.generator.tables import NameTable

ARTICLE = "the "
_TRIES_BEFORE_LONGER = 4
_TWIN_TRIES = 8
_A_BEFORE_VOWEL = re.compile(r"\b([Aa]) (?=[aeioAEIO](?!ne\b)|[uU](?!ni|s))")
_TRIPLE = re.compile(r"(.)\1\1+")
_VOWELS = "aeiouy"
_EASY_ONSETS = ("bl", "br", "cr", "sh", "sk", "st", "th", "tr", "wr")
_LISTS = {
    "adjective": "adjectives",
    "noun": "nouns",
    "noun2": "nouns",
    "plural": "plurals",
    "time": "times",
}


@dataclass(frozen=True, slots=True)
class Name:
    """A name and what it is made of.

    Attributes:
        title: the name as a page has it.
        article: whether running text puts "the" before it.
        parts: the parts it was put together from.
    """

    title: str
    article: bool
    parts: Mapping[str, str]


class Names:
    """Gives out names; no title twice, no invented word twice except where it is meant.

    Args:
        tables: the name table of every entity type.
        seed: words that the names depend on.
    """

    def __init__(self, tables: Mapping[str, NameTable], *seed: str | int) -> None:
        self._tables = tables
        self._dice = Dice(*seed, "names")
        self._titles: set[str] = set()
        self._words: set[str] = set()

    def new(self, kind: str, gender: str = "") -> Name:
        """A name that nothing else has."""
        # every type has forms with an invented word, so a free name is found sooner or later
        name = None
        tries = 0
        while name is None:
            name = self._draw(kind, gender, {}, self._tables[kind].forms, tries)
            tries += 1
        return name

    def twin(self, kind: str, gender: str, other: Name) -> Name | None:
        """A name deliberately like ``other``: one part is the same; None if all are taken."""
        table = self._tables[kind]
        if table.keep not in other.parts:
            return None
        kept = {table.keep: other.parts[table.keep]}
        draws = (self._draw(kind, gender, kept, table.twin_forms, 0) for _ in range(_TWIN_TRIES))
        return next((name for name in draws if name is not None), None)

    def claim(self, title: str) -> bool:
        """Take a title for an alias; False when something is called so already."""
        key = title.casefold()
        if key in self._titles:
            return False
        self._titles.add(key)
        return True

    def word(self, kind: str) -> str:
        """An invented word of a type, not used before."""
        table = self._tables[kind].parts
        tries = 0
        while True:
            end = self._dice.pick(table["ends"])
            # a crowded world gets longer names
            syllables = self._dice.below(2) + tries // _TRIES_BEFORE_LONGER
            middles = [self._dice.pick(table["middles"]) for _ in range(syllables)]
            if _needs_vowel(end) and not (middles and middles[-1][-1] in _VOWELS):
                open_ones = [m for m in table["middles"] if m[-1] in _VOWELS]
                middles[-1:] = [self._dice.pick(open_ones)]
            word = self._dice.pick(table["starts"]) + "".join(middles) + end
            word = _TRIPLE.sub(r"\1\1", word)
            if word.casefold() not in self._words:
                self._words.add(word.casefold())
                return word
            tries += 1

    def _draw(
        self, kind: str, gender: str, kept: Mapping[str, str], forms: tuple[str, ...], tries: int
    ) -> Name | None:
        """A name in one of the forms; None when it is taken, or says the same word twice."""
        form = self._dice.pick(forms)
        parts = dict(kept)
        for field in _fields(form):
            if field not in parts:
                parts[field] = self._part(kind, field, gender, tries)
        text = form.format_map(parts)
        title = with_article_for_vowels(text.removeprefix(ARTICLE))
        title = title[0].upper() + title[1:]
        if parts.get("noun", "") == parts.get("noun2") or not self.claim(title):
            return None
        return Name(title, text.startswith(ARTICLE), parts)

    def _part(self, kind: str, field: str, gender: str, tries: int) -> str:
        table = self._tables[kind].parts
        if field in ("word", "second", "family"):
            return self.word(kind)
        if field == "given":
            group = "women" if gender == "f" else "men"
            # a crowded world gives people longer names
            longer = self._dice.pick(table["middles"]) if tries >= _TRIES_BEFORE_LONGER else ""
            return self._dice.pick(table[group]) + longer + self._dice.pick(table[f"{group}_ends"])
        return self._dice.pick(table[_LISTS[field]])


def _needs_vowel(end: str) -> bool:
    """Whether an ending cannot follow a consonant, as "ckett" cannot."""
    return not any(c in _VOWELS for c in end[:2]) and end[:2] not in _EASY_ONSETS


def with_article_for_vowels(text: str) -> str:
    """The text with "an" for "a" wherever the next word asks for it."""
    return _A_BEFORE_VOWEL.sub(r"\1n ", text)


def _fields(form: str) -> list[str]:
    return [piece.partition("}")[0] for piece in form.split("{")[1:]]


def demonym(country: str) -> str:
    """What the people of a country are called."""
    return f"{country}n" if country.endswith("a") else f"{country}ese"
