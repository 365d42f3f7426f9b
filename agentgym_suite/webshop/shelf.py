"""What the sessions of one catalogue share: prepared pages, controls and comparisons.

All of it is derived from read-only data and bounded, so that many environments and threads use one
shelf without meeting.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Protocol

from agentgym_suite.errors import DataDamaged
from agentgym_suite.webshop import controls
from agentgym_suite.webshop.controls import Controls
from agentgym_suite.webshop.products import FindProduct, Product
from agentgym_suite.webshop.reward import Judge
from agentgym_suite.webshop.segments import ProductPages


class Stock(Protocol):
    """What a session needs of a catalogue."""

    @property
    def shelf(self) -> Shelf:
        """Its products, prepared as pages."""
        ...

    def search(self, keywords: Sequence[str]) -> tuple[str, ...]:
        """ASINs found for the keywords, best first, at most 50."""
        ...


class Shelf:
    """A catalogue's products, prepared as pages, and the judge of its purchases.

    It refers to the products only, not to the catalogue that may own it.

    Args:
        find: the product of an ASIN, None if there is none.
        products: how many products' pages are kept ready.
    """

    def __init__(self, find: FindProduct, products: int = 2_048) -> None:
        self.judge = Judge()
        self.product = partial(_held, find)
        self.pages = lru_cache(maxsize=products)(partial(_make_pages, find))
        self.item_controls = lru_cache(maxsize=products)(partial(_make_item_controls, find))
        self.results_controls = lru_cache(maxsize=products)(_make_results_controls)
        self.plain_controls = lru_cache(maxsize=16)(_make_plain_controls)


def _held(find: FindProduct, asin: str) -> Product:
    product = find(asin)
    if product is None:
        raise DataDamaged(
            f"the catalogue lists the product {asin!r} and does not hold it; build it again"
        )
    return product


def _make_pages(find: FindProduct, asin: str, strict: bool) -> ProductPages:
    return ProductPages(_held(find, asin), strict=strict)


def _make_item_controls(find: FindProduct, asin: str, show_attrs: bool, strict: bool) -> Controls:
    return controls.item_controls(_held(find, asin), show_attrs=show_attrs, strict=strict)


def _make_results_controls(shown: tuple[str, ...], page: int, more: bool, strict: bool) -> Controls:
    return controls.results_controls(shown, page=page, more=more, strict=strict)


def _make_plain_controls(page: str, strict: bool) -> Controls:
    if page == "index":
        return controls.index_controls(strict=strict)
    if page == "sub page":
        return controls.sub_page_controls(strict=strict)
    return controls.done_controls()
