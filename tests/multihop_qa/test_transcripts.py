"""Search-R1's rewards on transcripts, by hand-computed values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.multihop_qa.transcripts import (
    is_well_formed,
    last_answer,
    search_r1,
    search_r1_format,
    search_r1_prompted,
    verl,
)

GOLDS = ["Odrin Vale", "Vale"]
PROMPT = "Answer like <answer> Beijing </answer>. Question: who?\n"
MARK = "<|im_start|>assistant\n"
SEARCH = "<search>q</search>\n<information>Doc 1: {}</information>\n"


def reply(answer: str, found: str = "", *, searches: int = 0) -> str:
    turns = "".join(SEARCH.format(found) + "<think>b</think>" for _ in range(searches))
    return f"<think>a</think>{turns}\n<answer>{answer}</answer>"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<answer> Vale </answer>", "Vale"),
        ("<answer>x</answer><answer>y\nz</answer>", "y\nz"),
        ("<answer></answer>", ""),
        ("<answer>x", None),
        ("x</answer>", None),
        ("<Answer>x</Answer>", None),
        ("<answer>a<answer>b</answer>", "a<answer>b"),
        ("", None),
    ],
)
def test_the_last_answer(text: str, told: str | None) -> None:
    assert last_answer(text) == told


def test_our_default_needs_one_answer_and_the_old_mode_two() -> None:
    right, wrong = reply("the Odrin Vale."), reply("Harrow")
    assert search_r1(right, GOLDS) == 1.0
    assert search_r1(wrong, GOLDS) == 0.0
    assert search_r1(wrong, GOLDS, wrong=0.1) == 0.1
    assert search_r1("no answer", GOLDS, wrong=0.1) == 0.0
    # issue 79: of a response alone the old mode takes nothing
    assert search_r1_prompted(right, GOLDS) == 0.0
    assert search_r1_prompted(PROMPT + right, GOLDS) == 1.0
    assert search_r1_prompted(PROMPT + wrong, GOLDS, wrong=0.1) == 0.1
    assert search_r1_prompted(PROMPT, GOLDS, wrong=0.1) == 0.0
    assert search_r1(reply("Vale") + "<answer>Harrow</answer>", GOLDS) == 0.0
    assert search_r1("<answer>!</answer>", ["The"]) == 1.0  # as the original has it


def test_verl_divides_the_score_of_many_tags() -> None:
    assert verl("<answer>Vale</answer>", GOLDS) == 1.0
    assert verl("<answer>Vale</answer>" * 10, GOLDS) == 1.0
    assert verl("<answer>Vale</answer>" * 11, GOLDS) == 0.25
    assert verl("</answer>" * 10 + "<answer>Vale</answer>", GOLDS) == 0.25
    assert verl("<answer>Harrow</answer>" * 11, GOLDS, wrong=0.2) == 0.2
    assert verl("<answer>" * 11, GOLDS, wrong=0.2) == 0.0
    assert verl("<ANSWER>Vale</ANSWER>", GOLDS) == 0.0


@pytest.mark.parametrize(
    ("text", "well"),
    [
        (reply("x"), True),
        (reply("x", searches=1), True),
        (reply("x", searches=3), True),
        ("\n " + reply("x") + "\n", True),
        ("<think>a < b </ think></think><answer>x</answer>", True),
        ("<answer>x</answer>", False),
        ("<think>a</think>", False),
        ("", False),
        ("hm " + reply("x"), False),
        (reply("x") + "<|im_end|>", False),
        ("<think>a</think> so <answer>x</answer>", False),
        ("<think>a</think><answer>x", False),
        ("<think>a</think><search>q</search><answer>x</answer>", False),
        ("<think>a</think>" + SEARCH.format("") + "<answer>x</answer>", False),
        ("<think>a</think><information>i</information><think>b</think><answer>x</answer>", False),
        ("<think>a<think>b</think></think><answer>x</answer>", False),
        (reply("x") + reply("x"), False),
        ("<think><answer>x</answer></think>", False),
    ],
)
def test_well_formed_transcripts(text: str, well: bool) -> None:
    assert is_well_formed(text) is well


@pytest.mark.parametrize(
    ("text", "score"),
    [
        (reply("Vale"), 1.0),
        (reply("Vale", searches=2), 1.0),
        ("so " + reply("Vale"), 0.8),
        (reply("Harrow"), 0.2),
        (reply("Harrow", "of Harrow", searches=1), 0.2),
        (reply("Harrow", "by ODRIN  vale.", searches=2), 0.3),
        ("so " + reply("Harrow", "Odrin Vale", searches=1), 0.1),
        ("<think>a</think>", 0.0),
        ("<search>q</search><information>Odrin Vale</information>", 0.0),
        ("", 0.0),
    ],
)
def test_the_format_reward(text: str, score: float) -> None:
    assert search_r1_format(PROMPT + MARK + text, GOLDS) == pytest.approx(score)


def test_the_format_reward_without_the_mark_and_with_other_numbers() -> None:
    assert search_r1_format(reply("Vale"), GOLDS) == pytest.approx(0.8)
    assert search_r1_format(reply("Harrow"), GOLDS) == pytest.approx(0.1)
    assert search_r1_format("nothing", GOLDS) == 0.0
    # the example of the prompt is no answer of the model
    assert search_r1_format(PROMPT + MARK + "hm", ["Beijing"]) == 0.0
    other = {"structure": 0.5, "retrieval": 0.25, "final": 0.125}
    assert search_r1_format(MARK + reply("x", "Vale", searches=1), GOLDS, **other) == 0.75
    assert search_r1_format(MARK + "so " + reply("Vale"), GOLDS, **other) == 0.5
    assert search_r1_format(MARK + "so " + reply("x"), GOLDS, **other) == 0.125
    assert search_r1_format(MARK + reply("x", "y", searches=1), ["The"]) == 0.2


TAGS = [f"<{slash}{name}>" for name in ("think", "search", "answer") for slash in ("", "/")]


@given(st.lists(st.sampled_from([*TAGS, " ", "Vale", "x"]), max_size=14).map("".join))
def test_no_transcript_breaks_a_scorer(text: str) -> None:
    for score in (
        search_r1(text, GOLDS),
        search_r1_prompted(text, GOLDS),
        verl(text, GOLDS),
        search_r1_format(MARK + text, GOLDS),
    ):
        assert 0.0 <= score <= 1.0
    assert search_r1(text, GOLDS) == verl(text, GOLDS) or verl(text, GOLDS) == 0.25
