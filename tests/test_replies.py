from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.calls import CallCodec, Tool, ToolCall
from agentgym_suite.errors import UsageError
from agentgym_suite.replies import REPLY_FORMATS, ParsedAction, parse_reply

CODEC = CallCodec(
    (
        Tool("search", "finds", "query"),
        Tool("click", "clicks", "value"),
        Tool("answer", "answers", "text"),
        Tool("finish", "ends"),
    )
)


def parse(text: str, format: str, *calls: ToolCall) -> ParsedAction:
    return parse_reply(text, format, codec=CODEC, tool_calls=calls)


@given(st.text(), st.sampled_from(sorted(REPLY_FORMATS)))
def test_no_reply_raises_and_spans_lie_inside_it(text: str, format: str) -> None:
    parsed = parse(text, format)
    start, end = parsed.span
    assert 0 <= start <= end <= len(text)
    if parsed.error and not parsed.span[1]:
        assert parsed.action == text


def test_unknown_format_and_missing_codec_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="raw, react"):
        parse_reply("x", "xml")
    with pytest.raises(UsageError, match="codec"):
        parse_reply("x", "hermes")


def test_raw_keeps_every_character() -> None:
    assert parse(" search[a]\n", "raw") == ParsedAction(" search[a]\n", span=(0, 11))


def test_react_takes_the_last_action() -> None:
    text = (
        "Thought: look\nAction: search[a]\nObservation: none\nThought: again\nAction: click[b] </s>"
    )
    parsed = parse(text, "react")
    assert parsed.action == "click[b]"
    assert text[slice(*parsed.span)] == "click[b]"
    assert parsed.repairs == ("end_token",)
    assert parse("Thought: why\nAction: search[a]", "react").thought == "why"


def test_react_stops_at_an_invented_observation() -> None:
    assert parse("Action: search[a]\nObservation: made up", "react").action == "search[a]"


def test_react_without_marker_needs_a_call() -> None:
    assert parse("search[a]", "react").repairs == ("no_marker",)
    assert parse("I will wait", "react").error
    assert parse("Action:  ", "react").error


def test_tags_skip_actions_inside_the_thought() -> None:
    text = "<think>maybe <action>bad</action></think>\n<action> search[é] </action>"
    parsed = parse(text, "tags")
    assert parsed.action == "search[é]" and text[slice(*parsed.span)] == "search[é]"
    assert parsed.thought.startswith("maybe")
    assert parse("<action>open", "tags").error
    assert parse("<think>only</think>", "tags").error


def test_verl_agent_lowers_and_wants_both_tags_and_no_chinese() -> None:
    good = parse("<think>x</think><action> Search[Red Shoes] </action>", "verl_agent")
    assert good.action == "search[red shoes]" and not good.error
    assert "think" in parse("<action>search[a]</action>", "verl_agent").error
    assert "Chinese" in parse("<think>好</think><action>a</action>", "verl_agent").error
    assert parse("nothing", "verl_agent").error


def test_verl_agent_takes_one_search_or_answer() -> None:
    assert parse("<search>a</search>", "verl_agent").action == "search[a]"
    assert parse("<search>a</search><answer>b</answer>", "verl_agent").error
    assert parse("<search>a</search><search>b</search>", "verl_agent").error


def test_search_r1_takes_the_first_block_case_sensitively() -> None:
    text = "<think>hm</think>\n<search> one\ntwo </search><answer>x</answer>"
    parsed = parse(text, "search_r1")
    assert parsed.action == "search[one two]" and parsed.thought == "hm"
    assert text[slice(*parsed.span)] == "<search> one\ntwo </search>"
    assert parse("<SEARCH>a</SEARCH>", "search_r1").error
    assert parse("<search>a</answer>", "search_r1").error
    assert parse("<answer></answer>", "search_r1").action == "answer[]"


SEARCH_R1_CASES = [
    ("<think>I saw <answer>x</answer></think><search>q</search>", "answer[x]"),  # the first block
    ("<analysis><answer>x</answer></analysis>", "answer[x]"),
    ("<search>never closed", None),
    ("<search>open <answer>x</answer>", "answer[x]"),
    ("<answer>a <search>b</search></answer>", "search[b]"),  # the generation ends at </search>
    ("<search>a <search>b</search>", "search[a <search>b]"),
    ("</search> then <search>q</search>", None),
    ("<search>q</search><answer>x</answer>", "search[q]"),
    ("<answer>x</answer><search>q</search>", "answer[x]"),
    ("<answer>one</answer><answer>two</answer>", "answer[one]"),
    ("<answer></answer>", "answer[]"),
    ("<answer> \n </answer>", "answer[]"),
    ("<SEARCH>q</SEARCH>", None),
    ("<search>one\r\ntwo</search>", "search[one two]"),
    ("<search>what is [x] in y[0]</search>", "search[what is [x] in y[0]]"),
    ("<search>" * 6 + "q</search>", f"search[{'<search>' * 5}q]"),
    ("".join(f"<search>{i}</search>" for i in range(6)), "search[0]"),
    ("<information><answer>x</answer></information>", "answer[x]"),  # the model's own text
]


@pytest.mark.parametrize(("text", "action"), SEARCH_R1_CASES)
def test_search_r1_cases(text: str, action: str | None) -> None:
    parsed = parse(text, "search_r1")
    assert bool(parsed.error) is (action is None)
    assert parsed.action == (text if action is None else action)


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("<answer>x</answer>", "answer[x]"),
        ("<answer>x</answer><answer>y</answer>", None),
        ("<search>a <answer>b</answer></search>", None),
        ("<search>a", None),
        ("<search></search>", "search[]"),
        ("<SEARCH>q</SEARCH>", None),
    ],
)
def test_verl_agent_search_cases(text: str, action: str | None) -> None:
    parsed = parse(text, "verl_agent")
    assert bool(parsed.error) is (action is None)
    assert parsed.action == (text if action is None else action)


def call(name: str, arguments: object) -> str:
    return "<tool_call>" + json.dumps({"name": name, "arguments": arguments}) + "</tool_call>"


def test_hermes_reads_every_call_in_order() -> None:
    text = "I look.\n" + call("search", {"query": "a"}) + "\n" + call("finish", {})
    parsed = parse(text, "hermes")
    assert parsed.action == "search[a]\nfinish[]" and parsed.thought == "I look."
    assert text[slice(*parsed.span)] == text[len("I look.\n") :]


def test_hermes_arguments_may_be_a_json_string_and_query_lists_spread() -> None:
    assert parse(call("search", '{"query": "a"}'), "hermes").action == "search[a]"
    many = parse(call("search", {"query_list": ["a", "b"]}), "hermes")
    assert many.action == "search[a]\nsearch[b]"


def test_hermes_answers_after_the_calls() -> None:
    text = call("search", {"query": "a"}) + "<Answer>one</Answer> <answer>two</answer>"
    assert parse(text, "hermes").action == "search[a]\nanswer[two]"


def test_hermes_takes_an_answer_without_calls_unless_it_is_only_thought() -> None:
    answer = "<analysis>maybe <answer>no</answer></analysis>\n<ANSWER> yes </ANSWER>"
    parsed = parse(answer, "hermes")
    assert parsed.action == "answer[yes]" and parsed.thought.startswith("maybe")
    assert answer[slice(*parsed.span)] == "<ANSWER> yes </ANSWER>"
    for tag in ("think", "analysis"):
        assert parse(f"<{tag}><answer>no</answer></{tag}>", "hermes").error
    assert parse("<answer></answer>", "hermes").action == "answer[]"
    assert parse("<answer>a\r\nb</answer><answer>two</answer>", "hermes").action == "answer[two]"
    assert parse("<answer>unclosed", "hermes").error


def test_hermes_span_reaches_from_the_first_call_to_the_answer() -> None:
    text = "so " + call("search", {"query": "a"}) + " then <answer>b</answer>."
    parsed = parse(text, "hermes")
    assert parsed.action == "search[a]\nanswer[b]" and parsed.thought == "so"
    assert text[slice(*parsed.span)] == text[3:-1]


def test_hermes_answers_only_where_there_is_such_a_call() -> None:
    shop = CallCodec((Tool("click", "clicks", "value"),))
    assert parse_reply("<answer>b</answer>", "hermes", codec=shop).error


def test_hermes_knows_the_other_name_of_search() -> None:
    assert parse(call("wiki_search", {"query": "a"}), "hermes").action == "search[a]"
    own = CallCodec((Tool("wiki_search", "finds", "query"),))
    text = call("wiki_search", {"query": "a"})
    assert parse_reply(text, "hermes", codec=own).action == "wiki_search[a]"


def test_hermes_keeps_six_calls_for_the_environment_to_count() -> None:
    text = "".join(call("search", {"query": str(i)}) for i in range(6))
    assert parse(text, "hermes").action == "\n".join(f"search[{i}]" for i in range(6))
    assert parse(call("search", {"query": ""}), "hermes").action == "search[]"


@pytest.mark.parametrize(
    ("body", "repair"),
    [
        ('```json\n{"name": "search", "arguments": {"query": "a"}}\n```', "code_fence"),
        ('{"name": "search", "arguments": {"query": "a",},}', "trailing_comma"),
        ("{'name': 'search', 'arguments': {'query': 'a'}}", "python_literal"),
        (
            '｛"name"：　"search"， "arguments"： ｛"query"： "a"｝｝'.replace("\u3000", " "),
            "full_width",
        ),
    ],
)
def test_hermes_tolerances_are_named(body: str, repair: str) -> None:
    parsed = parse(f"<tool_call>{body}</tool_call>", "hermes")
    assert parsed.action == "search[a]" and repair in parsed.repairs


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[1]",
        "{",
        '{"name": 3}',
        '{"name": "buy", "arguments": {}}',
        "__import__('os')",
        '{"name": "search", "arguments": {"query": ["a"]}}',
        '{"name": "search", "arguments": {"query": null}}',
        '{"name": "search", "arguments": {"query": 3}}',
        "[" * 3000,
    ],
)
def test_hermes_garbage_is_an_error_and_the_text_stays(body: str) -> None:
    text = f"<tool_call>{body}</tool_call>"
    parsed = parse(text, "hermes")
    assert parsed.error and parsed.action == text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@given(json_values, st.sampled_from(["search", "finish", "buy"]))
def test_no_arguments_break_the_tool_formats(arguments: object, name: str) -> None:
    assert parse(call(name, arguments), "hermes").action
    parse("", "openai", ToolCall(name, arguments))  # type: ignore[arg-type]
    parse("", "openai", ToolCall(name, {"query_list": [], 1: ""}))  # type: ignore[dict-item]


def test_an_empty_query_list_says_so() -> None:
    assert "query_list is empty" in parse(call("search", {"query_list": []}), "hermes").error


def test_hermes_keeps_the_good_calls_beside_a_bad_one() -> None:
    parsed = parse(call("buy", {}) + call("search", {"query": "a"}), "hermes")
    assert parsed.action == "search[a]" and "buy" in parsed.error


def test_openai_takes_structured_calls_only() -> None:
    parsed = parse("so", "openai", ToolCall("click", {"value": "buy now"}), ToolCall("finish", {}))
    assert parsed.action == "click[buy now]\nfinish[]" and parsed.thought == "so"
    assert parse("search[a]", "openai").error
    assert parse("", "openai", ToolCall("buy", {})).error


def test_a_megabyte_of_reply_is_parsed() -> None:
    filler = "x" * 1_000_000
    assert parse(f"<think>{filler}</think><action>a</action>", "tags").action == "a"
    assert parse(filler, "hermes").error


@pytest.mark.parametrize("format", ["tags", "verl_agent", "search_r1", "hermes"])
@pytest.mark.parametrize("tag", ["think", "action", "search", "answer", "tool_call"])
def test_a_megabyte_of_opened_tags_is_parsed_in_one_go(format: str, tag: str) -> None:
    text = f"<{tag}>" * (1_000_000 // (len(tag) + 2)) + "</answer>"
    assert parse(text, format).action


def test_a_megabyte_of_blanks_in_a_fence_is_parsed_in_one_go() -> None:
    text = f"<tool_call>```{' ' * 1_000_000}x</tool_call>"
    assert parse(text, "hermes").error
