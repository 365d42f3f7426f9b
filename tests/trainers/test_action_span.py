"""The tokens of the executable action, to the token, whatever tokens do to characters."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.calls import CallCodec, Tool
from agentgym_suite.episodes import Reply, Step, TokenTrace
from agentgym_suite.errors import UsageError
from agentgym_suite.replies import REPLY_FORMATS, parse_reply
from agentgym_suite.trainers.action_span import (
    ACTION_RULES,
    ActionRule,
    TokenText,
    action_mask,
    step_action_mask,
)
from tests.trainers.byte_pieces import BytePieces

CODEC = CallCodec([Tool("search", "Search.", "query"), Tool("answer", "Answer.", "answer")])
BYTES = b"a<\xe4\xb8\xad\xef\xbf\xbd\xf0\x9f\x98\x80\xff\xc3\xa9"
CHARACTERS = st.sampled_from("ab <>/\n中😀é\u0301\ufffd")


def cut(text: str, places: Sequence[int]) -> BytePieces:
    """The bytes of a text, cut at places that are no character's."""
    data = text.encode()
    edges = sorted({0, *(place % (len(data) + 1) for place in places), len(data)})
    return BytePieces([data[a:b] for a, b in pairwise(edges)])


def overlapping(tokens: BytePieces, text: str, span: tuple[int, int]) -> list[int]:
    """The tokens whose bytes overlap those of a span of characters."""
    left, right = len(text[: span[0]].encode()), len(text[: span[1]].encode())
    found, start = [], 0
    for number, piece in enumerate(tokens.pieces):
        end = start + len(piece)
        if start < end and start < right and end > left:
            found.append(number)
        start = end
    return found


def marked(tokens: BytePieces, rule: ActionRule | None = None, **options: Any) -> str:
    """What the marked tokens say, as text."""
    mask = action_mask(
        tokens.ids,
        options.pop("response_mask", [1] * len(tokens.ids)),
        rule or ActionRule(),
        decode=tokens.decode,
        **options,
    )
    return tokens.decode([one for one in tokens.ids if mask[one]])


# --- characters and tokens


@given(st.text(CHARACTERS, max_size=30), st.lists(st.integers(0, 500), max_size=30), st.data())
def test_the_tokens_of_a_span_are_those_whose_bytes_overlap_its_bytes(
    text: str, places: list[int], data: st.DataObject
) -> None:
    tokens = cut(text, places)
    joined = TokenText(tokens.ids, tokens.decode)
    assert joined.text == text
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    assert joined.tokens((start, end)) == (
        overlapping(tokens, text, (start, end)) if start < end else []
    )
    for number, piece in enumerate(tokens.pieces):
        left, right = joined.characters(number)
        assert (left < right) == bool(piece)


def bytes_of_characters(data: bytes) -> list[tuple[int, int]]:
    """Start and end, in bytes, of every character that decoding with replacement gives."""
    found: list[tuple[int, int]] = []
    start = 0
    while start < len(data):
        try:
            valid, wrong = data[start:].decode(), (0, 0)
        except UnicodeDecodeError as error:
            valid, wrong = data[start : start + error.start].decode(), (error.start, error.end)
        place = start
        for one in valid:
            found.append((place, place + len(one.encode())))
            place = found[-1][1]
        if wrong[1]:
            found.append((start + wrong[0], start + wrong[1]))
        start = found[-1][1]
    return found


@given(st.lists(st.lists(st.sampled_from(BYTES), min_size=1, max_size=3).map(bytes), max_size=12))
def test_bytes_that_are_no_text_belong_to_the_characters_that_replace_them(
    pieces: list[bytes],
) -> None:
    tokens = BytePieces(pieces)
    joined = TokenText(tokens.ids, tokens.decode)
    characters = bytes_of_characters(b"".join(pieces))
    assert len(characters) == len(joined.text)
    start = 0
    for number, piece in enumerate(pieces):
        end = start + len(piece)
        touched = [n for n, (a, b) in enumerate(characters) if a < end and b > start]
        assert joined.characters(number) == (touched[0], touched[-1] + 1)
        start = end


def test_decoding_tokens_one_at_a_time_would_be_wrong_here() -> None:
    text = "想<action>去 😀</action>"
    tokens = BytePieces([bytes([byte]) for byte in text.encode()])
    alone = "".join(tokens.decode([one]) for one in tokens.ids)
    assert len(alone) > len(text)
    assert marked(tokens) == "<action>去 😀</action>"


def test_a_token_that_holds_half_a_character_of_the_action_belongs_to_it() -> None:
    data = "<action>é</action>".encode()
    place = data.index("é".encode()) + 1
    whole = BytePieces([b"x" + data[:place], data[place:] + b"y"])
    assert marked(whole) == "x<action>é</action>y"


# --- the first block between tags


@given(st.text(CHARACTERS, max_size=12), st.text(CHARACTERS, max_size=12), st.text(CHARACTERS))
def test_the_first_block_is_marked_with_both_tags(before: str, inside: str, behind: str) -> None:
    block = f"<action>{inside}</action>"
    text = before + block + behind + "<action>second</action>"
    tokens = BytePieces([bytes([byte]) for byte in text.encode()])
    assert marked(tokens) == block


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("<think>x</think><action>go\nnorth</action> bye", "<action>go\nnorth</action>"),
        ("<SEARCH>a</search><answer>b</answer>", "<SEARCH>a</search>"),
        ("<answer>b</answer><search>a</search>", "<answer>b</answer>"),
        ("<action>a</answer></action>", "<action>a</answer></action>"),
        ("<action>open <search>a</search>", "<search>a</search>"),
        ("<action></action>", "<action></action>"),
        ("<action>never closed", ""),
        ("closed</action>", ""),
        ("<actions>a</actions>", ""),
        ("go north", ""),
        ("", ""),
    ],
)
def test_which_block_is_the_action(text: str, action: str) -> None:
    data = text.encode()
    letters = BytePieces([data[n : n + 1] for n in range(len(data))])
    assert marked(letters) == action
    threes = BytePieces([data[n : n + 3] for n in range(0, len(data), 3)])
    left = data.index(action.encode())
    right = left + len(action.encode())  # with what else stands in the first and last token
    assert marked(threes) == (data[left - left % 3 : right + -right % 3].decode() if action else "")


def test_a_response_of_a_thousand_open_tags_takes_no_time() -> None:
    tokens = BytePieces([b"<action>"] * 20_000)
    assert marked(tokens) == ""


def test_the_tags_can_be_chosen() -> None:
    tokens = cut("<act>a</act><action>b</action>", range(40))
    assert marked(tokens, ActionRule(tags=("act",))) == "<act>a</act>"
    for tags in ((), ("a b",), ("a>",), ("",)):
        with pytest.raises(UsageError, match="action_tags"):
            ActionRule(tags=tags)


# --- what is marked beside


def test_forced_tokens_are_never_marked() -> None:
    tokens = BytePieces([b"<action>", b"go", b"</action>", b"<|end|>"])
    assert marked(tokens, response_mask=[1, 1, 0, 0]) == "<action>go"


def test_a_raw_command_is_the_whole_response_without_its_end_token() -> None:
    tokens = BytePieces([b"go", b" north", b"<|end|>"])
    rule = ActionRule(tags=None)
    assert marked(tokens, rule, end_ids={2}) == "go north"
    assert marked(tokens, rule, end_ids={2}, response_mask=[1, 0, 1]) == "go"
    assert marked(BytePieces([b"<|end|>"]), rule, end_ids={0}) == ""
    assert marked(tokens, rule, end_ids={0}) == "go north<|end|>"  # cut off: no end was sampled
    assert marked(BytePieces([]), rule) == ""


def test_a_tokenizer_may_leave_special_tokens_out_of_its_text() -> None:
    tokens = BytePieces([b"", b"<action>g", b"", b"o</action>", b""])
    mask = action_mask(tokens.ids, [1] * 5, decode=tokens.decode)
    assert mask == (0, 1, 0, 1, 0)


def test_words_that_decoding_parts_with_blanks_are_told_apart() -> None:
    vocabulary = ["think", "<action>", "go", "north", "</action>", "now"]

    def decode(ids: Sequence[int]) -> str:
        return " ".join(vocabulary[one] for one in ids)

    assert action_mask(range(6), [1] * 6, decode=decode) == (0, 1, 1, 1, 1, 0)


def test_a_mask_of_another_length_is_refused() -> None:
    with pytest.raises(UsageError, match="2 values for 3 ids"):
        action_mask([1, 2, 3], [1, 1], decode=str)


# --- the recorded text


class Lossy(BytePieces):
    """Its joined text has lost the tags: a tokenizer that drops what it calls special."""

    def decode(self, ids: Sequence[int]) -> str:
        return super().decode(ids).replace("<action>", "").replace("</action>", "")


def test_the_block_of_the_recorded_text_is_found_as_the_tokens_that_it_has_alone() -> None:
    tokens = Lossy([b"I ", b"<action>", b"go", b"</action>", b"."])
    recorded = "I <action>go</action>."
    beside = {"decode": tokens.decode, "recorded": recorded}
    assert action_mask(tokens.ids, [1] * 5, **beside) == (0, 0, 0, 0, 0)  # type: ignore[arg-type]
    found = action_mask(tokens.ids, [1] * 5, encode=tokens.encode, **beside)  # type: ignore[arg-type]
    assert found == (0, 1, 1, 1, 0)


def test_the_block_is_found_with_a_blank_in_front_and_not_at_all_in_other_tokens() -> None:
    tokens = Lossy([b"I", b" <action>", b"go", b"</action>"])

    def encode(text: str) -> list[int]:
        return {" <action>go</action>": [1, 2, 3]}.get(text, [9, 9])

    options = {"decode": tokens.decode, "recorded": "I <action>go</action>"}
    assert action_mask(tokens.ids, [1] * 4, encode=encode, **options) == (0, 1, 1, 1)  # type: ignore[arg-type]
    for other in (lambda text: [7, 7], lambda text: [], lambda text: [1, 2, 3, 3, 3]):
        assert action_mask(tokens.ids, [1] * 4, encode=other, **options) == (0, 0, 0, 0)  # type: ignore[arg-type]


# --- the span that the parser found


def step_of(text: str, reply_format: str, tokens: BytePieces | None = None) -> Step:
    parsed = parse_reply(text, reply_format, codec=CODEC)
    tokens = tokens or cut(text, range(1000))
    size = len(tokens.ids)
    trace = TokenTrace((0,), tuple(tokens.ids), (0.0,) * size, (1,) * size, "stop", "v0")
    return Step(
        observation="o",
        next_observation="p",
        messages=(),
        reply=Reply(text, tokens=trace),
        action=parsed.action,
        parsed_action=parsed.action,
        valid=not parsed.error,
        error=parsed.error,
        span=parsed.span,
        env_reward=0.0,
        reward=0.0,
        terminated=False,
        truncated=False,
        admissible=(),
        state_hash="",
    )


def marked_step(text: str, reply_format: str, tail: str = "") -> str:
    tokens = cut(text + tail, range(1000))
    step = step_of(text, reply_format, tokens)
    mask = step_action_mask(step, ACTION_RULES[reply_format], decode=tokens.decode)
    return tokens.decode([one for one in tokens.ids if mask[one]])


def call(query: str) -> str:
    return f'<tool_call>\n{{"name": "search", "arguments": {{"query": "{query}"}}}}\n</tool_call>'


def test_all_calls_of_a_reply_are_marked_and_the_words_between_are_not() -> None:
    one, other = call("the Nile 😀"), call("x")
    text = f"Think.\n{one}\nand then\n{other}\nDone."
    assert marked_step(text, "hermes") == one + other
    assert marked_step(text, "hermes", tail="<|im_end|>") == one + other
    answer = "<answer>46 km</answer>"
    assert marked_step(f"{one}\n{answer}", "hermes") == one + answer


def test_an_answer_that_is_only_thought_of_is_no_part_of_the_action() -> None:
    one = call("x")
    text = f"<think>maybe <answer>no</answer></think>{one}"
    assert marked_step(text, "hermes") == one


def test_a_reply_without_a_readable_call_has_no_action() -> None:
    assert marked_step("<tool_call>{broken</tool_call>", "hermes") == ""
    assert marked_step("no call at all", "hermes") == ""


def test_react_marks_what_its_parser_found() -> None:
    text = "Thought: 去\nAction: search[a 😀]\nObservation: made up"
    assert marked_step(text, "react") == "search[a 😀]"
    assert marked_step("Thought: x", "react") == ""


def test_a_span_is_moved_when_the_recorded_text_stands_behind_something() -> None:
    text = "Thought: x\nAction: search[a]"
    tokens = cut("<s>" + text, range(1000))
    step = step_of(text, "react", tokens)
    mask = step_action_mask(step, ACTION_RULES["react"], decode=tokens.decode)
    assert tokens.decode([one for one in tokens.ids if mask[one]]) == "search[a]"
    elsewhere = cut("quite another text, which is long", range(1000))
    step = step_of(text, "react", elsewhere)
    assert not any(step_action_mask(step, ACTION_RULES["react"], decode=elsewhere.decode))


def test_every_reply_format_has_a_rule() -> None:
    assert set(ACTION_RULES) == set(REPLY_FORMATS)
    text = "<think>t</think><action>go</action>"
    for name in ("tags", "verl_agent", "search_r1"):
        assert marked_step(text, name) == "<action>go</action>"
    assert marked_step(text, "raw") == marked_step(text, "openai") == text


def test_a_step_without_token_ids_is_refused() -> None:
    step = step_of("go", "raw")
    bare = Step(**{name: getattr(step, name) for name in Step.__slots__} | {"reply": Reply("go")})
    with pytest.raises(UsageError, match="no token ids"):
        step_action_mask(bare, ACTION_RULES["raw"], decode=str)


# --- a real byte-level tokenizer


def test_a_byte_level_tokenizers_tokens_are_marked_exactly() -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    corpus = ["<think>去厨房 take the mug 😀</think><action>go to the café 1</action>"] * 3
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=330, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(corpus, trainer)
    rng = random.Random(0)
    for _ in range(50):
        inside = "".join(rng.choices("去厨 a房mug😀é\n", k=rng.randrange(12)))
        before = "".join(rng.choices("去厨 a房mug😀é\n", k=rng.randrange(12)))
        text = f"{before}<action>{inside}</action>{before}"
        encoding = tokenizer.encode(text, add_special_tokens=False)
        left = text.index("<action>")
        right = text.index("</action>") + len("</action>")
        mask = action_mask(encoding.ids, [1] * len(encoding.ids), decode=tokenizer.decode)
        assert list(mask) == [int(a < right and b > left) for a, b in encoding.offsets]
