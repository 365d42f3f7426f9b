"""Normalisation and the four answer scorers, by hand-computed values."""

from __future__ import annotations

import string
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.errors import UsageError
from agentgym_suite.multihop_qa.scorers import (
    EVERYTHING,
    NOTHING,
    SCORERS,
    AnswerScore,
    exact_match,
    find_scorer,
    normalise,
    substring_match,
)

NAMES = tuple(SCORERS)
WORDS = st.sampled_from(
    ["the", "a", "an", "grey", "Lantern", "yes", "no", "1,000", "état", "-", "!"]
)
ANSWERS = st.one_of(st.text(max_size=30), st.lists(WORDS, max_size=5).map(" ".join))


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("The Grey  Lantern.", "grey lantern"),
        ("state-of-the-art", "stateoftheart"),
        ("1,000", "1000"),
        ("a", ""),
        ("The", ""),
        ("!", ""),
        (" \t\n", ""),
        ("an apple a day", "apple day"),
        ("“quoted” – it’s", "“quoted” – it’s"),
        ("it's", "its"),
        ("theatre another", "theatre another"),
        ("a.b the.c", "ab thec"),
        ("the-the", "thethe"),
        ("two", "two"),
        ("ÉCOLE", "école"),
        ("x\u00a0y", "x y"),
        ("a–b", "–b"),
    ],
)
def test_normalisation(text: str, bare: str) -> None:
    assert normalise(text) == bare


def test_composed_and_decomposed_letters_differ() -> None:
    composed = "état"
    decomposed = unicodedata.normalize("NFD", composed)
    assert normalise(composed) != normalise(decomposed)
    assert exact_match(composed, decomposed) == 0.0


@given(ANSWERS)
def test_what_normalisation_leaves(text: str) -> None:
    bare = normalise(text)
    assert bare == " ".join(bare.split())
    assert not set(bare) & set(string.punctuation)
    assert not {"a", "an", "the"} & set(bare.split(" "))
    assert normalise(text.upper().lower()) == normalise(text.upper())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("told", "golds", "score"),
    [
        # em, f1, precision, recall; one gold, so that all four agree
        ("Grey Lantern", ["the grey lantern!"], EVERYTHING),
        ("grey", ["grey lantern"], AnswerScore(0, 2 / 3, 1, 0.5)),
        ("grey grey lantern", ["grey lantern"], AnswerScore(0, 0.8, 2 / 3, 1)),
        ("grey grey", ["grey lantern grey"], AnswerScore(0, 0.8, 1, 2 / 3)),
        ("red", ["grey lantern"], NOTHING),
        ("lantern grey", ["grey lantern"], AnswerScore(0, 1, 1, 1)),
        ("stateoftheart", ["state-of-the-art"], EVERYTHING),
        ("1000", ["1,000"], EVERYTHING),
        ("yes", ["yes"], EVERYTHING),
        ("Yes.", ["yes"], EVERYTHING),
    ],
)
def test_one_gold(name: str, told: str, golds: list[str], score: AnswerScore) -> None:
    for formula in (SCORERS[name].official, SCORERS[name].score):
        found = formula(told, golds)
        assert (found.em, found.f1) == pytest.approx((score.em, score.f1))
        assert (found.precision, found.recall) == pytest.approx((score.precision, score.recall))


@pytest.mark.parametrize(
    ("told", "gold", "hotpot_f1", "musique_f1"),
    [
        # a wrong yes, no or noanswer on either side gets no F1, except in MuSiQue
        ("yes it is", "yes", 0.0, 0.5),
        ("yes", "yes it is", 0.0, 0.5),
        ("no", "no way", 0.0, 2 / 3),
        ("noanswer", "noanswer here", 0.0, 2 / 3),
        ("yes", "no", 0.0, 0.0),
        ("yesterday", "yes", 0.0, 0.0),
        # without a word on both sides, which only the formula sees
        ("the", "a", 0.0, 1.0),
        ("", "!", 0.0, 1.0),
        # without a word on one side
        ("the", "grey", 0.0, 0.0),
        ("grey", "the", 0.0, 0.0),
    ],
)
def test_where_f1_differs(told: str, gold: str, hotpot_f1: float, musique_f1: float) -> None:
    for name in NAMES:
        wanted = musique_f1 if name == "musique" else hotpot_f1
        assert SCORERS[name].official(told, [gold]).f1 == pytest.approx(wanted)
    assert {SCORERS[name].official("the", ["a"]).em for name in NAMES} == {1.0}


def test_several_golds() -> None:
    golds = ["grey lantern of the north", "lantern"]
    told = "grey lantern"
    # against the first: 2 of 2 and 2 of 4 words; against the second: 1 of 2 and 1 of 1
    best = AnswerScore(0.0, 2 / 3, 1.0, 0.5)
    for name in ("hotpot", "musique", "search_r1"):
        found = SCORERS[name].official(told, golds)
        assert (found.em, found.precision, found.recall) == (best.em, best.precision, best.recall)
        assert found.f1 == pytest.approx(best.f1)
    apart = SCORERS["2wiki"].official(told, golds)
    assert (apart.precision, apart.recall) == (1.0, 1.0)  # each from another gold
    assert apart.f1 == pytest.approx(2 / 3)
    for name in NAMES:
        assert SCORERS[name].official("lantern", golds).em == 1.0
        assert SCORERS[name].official("x", []) == NOTHING


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_answer_never_scores(name: str) -> None:
    scorer = SCORERS[name]
    for told in ("", " ", "the", "!", "a an the"):
        assert scorer.score(told, ["grey lantern"]) == NOTHING
        assert scorer.score(told, ["grey lantern", "the"]) == NOTHING
        assert scorer.score(told, []) == NOTHING
    # no gold keeps a word: raw text decides, without regard to case
    assert scorer.score("the", ["The"]) == EVERYTHING
    assert scorer.score(" ! ", ["The", "!"]) == EVERYTHING
    assert scorer.score("!", ["The"]) == NOTHING
    assert scorer.score("a", ["The"]) == NOTHING
    assert scorer.score("", ["The"]) == NOTHING
    assert scorer.score("", [""]) == NOTHING
    assert scorer.score("The The", ["The"]) == NOTHING


@given(ANSWERS, st.lists(ANSWERS, min_size=1, max_size=3))
def test_scores_are_parts_of_one_and_agree_on_exact_match(told: str, golds: list[str]) -> None:
    found = {name: SCORERS[name].score(told, golds) for name in NAMES}
    assert len({score.em for score in found.values()}) == 1
    for score in found.values():
        assert score.em in (0.0, 1.0)
        for part in (score.f1, score.precision, score.recall):
            assert 0.0 <= part <= 1.0
        if score.em:
            assert score == EVERYTHING


def test_substring_match() -> None:
    assert substring_match("the Grey Lantern of Harrow", ["grey lantern!"]) == 1.0
    assert substring_match("greylanterns", ["lantern"]) == 1.0  # characters, not words
    assert substring_match("grey", ["grey lantern"]) == 0.0
    assert substring_match("", ["grey"]) == 0.0
    assert substring_match("grey", [""]) == 0.0  # in every text, in the original
    assert substring_match("grey", ["the", "!"]) == 0.0
    assert substring_match("", []) == 0.0


def test_scorers_are_found_by_name() -> None:
    assert NAMES == ("hotpot", "2wiki", "musique", "search_r1")
    assert find_scorer("musique") is SCORERS["musique"]
    with pytest.raises(UsageError, match="choose one of hotpot, 2wiki, musique, search_r1"):
        find_scorer("squad")
