"""Damaged and awkward records, as sellers make them, for tests of cleaning and of pages."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agentgym_suite.webshop.generator.product_maker import ProductMaker


@dataclass(frozen=True, slots=True)
class OddProduct:
    """A record and what is odd about it.

    Attributes:
        oddity: what is odd, in words.
        item: its element of items_shuffle.json.
        attributes: its entry of items_ins_v2.json; None if the asin is missing there.
        human: its entries of items_human_ins.json.
        nouns: the nouns of its title; None if an earlier record has the asin.
    """

    oddity: str
    item: dict[str, Any]
    attributes: dict[str, Any] | None
    human: list[dict[str, Any]]
    nouns: list[str] | None


#: Prices the original's loader dies on, and ones it reads in an unexpected way.
ODD_PRICES = (
    "12.99",
    "$ ",
    "$9.99.",
    "$1.2.3",
    "free",
    "$",
    "$0",
    "€15",
    "$5 $6 $7",
    "$2,999.00 to $1,000",
)
#: One field of an ordinary product changed: {oddity: (field, value)}.
ODD_FIELDS: dict[str, tuple[str, Any]] = {
    "empty title": ("name", ""),
    "blank title": ("name", "   "),
    "markup title": ("name", '<b>Bold</b> & "quoted" 1/4 Zip [new] Lamp'),
    "emoji title": ("name", "Party Lamp 🎉 ✨ with 👩‍🚀 Sticker"),
    "null description": ("full_description", None),
    "null bullets": ("small_description", None),
    "empty bullets": ("small_description", []),
    "bare string bullets": ("small_description", "One point only"),
    "no images": ("images", []),
    "null images": ("images", None),
    "null price": ("pricing", None),
    "numeric price": ("pricing", 12.5),
    "long asin": ("asin", "B0TOOLONG123"),
    "nan asin": ("asin", "nan"),
    "upper-case query": ("query", "  Floor LAMPS "),
    "null category path": ("product_category", None),
    "text options": ("customization_options", "n/a"),
}
#: Option groups with values that are hard to show, click or match.
ODD_OPTIONS: dict[str, dict[str, list[str] | None]] = {
    "value twice in a group": {"Color": ["Red", "Red", "Blue"]},
    "value in two groups": {"Color": ["Natural", "Black"], "Style": ["Natural", "Modern"]},
    "values named like buttons": {
        "Style": ["Buy Now", "Description", "< Prev", "Next >", "Search", "Back to Search"]
    },
    "brackets": {"Size": ["[L]", "M [slim]", "5] inch"]},
    "quotes": {"Size": ['12"', "5'6\"", "'one'"]},
    "emoji": {"Color": ["🔥 Red", "❤️", "Blue 🌊"]},
    "slashes": {"Style": ["w/ lid", "/", "a/b/c"]},
    "hidden colours": {"Color": ["Standard", "Redwood", "Washable"]},
    "no letters": {"Size": ["½", "°", "---"]},
    "null group": {"Color": None, "Size": ["Small", "Large"]},
    "empty group": {"Color": [], "Size": ["Small", "Large"]},
    "empty value": {"Color": ["", "Blue"]},
    "upper-case group": {" COLOR ": ["Blue", "Green"]},
}
MISSING_FIELDS = (
    "full_description",
    "small_description",
    "pricing",
    "images",
    "query",
    "customization_options",
)


def odd_products(maker: ProductMaker, first: int) -> Iterator[OddProduct]:
    """Yield the odd records: ordinary products, number ``first`` and on, with one change each."""
    numbers = itertools.count(first)

    def odd(oddity: str, attributes: dict[str, Any] | None, **changes: Any) -> OddProduct:
        item = maker.product(next(numbers)).item | changes
        return OddProduct(oddity, item, attributes, [], maker.nouns(item["name"]))

    for price in ODD_PRICES:
        yield odd(f"price {price!r}", {"attributes": ["odd price"]}, pricing=price)
    for oddity, (field, value) in ODD_FIELDS.items():
        yield odd(oddity, {"attributes": ["odd field"]}, **{field: value})
    for field in MISSING_FIELDS:
        incomplete = odd(f"{field} missing", {"attributes": ["missing field"]})
        del incomplete.item[field]
        yield incomplete
    for oddity, groups in ODD_OPTIONS.items():
        options: dict[str, Any] = {
            name: values and [{"value": value, "is_selected": False} for value in values]
            for name, values in groups.items()
        }
        yield odd(oddity, {"attributes": ["odd options"]}, customization_options=options)
    yield odd("asin missing in the attributes", None)
    yield odd("attributes key missing", {})

    repeated = odd("first of a repeated asin", {"attributes": ["first wins"]})
    yield repeated
    second = odd("repeated asin", None, asin=repeated.item["asin"])
    yield dataclasses.replace(second, nouns=None)

    asked = odd("human entry without attributes", {"attributes": ["odd one"]})
    entry: dict[str, Any] = {"asin": asked.item["asin"], "attributes": [], "options": [""]}
    entry["instruction_options"] = []
    useless = entry | {"instruction": "i want something nice.", "instruction_attributes": []}
    useful = entry | {"instruction": "...the odd one.", "instruction_attributes": ["odd one"]}
    yield dataclasses.replace(asked, human=[useless, useful])
