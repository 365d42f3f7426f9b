"""Prompting by ReAct and Reflexion in whole runs: its rounds, their tokens and their replay."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite.evaluation.admission import candidate
from agentgym_suite.evaluation.run_directory import EPISODES, read_records
from agentgym_suite.evaluation.run_header import read_run
from agentgym_suite.evaluation.settings import named_agent
from agentgym_suite.evaluation.verify import verify_run
from tests.chat_server import chat_server
from tests.evaluation.model_runs import ENV, openai, records, run, thinks


def test_reflexion_records_every_round_and_is_not_ranked(counting_env: str, tmp_path: Path) -> None:
    with chat_server(thinks) as server:
        results = run(openai(server.url, prompting="reflexion", reflexion_rounds=3), tmp_path)
    assert results.envs[ENV].success.estimate == 1.0
    for record in records(tmp_path):
        (played,) = record["earlier_rounds"]
        assert [step["parsed_action"] for step in played["steps"]] == ["stop[]"]
        assert (played["outcome"], played["reflection"]) == ("failure", "Count with care.")
        assert played["reflection_tokens"] == {"prompt": 11, "completion": 3, "cached": 0}
        assert played["final_obs"] == "done" and record["n_steps"] == len(record["steps"]) > 1
    agent = read_run(tmp_path)["config"]["agent"]
    assert agent["name"] == "tiny+reflexion" and agent["uses_success_feedback_at_test"] is True
    assert "it plays a task up to 3 times, told whether it failed" in candidate(tmp_path).faults
    assert verify_run(tmp_path).verdict == "verified"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda r: r["steps"][0].update(reply="Thought: so\nAction: add[1]"), "parsed_action"),
        (lambda r: r["steps"][0].update(parsed_action="add[1]"), "parsed_action"),
        (lambda r: r["steps"][0].update(reward=0.5), "reward"),
        (lambda r: r["steps"][0].update(state_hash="0" * 64), "state_hash"),
        (lambda r: r["steps"][0].update(obs="count 9 of 9"), "obs"),
        (lambda r: r.update(final_obs="no"), "final_obs"),
        (lambda r: r.update(score=0.25), "score"),
        (lambda r: r.update(outcome="truncated_steps"), "outcome"),
        (lambda r: r["steps"].append(r["steps"][0]), "steps"),
        (lambda r: r["steps"].clear(), "replay"),
    ],
)
def test_what_is_altered_in_an_earlier_round_is_found(
    counting_env: str, tmp_path: Path, change: Callable[[Any], None], field: str
) -> None:
    with chat_server(thinks) as server:
        run(openai(server.url, prompting="reflexion"), tmp_path)
    whole = list(read_records(tmp_path / EPISODES))
    change(whole[2]["earlier_rounds"][0])
    (tmp_path / EPISODES).write_text("".join(json.dumps(one) + "\n" for one in whole))
    verification = verify_run(tmp_path)
    assert verification.verdict == "mismatch"
    found = {(one.task_id, one.field) for one in verification.mismatches}
    assert (whole[2]["key"]["task_id"], f"earlier_rounds.0.{field}") in found


def test_a_round_that_was_added_is_found(counting_env: str, tmp_path: Path) -> None:
    run(named_agent("oracle"), tmp_path)
    whole = list(read_records(tmp_path / EPISODES))
    names = ("steps", "final_obs", "final_obs_ref", "score", "outcome")
    told = {"reflection": "", "reflection_tokens": {"prompt": 0, "completion": 0, "cached": 0}}
    whole[0]["earlier_rounds"] = [{name: whole[0][name] for name in names} | told]
    (tmp_path / EPISODES).write_text("".join(json.dumps(one) + "\n" for one in whole))
    assert [one.field for one in verify_run(tmp_path).mismatches] == ["earlier_rounds"]


def test_the_tokens_of_all_rounds_and_reflections_are_counted(
    counting_env: str, tmp_path: Path
) -> None:
    with chat_server(thinks) as server:
        results = run(openai(server.url, prompting="reflexion"), tmp_path)
    tokens = results.envs[ENV].tokens
    assert tokens.prompt == 11 * len(server.requests)
    assert tokens.completion == 3 * len(server.requests)


def test_react_alone_has_one_round_and_no_such_fault(counting_env: str, tmp_path: Path) -> None:
    with chat_server(thinks) as server:
        run(openai(server.url, prompting="react"), tmp_path)
    assert all(record["earlier_rounds"] == [] for record in records(tmp_path))
    assert not [fault for fault in candidate(tmp_path).faults if "told" in fault]
    system, user = server.requests[0]["messages"]
    assert "Thought:" in system["content"] and "Observation: count 0 of" in user["content"]
