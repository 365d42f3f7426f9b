"""What is accepted of an analyzer's replies, rule by rule, and that nothing else gets through."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.errors import AnalyzerError
from agentgym_suite.trainers.analyzer_replies import (
    Evidence,
    Extraction,
    Guidance,
    Source,
    Support,
    parse_reply_object,
    read_alignment,
    read_extraction,
)
from tests.trainers.traced import group, hint, item, mug, source, target

GROUP = group()
C = GROUP.traces[2]
ALLOWED = {"c": frozenset({"e1", "e2"})}
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def category(content: str, **beside: Any) -> str:
    with pytest.raises(AnalyzerError) as raised:
        parse_reply_object(content, **beside)
    return raised.value.category


def extracted(*items: Any) -> Extraction:
    return read_extraction({"evidence": list(items)}, GROUP)


def statements(*hints: Any) -> tuple[list[str], dict[str, int]]:
    """The accepted statements for target ``c``, and the discards."""
    read = read_alignment({"targets": [target("c", *hints)]}, [C], ALLOWED)
    return [one.statement for one in read.targets["c"].guidance], dict(read.discarded)


# --- the JSON object of a reply


@pytest.mark.parametrize(
    "content",
    [
        '{"evidence": []}',
        '```json\n{"evidence": []}\n```',
        '```\n{"evidence": []}```',
        'Here it is:\n{"evidence": []}\nI hope this helps {really}.',
    ],
)
def test_an_object_is_read_alone_in_a_fence_or_within_text(content: str) -> None:
    assert parse_reply_object(content) == {"evidence": []}


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("", "empty_content"),
        (" \n", "empty_content"),
        ("I cannot help with that.", "no_object"),
        ("[]", "no_object"),
        ('[{"evidence": []}]', "no_object"),
        ('"{}"', "no_object"),
        ("null", "no_object"),
        ("3", "no_object"),
        ('{"evidence": [', "truncated_json"),
        ('{"evidence": [{"statement": "half a sen', "truncated_json"),
        ('{"evidence": tru', "truncated_json"),
        ('{"evidence": [}]', "invalid_json"),
        ("{evidence: []}", "invalid_json"),
        ('{"evidence": NaN}', "invalid_json"),
        ('{"evidence": ' + "9" * 10_000 + "}", "invalid_json"),
        ('{"evidence": ' + "[" * 100_000 + "]" * 100_000 + "}", "invalid_json"),
    ],
)
def test_what_is_no_object_has_a_category(content: str, found: str) -> None:
    assert category(content) == found


def test_reasoning_without_an_answer_and_a_cut_answer_are_categories_of_their_own() -> None:
    assert category("", reasoning="Let me think.") == "reasoning_only"
    assert category("{evidence: []}", cut_off=True) == "truncated_json"


@given(st.dictionaries(st.text(), JSON_VALUES, min_size=1), st.data())
def test_every_beginning_of_an_object_is_truncated(value: dict[str, Any], data: Any) -> None:
    text = json.dumps(value)
    size = data.draw(st.integers(1, len(text) - 1))
    assert category(text[:size].strip()) == "truncated_json"
    assert parse_reply_object(f"Sure.\n```json\n{text}\n```") == value


@given(st.text())
def test_no_text_raises_anything_but_a_category(content: str) -> None:
    try:
        assert isinstance(parse_reply_object(content), dict)
    except AnalyzerError as error:
        assert error.category in (
            "empty_content", "no_object", "truncated_json", "invalid_json"
        )  # fmt: skip


def test_a_category_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(AnalyzerError("timeout", "too slow; wait")))
    assert (error.category, str(error)) == ("timeout", "too slow; wait")


# --- extraction


def test_supported_evidence_is_accepted_with_its_sources() -> None:
    read = extracted(item(mug("a"), mug("b")))
    statement = "The mug has to be taken first."
    sources = (
        Source("a", 2, "take mug 1", "", "pick up"),
        Source("b", 0, "take mug 1", "", "pick up"),
    )
    assert read.evidence == (Evidence("e1", "requirement", statement, sources),)
    assert read.discarded == {}


@pytest.mark.parametrize(
    ("unsupported", "why"),
    [
        (source("c", 0, action_quote="look"), "a failure is no evidence"),
        (source("nobody"), "an unknown trajectory"),
        (source(number=4), "a step that is not there"),
        (source(number=-1), "a step before the first"),
        (
            source(number=1, action_quote="juggle", pre_quote="", post_quote="Nothing happens."),
            "an action that was refused",
        ),
        (source(action_quote="go to shelf 2"), "another action"),
        (source(action_quote=""), "no action"),
        (source(action_quote=" "), "a blank action"),
        (source(pre_quote="", post_quote=""), "no observation"),
        (source(pre_quote="in the garden"), "another observation"),
        (source(pre_quote="shelf 1 holds"), "the observation after, as the one before"),
        (source(pre_quote="", post_quote="The shelf ... Far behind"), "a quote over a cut"),
    ],
)
def test_a_reference_without_support_is_dropped_and_the_item_with_its_last(
    unsupported: dict[str, Any], why: str
) -> None:
    assert extracted(item(unsupported)).evidence == (), why
    assert extracted(item(unsupported)).discarded == {"unsupported_source": 1, "no_source": 1}
    (kept,) = extracted(item(unsupported, mug("b"))).evidence
    assert [one.traj_uid for one in kept.sources] == ["b"]


def test_either_observation_supports_a_source_and_whitespace_does_not_matter() -> None:
    other_blanks = source(pre_quote="nowhere", post_quote=" The shelf 1\n\nholds a mug 1.")
    ((kept,),) = (one.sources for one in extracted(item(other_blanks)).evidence)
    assert kept.pre_quote == "", "what the record does not have is not handed on"
    assert kept.post_quote == " The shelf 1\n\nholds a mug 1."
    assert len(extracted(item(source(action_quote="go \n to"))).evidence) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        item(source(number="0")),
        item(source(number=0.0)),
        item(source(number=True)),
        item(source(number=None)),
        item(source(traj_uid=7)),
        item(source(action_quote=None)),
        item(source(pre_quote=None)),
        item(source(post_quote=["x"])),
        item("a"),
        item(None),
        item(mug("b"), sources=None),
        item(mug("b"), sources={"traj_uid": "b"}),
        item(mug("b"), evidence_id=1),
        item(mug("b"), statement=["x"]),
        item(mug("b"), kind=3),
        {"evidence_id": "e1", "statement": "x"},
        "The mug has to be taken.",
        None,
        [],
        7,
    ],
)
def test_an_item_of_wrong_types_is_rejected_and_the_next_one_read(wrong: Any) -> None:
    read = extracted(wrong, item(mug("b"), evidence_id="e2"))
    assert [one.evidence_id for one in read.evidence] == ["e2"]
    assert read.discarded == {"wrong_type": 1}


def test_statements_have_1_to_800_characters() -> None:
    assert len(extracted(item(mug("b"), statement="x" * 800)).evidence) == 1
    for statement in ("x" * 801, "", " \n"):
        read = extracted(item(mug("b"), statement=statement))
        assert (read.evidence, read.discarded) == ((), {"statement_length": 1})


def test_ids_are_unique_and_not_blank_after_stripping() -> None:
    read = extracted(
        item(mug("a")),
        item(mug("b"), evidence_id=" e1 ", statement="Another."),
        item(mug("b"), evidence_id=" \t"),
    )
    assert [one.statement for one in read.evidence] == ["The mug has to be taken first."]
    assert read.discarded == {"repeated_id": 1, "empty_id": 1}


def test_an_unknown_kind_is_progress() -> None:
    missing = item(mug("b"))
    del missing["kind"]
    for one in (item(mug("b"), kind="advice"), missing):
        assert extracted(one).evidence[0].kind == "progress"


def test_lone_surrogates_are_replaced() -> None:
    reply = parse_reply_object('{"evidence": "\\ud800"}')["evidence"]
    assert extracted(item(mug("b"), statement=f"x{reply}")).evidence[0].statement == "x\ufffd"


@pytest.mark.parametrize("reply", [{}, {"evidence": None}, {"evidence": {}}, {"targets": []}])
def test_a_reply_without_its_list_is_a_category(reply: dict[str, Any]) -> None:
    with pytest.raises(AnalyzerError) as raised:
        read_extraction(reply, GROUP)
    assert raised.value.category == "wrong_shape"
    with pytest.raises(AnalyzerError) as raised:
        read_alignment({"evidence": []}, [C], ALLOWED)
    assert raised.value.category == "wrong_shape"


# --- alignment


def test_supported_guidance_is_accepted() -> None:
    read = read_alignment({"targets": [target("c", hint("e1", "e1", "e2"))]}, [C], ALLOWED)
    support = (Support("post", "a mug 1", 1),)
    guidance = Guidance("Take the mug 1 that you saw.", ("e1", "e2"), support)
    assert read.targets["c"].guidance == (guidance,) and read.discarded == {}


def test_the_task_supports_without_a_step_and_unsupported_quotes_fall_away() -> None:
    support = [
        {"field": "task", "quote": "clean\nmug", "step": None},
        {"field": "post", "quote": "clean mug", "step": 1},
        {"field": "action", "quote": "go to desk"},
        {"field": "reward", "quote": "1.0", "step": 0},
    ]
    read = read_alignment(
        {"targets": [target("c", hint("e1", target_support=support))]}, [C], ALLOWED
    )
    assert read.targets["c"].guidance[0].support == (Support("task", "clean\nmug"),)


@pytest.mark.parametrize(
    ("refused", "rule"),
    [
        (hint("e1", statement="x" * 801), "statement_length"),
        (hint("e1", statement=" "), "statement_length"),
        (hint("e9"), "evidence_not_allowed"),
        (hint("e1", "e9"), "evidence_not_allowed"),
        (hint(), "evidence_not_allowed"),
        (hint("e1", target_support=[]), "no_target_support"),
        (hint("e1", target_support=[{"field": "post", "quote": "a mug 1"}]), "no_target_support"),
        (
            hint("e1", target_support=[{"field": "post", "step": 2, "quote": "a mug 1"}]),
            "no_target_support",
        ),
        (
            hint("e1", target_support=[{"field": "pre", "step": 1, "quote": "a mug 1"}]),
            "no_target_support",
        ),
        (hint("e1", target_support=[{"field": "task", "quote": ""}]), "no_target_support"),
        (hint("e1", target_support=None), "wrong_type"),
        (hint("e1", target_support=["a mug 1"]), "wrong_type"),
        (
            hint("e1", target_support=[{"field": "post", "step": "1", "quote": "a mug 1"}]),
            "wrong_type",
        ),
        (hint("e1", target_support=[{"field": 1, "quote": "a mug 1"}]), "wrong_type"),
        (hint(1), "wrong_type"),
        (hint("e1", evidence_ids="e1"), "wrong_type"),
        (hint("e1", statement=None), "wrong_type"),
        ("Take the mug.", "wrong_type"),
        (None, "wrong_type"),
    ],
)
def test_guidance_against_a_rule_is_discarded_and_the_next_one_read(
    refused: Any, rule: str
) -> None:
    accepted, discarded = statements(refused, hint("e1", statement="Good."))
    assert accepted == ["Good."] and discarded == {rule: 1}


def test_only_the_first_eight_candidates_are_looked_at() -> None:
    nine = [hint("e1", statement=f"No. {number}") for number in range(9)]
    accepted, discarded = statements(*nine)
    assert accepted == [f"No. {number}" for number in range(8)]
    assert discarded == {"over_candidates": 1}
    nine[0] = None  # type: ignore[call-overload]
    assert statements(*nine)[0] == [f"No. {number}" for number in range(1, 8)]


def test_the_first_entry_of_a_known_target_wins() -> None:
    entries = [
        target("nobody", hint("e1")),
        target(7, hint("e1")),  # type: ignore[arg-type]
        "c",
        target("c", abstain_reason="unsure"),
        target("c", hint("e1")),
    ]
    read = read_alignment({"targets": entries}, [C], ALLOWED)
    assert read.targets["c"].guidance == () and read.targets["c"].abstain_reason == "unsure"
    assert read.discarded == {"unknown_target": 3, "repeated_target": 1}


@pytest.mark.parametrize("entry", [target("c", guidance=None), target("c", abstain_reason=5)])
def test_an_entry_of_wrong_types_gives_nothing(entry: Any) -> None:
    read = read_alignment({"targets": [entry]}, [C], ALLOWED)
    assert read.targets["c"].guidance == () and read.discarded == {"wrong_type": 1}


@given(JSON_VALUES)
def test_whatever_stands_in_the_lists_nothing_raises(value: Any) -> None:
    wrapped = [
        value,
        item(value),
        item(mug("b"), statement=value, kind=value, evidence_id=value),
        source(value, value),
        {"evidence_id": "x", "statement": "x", "sources": value},
    ]
    read = read_extraction({"evidence": wrapped}, GROUP)
    assert all(one.sources and 1 <= len(one.statement) <= 800 for one in read.evidence)
    hints = [value, hint(value), hint("e1", target_support=value), hint("e1", statement=value)]
    entries = [value, {"traj_uid": value}, target("c", *hints)]
    aligned = read_alignment({"targets": entries}, [C], ALLOWED)
    assert all(ALLOWED["c"].issuperset(one.evidence_ids) for one in aligned.targets["c"].guidance)
