from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.webshop.product_rows import decode_row, encode_row, facts_of
from agentgym_suite.webshop.products import (
    Cleaned,
    Product,
    Skipped,
    clean,
    encodable,
    has_surrogate,
    indexed_text,
)
from tests.webshop.official_folders import record

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def cleaned(raw: Any, attributes: Any = None) -> Cleaned:
    found = clean(raw, attributes)
    assert isinstance(found, Cleaned)
    return found


def product(**changes: Any) -> Product:
    return cleaned(record("B000000001", **changes), ["machine wash"]).product


def test_a_plain_record_becomes_a_product() -> None:
    found = cleaned(record("B000000001"), ["machine wash"])
    assert found.repairs == ()
    one = found.product
    assert (one.query, one.bullets, one.page, one.model) == ("men's shirts", ("soft", ""), "3", "")
    assert one.options == (("size", ("small", "w |  hood")), ("color", ("red",)))
    assert one.option_images == (("red", "https://images.example/red.jpg"),)
    assert one.attributes == ("machine wash",)


@pytest.mark.parametrize(
    ("pricing", "prices", "tag"),
    [
        ("$22.90", (22.9,), "$22.9"),
        ("$5", (5.0,), "$5.0"),
        ("$1,234.56", (1234.56,), "$1234.56"),
        ("$5.00 to $10.00", (5.0, 10.0), "$5.0 to $10.0"),
        ("$5.99 ($0.50 / Ounce)", (5.99, 0.5), "$5.99 to $0.5"),
        ("$1 $2 $3", (1.0, 2.0), "$1.0 to $2.0"),
        ("", (100.0,), "$100.0"),
        (None, (100.0,), "$100.0"),
    ],
)
def test_prices_as_the_original_reads_them(
    pricing: object, prices: tuple[float, ...], tag: str
) -> None:
    found = cleaned(record("B000000001", pricing=pricing))
    assert (found.product.prices, found.product.price_tag) == (prices, tag)
    assert found.repairs == ()


@pytest.mark.parametrize(
    ("pricing", "prices"),
    [
        ("12.99", (12.99,)),
        (12.99, (12.99,)),
        ("$ ", (100.0,)),
        ("$9.99.", (9.99,)),
        ("$1.2.3", (1.2,)),
        ("$5 to $ ", (5.0,)),
        ("ask", (100.0,)),
        ("$" + "9" * 400, (100.0,)),
    ],
)
def test_prices_on_which_the_original_dies_are_mended(
    pricing: object, prices: tuple[float, ...]
) -> None:
    found = cleaned(record("B000000001", pricing=pricing))
    assert found.product.prices == prices
    assert "price unreadable" in found.repairs


@pytest.mark.parametrize(
    ("asin", "by_design"), [("nan", True), ("B0000000001", True), ("", False), (7, False)]
)
def test_unusable_asins_are_skipped(asin: object, by_design: bool) -> None:
    raw = record("B000000001") | {"asin": asin}
    found = clean(raw, None)
    assert isinstance(found, Skipped)
    assert found.by_design is by_design


def test_bullets_may_be_one_text() -> None:
    assert product(small_description="soft").bullets == ("soft",)


def test_groups_that_differ_by_case_are_one_group() -> None:
    groups = {"Size": [{"value": "S"}], "Color": [{"value": "a"}], "size": [{"value": "L"}]}
    assert product(customization_options=groups).options == (("size", ("l",)), ("color", ("a",)))


def test_missing_attributes_get_the_dummy_and_empty_ones_stay_empty() -> None:
    assert cleaned(record("B000000001"), None).product.attributes == ("DUMMY_ATTR",)
    assert cleaned(record("B000000001"), []).product.attributes == ()


def test_missing_fields_are_named() -> None:
    found = cleaned({"asin": "B000000001", "customization_options": [1], "images": ["a", 2]})
    assert found.product.description == "" and found.product.images == ("a",)
    assert set(found.repairs) == {
        "name missing",
        "full_description missing",
        "small_description missing",
        "category missing",
        "query missing",
        "product_category missing",
        "options are not an object",
        "images is not a list of texts",
    }


def test_the_indexed_text_has_the_first_bullet_and_the_options() -> None:
    one = product(name="A Shirt", full_description="Warm", small_description=["First", "Second"])
    assert indexed_text(one) == "a shirt warm first size: small, w |  hood, and color: red"
    bare = product(name="A", full_description="", small_description=[], customization_options="")
    assert indexed_text(bare) == "a   "


@given(raw=st.dictionaries(st.sampled_from(list(record("x"))), JSON_VALUES), attributes=JSON_VALUES)
def test_any_record_is_cleaned_or_skipped_and_survives_the_store(
    raw: dict[str, Any], attributes: Any
) -> None:
    found = clean({"asin": "B000000001", **raw}, attributes)
    if isinstance(found, Skipped):
        return
    one = found.product
    assert 1 <= len(one.prices) <= 2 and one.price == one.prices[0]
    facts = facts_of(one)
    if not has_surrogate(facts):
        assert decode_row(encode_row(facts, one.nouns), None) == one


@given(JSON_VALUES.map(lambda value: json.loads(json.dumps(value))))
def test_texts_without_surrogates_are_left_alone(value: Any) -> None:
    assert json.dumps(encodable(value)) == json.dumps(value)


def test_lone_surrogates_become_replacement_characters() -> None:
    assert encodable({"a\ud800": ["b\udfff", 1]}) == {"a\ufffd": ["b\ufffd", 1]}


def test_a_pair_of_surrogates_becomes_its_character() -> None:
    assert encodable({"a": ["\ud83d\ude00 \ud83d"]}) == {"a": ["\U0001f600 \ufffd"]}
