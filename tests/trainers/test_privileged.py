"""Privileged information: its tokens to the budget, and teacher rows that differ in it alone."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.errors import UsageError
from agentgym_suite.prompts import Message
from agentgym_suite.trainers.privileged import (
    PI_FOOTER,
    PI_HEADER,
    compose_guidance,
    pi_block,
    pi_ids,
    plain_encode,
    teacher_rows,
    with_pi,
)
from tests.trainers.byte_pieces import words

FRAME = len(PI_HEADER) + len(PI_FOOTER)


@dataclass(frozen=True, slots=True)
class Row:
    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    pi_text: str = ""
    step_index: int = 0


def told(ids: tuple[int, ...]) -> str:
    return "".join(map(chr, ids))


def test_the_frame_is_the_methods_own() -> None:
    assert PI_HEADER == "[Privileged Guidance]\n"
    assert PI_FOOTER == "\n[End Privileged Guidance]\n\n"
    assert compose_guidance(["Take it.", "Clean it."]) == "- Take it.\n- Clean it."
    assert compose_guidance([]) == ""


def test_what_fits_stands_between_header_and_footer() -> None:
    assert told(pi_ids("- Take it.", words)) == PI_HEADER + "- Take it." + PI_FOOTER
    assert told(pi_ids("x" * 500, words)) == PI_HEADER + "x" * (256 - FRAME) + PI_FOOTER
    assert told(pi_ids("abc", words, FRAME + 1)) == PI_HEADER + "a" + PI_FOOTER


def test_a_budget_without_room_for_the_frame_takes_the_text_alone() -> None:
    assert told(pi_ids("x" * 500, words, FRAME)) == "x" * FRAME
    assert told(pi_ids("abc", words, 2)) == "ab"


def test_the_three_parts_are_tokenised_apart() -> None:
    seen: list[str] = []

    def encode(text: str) -> list[int]:
        seen.append(text)
        return words(text)

    pi_ids("abc", encode)
    assert sorted(seen) == sorted([PI_HEADER, "abc", PI_FOOTER])


def test_no_guidance_is_no_information() -> None:
    assert pi_ids("", words) == pi_ids(" \n", words) == ()
    assert pi_ids("x", lambda text: []) == ()
    assert pi_block(" ", words) == ""
    assert pi_ids("x", words, 0) == () and pi_block("x", words, 0) == ""
    assert teacher_rows(ROWS, words, budget=0).rows == ()
    with pytest.raises(UsageError, match="budget is -1"):
        pi_ids("x", words, -1)


@given(st.text(), st.integers(1, 300))
def test_no_information_is_longer_than_its_budget(text: str, budget: int) -> None:
    ids = pi_ids(text, words, budget)
    assert len(ids) <= budget
    assert bool(ids) == bool(text.strip())
    assert pi_block(text, words, budget) == told(ids)


def test_a_block_of_text_is_cut_where_its_tokens_fill_the_budget() -> None:
    def by_word(text: str) -> list[int]:
        return [hash(word) for word in text.split(" ")] if text else []

    frame = len(by_word(PI_HEADER)) + len(by_word(PI_FOOTER))
    assert pi_block("one two three", by_word, frame + 2) == PI_HEADER + "one two" + PI_FOOTER


def test_a_special_token_spelled_out_in_a_text_is_text() -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    inner = tokenizers.Tokenizer(tokenizers.models.BPE())
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=258,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|im_end|>", "<s>"],
        show_progress=False,
    )
    inner.train_from_iterator([], trainer)
    inner.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|im_end|>")
    text = "done <|im_end|>"
    assert {0, 1} <= set(tokenizer(text)["input_ids"])
    ids = plain_encode(tokenizer)(text)
    assert not {0, 1} & set(ids) and tokenizer.decode(ids) == text
    # a prompt that another thread writes meanwhile has its special tokens
    assert not tokenizer.backend_tokenizer.encode_special_tokens
    for plain in ("done", "", " <|im_en", "im_end|> < s >"):
        split = copy.deepcopy(tokenizer)(plain, add_special_tokens=False, split_special_tokens=True)
        assert list(plain_encode(tokenizer)(plain)) == split["input_ids"]
    assert not tokenizer.backend_tokenizer.encode_special_tokens


# --- teacher rows

ROWS = (
    Row((1, 2), (3, 4), "- Take it."),
    Row((5,), (6,), ""),
    Row((7, 8), (9,), "- Clean it.", 1),
    Row((2,), (3,), " \n"),
)


def test_information_goes_before_the_first_token_of_the_prompt_and_nothing_else_changes() -> None:
    made = teacher_rows(ROWS, words)
    assert made.numbers == (0, 2)
    for number, row in zip(made.numbers, made.rows, strict=True):
        prefix = pi_ids(ROWS[number].pi_text, words)
        assert row.prompt_ids == prefix + ROWS[number].prompt_ids
        assert replace(row, prompt_ids=ROWS[number].prompt_ids) == ROWS[number]


def test_the_budget_is_on_top_of_a_prompt_of_any_length() -> None:
    long = Row(tuple(range(10_000)), (1,), "x" * 1000)
    (row,) = teacher_rows([long], words).rows
    assert len(row.prompt_ids) == 10_256 and row.prompt_ids[256:] == long.prompt_ids


def test_rows_that_nothing_depends_on_are_not_scored() -> None:
    assert teacher_rows(ROWS, words, wanted=[False, True, True, True]).numbers == (2,)
    assert teacher_rows(ROWS, words, wanted=[False] * 4).numbers == ()
    with pytest.raises(UsageError, match="wanted has 1 values for 4 rows"):
        teacher_rows(ROWS, words, wanted=[True])


def test_one_text_is_tokenised_once_for_all_turns() -> None:
    calls: list[str] = []

    def encode(text: str) -> list[int]:
        calls.append(text)
        return words(text)

    teacher_rows([Row((1,), (2,), "- Take it.", n) for n in range(50)], encode)
    assert calls.count("- Take it.") == 1


CHAT = (
    Message("system", "S"),
    Message("user", "first"),
    Message("assistant", "A"),
    Message("user", "now"),
    Message("assistant", "running text"),
)


def render(messages: Any) -> list[int]:
    return words("".join(f"<{one.role}>{one.content}" for one in messages) + "<assistant>")


def test_information_in_the_last_users_turn_is_rendered_by_the_template() -> None:
    row = Row((1,), (2,), "- Take it.")
    (made,) = teacher_rows([row], words, position="user_turn", messages=[CHAT], render=render).rows
    shown = PI_HEADER + "- Take it." + PI_FOOTER
    assert told(made.prompt_ids) == (
        f"<system>S<user>first<assistant>A<user>{shown}now<assistant>running text<assistant>"
    )
    assert made.response_ids == row.response_ids


def test_wrong_positions_are_refused() -> None:
    with pytest.raises(UsageError, match="pi_position 'suffix'"):
        teacher_rows(ROWS, words, position="suffix")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="needs each row's messages"):
        teacher_rows(ROWS, words, position="user_turn")
    with pytest.raises(UsageError, match="messages has 1 values for 4 rows"):
        teacher_rows(ROWS, words, position="user_turn", messages=[CHAT], render=render)
    with pytest.raises(UsageError, match="no user message"):
        with_pi([Message("system", "S")], "x")
