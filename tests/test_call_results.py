"""Which lines of an action are refused, which may be executed, and how many are told."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.call_results import (
    CallResult,
    CallRules,
    PendingCall,
    first_fault,
    messages_of,
    plan_calls,
    results_json,
)

QA = CallRules(
    longest={"search": 20, "answer": 10},
    counted=frozenset({"search"}),
    argued=frozenset({"search"}),
    ending=frozenset({"answer"}),
    counted_as="searches",
)
PAPERS = CallRules(
    longest={"search": 20, "expand": 10, "finish": 0},
    counted=frozenset({"search", "expand"}),
    argued=frozenset({"search", "expand"}),
    ending=frozenset({"finish"}),
)


def statuses(action: str, rules: CallRules = QA, max_calls: int = 4) -> list[str]:
    return [
        "pending" if isinstance(line, PendingCall) else line.status
        for line in plan_calls(action, rules, max_calls).lines
    ]


def test_calls_are_pending_in_their_order_and_blank_lines_do_not_count() -> None:
    plan = plan_calls("\n  SEARCH[ a ]\r\n\r\nsearch[b [c] d]\ranswer[x]", QA, 4)
    assert plan.pending == (
        PendingCall(1, "search", "a"),
        PendingCall(2, "search", "b [c] d"),
        PendingCall(3, "answer", "x"),
    )
    assert plan.parsed_action == "search[a]\nsearch[b [c] d]\nanswer[x]"
    assert plan.recognised and not plan.malformed and not plan.refused


def test_calls_over_the_limit_are_refused_with_their_number() -> None:
    plan = plan_calls("\n".join(f"search[{i}]" for i in range(5)), QA, 4)
    assert len(plan.pending) == 4 and plan.refused == 1
    assert plan.lines[4] == CallResult(
        5, "search", "4", "over_limit", message="call 5 of 5 refused: at most 4 searches per step"
    )


def test_only_counted_calls_use_up_the_limit_and_malformed_lines_do_not() -> None:
    action = "junk\nsearch[a]\nsearch\nsearch[b]\nanswer[x]"
    assert statuses(action, max_calls=2) == [
        "malformed",
        "pending",
        "malformed",
        "pending",
        "pending",
    ]
    assert statuses("search[a]\nexpand[b]\nsearch[c]\nfinish[]", PAPERS, 2) == [
        "pending",
        "pending",
        "over_limit",
        "pending",
    ]


def test_a_closed_step_takes_no_counted_call() -> None:
    plan = plan_calls("search[a]\nanswer[x]", QA, 4, closed="answers only")
    assert [line.line for line in plan.pending] == [2]
    assert first_fault([line for line in plan.lines if isinstance(line, CallResult)]) == (
        "call 1 of 1 refused: answers only"
    )


def test_lines_behind_the_end_are_refused_whatever_they_are() -> None:
    plan = plan_calls("answer[x]\nsearch[a]\njunk\nanswer[y]", QA, 4)
    assert statuses("answer[x]\nsearch[a]\njunk\nanswer[y]") == ["pending", *["after_end"] * 3]
    assert plan.refused == 3 and not plan.malformed
    assert statuses("answer[" + "x" * 11 + "]\nsearch[a]") == ["malformed", "pending"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nonsense", "is not a call"),
        ("x search[a]", "is not a call"),
        ("search[a] x", "is not a call"),
        ("click[a]", "use search, answer"),
        ("search[" + "a" * 21 + "]", "has 21 characters; use at most 20"),
        ("search[  ]", r"search\[\] is empty"),
        ("", "the action is empty; write search"),
        (" \n\r\n", "the action is empty"),
    ],
)
def test_malformed_lines_say_why(line: str, reason: str) -> None:
    (result,) = plan_calls(line, QA, 4).lines
    assert isinstance(result, CallResult) and result.status == "malformed"
    assert re.search(reason, result.message)


def test_an_empty_answer_is_a_call() -> None:
    assert statuses("answer[]") == ["pending"]
    assert statuses("finish[]", PAPERS) == ["pending"]
    assert statuses("finish[now]", PAPERS) == ["malformed"]


def test_other_separators_of_unicode_are_text() -> None:
    assert [c.argument for c in plan_calls("search[a\u2028b\x0bc\x85d]", QA, 4).pending] == [
        "a\u2028b\x0bc\x85d"
    ]


def test_ten_thousand_malformed_lines_give_five_results() -> None:
    plan = plan_calls("junk\n" * 9_999 + "junk", QA, 4)
    assert len(plan.lines) == 5 and plan.malformed == 10_000
    last = plan.lines[-1]
    assert isinstance(last, CallResult)
    assert last == CallResult(5, "", "", "malformed", message="9,996 more lines are malformed")


def test_ten_thousand_refused_lines_give_few_results_too() -> None:
    plan = plan_calls("search[a]\n" * 5_000 + "answer[x]\n" + "search[b]\n" * 5_000, QA, 4)
    assert Counter(line.status for line in plan.lines if isinstance(line, CallResult)) == {
        "over_limit": 5,
        "after_end": 5,
    }
    assert len(plan.pending) == 5 and plan.refused == 4_996 + 5_000
    messages = [line.message for line in plan.lines if isinstance(line, CallResult)]
    assert messages[-2] == "4,992 more lines are refused: they exceed the calls of this step"
    assert messages[-1] == "4,996 more lines are refused: the episode has ended"


LINES = st.sampled_from(
    ["search[a]", " Search[ b ] ", "junk", "answer[x]", "expand[c]", "", "search[]", "search[[]"]
) | st.text(max_size=12)


@given(st.lists(LINES, max_size=14).map("\n".join), st.integers(1, 4))
def test_the_parsed_action_has_the_same_plan(action: str, max_calls: int) -> None:
    plan = plan_calls(action, QA, max_calls)
    assert plan_calls(plan.parsed_action, QA, max_calls) == plan
    assert sum(call.name == "search" for call in plan.pending) <= max_calls
    assert plan.malformed + plan.refused >= len(plan.lines) - len(plan.pending)


def test_results_are_told_as_json_and_as_the_last_three_messages() -> None:
    results = [
        CallResult(1, "search", "é", "ok", 0.1, ("p1", "p2")),
        *(CallResult(i, "", "x", "malformed", message=f"m{i}") for i in range(2, 7)),
    ]
    assert json.loads(results_json(results))[0] == {
        "line": 1,
        "name": "search",
        "argument": "é",
        "status": "ok",
        "reward": 0.1,
        "new_ids": ["p1", "p2"],
        "message": "",
    }
    assert messages_of(results) == ("m4", "m5", "m6")
    assert first_fault(results) == "m2" and first_fault(results[:1]) == ""
    assert messages_of(results[:1]) == ()
