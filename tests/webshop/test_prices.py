from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.webshop.prices import (
    NO_BOUND,
    LegacyDraw,
    bound_candidates,
    derived_bound,
    derived_fraction,
    price_clause,
    price_within_bounds,
    recorded_test_bounds,
    without_price_clause,
)

PRICES = st.floats(0, 2_000) | st.integers(0, 200).map(lambda n: n * 10.0)


@given(PRICES)
def test_candidates_are_the_first_four_tens_above_the_price(price: float) -> None:
    every = [10.0 * i for i in range(1, 100)]
    assert list(bound_candidates(price)) == [bound for bound in every if bound > price][:4]


@given(PRICES, st.floats(0, 1))
def test_a_derived_bound_is_above_the_price(price: float, fraction: float) -> None:
    bound = derived_bound(price, fraction)
    assert bound in (*bound_candidates(price)[1:], NO_BOUND)
    assert (bound == NO_BOUND) == (price >= 980)


def test_derived_bounds_have_the_shares_of_the_original() -> None:
    steps = 6_000
    for price, shares in ((5.0, (1, 2, 3)), (960.0, (2, 4)), (975.0, (6,))):
        drawn = Counter(derived_bound(price, i / steps) for i in range(steps))
        expected = bound_candidates(price)[1:]
        # Six pairs of four candidates, three of three, one of two.
        total = sum(shares)
        assert [drawn[bound] for bound in expected] == [steps * n // total for n in shares]


def test_fractions_are_a_function_of_the_place() -> None:
    one = derived_fraction("sha256:00", "bound", "B000000001", 0)
    assert one == derived_fraction("sha256:00", "bound", "B000000001", 0)
    assert one == int("cf580f157725aefe", 16) / 2**64
    others = {
        derived_fraction("sha256:01", "bound", "B000000001", 0),
        derived_fraction("sha256:00", "price", "B000000001", 0),
        derived_fraction("sha256:00", "bound", "B000000002", 0),
        derived_fraction("sha256:00", "bound", "B000000001", 1),
    }
    assert len(others | {one}) == 5


@given(
    low=st.floats(0, 500),
    width=st.floats(0, 500),
    bounds=st.lists(st.integers(2, 98).map(lambda n: n * 10.0), min_size=1, max_size=3),
    fraction=st.floats(0, 1),
)
def test_a_price_with_known_bounds_fits_them_where_it_can(
    low: float, width: float, bounds: list[float], fraction: float
) -> None:
    high = low + width
    price = price_within_bounds(low, high, bounds, fraction)
    assert low <= price <= high
    start, end = max(low, max(bounds) - 40), min(high, min(bounds) - 10)
    if start < end:
        assert all(bound - 40 <= price < bound - 10 for bound in bounds)
    elif low < min(bounds):
        assert price < min(bounds) or price == low


@pytest.mark.parametrize("bound", [20.0, 980.0, NO_BOUND])
def test_a_clause_can_be_taken_off_again(bound: float) -> None:
    assert without_price_clause("a shirt" + price_clause(bound)) == "a shirt"


def test_the_words_of_the_clause() -> None:
    assert price_clause(40.0) == ", and price lower than 40.00 dollars"
    assert price_clause(NO_BOUND) == ""


def test_the_recorded_bounds() -> None:
    bounds = recorded_test_bounds()
    assert len(bounds) == 500
    without = [goal for goal, bound in enumerate(bounds) if bound == NO_BOUND]
    assert without == [9, 103, 182, 230, 245, 260, 492]
    assert all(20 <= b <= 980 and b % 10 == 0 for b in bounds if b != NO_BOUND)


def test_the_recorded_bounds_are_those_of_the_authors(shared: Path) -> None:
    file = json.loads(
        (shared / "data" / "webshop" / "price_bounds_test500.json").read_text("utf-8")
    )
    expected = [file[str(goal)] for goal in range(500)]
    assert [None if b == NO_BOUND else b for b in recorded_test_bounds()] == expected


def test_a_legacy_draw_is_private_and_skips_prices_without_candidates() -> None:
    one, other = LegacyDraw(7), LegacyDraw(7)
    assert one.bound(985.0) == NO_BOUND
    assert one.price(1.0, 2.0) == other.price(1.0, 2.0)
