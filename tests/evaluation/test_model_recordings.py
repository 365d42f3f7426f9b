"""Recorded replies and recorded runs, played again."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from agentgym_suite import evaluation
from agentgym_suite.evaluation.model_specs import ModelOptions, model_agent
from agentgym_suite.evaluation.open_suites import open_suite
from agentgym_suite.evaluation.replayed_runs import replayed_run
from agentgym_suite.evaluation.run_header import read_run
from agentgym_suite.evaluation.settings import named_agent
from agentgym_suite.evaluation.suites import EnvEntry, Suite
from agentgym_suite.evaluation.verify import verify_run
from tests.chat_server import chat_server
from tests.evaluation.model_runs import ENV, TASKS, calls, openai, records, run

Command = Callable[[Sequence[str]], int]


def test_a_cassette_gives_the_same_run_at_any_concurrency(
    counting_env: str, tmp_path: Path
) -> None:
    tape = tmp_path / "tape.jsonl"
    with chat_server(calls) as server:
        run(openai(server.url, reply_format="openai", record=tape), tmp_path / "live")
    first = records(tmp_path / "live")
    for concurrency in (1, 4, 16):
        again = ModelOptions(str(tape), reply_format="openai")
        folder = tmp_path / f"again{concurrency}"
        run(model_agent("cassette", again), folder, concurrency=concurrency)
        replayed = records(folder)
        for one, other in zip(first, replayed, strict=True):
            assert {**one, "cost": None} == {**other, "cost": None}


def test_a_cassette_that_lacks_a_request_ends_the_command(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tape = tmp_path / "tape.jsonl"
    with chat_server(calls) as server:
        options = ["--agent", "openai", "--model", "tiny", "--episodes", "2"]
        options += ["--endpoint", server.url, "--record", str(tape), "--out", str(tmp_path / "a")]
        assert command(["evaluate", "--env", ENV, *options]) == 0
    asked = len(server.requests)
    base = ["evaluate", "--env", ENV, "--agent", "cassette", "--model", str(tape)]
    assert command([*base, "--episodes", "2", "--out", str(tmp_path / "b")]) == 0
    assert command([*base, "--episodes", "3", "--out", str(tmp_path / "c")]) == 2
    told = capsys.readouterr().err
    assert re.search(r"no reply to the request sha256:[0-9a-f]{64}; give the --suite", told)
    assert "--prompting" in told
    assert len(server.requests) == asked


def test_a_replayed_run_has_the_same_steps_and_scores(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded, replayed = tmp_path / "recorded", tmp_path / "replayed"
    common = ["evaluate", "--env", ENV, "--episodes", "8", "--trials", "2"]
    assert command([*common, "--agent", "random", "--out", str(recorded)]) == 0
    arguments = ["--agent", "replay", "--model", str(recorded), "--out", str(replayed)]
    assert command([*common, *arguments]) == 0
    assert read_run(replayed)["agent"] == "replay:random"
    names = ("parsed_action", "reward", "state_hash", "obs")
    for one, other in zip(records(recorded), records(replayed), strict=True):
        assert [[s[n] for n in names] for s in one["steps"]] == [
            [s[n] for n in names] for s in other["steps"]
        ]
        assert (one["score"], one["outcome"], one["key"]) == (
            other["score"],
            other["outcome"],
            other["key"],
        )
    assert verify_run(replayed).verdict == "verified"
    assert command(["evaluate", "--env", ENV, "--agent", "replay"]) == 2
    assert "agent replay has no run" in capsys.readouterr().err


def test_an_episode_that_was_not_recorded_is_the_agent_s_failure(
    counting_env: str, tmp_path: Path
) -> None:
    run(named_agent("oracle"), tmp_path / "a")
    other = Suite("other", 1, (EnvEntry(ENV, (*TASKS, "count-9"), "test"),))
    evaluation.run(
        open_suite(other, {}, allow_missing=False),
        replayed_run(tmp_path / "a"),
        out=tmp_path / "b",
    )
    failed = [record for record in records(tmp_path / "b") if record["failure"]]
    assert [one["key"]["task_id"] for one in failed] == ["count-9"]
    assert "has no episode count-9" in failed[0]["failure"]["message"]
