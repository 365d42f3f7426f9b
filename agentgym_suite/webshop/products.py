"""One product of the shop, and how a raw record of the official files becomes one.

The rules are those of the original's loader (princeton-nlp/WebShop, ``web_agent_site/engine``):
what it accepts is kept to the letter, what kills it is mended to the nearest legal value and
named, so that a build can count it or refuse it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, TypeGuard

from agentgym_suite.spaces import without_surrogates

LONGEST_ASIN = 10
# Of a group and its value: an action must be able to say both.
LONGEST_OPTION = 16_000
PRICE_WHEN_ABSENT = 100.0
ATTRIBUTE_WHEN_ABSENT = "DUMMY_ATTR"

Options = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Product:
    """A cleaned product, read-only.

    Attributes:
        asin: the product's id, at most ten characters.
        name: title as shown.
        description: long description, ``""`` if none.
        bullets: feature bullets in order; empty bullets are kept.
        category: one of the shop's departments.
        query: the query under which the product was collected, lower case.
        product_category: category path, parts joined by U+203A with blanks.
        prices: one price, or low and high of a range, in dollars, as in the file.
        price_tag: price as shown: ``$22.9`` or ``$5.0 to $10.0``.
        price: the price the reward compares, in dollars (a hidden number for a range).
        options: (group in lower case, values), in file order; a value may repeat.
        option_images: (value, image address) for the values that have an image.
        attributes: the attributes the reward compares.
        images: image addresses; the first is the main image.
        nouns: Lower-cased nouns of the title in order, repeats kept.
        average_rating: carried along from the file, ``""`` if absent.
        page: carried along from the file, ``""`` if absent.
        model: carried along from the file, ``""`` if absent.
    """

    asin: str
    name: str
    description: str
    bullets: tuple[str, ...]
    category: str
    query: str
    product_category: str
    prices: tuple[float, ...]
    price_tag: str
    price: float
    options: Options
    option_images: tuple[tuple[str, str], ...]
    attributes: tuple[str, ...]
    images: tuple[str, ...]
    nouns: tuple[str, ...]
    average_rating: str
    page: str
    model: str


FindProduct = Callable[[str], Product | None]
"""Finds the product of an upper-case ASIN; None if there is none."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A record that became a product.

    Attributes:
        product: the product; its price is the first of ``prices``, its nouns are empty.
        repairs: what had to be mended because the original would have died on it.
    """

    product: Product
    repairs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that became no product.

    Attributes:
        reason: why, in a few words that a report can count.
        by_design: True where the original skips it too; False where it would die.
    """

    reason: str
    by_design: bool


def clean(record: object, attributes: object) -> Cleaned | Skipped:
    """Clean one raw record of ``items_shuffle.json`` (the original's ``load_products``).

    Args:
        record: the decoded record, of any shape.
        attributes: the ``attributes`` value of the product's entry in ``items_ins_v2.json``;
            None where the product or the key is missing.
    """
    if not isinstance(record, Mapping):
        return Skipped("record is not an object", by_design=False)
    asin = record.get("asin")
    if not isinstance(asin, str) or not asin:
        return Skipped("asin missing", by_design=False)
    if asin == "nan" or len(asin) > LONGEST_ASIN:
        return Skipped("asin is nan or longer than 10 characters", by_design=True)
    repairs: list[str] = []
    prices, price_tag = _prices(record.get("pricing"), repairs)
    options, option_images = _options(record.get("customization_options"), repairs)
    product = Product(
        asin=asin,
        name=_text(record, "name", repairs),
        description=_text(record, "full_description", repairs),
        bullets=_bullets(record.get("small_description"), repairs),
        category=_text(record, "category", repairs),
        query=_text(record, "query", repairs).lower().strip(),
        product_category=_text(record, "product_category", repairs),
        prices=prices,
        price_tag=price_tag,
        price=prices[0],
        options=options,
        option_images=option_images,
        attributes=_attributes(attributes, repairs),
        images=_texts(record.get("images"), "images", repairs),
        nouns=(),
        average_rating=_carried(record.get("average_rating")),
        page=_carried(record.get("page")),
        model=_carried(record.get("model")),
    )
    return Cleaned(product, tuple(repairs))


def indexed_text(product: Product) -> str:
    """The lower-cased text under which search finds a product.

    Title, description, first bullet and option text joined by blanks, as in the original's
    ``convert_product_file_format.py``; attributes, query and the other bullets are left out.
    """
    options = ", and ".join(f"{group}: {', '.join(values)}" for group, values in product.options)
    first_bullet = product.bullets[0] if product.bullets else ""
    return f"{product.name} {product.description} {first_bullet} {options}".lower()


def has_surrogate(text: str) -> bool:
    """Whether a text holds a lone surrogate, so that it cannot be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def encodable(value: Any) -> Any:
    """The same JSON value with lone surrogates, which no file can hold, as U+FFFD."""
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, Mapping):
        return {encodable(key): encodable(one) for key, one in value.items()}
    if isinstance(value, list):
        return [encodable(one) for one in value]
    return value


def is_texts(value: object) -> TypeGuard[list[str]]:
    """Whether a JSON value is a list of strings."""
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


_NOT_PRICE = re.compile(r"[^\d.]")
_FIRST_NUMBER = re.compile(r"\d+(?:\.\d+)?|\.\d+")


def _prices(pricing: object, repairs: list[str]) -> tuple[tuple[float, ...], str]:
    """The prices in dollars and the tag shown for them."""
    if not pricing:
        return (PRICE_WHEN_ABSENT,), f"${PRICE_WHEN_ABSENT}"
    text = pricing if isinstance(pricing, str) else str(pricing)
    pieces = text.split("$")[1:]
    exact = [_exact_number(piece) for piece in pieces]
    found = tuple(number for number in exact if number is not None)
    if not isinstance(pricing, str) or not pieces or len(found) < len(pieces):
        repairs.append("price unreadable")
        mended = (_nearest_number(piece) for piece in pieces or [text])
        found = tuple(number for number in mended if number is not None) or (PRICE_WHEN_ABSENT,)
    if len(found) == 1:
        return found, f"${found[0]}"
    return found[:2], f"${found[0]} to ${found[1]}"


def _exact_number(piece: str) -> float | None:
    try:
        number = float(Decimal(_NOT_PRICE.sub("", piece)))
    except InvalidOperation:
        return None
    return number if math.isfinite(number) else None


def _nearest_number(piece: str) -> float | None:
    found = _FIRST_NUMBER.search(_NOT_PRICE.sub("", piece))
    return _exact_number(found[0]) if found else None


def _options(groups: object, repairs: list[str]) -> tuple[Options, tuple[tuple[str, str], ...]]:
    """The option groups with their values, and the image of each value that has one."""
    if not groups:
        return (), ()
    if not isinstance(groups, Mapping):
        repairs.append("options are not an object")
        return (), ()
    options: dict[str, tuple[str, ...]] = {}
    images: dict[str, object] = {}
    for group, entries in groups.items():
        if entries is None:
            continue
        if not isinstance(entries, list):
            repairs.append("option group is not a list")
            continue
        values = []
        for entry in entries:
            raw = entry.get("value") if isinstance(entry, Mapping) else None
            if not isinstance(raw, str):
                repairs.append("option value is not text")
                continue
            value = raw.strip().replace("/", " | ").lower()
            if len(group) + len(value) > LONGEST_OPTION:
                repairs.append("option value too long for an action")
                continue
            values.append(value)
            images[value] = entry.get("image")
        options[group.lower()] = tuple(values)
    addresses = ((value, image) for value, image in images.items() if isinstance(image, str))
    return tuple(options.items()), tuple(addresses)


def _text(record: Mapping[str, Any], field: str, repairs: list[str]) -> str:
    value = record.get(field)
    if isinstance(value, str):
        return value
    repairs.append(f"{field} missing" if value is None else f"{field} is not text")
    return str(value) if isinstance(value, int | float) else ""


def _bullets(value: object, repairs: list[str]) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return _texts(value, "small_description", repairs)


def _attributes(value: object, repairs: list[str]) -> tuple[str, ...]:
    if value is None:
        return (ATTRIBUTE_WHEN_ABSENT,)
    return _texts(value, "attributes", repairs)


def _texts(value: object, field: str, repairs: list[str]) -> tuple[str, ...]:
    if is_texts(value):
        return tuple(value)
    repairs.append(f"{field} missing" if value is None else f"{field} is not a list of texts")
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def _carried(value: object) -> str:
    return "" if value is None else str(value)
