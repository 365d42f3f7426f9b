from __future__ import annotations

import asyncio
import json
import math
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite import evaluation
from agentgym_suite.episodes import Reply, Turn
from agentgym_suite.errors import RunError, UsageError
from agentgym_suite.evaluation.open_suites import OpenSuite, ad_hoc_suite
from agentgym_suite.evaluation.run_directory import ATTEMPTS, EPISODES, RESULTS, read_records
from agentgym_suite.evaluation.settings import AgentSpec, RunOptions, RunProgress
from agentgym_suite.evaluation.suites import episode_seed
from agentgym_suite.prompts import StepPrompt

ENV = "Counting-v0"
pytestmark = pytest.mark.usefixtures("counting_env")


class Agent:
    """Plays by a function of the turn."""

    def __init__(self, act: Callable[[Turn], Any]) -> None:
        self.act = act

    def close(self) -> None:
        """Nothing is held."""


def agent(act: Callable[[Turn], Any], name: str = "test") -> AgentSpec:
    return AgentSpec(name, lambda env, seed: Agent(act))


def suite(**changes: Any) -> OpenSuite:
    kwargs: dict[str, Any] = {
        key: changes.pop(key) for key in ("breaks", "long", "n") if key in changes
    }
    return ad_hoc_suite(ENV, kwargs=kwargs, **changes)


def records(folder: Path, name: str = EPISODES) -> dict[tuple[str, int], dict[str, Any]]:
    found = {}
    for record in read_records(folder / name):
        found[record["key"]["task_id"], record["key"]["trial"]] = record
    return found


def untimed(value: Any) -> Any:
    """A record or result without what depends on the clock."""
    if isinstance(value, Mapping):
        clock = ("latency_s", "latency", "wall_s", "started_at", "git")
        return {key: untimed(item) for key, item in value.items() if key not in clock}
    if isinstance(value, list):
        return [untimed(item) for item in value]
    return value


def test_the_oracle_solves_every_task(tmp_path: Path) -> None:
    results = evaluation.run(suite(), "oracle", out=tmp_path)
    env = results.envs[ENV]
    assert (results.status, results.planned, results.finished) == ("complete", 30, 30)
    assert (env.successes, env.success.method, env.success.estimate) == (30, "wilson", 1.0)
    assert env.families["even"].n == env.families["odd"].n == 15
    assert not results.rankable and results.bounds is None
    assert json.loads((tmp_path / RESULTS).read_bytes()) == results.as_dict()
    record = records(tmp_path)["count-3", 0]
    assert record["seed"] == episode_seed(f"{ENV}-test", 1, ENV, "count-3", 0)
    assert [step["parsed_action"] for step in record["steps"]] == ["add[1]"] * 4 + ["stop[]"]
    assert (record["score"], record["outcome"], record["attempts"]) == (1.0, "success", 1)


@pytest.mark.parametrize("name", ["oracle", "random"])
def test_concurrency_changes_nothing_but_the_clock(tmp_path: Path, name: str) -> None:
    runs = {}
    for concurrency in (1, 4, 16):
        folder = tmp_path / str(concurrency)
        options = RunOptions(concurrency=concurrency)
        results = evaluation.run(suite(trials=2), name, out=folder, options=options)
        runs[concurrency] = untimed(records(folder)), untimed(results.as_dict())
    assert runs[1] == runs[4] == runs[16]
    assert len(runs[1][0]) == 60


def test_a_finished_run_is_not_played_again(tmp_path: Path) -> None:
    evaluation.run(suite(), "oracle", out=tmp_path)
    before = (tmp_path / EPISODES).read_bytes(), (tmp_path / RESULTS).read_bytes()

    def never(turn: Turn) -> Reply:
        raise AssertionError("played again")

    evaluation.run(suite(), agent(never, "oracle"), out=tmp_path)
    assert ((tmp_path / EPISODES).read_bytes(), (tmp_path / RESULTS).read_bytes()) == before


def test_another_agent_is_refused(tmp_path: Path) -> None:
    evaluation.run(suite(), "oracle", out=tmp_path)
    with pytest.raises(RunError, match=r"\(agent\.name: oracle -> random\)"):
        evaluation.run(suite(), "random", out=tmp_path)


def test_other_data_are_refused(tmp_path: Path) -> None:
    evaluation.run(suite(), "oracle", out=tmp_path)
    with pytest.raises(RunError, match="environments.Counting-v0"):
        evaluation.run(suite(n=80), "oracle", out=tmp_path)


def test_a_broken_agent_counts_as_zero(tmp_path: Path) -> None:
    def breaks_sometimes(turn: Turn) -> Reply:
        if turn.task.id == "count-0":
            raise ValueError("no idea")
        return Reply("stop[]")

    results = evaluation.run(suite(), agent(breaks_sometimes), out=tmp_path)
    assert (results.status, results.errors, results.retries) == ("complete", {"agent": 1}, 0)
    record = records(tmp_path)["count-0", 0]
    assert (record["outcome"], record["score"], record["success"]) == ("error", 0.0, False)
    assert record["failure"]["kind"] == "agent_exception"
    assert "no idea" in record["failure"]["message"]
    assert not (tmp_path / ATTEMPTS).exists()


def test_a_broken_agent_is_told_where_the_caller_looks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def dies(turn: Turn) -> Reply:
        if turn.task.id in ("count-0", "count-3"):
            raise ValueError("my model died")
        return Reply("stop[]")

    results = evaluation.run(suite(), agent(dies, "mine"), out=tmp_path)
    sentence = "mine: 2 episodes of Counting-v0 ended in agent_exception: ValueError: my model died"
    (told,) = caplog.messages
    message = results.envs[ENV].failures[0].message
    assert told.startswith(sentence) and told.endswith(message)
    assert message.startswith("ValueError: my model died")
    report = (tmp_path / "report.md").read_text("utf-8")
    assert "complete; a failure ended 2 episodes |" in report
    assert "| 2 | 2 | ValueError: my model died" in report


def test_the_most_frequent_message_stands_for_its_kind(tmp_path: Path) -> None:
    def dies(turn: Turn) -> Reply:
        raise ValueError("rare" if turn.task.id == "count-0" else "often\nin agent.py, line 7")

    results = evaluation.run(suite(), agent(dies), out=tmp_path)
    assert results.envs[ENV].failures[0].message == "ValueError: often"


def test_a_context_that_overflows_is_the_model_s_failure(tmp_path: Path) -> None:
    small = AgentSpec(
        "small",
        lambda env, seed: Agent(lambda turn: Reply("stop[]")),
        prompt=StepPrompt("compact", token_budget=1),
    )
    results = evaluation.run(suite(tasks=["count-0"]), small, out=tmp_path)
    record = records(tmp_path)["count-0", 0]
    assert (record["outcome"], record["score"]) == ("truncated_context", 0.0)
    assert (record["failure"]["kind"], results.status) == ("context_overflow", "complete")


def test_what_the_prompt_left_out_is_recorded(tmp_path: Path) -> None:
    small = AgentSpec(
        "small",
        lambda env, seed: Agent(lambda turn: Reply("add[1]")),
        prompt=StepPrompt("compact", history_length=-1, token_budget=12),
    )
    evaluation.run(suite(tasks=["count-4"], long=100), small, out=tmp_path)
    steps = records(tmp_path)["count-4", 0]["steps"]
    assert steps[0]["cut_characters"] > 0
    assert [step["dropped_steps"] for step in steps[:3]] == [0, 1, 2]


def test_a_suite_chooses_the_prompt_of_agents_that_take_messages(tmp_path: Path) -> None:
    seen: list[tuple[str, ...]] = []

    def act(turn: Turn) -> Reply:
        seen.append(tuple(message.role for message in turn.messages))
        return Reply("<think>!</think><action>stop[]</action>" if turn.messages else "stop[]")

    opened = suite(tasks=["count-0"])
    opened = replace(opened, suite=replace(opened.suite, prompt_format="verl_agent"))
    model = AgentSpec("model", lambda env, seed: Agent(act), prompt=StepPrompt("capo"))
    evaluation.run(opened, model, out=tmp_path / "model")
    config = json.loads((tmp_path / "model" / "run.json").read_bytes())["config"]
    assert (config["prompt"]["template"], config["reply_format"]) == ("verl_agent", "verl_agent")
    step = records(tmp_path / "model")["count-0", 0]["steps"][0]
    assert (step["parsed_action"], step["action_valid"]) == ("stop[]", True)
    evaluation.run(opened, agent(act, "plain"), out=tmp_path / "plain")
    assert seen == [("user",), ()]


def test_the_caller_s_signal_handlers_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mine(number: int, frame: object) -> None:
        raise AssertionError("nobody sends a signal here")

    def absent(*args: object) -> None:
        raise NotImplementedError  # as on Windows

    monkeypatch.setattr(asyncio.unix_events.SelectorEventLoop, "add_signal_handler", absent)
    before = {number: signal.signal(number, mine) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        evaluation.run(suite(), "oracle", out=tmp_path)
        assert {signal.getsignal(number) for number in before} == {mine}
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.parametrize(
    "wrong",
    [
        {"concurrency": 0},
        {"max_retries": -1},
        {"episode_timeout_s": 0.0},
        {"episode_timeout_s": math.nan},
        {"episode_timeout_s": math.inf},
    ],
)
def test_options_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        RunOptions(**wrong)


def test_a_lost_connection_is_tried_again_with_the_same_seed(tmp_path: Path) -> None:
    seen: dict[str, int] = {}

    def connects_the_third_time(turn: Turn) -> Reply:
        if turn.step_index == 0:
            seen[turn.task.id] = seen.get(turn.task.id, 0) + 1
        if turn.task.id == "count-1" and seen["count-1"] < 3:
            raise ConnectionError("refused")
        return Reply("stop[]")

    results = evaluation.run(suite(), agent(connects_the_third_time), out=tmp_path)
    assert (results.status, results.errors, results.retries) == ("complete", {}, 2)
    lost = [r for r in read_records(tmp_path / ATTEMPTS)]
    record = records(tmp_path)["count-1", 0]
    assert [r["attempt"] for r in lost] == [1, 2]
    assert {r["seed"] for r in lost} == {record["seed"]}
    assert record["attempts"] == 3 and record["failure"] is None
    failures = results.envs[ENV].failures
    assert [(f.kind, f.origin, f.episodes, f.attempts) for f in failures] == [
        ("connection", "infra", 0, 2)
    ]


def test_a_broken_environment_makes_the_run_incomplete(tmp_path: Path) -> None:
    broken = suite(breaks=["count-2", "count-3"])
    results = evaluation.run(broken, "oracle", out=tmp_path)
    env = results.envs[ENV]
    assert (results.status, results.finished, results.errors) == ("incomplete", 28, {"env": 2})
    assert results.retries == 4 and len(list(read_records(tmp_path / ATTEMPTS))) == 6
    assert env.success.estimate is None and "incomplete" in env.success.method
    assert results.bounds is not None
    assert results.bounds[ENV].success.low == pytest.approx(28 / 30)
    assert results.bounds[ENV].success.high == 1.0
    assert any("2 of 30" in reason for reason in results.not_rankable_reasons)
    # The same command later tries the missing ones anew, with all their retries.
    again = evaluation.run(broken, "oracle", out=tmp_path)
    assert (again.finished, len(list(read_records(tmp_path / ATTEMPTS)))) == (28, 12)


def test_no_retries_when_none_are_wanted(tmp_path: Path) -> None:
    options = RunOptions(max_retries=0)
    results = evaluation.run(suite(breaks=["count-2"]), "oracle", out=tmp_path, options=options)
    assert (results.retries, len(list(read_records(tmp_path / ATTEMPTS)))) == (0, 1)


def test_a_hanging_model_is_given_up(tmp_path: Path) -> None:
    release = threading.Event()

    def hangs(turn: Turn) -> Reply:
        if turn.task.id == "count-0":
            release.wait(60)
        return Reply("stop[]")

    options = RunOptions(episode_timeout_s=0.2, max_retries=1)
    results = evaluation.run(suite(), agent(hangs), out=tmp_path, options=options)
    release.set()
    assert (results.finished, results.errors) == (29, {"infra": 1})
    assert {r["failure"]["kind"] for r in read_records(tmp_path / ATTEMPTS)} == {"timeout_model"}


def test_running_out_of_steps_is_a_failure_with_its_score(tmp_path: Path) -> None:
    results = evaluation.run(
        suite(tasks=["count-1"], max_steps=3), agent(lambda turn: Reply("add[1]")), out=tmp_path
    )
    record = records(tmp_path)["count-1", 0]
    assert (record["outcome"], record["n_steps"], record["success"]) == (
        "truncated_steps",
        3,
        False,
    )
    assert record["score"] == results.envs[ENV].score.estimate == 0.5


def test_an_unreadable_action_is_a_step(tmp_path: Path) -> None:
    results = evaluation.run(suite(), agent(lambda turn: Reply("sing")), out=tmp_path)
    step = records(tmp_path)["count-0", 0]["steps"][0]
    assert (step["action_valid"], step["action_error"]) == (False, "say add[1] or stop[]")
    assert results.envs[ENV].invalid_steps == 1.0


def test_an_asynchronous_agent_plays_too(tmp_path: Path) -> None:
    async def act(turn: Turn) -> Reply:
        await asyncio.sleep(0)
        return Reply("stop[]")

    assert evaluation.run(suite(), agent(act), out=tmp_path).status == "complete"


def test_it_runs_inside_a_running_event_loop(tmp_path: Path) -> None:
    async def notebook() -> str:
        return evaluation.run(suite(), "oracle", out=tmp_path).status

    assert asyncio.run(notebook()) == "complete"


def test_long_observations_are_stored_by_reference(tmp_path: Path) -> None:
    evaluation.run(suite(long=40_000, tasks=["count-0"]), "oracle", out=tmp_path)
    step = records(tmp_path)["count-0", 0]["steps"][1]
    assert step["obs"] is None and len(step["obs_ref"]["sha256"]) == 64
    assert (tmp_path / "observations.jsonl.gz").exists()


def test_trials_are_clustered_by_task(tmp_path: Path) -> None:
    def every_second_trial(turn: Turn) -> Reply:
        return Reply("add[1]" if int(turn.info["seed"]) % 2 and not turn.step_index else "stop[]")

    results = evaluation.run(
        suite(tasks=["count-0", "count-5", "count-10"], trials=8),
        agent(every_second_trial),
        out=tmp_path,
    )
    success = results.envs[ENV].success
    assert (success.method, success.n) == ("task-bootstrap", 3)
    assert success.estimate == results.envs[ENV].successes / 24


def test_the_progress_is_told(tmp_path: Path) -> None:
    told: list[RunProgress] = []
    evaluation.run(suite(), "oracle", out=tmp_path, on_progress=told.append)
    assert [progress.done for progress in told] == list(range(31))
    last = told[-1]
    assert (last.planned, last.score, last.successes, last.left_s) == (30, 1.0, 30, 0.0)


def test_the_progress_of_a_resumed_run_counts_all_of_it(tmp_path: Path) -> None:
    lost = {"count-7", "count-8"}

    def act(turn: Turn) -> Reply:
        if turn.task.id in lost:
            raise ConnectionError("gone")
        return Reply("add[1]" if turn.step_index == 0 else "stop[]")

    once = RunOptions(max_retries=0)
    evaluation.run(suite(), agent(act), out=tmp_path, options=once)
    lost.clear()
    told: list[RunProgress] = []
    evaluation.run(suite(), agent(act), out=tmp_path, options=once, on_progress=told.append)
    first, last = told[0], told[-1]
    assert (first.resumed, first.done, first.successes, first.left_s) == (28, 28, 6, None)
    assert (last.resumed, last.done, last.successes) == (28, 30, 6)
    told.clear()
    evaluation.run(suite(), agent(act), out=tmp_path, on_progress=told.append)
    assert [(p.resumed, p.done, p.successes) for p in told] == [(30, 30, 6)]
    assert told[0].score == pytest.approx(6 / 30 + 0.5 * _unsolved_share() / 30)


def _unsolved_share() -> float:
    """One addition out of ``target`` in the tasks that more than one addition solves."""
    targets = [i % 5 + 1 for i in range(30)]
    return sum(1 / target for target in targets if target > 1)


def test_an_unknown_agent_or_policy_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="oracle"):
        evaluation.run(suite(), "nobody", out=tmp_path)
    with pytest.raises(UsageError, match="scripted"):
        evaluation.run(suite(), "scripted", out=tmp_path)
