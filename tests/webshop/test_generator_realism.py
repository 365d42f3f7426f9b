"""The embedded catalogue against the official thousand: shares, lengths, options, prices."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any

import pytest

from agentgym_suite.indexes.analyzer import Analyzer
from agentgym_suite.webshop.generator import products
from agentgym_suite.webshop.generator.product_maker import MadeProduct
from agentgym_suite.webshop.generator.product_types import CATEGORY_CARDS
from agentgym_suite.webshop.products import Cleaned, clean, indexed_text


@pytest.fixture(scope="module")
def made() -> list[MadeProduct]:
    """The embedded catalogue's products."""
    return list(products(1000))


@pytest.fixture(scope="module")
def items(made: list[MadeProduct]) -> list[dict[str, Any]]:
    return [product.item for product in made]


def options_of(item: dict[str, Any]) -> dict[str, list[str]]:
    """Names and values of a record's groups, null ones left out."""
    groups = item["customization_options"] or {}
    return {
        name: [entry["value"] for entry in entries] for name, entries in groups.items() if entries
    }


def near(value: float, target: float, tolerance: float = 0.2) -> bool:
    """Within the tolerance the specification gives its targets."""
    return abs(value - target) <= tolerance * target


def at(values: list[float], share: float) -> float:
    return sorted(values)[int(len(values) * share)]


def shown_price(item: dict[str, Any]) -> float:
    """The first price of a record, 100 where it is missing."""
    pricing = item["pricing"]
    return float(re.sub(r"[^\d.]", "", pricing.split("$")[1])) if pricing else 100.0


def test_categories_queries_and_paths(items: list[dict[str, Any]]) -> None:
    assert Counter(item["category"] for item in items) == CATEGORY_CARDS
    queries = Counter(item["query"] for item in items)
    assert len(queries) == 246
    assert max(queries.values()) == 12
    depths = Counter(len(item["product_category"].split(" › ")) for item in items)
    assert set(depths) == set(range(1, 8))
    assert near(depths[4], 412)
    assert near(depths[5], 338)
    assert near(len({item["product_category"] for item in items}), 551)


def test_text_lengths(items: list[dict[str, Any]]) -> None:
    words = [float(len(item["name"].split())) for item in items]
    assert near(sum(words) / 1000, 18)
    assert [near(at(words, s), want) for s, want in ((0.1, 8), (0.5, 18), (0.9, 29))] == [True] * 3
    texts = [float(len(item["full_description"])) for item in items]
    assert near(sum(texts) / 1000, 510)
    assert near(at(texts, 0.5), 307)
    assert near(at(texts, 0.9), 1421)
    assert near(texts.count(0), 300)
    bullets = [item["small_description"] for item in items]
    lists = [points for points in bullets if isinstance(points, list)]
    assert near(1000 - len(lists), 16, 0.5)
    assert near(sum(map(len, lists)) / len(lists), 4.6)
    assert {len(points) for points in lists} == set(range(1, 9))
    assert near(at([float(len(point)) for points in lists for point in points], 0.5), 125)
    assert near(bullets.count([""]), 70)


def test_indexed_lengths_and_vocabulary(made: list[MadeProduct]) -> None:
    analyze = Analyzer()

    def indexed(item: dict[str, Any]) -> list[str]:
        cleaned = clean(item, ["any"])
        assert isinstance(cleaned, Cleaned)
        return analyze(indexed_text(cleaned.product).lower())

    documents = [indexed(product.item) for product in made]
    lengths = [len(terms) for terms in documents]
    assert near(sum(lengths) / 1000, 108)
    assert min(lengths) < 10
    assert max(lengths) > 1000
    vocabulary = [len({term for terms in documents[:n] for term in terms}) for n in (500, 1000)]
    assert near(vocabulary[1], 12_000)
    assert vocabulary[1] > 1.5 * vocabulary[0]  # at this rate 300,000 come long before 1.18 M


def test_option_groups(items: list[dict[str, Any]]) -> None:
    groups = [options_of(item) for item in items]
    sizes = Counter(map(len, groups))
    assert [near(sizes[n], want) for n, want in enumerate((580, 250, 160))] == [True] * 3
    assert 5 <= sizes[3] <= 20
    counts = [float(len(values)) for group in groups for values in group.values()]
    assert near(sum(counts) / len(counts), 5.7)
    assert near(max(counts), 45)
    assert near(at(counts, 0.5), 4)
    assert near(at(counts, 0.9), 10)
    combinations = [math.prod(map(len, group.values())) for group in groups]
    assert near(sum(combinations) / 1000, 10.9)
    assert near(max(combinations), 558)
    names = [name for name, _ in Counter(n for group in groups for n in group).most_common(3)]
    assert names == ["Color", "Size", "Style"]
    nulls = [item for item in items if None in (item["customization_options"] or {}).values()]
    assert near(len(nulls), 97)
    values = [value for group in groups for values in group.values() for value in values]
    assert sum("/" in value for value in values) > 0.02 * len(values)
    assert sum('"' in value for value in values) > 0.005 * len(values)
    assert sum(not value.isascii() for value in values) >= 8


def test_prices(items: list[dict[str, Any]]) -> None:
    prices = [shown_price(item) for item in items]
    assert near(at(prices, 0.1), 9)
    assert near(at(prices, 0.5), 29)
    assert near(at(prices, 0.9), 200)
    assert near(max(prices), 4300)
    pricings = [item["pricing"] for item in items]
    assert near(sum(pricing.count("$") > 1 for pricing in pricings), 90)
    assert near(pricings.count(""), 90)
    forms = {re.sub(r"\d+", "9", pricing) for pricing in pricings}
    assert {
        "",
        "$9.9",
        "$9",
        "$9,9.9",
        "$9.9 to $9.9",
        "$9.9 - $9.9",
        "$9.9 ($9.9 / Ounce)",
    } <= forms


def test_attributes_and_instructions(made: list[MadeProduct]) -> None:
    attributes = [product.attributes["attributes"] for product in made]
    assert near(len({attribute for some in attributes for attribute in some}), 598)
    assert near(sum(map(len, attributes)) / 1000, 2.8)
    assert min(map(len, attributes)) == 0
    assert near(max(map(len, attributes)), 27)
    asked = [product for product in made if "instruction" in product.attributes]
    assert near(len(asked), 415)
    wanted = [len(product.attributes["instruction_attributes"]) for product in asked]
    assert sum(2 <= count <= 4 for count in wanted) > 0.8 * len(wanted)
    goals = sum(math.prod(map(len, options_of(product.item).values())) for product in asked)
    assert 4500 <= goals <= 7000
    human = [product for product in made if product.human]
    assert len(human) >= 150
    assert sum(len(product.human) for product in human) >= 200
