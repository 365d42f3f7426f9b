"""What the generator knows of the world: the tables of lexicon/*.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from agentgym_suite.dice import Dice

#: Products of each category in a block of 1,000: the shares of the official first thousand.
CATEGORY_CARDS = {"beauty": 238, "electronics": 229, "garden": 216, "fashion": 200, "grocery": 117}
BLOCK = sum(CATEGORY_CARDS.values())
FAMILY_SIZE = 3
# cards of the most to the least frequent kind, at equal distances along a category's list
_POPULARITY = (12, 9, 8, 7, 7, 6, 6, 5, 5, 5, 4, 4, 4, 3, 3, 3, 2, 2, 2, 2, 2, 1, 1, 1, 1)


@dataclass(frozen=True, slots=True)
class Profile:
    """How the products of a shelf are described; groups = (name, kind of values, weight)."""

    features: tuple[str, ...]
    materials: tuple[str, ...]
    looks: tuple[str, ...]
    uses: tuple[str, ...]
    groups: tuple[tuple[str, str, float], ...]


@dataclass(frozen=True, slots=True)
class ProductType:
    """One kind of product: ``cards`` of 1,000 are of it, ``first`` of the kinds before."""

    category: str
    path: tuple[str, ...]
    profile: Profile
    query: str
    head: str
    subtypes: tuple[str, ...]
    price: float
    cards: int
    first: int


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Everything of lexicon/*.toml."""

    types: tuple[ProductType, ...]
    sentences: dict[str, tuple[str, ...]]
    values: dict[str, tuple[str, ...]]
    not_nouns: frozenset[str]


def load_lexicon() -> Lexicon:
    """Read the package's tables (a few milliseconds)."""
    sentences = {key: tuple(lines) for key, lines in _table("sentences").items()}
    values = {kind: _words(text) for kind, text in _table("options").items()}
    not_nouns = frozenset(" ".join(_table("title_words").values()).split())
    return Lexicon(_product_types(), sentences, values, not_nouns)


class Deck:
    """The kind of product at each place of the catalogue: a shuffled deck of cards a block."""

    def __init__(self, types: Sequence[ProductType], *words: str | int) -> None:
        self._words = words
        self._cards = [(kind, ordinal) for kind in types for ordinal in range(kind.cards)]
        self._block = -1
        self._order: list[tuple[ProductType, int]] = []

    def card(self, number: int) -> tuple[ProductType, int]:
        """The kind of product ``number``, and its ordinal among those of its block."""
        block, place = divmod(number, BLOCK)
        if block != self._block:
            self._order = Dice(*self._words, "deck", block).sample(self._cards, BLOCK)
            self._block = block
        return self._order[place]


def _table(name: str) -> dict[str, Any]:
    resource = files("agentgym_suite.webshop.generator") / "lexicon" / f"{name}.toml"
    return tomllib.loads(resource.read_text(encoding="utf-8"))


def _words(text: str) -> tuple[str, ...]:
    return tuple(" ".join(word.split()) for word in text.split(","))


def _profiles() -> dict[str, Profile]:
    profiles = {}
    for name, entry in _table("profiles").items():
        groups = []
        for group in _words(entry["groups"]):
            title, kind, weight = group.split(": ")
            groups.append((title, kind, float(weight)))
        profiles[name] = Profile(
            _words(entry["features"]),
            _words(entry["materials"]),
            _words(entry["looks"]),
            _words(entry["uses"]),
            tuple(groups),
        )
    return profiles


def _product_types() -> tuple[ProductType, ...]:
    profiles = _profiles()
    types: list[ProductType] = []
    first = 0
    for category, share in CATEGORY_CARDS.items():
        # one row of every shelf in turn: the popular kinds of a category come from all its shelves
        shelves = _table(category)["shelf"]
        longest = max(len(shelf["rows"]) for shelf in shelves)
        rows = [
            (shelf, shelf["rows"][place])
            for place in range(longest)
            for shelf in shelves
            if place < len(shelf["rows"])
        ]
        for (shelf, row), cards in zip(rows, _cards(len(rows), share), strict=True):
            query, head, subtypes, price = (part.strip() for part in row.split("|"))
            kind = ProductType(
                category,
                tuple(shelf["path"]),
                profiles[shelf["profile"]],
                query,
                head,
                _words(subtypes),
                float(price),
                cards,
                first,
            )
            types.append(kind)
            first += cards
    return tuple(types)


def _cards(kinds: int, share: int) -> list[int]:
    curve = len(_POPULARITY)
    cards = [_POPULARITY[place * curve // kinds] for place in range(kinds)]
    place = 0
    # the middle of the list takes up what rounding left over
    while (missing := share - sum(cards)) != 0:
        index = kinds // 4 + place % (kinds // 2)
        cards[index] = max(1, cards[index] + (1 if missing > 0 else -1))
        place += 1
    return cards
