"""Likeness of texts and colour names, to the original's numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.webshop.matching import (
    COLOURS,
    MATCH_ABOVE,
    Matcher,
    normalise_colour,
    normalise_option,
    token_set_ratio,
)


@pytest.mark.parametrize(
    ("bought", "wanted", "ratio"),
    [
        ("10x50 hd binoculars", "15x60 hd binoculars", 84),
        ("x-large", "xx-large", 93),
        ("pack of 1", "pack of 12", 95),
        ("120 ml", "120ml", 91),
        ("6.5", "7.5", 67),
        ("large", "x-large", 100),
        ("3x-large", "large", 100),
        ("10", "10.5", 100),
        ("black", "black | red", 100),
        ("size", "('size', 'anything')", 100),
        ("", "x", 0),
        ("!!!", "x", 0),
        ("x", "", 0),
    ],
)
def test_recorded_ratios(bought: str, wanted: str, ratio: int) -> None:
    assert token_set_ratio(bought, wanted) == ratio


@pytest.mark.parametrize(
    ("bought", "wanted"),
    [
        ("sky blue", "navy blue"),
        ("light pink", "light purple"),
        ("black", "black | red"),
        ("size", ("size", "anything")),
    ],
)
def test_options_that_pass_for_each_other(bought: str, wanted: str | tuple[str, str]) -> None:
    assert token_set_ratio(normalise_option(bought), normalise_option(wanted)) > MATCH_ABOVE


def test_latin_letters_with_accents_are_deleted_and_other_scripts_stay() -> None:
    assert token_set_ratio("caf\u00e9", "caf") == 100
    assert token_set_ratio("\u0142odka", "odka") < 100
    assert token_set_ratio("a_b", "a b") < 100  # the underscore is a word character


def test_difflib_is_not_symmetric_and_the_bought_side_comes_first() -> None:
    pairs = [("abcdefg xyz", "xyzabc gfed"), ("tide", "diet")]
    assert any(token_set_ratio(a, b) != token_set_ratio(b, a) for a, b in pairs)


@given(st.text(max_size=30), st.text(max_size=30))
def test_ratio_is_a_percentage_and_full_for_equal_words(a: str, b: str) -> None:
    assert 0 <= token_set_ratio(a, b) <= 100
    words = f"w {a}"
    assert token_set_ratio(words, words) == 100


@given(st.text(max_size=12), st.text(max_size=12))
def test_the_matcher_remembers_what_the_ratio_decides(a: str, b: str) -> None:
    matcher = Matcher(remembered=4)
    assert matcher.alike(a, b) is (token_set_ratio(a, b) > MATCH_ABOVE)
    assert matcher.alike(a, b) is matcher.alike(a, b)


@pytest.mark.parametrize(
    ("value", "colour"),
    [
        ("light pink", "light"),
        ("rose gold", "gold"),
        ("stainless steel", "steel"),
        ("black | red", "black"),
        ("standard", "tan"),
        ("bordered", "red"),
        ("fashion", "ash"),
        ("cashmere", "ash"),
        ("washable", "ash"),
        ("redwood", "red"),
        ("x-large", "x-large"),
    ],
)
def test_the_first_colour_inside_a_value_replaces_it(value: str, colour: str) -> None:
    assert normalise_colour(value) == colour


def test_a_pair_takes_a_colour_only_if_one_of_its_elements_is_that_colour() -> None:
    assert normalise_option(("color", "red")) == "red"
    assert normalise_option(("color", "dark red")) == "('color', 'dark red')"
    assert normalise_option(("size", "x-large")) == "('size', 'x-large')"


def test_the_colour_list() -> None:
    assert len(COLOURS) == len(set(COLOURS)) == 102
    assert list(COLOURS) == sorted(COLOURS)
