"""Analyzers without a model: rules on episodes of every environment, recordings, and none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import agentgym_suite
from agentgym_suite.agents import ReplayAgent, agent_factory
from agentgym_suite.episodes import Episode, EpisodeRequest
from agentgym_suite.errors import AnalyzerError, DataDamaged, DataMissing, UsageError
from agentgym_suite.game import game_of
from agentgym_suite.playing import run_episode
from agentgym_suite.trainers.analyzer import (
    AnalyzerReply,
    GroupAnalysis,
    analyze_group,
    analyze_groups,
)
from agentgym_suite.trainers.analyzer_audit import write_audit
from agentgym_suite.trainers.analyzer_prompts import extraction_request
from agentgym_suite.trainers.analyzer_replies import Support
from agentgym_suite.trainers.offline_analyzers import (
    CassetteAnalyzer,
    NullAnalyzer,
    RecordingAnalyzer,
    RuleAnalyzer,
    names_in,
)
from agentgym_suite.trainers.trajectory_traces import (
    Trace,
    TraceGroup,
    TraceStep,
    supports,
    trace_group,
    trace_of,
)
from tests.trainers.traced import Scripted, down, group, hint, item, mug, scripted, target

ARGUMENTS = {"PaperSearch-v0": {"selector": "oracle"}}


def played(env_id: str, seed: int = 1) -> tuple[list[Episode], str]:
    """Two successes of one task, one after a detour, and an attempt that stops too early."""
    env = gym.make(env_id, **ARGUMENTS.get(env_id, {}))
    try:
        _, info = env.reset(seed=seed)
        goal = str(info[game_of(env).goal_key])
        request = EpisodeRequest(str(info["task_id"]), seed=seed, group_id="g")
        solved = run_episode(env, agent_factory("oracle"), request)
        actions = [step.action for step in solved.steps]
        episodes = [solved]
        detour = "search[nothing of use]" if "search" in actions[0] else "look"
        for recording in ([detour, *actions], actions[:-1] + ["look"]):
            agent = ReplayAgent({request.task_id: recording})
            episode = run_episode(env, lambda _env, _seed, agent=agent: agent, request)
            episodes.append(episode)
        return episodes, goal
    finally:
        env.close()


@pytest.fixture(scope="module", params=agentgym_suite.ENV_IDS)
def attempts(request: pytest.FixtureRequest) -> TraceGroup:
    episodes, goal = played(request.param)
    assert [episode.success for episode in episodes] == [True, True, False]
    names = [f"g/{number}" for number in range(3)]
    return trace_group("g", episodes, names, task=goal)


# --- rules


def check_grounded(members: TraceGroup, found: GroupAnalysis) -> None:
    """Every quote of evidence and guidance stands in the records, none is one's own evidence."""
    traces = {trace.traj_uid: trace for trace in members.traces}
    sources = {one.evidence_id: one.sources for one in found.evidence}
    for one in found.evidence:
        for source in one.sources:
            step = traces[source.traj_uid].steps[source.step]
            assert step.valid and step.pre != step.post
            assert supports(step.action, source.action_quote)
            assert supports(step.pre, source.pre_quote) or supports(step.post, source.post_quote)
    for uid, accepted in found.guidance.items():
        for one in accepted.guidance:
            for name in one.evidence_ids:
                assert any(source.traj_uid != uid for source in sources[name])
            (support,) = one.support
            trace = traces[uid]
            step = trace.steps[support.step]
            record = {"task": trace.task, "pre": step.pre, "action": step.action, "post": step.post}
            assert supports(record[support.field], support.quote)


def test_rules_give_grounded_guidance_in_every_environment(attempts: TraceGroup) -> None:
    found = analyze_group(attempts, RuleAnalyzer())
    assert found.analyzer == "rules" and found.error == "" and found.discarded == {}
    assert found.evidence and found.statements("g/2")
    assert all(1 <= len(found.statements(uid)) <= 8 for uid in found.guidance)
    check_grounded(attempts, found)


def test_rules_give_the_same_each_time_and_whatever_the_rewards_are(attempts: TraceGroup) -> None:
    found = analyze_group(attempts, RuleAnalyzer())
    assert analyze_group(attempts, RuleAnalyzer()) == found
    other = TraceGroup("g", attempts.traces, attempts.verified_success, (5.0, 2.0, 3.0))
    assert analyze_group(other, RuleAnalyzer()).guidance == found.guidance


def test_every_record_says_that_rules_made_it(attempts: TraceGroup, tmp_path: Path) -> None:
    path = write_audit(tmp_path, 0, analyze_groups([attempts, attempts], RuleAnalyzer()))
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [record["analyzer"] for record in records] == ["rules", "rules"]


def test_a_trace_holds_what_was_played_and_the_task_in_words() -> None:
    episodes, _ = played("ALFWorld-v0")
    episode = episodes[0]
    trace = trace_of(episode, "t")
    assert trace.task == episode.steps[0].observation and "Your task is to: " in trace.task
    first = episode.steps[0]
    assert trace.steps[0] == TraceStep(
        first.observation, first.action, first.next_observation, True, False, first.admissible
    )
    assert [step.done for step in trace.steps] == [False] * (len(trace.steps) - 1) + [True]
    assert trace_group("g", [episode], ["t"]).rewards == (sum(s.reward for s in episode.steps),)
    with pytest.raises(UsageError, match="1 episodes and 2 names"):
        trace_group("g", [episode], ["t", "u"])


def kitchen(*steps: TraceStep, task: str = "find the mug") -> Trace:
    return Trace("x", task, steps)


def contrasted(target_trace: Trace) -> TraceGroup:
    members = group()
    return TraceGroup("g", (*members.traces[:2], target_trace), (1, 1, 0), (1, 1, 0))


def test_an_action_is_evidence_once_with_every_success_that_took_it() -> None:
    found = analyze_group(group(), RuleAnalyzer())
    taken = {one.sources[0].action_quote: one.sources for one in found.evidence}
    assert list(taken) == [
        "go to shelf 1", "take mug 1 from shelf 1", "clean mug 1 with sink 1",
        "move mug 1 to desk 2",
    ]  # fmt: skip
    assert [s.traj_uid for s in taken["take mug 1 from shelf 1"]] == ["a", "b"]
    assert found.discarded == {}  # the refused one was not even proposed
    assert found.evidence[0].statement == "In a success this action had an effect: go to shelf 1"


def test_each_call_of_an_action_is_evidence_of_its_own() -> None:
    several = TraceStep("p", "search[the Nile]\r\n\nsearch[the  Amazon]", "q", True)
    target_step = TraceStep("The Amazon is long.", "wait", "", True)
    traces = (Trace("s", "t", (several,)), kitchen(target_step))
    found = analyze_group(TraceGroup("g", traces, (1, 0), (1, 0)), RuleAnalyzer())
    quotes = [one.sources[0].action_quote for one in found.evidence]
    assert quotes == ["search[the Nile]", "search[the Amazon]"] and found.discarded == {}
    assert found.statements("x") == ("In a success this action had an effect: search[the Amazon]",)


def test_an_item_applies_where_its_action_was_admissible() -> None:
    admissible = ("go to shelf 1", "look")
    waiting = TraceStep("Nothing is here.", "look", "Nothing is here.", True, True, admissible)
    found = analyze_group(contrasted(kitchen(waiting)), RuleAnalyzer())
    (guidance,) = found.guidance["x"].guidance
    assert guidance.statement.endswith("go to shelf 1")
    assert guidance.support == (Support("pre", "Nothing is here.", 0),)


def test_an_item_applies_where_all_its_objects_were_met() -> None:
    met = TraceStep("A Mug 1 is here.", "look", "Behind it is sink 1.", True)
    found = analyze_group(contrasted(kitchen(met)), RuleAnalyzer())
    (guidance,) = found.guidance["x"].guidance
    assert guidance.statement.endswith("clean mug 1 with sink 1")
    assert guidance.support == (Support("post", "sink 1", 0),)
    for some in ("A mug 1 is here.", "A sink 1 is here."):
        partly = TraceStep(some, "look", "", True)
        abstained = analyze_group(contrasted(kitchen(partly)), RuleAnalyzer())
        assert abstained.no_hint["x"] == "alignment_abstained"


def test_what_more_successes_did_comes_first_and_no_more_than_eight_items() -> None:
    many = tuple(f"open drawer {number}" for number in range(12))
    steps = tuple(TraceStep(f"s{n}", action, f"s{n + 1}", True) for n, action in enumerate(many))
    shared = TraceStep("s12", "take key 1", "s13", True)
    target_step = TraceStep("here", "wait", "there", False, True, (*many, "take key 1"))
    traces = (
        Trace("one", "t", (*steps, shared)),
        Trace("two", "t", (shared,)),
        Trace("x", "t", (target_step,)),
    )
    found = analyze_group(TraceGroup("g", traces, (1, 1, 0), (1, 1, 0)), RuleAnalyzer())
    said = found.statements("x")
    assert len(said) == 8 and said[0].endswith("take key 1") and said[1].endswith("drawer 0")
    assert found.discarded == {}


def test_a_step_without_effect_or_with_an_endless_action_does_no_harm() -> None:
    endless = TraceStep("p", "say " + "word " * 5000, "q", True)
    idle = TraceStep("p  q", "wait here", "p q", True)
    blank = TraceStep("", "press button 1", " ", True)
    first = Trace("s", "t", (endless, idle, blank))
    both = TraceGroup("g", (first, kitchen(endless)), (1, 0), (1, 0))
    found = analyze_group(both, RuleAnalyzer())
    assert len(found.evidence) == 1 and len(found.evidence[0].statement) < 400
    assert found.error == "" and len(found.statements("x")) == 1


@pytest.mark.parametrize(
    ("action", "names"),
    [
        ("take mug 1 from desk 12", ("mug 1", "desk 12")),
        ("examine the painting", ("examine", "painting")),
        ("go", ("go",)),
        ("click[B0AB12CD34]", ("B0AB12CD34",)),
        ("click[xl]", ("xl",)),
        ("search[red shoes of 2020]", ("shoes", "2020")),
        ("search[the Nile]\nsearch[the Amazon]", ("Nile", "Amazon")),
        ("finish[]", ()),
        ("", ()),
    ],
)
def test_the_names_of_an_action(action: str, names: tuple[str, ...]) -> None:
    assert names_in(action) == names


# --- none


def test_the_null_analyzer_never_has_a_hint() -> None:
    found = analyze_group(group(), NullAnalyzer())
    assert found.no_hint == dict.fromkeys("abc", "no_evidence") and found.error == ""
    assert found.analyzer == "none"


# --- recordings


def recorded(path: Path, inner: Any) -> GroupAnalysis:
    recorder = RecordingAnalyzer(inner, path)
    try:
        return analyze_group(group(), recorder)
    finally:
        recorder.close()


def test_a_recording_gives_the_same_analysis_without_asking(tmp_path: Path) -> None:
    path = tmp_path / "tapes" / "judge.jsonl"
    said = scripted([item(mug("a"), mug("b"))], [target("c", hint("e1"))])
    live = recorded(path, said)
    cassette = CassetteAnalyzer(path)
    replayed = analyze_group(group(), cassette)
    assert live.statements("c") and replayed.guidance == live.guidance
    assert replayed.calls == live.calls and cassette.label == "cassette of scripted"
    assert len(path.read_text().splitlines()) == 2
    recorded(path, said)
    assert len(path.read_text().splitlines()) == 4  # continued, not begun anew


def test_what_was_never_asked_is_a_miss_that_names_the_request(tmp_path: Path) -> None:
    path = tmp_path / "judge.jsonl"
    recorded(path, scripted([item(mug("a"), mug("b"))], []))
    cassette = CassetteAnalyzer(path)
    request = extraction_request(group((1.0, 0.0, 0.0)))
    with pytest.raises(AnalyzerError, match=request.digest) as raised:
        cassette.reply(request)
    assert raised.value.category == "cassette_miss"
    found = analyze_group(group((1.0, 0.0, 0.0)), cassette)
    assert found.error == "cassette_miss" and found.no_hint["a"] == "analyzer_error"
    cassette.close()


def test_bad_replies_are_recorded_and_failures_are_not(tmp_path: Path) -> None:
    path = tmp_path / "judge.jsonl"
    assert recorded(path, Scripted(extraction=[down()])).error == "connection"
    assert not path.exists()
    cut = AnalyzerReply('{"evidence": [\ud800', cut_off=True)
    assert recorded(path, Scripted(extraction=[cut])).error == "truncated_json"
    assert analyze_group(group(), CassetteAnalyzer(path)).error == "truncated_json"


@pytest.mark.parametrize(
    "line", ["{", "[]", "null", '{"request_digest": "x"}', '{"reply": {}, "request_digest": "x"}']
)
def test_a_damaged_recording_is_refused_with_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "judge.jsonl"
    recorded(path, scripted([], []))
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(DataDamaged, match="line 2"):
        CassetteAnalyzer(path)
    with pytest.raises(DataMissing):
        CassetteAnalyzer(tmp_path / "none.jsonl")
