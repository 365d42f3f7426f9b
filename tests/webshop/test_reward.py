"""The reward and its parts, by hand; the recorded cases are in test_goldens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentgym_suite.webshop.reward import NOTHING_BOUGHT, Judge, score, score_type
from tests.webshop.catalogues import SHIRT, goal, product


def test_everything_right_is_a_success() -> None:
    wanted = goal(0, SHIRT, options=("red", "small"))
    parts = score(wanted, SHIRT, 19.99, {"color": "red", "size": "small"})
    assert parts.total == 1.0 and parts.success
    assert (parts.r_att, parts.r_option, parts.r_option_exact, parts.r_price) == (1, 1, 1, True)
    assert parts.w_att + parts.w_option + parts.w_price == 1.0


def test_a_price_above_the_bound_costs_its_share() -> None:
    wanted = goal(0, SHIRT)
    assert score(wanted, SHIRT, 40.0, {}).r_price is True
    dear = score(wanted, SHIRT, 40.01, {})
    assert (dear.r_price, dear.total, dear.success) == (False, 0.5, False)


def test_options_match_fuzzily_and_the_exact_share_is_reported_beside() -> None:
    wanted = goal(0, SHIRT, options=("x-large", "10.5"))
    parts = score(wanted, SHIRT, 1.0, {"size": "large", "width": "10"})
    assert (parts.r_option, parts.r_option_exact) == (1.0, 0.0)


def test_one_bought_value_may_meet_several_wanted_ones() -> None:
    wanted = goal(0, SHIRT, options=("red", "dark red", "small"))
    parts = score(wanted, SHIRT, 1.0, {"color": "red"})
    assert parts.r_option == pytest.approx(1 / 3)  # "dark red" becomes the colour dark


def test_a_synthetic_goal_compares_pairs() -> None:
    wanted = goal(0, SHIRT, kind="synthetic", options=(("size", "x-large"), ("color", "red")))
    assert score(wanted, SHIRT, 1.0, {"size": "size", "color": "red"}).r_option == 1.0
    exact = score(wanted, SHIRT, 1.0, {"size": "x-large", "color": "red"})
    assert exact.r_option_exact == 1.0


def test_attributes_are_found_in_texts_too_but_only_in_lower_case() -> None:
    thing = product("B0", "Soft Towel", bullets=("Made of COTTON",), description="Dries FAST")
    found = goal(0, thing, attributes=("soft", "cotton", "dries fast"))
    judge = Judge()
    assert judge.score(found, thing, 1.0, {}).r_att == 1.0
    missing = replace(found, attributes=("Soft", "silk"))
    assert judge.score(missing, thing, 1.0, {}).r_att == 0.0


@pytest.mark.parametrize(
    ("changes", "r_type"),
    [
        ({}, 1.0),
        ({"query": "x", "product_category": "x"}, 1.0),  # the nouns alone suffice
        ({"query": "x", "product_category": "x", "nouns": ("red", "a", "b", "c", "d")}, 1.0),
        ({"nouns": ()}, 0.0),
        ({"nouns": (), "query": "x"}, 0.0),
    ],
)
def test_the_type_factor(changes: dict[str, object], r_type: float) -> None:
    wanted = goal(0, SHIRT)
    assert score_type(wanted, replace(SHIRT, **changes)).r_type == r_type  # type: ignore[arg-type]


def test_tiers_of_the_title_score() -> None:
    other = replace(SHIRT, query="x", product_category="y", nouns=("one",))

    def tier(*goal_nouns: str) -> tuple[float, float]:
        parts = score_type(replace(goal(0, SHIRT), nouns=goal_nouns), other)
        return parts.title_score, parts.r_type

    assert tier() == (0.2, 0.5)
    assert tier("one", *"abcd") == (0.2, 0.5)
    assert tier("one", *"abc") == (0.25, 1.0)
    assert tier("one", *"abcdefghij") == (1 / 11, 0.1)
    assert tier("two") == (0.0, 0.0)
    assert tier("one", "one") == (0.5, 1.0)  # repeats count below the line only


def test_two_common_categories_make_a_match() -> None:
    wanted = replace(
        goal(0, SHIRT), query="other", product_category="Men \u203aClothing\u203a  Hats"
    )
    assert score_type(wanted, SHIRT).category_match
    apart = replace(wanted, product_category="Men \u203a Hats")
    assert not score_type(apart, SHIRT).category_match


def test_details_leave_the_option_parts_out_and_metrics_never_do() -> None:
    parts = score(goal(0, SHIRT), SHIRT, 1.0, {})
    assert "r_option" not in parts.details() and "w_option" not in parts.details()
    assert parts.metrics().keys() == NOTHING_BOUGHT.metrics().keys()
    assert all(type(value) is float for value in parts.metrics().values())
    assert "r_option" in score(goal(0, SHIRT, options=("red",)), SHIRT, 1.0, {}).details()
