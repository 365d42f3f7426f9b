"""Reading actions, by the original's grammar and by the mended one."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentgym_suite.webshop.actions import CODEC, ParsedCall, parse_action

NO_CALLS = [
    "search[]",
    "Search[x]",
    " search[x]",
    "click[]",
    "buy now",
    "",
    "text\nsearch[x]",
    "search[foo [bar] baz]",
    "search",
    "[x]",
    "]search[",
]


@pytest.mark.parametrize("action", NO_CALLS)
def test_strict_refuses_with_a_reason(action: str) -> None:
    call = parse_action(action)
    assert call.name == "" and call.error and "\n" not in call.error


@pytest.mark.parametrize(
    ("action", "text"),
    [
        ("search[shoes] trailing", "search[shoes]"),
        ("click[Buy Now]", "click[buy now]"),
        ("click[B01ABC]\nclick[x]", "click[b01abc]"),
        ("search[ ]", "search[ ]"),
        ("search[a]b]", "search[a]b]"),
        ("search[a[]", "search[a[]"),
        ('search[1/4 zip "shirt" & <b>]', 'search[1/4 zip "shirt" & <b>]'),
    ],
)
def test_strict_accepts(action: str, text: str) -> None:
    assert parse_action(action).text == text


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (" Search[Red [new] Shoes] ", "search[red [new] shoes]"),
        ("CLICK[a [b] c]", "click[a [b] c]"),
        ("search [x]", "search[x]"),
    ],
)
def test_lenient_accepts(action: str, text: str) -> None:
    assert parse_action(action, strict=False).text == text


@pytest.mark.parametrize("action", ["search[]", "search[ ]", "click[]", "", "find[x]", "search]["])
def test_lenient_refuses_with_a_reason(action: str) -> None:
    call = parse_action(action, strict=False)
    assert call.name == "" and call.error


@given(st.text(alphabet="search[]cliK \nab\r\u0130", max_size=24))
@example("search[[x]")
@example("search[x]]")
def test_strict_is_the_original_pattern(action: str) -> None:
    match = re.match(r"(.+)\[(.+)\]", action)
    call = parse_action(action)
    if match and match[1] in ("search", "click"):
        assert call == ParsedCall(match[1], match[2].lower())  # type: ignore[arg-type]
    else:
        assert call.name == ""


@given(st.text(max_size=40), st.booleans())
def test_a_call_in_canonical_form_reads_as_itself(text: str, strict: bool) -> None:
    for action in (text, f"search[{text}]", f"Click[{text}]"):
        call = parse_action(action, strict=strict)
        if call.name:
            assert parse_action(call.text, strict=strict) == call


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("action", ["[" * 1_000_000, "search" + "[" * 1_000_000 + "]", "]" * 10**6])
def test_long_runs_of_brackets_take_linear_time(action: str, strict: bool) -> None:
    assert len(parse_action(action, strict=strict).error) < 300


@given(st.text(alphabet=st.characters(exclude_characters="\n\r", codec="utf-8")))
def test_the_codec_round_trip(argument: str) -> None:
    for name, parameter in (("search", "keywords"), ("click", "element")):
        action = CODEC.to_action(name, {parameter: argument})
        calls = CODEC.to_calls(action)
        assert [CODEC.to_action(call.name, call.arguments) for call in calls] == [action]
