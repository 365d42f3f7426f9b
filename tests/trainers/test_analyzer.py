"""The two requests of a group: what is sent, who may see what, and what comes of every failure."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite.errors import AnalyzerError, UsageError
from agentgym_suite.trainers.analyzer import (
    AnalyzerReply,
    AnalyzerSettings,
    GroupAnalysis,
    analysis_metrics,
    analyze_group,
    analyze_groups,
)
from agentgym_suite.trainers.analyzer_audit import audit_path, audit_record, write_audit
from agentgym_suite.trainers.analyzer_prompts import (
    AnalyzerRequest,
    alignment_request,
    extraction_request,
)
from agentgym_suite.trainers.analyzer_replies import read_extraction
from agentgym_suite.trainers.trajectory_traces import TraceGroup
from tests.trainers.traced import (
    Scripted,
    down,
    group,
    hint,
    item,
    mug,
    payload,
    scripted,
    source,
    target,
    trace,
)

SHELF = item(source("a"), evidence_id="shelf")
MUG = item(mug("a"), mug("b"), evidence_id="mug")
HINT_C = target("c", hint("mug"))
HINT_A = target(
    "a", hint("mug", target_support=[{"field": "action", "step": 2, "quote": "take mug"}])
)
OUTCOME_WORDS = ("verified_success", "episode_reward", "advantage", "done", "score", 'success":')


def keys(value: Any) -> set[str]:
    """Every key of a JSON value, at any depth."""
    if isinstance(value, dict):
        return set(value).union(*map(keys, value.values()))
    return set().union(*map(keys, value)) if isinstance(value, list) else set()


# --- what is sent


def test_the_extraction_shows_the_successes_and_nothing_else() -> None:
    request = extraction_request(group())
    shown = payload(request)
    assert shown["group_uid"] == "g" and set(shown) == {"group_uid", "successful_trajectories"}
    assert [one["traj_uid"] for one in shown["successful_trajectories"]] == ["a", "b"]
    first = shown["successful_trajectories"][0]
    assert set(first) == {"traj_uid", "task", "steps"} and first["task"] == group().traces[0].task
    assert set(first["steps"][0]) == {"step", "pre", "action", "post", "valid", "done"}
    assert [one["valid"] for one in first["steps"]] == [True, False, True, True]
    assert '"successful_trajectories"' not in request.instructions
    assert '"maxLength":800' in request.instructions  # the schema of the reply


def test_no_outcome_of_a_target_is_in_the_alignment() -> None:
    analyzer = scripted([SHELF, MUG], [HINT_C])
    analyze_group(group((1.0, 1.0, 0.0), (0.875, 1.0, 0.125)), analyzer)
    request = analyzer.asked[1]
    shown = payload(request)
    assert keys(shown) == {
        "group_uid", "targets", "traj_uid", "task", "steps", "step", "pre", "action", "post",
        "valid", "allowed_evidence_ids", "allowed_evidence", "evidence_id", "kind", "statement",
        "source_support", "pre_quote", "action_quote", "post_quote",
    }  # fmt: skip
    assert not [word for word in OUTCOME_WORDS if word in request.content]
    assert "0.875" not in request.content and "0.125" not in request.content
    for one in shown["targets"]:  # who was a source is not told either
        assert "sources" not in json.dumps(one["allowed_evidence"])


def test_the_same_alignment_is_asked_whatever_the_rewards_are() -> None:
    contents = []
    for rewards in ((1.0, 1.0, 0.0), (3.0, 2.0, 2.5)):
        analyzer = scripted([SHELF, MUG], [HINT_C])
        analyze_group(group(rewards=rewards), analyzer)
        contents.append([request.digest for request in analyzer.asked])
    assert contents[0] == contents[1]


def test_the_public_codes_alignment_tells_the_outcome() -> None:
    analyzer = scripted([MUG], [HINT_C])
    analyze_group(group(), analyzer, AnalyzerSettings(align_sees_outcome=True))
    targets = payload(analyzer.asked[1])["targets"]
    assert [(one["verified_success"], one["episode_reward"]) for one in targets] == [
        (1.0, 1.0), (1.0, 1.0), (0.0, 0.0)
    ]  # fmt: skip
    paper = alignment_request(group(), {})
    assert "outcome" in analyzer.asked[1].instructions and "outcome" not in paper.instructions


def test_evidence_needs_another_trajectory_than_the_target_and_shows_no_step_of_its_own() -> None:
    analyzer = scripted([SHELF, MUG], [HINT_A, HINT_C])
    found = analyze_group(group(), analyzer)
    targets = {one["traj_uid"]: one for one in payload(analyzer.asked[1])["targets"]}
    assert {uid: one["allowed_evidence_ids"] for uid, one in targets.items()} == {
        "a": ["mug"],  # the shelf is known from its own step alone
        "b": ["shelf", "mug"],
        "c": ["shelf", "mug"],
    }
    (own,) = targets["a"]["allowed_evidence"]
    assert len(own["source_support"]) == 1
    assert len(targets["c"]["allowed_evidence"][1]["source_support"]) == 2
    assert found.statements("a") == found.statements("c") == ("Take the mug 1 that you saw.",)
    assert found.no_hint == {"b": "alignment_abstained"}


def test_guidance_from_ones_own_success_alone_is_not_accepted() -> None:
    own = target("a", hint("shelf", target_support=[{"field": "task", "quote": "clean mug"}]))
    found = analyze_group(group(), scripted([SHELF, MUG], [own]))
    assert found.no_hint["a"] == "alignment_abstained"
    assert found.discarded == {"evidence_not_allowed": 1}


def test_a_target_without_external_evidence_is_not_sent() -> None:
    analyzer = scripted([SHELF], [HINT_C])
    found = analyze_group(group(), analyzer)
    assert [one["traj_uid"] for one in payload(analyzer.asked[1])["targets"]] == ["b", "c"]
    assert found.no_hint["a"] == "no_external_evidence"


def test_a_group_whose_only_evidence_is_its_only_trajectory_asks_for_no_alignment() -> None:
    alone = TraceGroup("g", group().traces[:1] + (trace("z"),), (1.0, 1.0), (1.0, 0.5))
    analyzer = scripted([SHELF], [])
    found = analyze_group(TraceGroup("g", alone.traces[:1], (1.0,), (1.0,)), analyzer)
    assert found.no_hint == {"a": "uniform_outcome"} and not analyzer.asked
    found = analyze_group(alone, analyzer)
    assert found.no_hint == {"a": "no_external_evidence", "z": "alignment_abstained"}


def test_one_request_a_target_sends_each_alone() -> None:
    analyzer = Scripted(
        extraction=[{"evidence": [SHELF, MUG]}], alignment=[{"targets": [HINT_A, HINT_C]}]
    )
    found = analyze_group(group(), analyzer, AnalyzerSettings(align_mode="per_target"))
    sent = [[one["traj_uid"] for one in payload(r)["targets"]] for r in analyzer.asked[1:]]
    assert sent == [["a"], ["b"], ["c"]]
    assert sorted(found.guidance) == ["a", "c"]
    assert found.discarded == {"unknown_target": 4}


# --- nothing is asked


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        (group((0.4, 0.0, 0.0)), "no_success"),
        (group((1.0, 1.0, 1.0)), "uniform_outcome"),
        (group((1.0, 0.0, 0.0), (1.0, 1.0, 1.0 + 1e-9)), "uniform_outcome"),
        (TraceGroup("g", (), (), ()), "no_success"),
    ],
)
def test_groups_that_cannot_be_contrasted_are_skipped(members: TraceGroup, reason: str) -> None:
    analyzer = Scripted()
    found = analyze_group(members, analyzer)
    assert not analyzer.asked and not found.calls and not found.guidance
    assert found.no_hint == {one.traj_uid: reason for one in members.traces}


# --- what goes wrong


@pytest.mark.parametrize(
    ("replies", "category", "calls"),
    [
        ({"extraction": [down()]}, "connection", 1),
        ({"extraction": [""]}, "empty_content", 1),
        ({"extraction": [AnalyzerReply("", reasoning="hm")]}, "reasoning_only", 1),
        ({"extraction": ['{"evidence": [']}, "truncated_json", 1),
        ({"extraction": ["[]"]}, "no_object", 1),
        ({"extraction": [{"items": []}]}, "wrong_shape", 1),
        ({"extraction": [KeyError("secret-key")]}, "exception", 1),
        ({"extraction": [{"evidence": [MUG]}], "alignment": [down()]}, "connection", 2),
        ({"extraction": [{"evidence": [MUG]}], "alignment": ["Sorry."]}, "no_object", 2),
    ],
)
def test_any_failure_leaves_the_whole_group_without_hints(
    replies: dict[str, Any], category: str, calls: int
) -> None:
    found = analyze_group(group(), Scripted(**replies))
    assert found.no_hint == dict.fromkeys("abc", "analyzer_error")
    assert not found.guidance and found.statements("a") == ()
    assert found.error == category and len(found.calls) == calls
    assert "secret" not in repr(found)
    with pytest.raises((AnalyzerError, KeyError)):
        analyze_group(group(), Scripted(**replies), AnalyzerSettings(required=True))


def test_one_failed_target_of_several_takes_the_others_with_it() -> None:
    analyzer = Scripted(extraction=[{"evidence": [MUG]}], alignment=[{"targets": [HINT_A]}, down()])
    found = analyze_group(group(), analyzer, AnalyzerSettings(align_mode="per_target"))
    assert found.no_hint == dict.fromkeys("abc", "analyzer_error") and not found.guidance


def test_no_evidence_is_a_reason_and_no_error() -> None:
    found = analyze_group(group(), scripted([], []))
    assert found.no_hint == dict.fromkeys("abc", "no_evidence") and found.error == ""
    found = analyze_group(group(), scripted([item(source("c"))], []))
    assert found.no_hint == dict.fromkeys("abc", "no_evidence")
    assert found.discarded == {"unsupported_source": 1, "no_source": 1}


@pytest.mark.parametrize("wrong", [{"align_mode": "both"}, {"workers": 0}, {"trace_characters": 0}])
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        AnalyzerSettings(**wrong)


# --- several groups, figures, audit


class Meeting:
    """Answers only once as many requests wait as there are workers."""

    label = "meeting"

    def __init__(self, workers: int) -> None:
        self._barrier = threading.Barrier(workers)

    def reply(self, request: AnalyzerRequest) -> AnalyzerReply:
        self._barrier.wait(60)
        return AnalyzerReply('{"evidence": []}')

    def close(self) -> None:
        """Nothing is held."""


def named(uid: str) -> TraceGroup:
    members = group()
    return TraceGroup(uid, members.traces, members.verified_success, members.rewards)


def test_four_groups_are_analyzed_at_a_time_and_come_back_in_order() -> None:
    groups = [named(f"g{number}") for number in range(8)]
    found = analyze_groups(groups, Meeting(4))
    assert [one.group_uid for one in found] == [f"g{number}" for number in range(8)]
    assert not any(one.error for one in found)


def analyzed() -> list[GroupAnalysis]:
    return [
        analyze_group(group(), scripted([SHELF, MUG, item("x")], [HINT_A, HINT_C])),
        analyze_group(named("g2"), Scripted(extraction=[down()])),
    ]


def test_figures_count_coverage_calls_and_every_reason() -> None:
    figures = analysis_metrics(analyzed())
    assert figures["coverage"] == 2 / 6 and figures["calls"] == 3 and figures["evidence"] == 2
    assert figures["no_hint/analyzer_error"] == 3 and figures["no_hint/alignment_abstained"] == 1
    assert figures["no_hint/no_success"] == 0
    assert figures["error/connection"] == 1 and figures["discarded/wrong_type"] == 1
    asked = AnalyzerReply('{"evidence": []}', prompt_tokens=7, completion_tokens=2)
    known = AnalyzerReply('{"evidence": []}', prompt_tokens=7, completion_tokens=2, cached=True)
    both = [analyze_group(group(), Scripted(extraction=[one])) for one in (asked, known)]
    figures = analysis_metrics(both)
    assert (figures["prompt_tokens"], figures["completion_tokens"]) == (7, 2)
    assert (figures["calls"], figures["cache_hits"]) == (2, 1)
    assert str(analysis_metrics([])["coverage"]) == "nan"


def test_the_audit_has_a_line_for_each_group_with_quotes_and_reasons(tmp_path: Path) -> None:
    found = analyzed()
    path = write_audit(tmp_path / "audit", 3, found)
    assert path == audit_path(tmp_path / "audit", 3) and path.name == "iteration-000003.jsonl"
    first, second = map(json.loads, path.read_text().splitlines())
    assert first == json.loads(json.dumps(audit_record(3, found[0])))
    assert first["analyzer"] == "scripted" and first["iteration"] == 3
    assert first["evidence"][1]["sources"][0]["action_quote"] == "take mug 1"
    assert first["targets"][0]["guidance"][0]["support"] == [
        {"field": "action", "quote": "take mug", "step": 2}
    ]
    assert first["no_hint"] == {"b": "alignment_abstained"}
    assert [call["kind"] for call in first["calls"]] == ["extraction", "alignment"]
    assert second["error"] == "connection" and second["error_message"].endswith("start it")
    assert second["calls"][0]["error"] == "connection"
    write_audit(tmp_path / "audit", 3, found[:1])  # the iteration again, after a crash
    assert len(path.read_text().splitlines()) == 1
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_the_digest_of_a_request_is_of_what_is_told_and_shown() -> None:
    one, other = extraction_request(group()), extraction_request(named("g2"))
    assert one.digest == extraction_request(group()).digest != other.digest
    assert one.digest != extraction_request(group(), 1000).digest
    evidence = read_extraction({"evidence": [MUG]}, group()).evidence
    allowed = {"c": evidence}
    plain = alignment_request(group(), allowed).digest
    assert plain != alignment_request(group(), allowed, sees_outcome=True).digest
