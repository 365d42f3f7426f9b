"""The original's special first keywords, off unless ``special_queries=True``.

``<r>`` fifty random products, ``<c> category`` a whole department, ``<q> query`` the products
collected under a query, ``<a> attribute`` the products with an attribute. Any agent can type
them and ``<q>`` gives away part of the reward, so that they are ordinary words by default.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from agentgym_suite.webshop.store import Store

_RANDOM_PRODUCTS = 50


class SpecialQueries:
    """Answers to special keywords; reads every product once when made.

    Args:
        store: the store to answer from.
        seed: what ``<r>`` is seeded with, beside the words that follow it; in the original it
            is not seeded and changes at every page turn.
    """

    def __init__(self, store: Store, seed: str) -> None:
        self._seed = seed
        self._asins: list[str] = []
        self._by_category: dict[str, list[int]] = {}
        self._by_query: dict[str, list[int]] = {}
        self._by_attribute: dict[str, list[int]] = {}
        for position, product in enumerate(store.products()):
            self._asins.append(product.asin)
            self._by_category.setdefault(product.category, []).append(position)
            self._by_query.setdefault(product.query, []).append(position)
            for attribute in dict.fromkeys(product.attributes):
                self._by_attribute.setdefault(attribute, []).append(position)

    def answer(self, keywords: Sequence[str]) -> tuple[str, ...] | None:
        """The ASINs in file order (``<r>``: in drawn order); None if no keyword is special."""
        first = keywords[0] if keywords else ""
        rest = " ".join(keywords[1:]).strip()
        if first == "<r>":
            chooser = random.Random(f"{self._seed}|{rest}")
            return tuple(chooser.sample(self._asins, min(_RANDOM_PRODUCTS, len(self._asins))))
        if first == "<c>":
            category = keywords[1].strip() if len(keywords) > 1 else ""
            return self._named(self._by_category.get(category, []))
        if first == "<q>":
            return self._named(self._by_query.get(rest, []))
        if first == "<a>":
            return self._named(self._by_attribute.get(rest, []))
        return None

    def _named(self, positions: Sequence[int]) -> tuple[str, ...]:
        return tuple(self._asins[position] for position in positions)
