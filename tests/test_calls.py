from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.calls import (
    Call,
    CallCodec,
    Malformed,
    Tool,
    ToolCall,
    format_calls,
    parse_calls,
    split_lines,
)

CODEC = CallCodec((Tool("search", "finds", "query", "words"), Tool("finish", "ends the episode")))
names = st.sampled_from(["search", "answer", "expand", "finish"])
one_line = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r"))
arguments = one_line.map(str.strip)


@given(st.lists(st.builds(Call, names, arguments), max_size=6))
def test_formatting_and_parsing_are_inverse(calls: list[Call]) -> None:
    assert parse_calls(format_calls(calls)) == calls


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    for call in parse_calls(text):
        assert isinstance(call, Call) or call.reason


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("search[what is [x] in y[0]]", [Call("search", "what is [x] in y[0]")]),
        ("  SeArCh[ a b ]  ", [Call("search", "a b")]),
        (
            "search[a]\r\nfinish[]\rsearch[b]",
            [Call("search", "a"), Call("finish", ""), Call("search", "b")],
        ),
        ("search[a\u2028b\x85c\x0bd]", [Call("search", "a\u2028b\x85c\x0bd")]),
        ("\n \n", []),
    ],
)
def test_lines_become_calls(text: str, calls: list[Call]) -> None:
    assert parse_calls(text) == calls


@pytest.mark.parametrize(
    "line", ["please search[a]", "search[a] now", "search a", "[a]", "séarch[a]"]
)
def test_text_around_a_call_makes_the_line_malformed(line: str) -> None:
    (malformed,) = parse_calls(line)
    assert isinstance(malformed, Malformed) and malformed.text == line
    assert format_calls([malformed]) == line


def test_names_and_limits_are_checked_with_the_bound_in_the_reason() -> None:
    (unknown,) = parse_calls("buy[a]", names=("search",))
    assert isinstance(unknown, Malformed) and "use search" in unknown.reason
    (long,) = parse_calls("search[abcd]", limits={"search": 3})
    assert isinstance(long, Malformed) and "at most 3" in long.reason


def test_only_three_line_ends_count() -> None:
    assert split_lines("a\nb\r\nc\rd\x0ce\u2029f") == ["a", "b", "c", "d\x0ce\u2029f"]


@given(one_line)
def test_codec_round_trip_of_every_canonical_action(argument: str) -> None:
    action = f"search[{argument}]\nfinish[]"
    calls = CODEC.to_calls(action)
    assert "\n".join(CODEC.to_action(c.name, c.arguments) for c in calls) == action


def test_codec_joins_lines_inside_an_argument() -> None:
    assert CODEC.to_action("search", {"query": "a\r\nb\nc\rd"}) == "search[a b c d]"
    assert CODEC.to_calls("finish[]") == [ToolCall("finish", {})]


@pytest.mark.parametrize(
    ("name", "given_arguments"),
    [
        ("buy", {}),
        ("search", {}),
        ("search", {"query": 3}),
        ("search", {"query": "a", "k": 1}),
        ("finish", {"x": ""}),
    ],
)
def test_codec_refuses_wrong_tool_calls(name: str, given_arguments: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        CODEC.to_action(name, given_arguments)


@pytest.mark.parametrize("action", ["search[a", "hop[a]", "finish[x]", "search"])
def test_codec_refuses_actions_that_are_no_calls(action: str) -> None:
    with pytest.raises(ValueError):
        CODEC.to_calls(action)


def test_tool_schemas_are_fresh_copies() -> None:
    first, second = CODEC.tools, CODEC.tools
    assert first == second
    first[0]["function"]["parameters"]["properties"]["query"]["type"] = "number"
    assert CODEC.tools == second
