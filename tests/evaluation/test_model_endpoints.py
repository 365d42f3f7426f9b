"""A model behind an endpoint in whole runs: what is sent, obeyed and kept secret."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite import evaluation
from agentgym_suite.decoding import Decoding
from agentgym_suite.evaluation.admission import candidate
from agentgym_suite.evaluation.model_specs import EndpointOptions, model_agent
from agentgym_suite.evaluation.run_directory import ATTEMPTS, EPISODES, read_records
from agentgym_suite.evaluation.suites import EnvEntry, Suite, decoding_seed, episode_seed
from agentgym_suite.evaluation.verify import verify_run
from agentgym_suite.model_agents import ModelAgents
from tests.chat_server import Answer, chat_server, completion
from tests.evaluation.model_runs import ENV, TASKS, calls, openai, records, run

Command = Callable[[Sequence[str]], int]
KEY = "sk-secret-0123456789"


@pytest.mark.parametrize("reply_format", ["openai", ""])
def test_a_run_over_an_endpoint_is_scored_and_verified(
    counting_env: str, tmp_path: Path, reply_format: str
) -> None:
    with chat_server(calls) as server:
        results = run(openai(server.url, reply_format=reply_format), tmp_path)
    assert results.envs[ENV].success.estimate == 1.0
    steps = [step for record in records(tmp_path) for step in record["steps"]]
    named = [call["name"] for step in steps for call in step["tool_calls"]]
    assert set(named) == ({"add", "stop"} if reply_format else set())
    assert {(s["tokens"]["prompt"], s["tokens"]["cached"]) for s in steps} == {(1000, 600)}
    assert verify_run(tmp_path).verdict == "verified"


def test_an_altered_tool_call_is_found(counting_env: str, tmp_path: Path) -> None:
    with chat_server(calls) as server:
        run(openai(server.url, reply_format="openai"), tmp_path)
    lines = (tmp_path / EPISODES).read_text().splitlines()
    record = json.loads(lines[0])
    record["steps"][0]["tool_calls"][0]["arguments"] = {"n": "2"}
    (tmp_path / EPISODES).write_text("\n".join([json.dumps(record), *lines[1:]]) + "\n")
    verification = verify_run(tmp_path)
    assert verification.verdict == "mismatch"
    assert verification.mismatches[0].field == "parsed_action"


def test_the_seed_of_a_reply_is_the_episode_s_key_with_the_step(
    counting_env: str, tmp_path: Path
) -> None:
    assert decoding_seed("smoke", 1, ENV, "g", 0, 0) != episode_seed("smoke", 1, ENV, "g", 0)
    with chat_server(calls) as server:
        run(openai(server.url), tmp_path)
    expected = {
        decoding_seed("counting", 3, ENV, task, 0, step)
        for i, task in enumerate(TASKS)
        for step in range(i % 5 + 2)
    }
    assert {request["seed"] for request in server.requests} == expected


def test_decoding_is_the_suite_s_and_what_is_chosen_is_told(
    counting_env: str, tmp_path: Path
) -> None:
    with chat_server(calls) as server:
        run(openai(server.url), tmp_path / "suite")
        sampled = {(r["temperature"], r["top_p"], r["max_tokens"]) for r in server.requests}
        run(openai(server.url, decoding={"temperature": 0.7}), tmp_path / "hot")
        assert server.requests[-1]["temperature"] == 0.7
        assert server.requests[-1]["max_tokens"] == 99
    assert sampled == {(0.0, 1.0, 99)}
    faults = {
        name: [rule.fault for rule in candidate(tmp_path / name).rules if rule.name == "decoding"]
        for name in ("suite", "hot")
    }
    assert faults == {"suite": [""], "hot": ["its temperature is 0.7, the suite's 0.0"]}


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"max_tokens": None, "max_completion_tokens": 99}, ""),
        ({"max_completion_tokens": 99, "user": "u"}, ""),
        ({"max_tokens": 5000}, "its max_tokens is 5000, the suite's 99"),
        ({"max_tokens": None}, "its max_tokens is None, the suite's 99"),
        (
            {"max_tokens": None, "max_completion_tokens": 5000},
            "its max_tokens is 5000, the suite's 99",
        ),
        ({"n_predict": 5000}, "its max_tokens is 5000, the suite's 99"),
        (
            {"top_k": 1},
            "its requests have the field top_k, of which the suite's decoding says nothing",
        ),
        (
            {"best_of": 8, "user": "u"},
            "its requests have the field best_of, of which the suite's decoding says nothing",
        ),
    ],
)
def test_a_request_s_own_fields_must_leave_the_suite_s_decoding(
    counting_env: str, tmp_path: Path, fields: dict[str, Any], fault: str
) -> None:
    with chat_server(calls) as server:
        run(openai(server.url, fields=fields), tmp_path)
    assert {name: server.requests[-1].get(name) for name in fields} == fields
    (rule,) = (rule for rule in candidate(tmp_path).rules if rule.name == "decoding")
    assert rule.fault == fault


def test_a_field_of_requests_that_differs_is_warned_of(counting_env: str, tmp_path: Path) -> None:
    with chat_server(calls) as server:
        for name, fields in (("a", {}), ("b", {"top_k": 1})):
            run(openai(server.url, fields=fields), tmp_path / name)
    (suite,) = evaluation.compare(tmp_path / "a", tmp_path / "b").suites
    (warning,) = suite.warnings
    assert warning.startswith("decodings of ") and "top_k" in warning


def test_a_suite_s_prompt_replaces_what_nobody_chose() -> None:
    suite = Suite("s", 1, (EnvEntry(ENV, TASKS),), prompt_format="verl_agent")
    plain = model_agent("openai", EndpointOptions("tiny")).suited(suite)
    assert plain.prompt is not None and plain.prompt.template == "verl_agent"
    assert plain.reply_format == "verl_agent"
    assert isinstance(plain.make, ModelAgents)
    assert plain.make.decoding == Decoding(0.0, 1.0, 512)
    for chosen in (
        EndpointOptions("tiny", prompting="react"),
        EndpointOptions("tiny", template="react"),
    ):
        spec = model_agent("openai", chosen).suited(suite)
        assert spec.prompt is not None and spec.prompt.template == "react"
        assert spec.reply_format == "react"
    tools = model_agent("openai", EndpointOptions("tiny", reply_format="openai")).suited(suite)
    assert tools.prompt is not None and tools.prompt.template == "tools"
    assert isinstance(tools.make, ModelAgents) and tools.make.sends_tools


def test_the_key_is_sent_and_written_nowhere(
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("THE_KEY", KEY)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    def sometimes(request: dict[str, Any]) -> Answer:
        fails = "count 0 of 3" in request["messages"][-1]["content"]
        return Answer({"error": {"message": f"{KEY} failed"}}, 400) if fails else calls(request)

    with chat_server(sometimes) as server:
        code = command(
            ["evaluate", "--env", ENV, "--agent", "openai", "--model", "tiny", "--episodes", "4"]
            + [
                "--endpoint",
                server.url,
                "--api-key-env",
                "THE_KEY",
                "--max-retries",
                "1",
                "--concurrency",
                "1",
            ]
            + ["--out", str(tmp_path / "run"), "--record", str(tmp_path / "tape.jsonl")]
        )
    assert code == 1 and set(server.keys) == {f"Bearer {KEY}"}
    attempts = list(read_records(tmp_path / "run" / ATTEMPTS))
    assert [one["failure"]["kind"] for one in attempts] == ["connection"] * 2
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 5 and not [p for p in written if KEY.encode() in p.read_bytes()]
    shown = capsys.readouterr()
    assert KEY not in shown.out + shown.err and "… failed" in shown.err


@pytest.mark.parametrize(
    ("answer", "kind", "counts"),
    [
        (Answer(completion("")), "empty_reply", True),
        (Answer(completion(None, refusal="no")), "refusal", True),
        (Answer(completion("", finish_reason="length")), "max_tokens", True),
        (
            Answer({"error": {"code": "context_length_exceeded", "message": "long"}}, 400),
            "context_overflow",
            True,
        ),
        (Answer("down", 500), "http_5xx", False),
        (Answer("", 429), "rate_limited_exhausted", False),
        (Answer("<html></html>"), "connection", False),
    ],
)
def test_whose_fault_a_failure_is(
    counting_env: str, tmp_path: Path, answer: Answer, kind: str, counts: bool
) -> None:
    with chat_server([answer]) as server:
        agent = openai(server.url, tries=1)
        results = run(agent, tmp_path, max_retries=0)
    assert results.status == ("complete" if counts else "incomplete")
    path = tmp_path / (EPISODES if counts else ATTEMPTS)
    failures = [record["failure"] for record in read_records(path)]
    assert {failure["kind"] for failure in failures} == {kind} and len(failures) == 6
    assert {failure["origin"] for failure in failures} == {"model" if counts else "infra"}


def test_a_wrong_key_ends_the_command(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with chat_server([Answer("", 401)]) as server:
        code = command(
            ["evaluate", "--env", ENV, "--agent", "openai", "--model", "tiny"]
            + ["--endpoint", server.url, "--out", str(tmp_path / "run")]
        )
    assert code == 2 and "does not take the key (401)" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_run_that_is_finished_opens_no_model(counting_env: str, tmp_path: Path) -> None:
    with chat_server(calls) as server:
        spec = openai(server.url)
        first = run(spec, tmp_path)
    assert isinstance(spec.make, ModelAgents)

    def unwanted() -> Any:
        pytest.fail("the model was opened")

    again = replace(spec, make=replace(spec.make, connect=unwanted))
    assert run(again, tmp_path).envs[ENV].success == first.envs[ENV].success
