"""Agents with a model in whole runs: what is asked, recorded, priced, replayed and admitted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite import evaluation
from agentgym_suite.decoding import Decoding
from agentgym_suite.errors import UsageError
from agentgym_suite.evaluation.admission import candidate
from agentgym_suite.evaluation.model_specs import ModelOptions, model_agent
from agentgym_suite.evaluation.open_suites import open_suite
from agentgym_suite.evaluation.prices import Price, PriceTable
from agentgym_suite.evaluation.run_directory import ATTEMPTS, EPISODES, read_records
from agentgym_suite.evaluation.run_header import read_run
from agentgym_suite.evaluation.settings import AgentSpec, RunOptions, named_agent
from agentgym_suite.evaluation.suites import EnvEntry, Suite, decoding_seed, episode_seed
from agentgym_suite.evaluation.verify import verify_run
from agentgym_suite.model_agents import ModelAgents
from agentgym_suite.usage import Usage
from tests.chat_server import Answer, chat_server, completion, tool_call

Command = Callable[[Sequence[str]], int]
ENV = "Counting-v0"
KEY = "sk-secret-0123456789"
TASKS = tuple(f"count-{i}" for i in range(6))
TIMED = {"latency_s", "started_at", "wall_s"}
SUITE = Suite("counting", 3, (EnvEntry(ENV, TASKS, "test"),), decoding=Decoding(0.0, 1.0, 99))


def next_call(request: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """What solves the counting game, from the observation in the prompt."""
    said = request["messages"][-1]["content"]
    count, target = re.findall(r"count (\d+) of (\d+)", said)[-1]
    return ("add", {"n": "1"}) if int(count) < int(target) else ("stop", {})


def calls(request: dict[str, Any]) -> Answer:
    """Answers by a tool call where tools were sent, else in the words of a tool call."""
    name, arguments = next_call(request)
    usage = {
        "prompt_tokens": 1000,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 600},
    }
    if "tools" in request:
        call = tool_call(name, json.dumps(arguments))
        return Answer(completion(None, tool_calls=[call], usage=usage))
    text = json.dumps({"name": name, "arguments": arguments})
    return Answer(completion(f"<tool_call>\n{text}\n</tool_call>", usage=usage))


def thinks(request: dict[str, Any]) -> Answer:
    """Answers in the react format, and overshoots unless it has reflected."""
    said = request["messages"][-1]["content"]
    if "The task is not solved" in said:
        return Answer(completion("Count with care."))
    name, arguments = next_call(request)
    if "Count with care." not in said:
        name, arguments = "stop", {}
    return Answer(completion(f"Thought: so\nAction: {name}[{arguments.get('n', '')}]"))


def untimed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: untimed(item) for key, item in value.items() if key not in TIMED}
    return [untimed(item) for item in value] if isinstance(value, list) else value


def records(folder: Path) -> list[Any]:
    found = [untimed(record) for record in read_records(folder / EPISODES)]
    return sorted(found, key=lambda record: str(record["key"]))


def run(agent: AgentSpec, out: Path, **options: Any) -> evaluation.RunResults:
    opened = open_suite(SUITE, {}, allow_missing=False)
    return evaluation.run(opened, agent, out=out, options=RunOptions(**options))


# ------------------------------------------------------------------ endpoints


@pytest.mark.parametrize("reply_format", ["openai", ""])
def test_a_run_over_an_endpoint_is_scored_and_verified(
    counting_env: str, tmp_path: Path, reply_format: str
) -> None:
    with chat_server(calls) as server:
        options = ModelOptions("tiny", server.url, reply_format=reply_format)
        results = run(model_agent("openai", options), tmp_path)
    assert results.envs[ENV].success.estimate == 1.0
    steps = [step for record in records(tmp_path) for step in record["steps"]]
    named = [call["name"] for step in steps for call in step["tool_calls"]]
    assert set(named) == ({"add", "stop"} if reply_format else set())
    assert {(s["tokens"]["prompt"], s["tokens"]["cached"]) for s in steps} == {(1000, 600)}
    assert verify_run(tmp_path).verdict == "verified"


def test_an_altered_tool_call_is_found(counting_env: str, tmp_path: Path) -> None:
    with chat_server(calls) as server:
        options = ModelOptions("tiny", server.url, reply_format="openai")
        run(model_agent("openai", options), tmp_path)
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
        run(model_agent("openai", ModelOptions("tiny", server.url)), tmp_path)
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
        options = ModelOptions("tiny", server.url)
        run(model_agent("openai", options), tmp_path / "suite")
        sampled = {(r["temperature"], r["top_p"], r["max_tokens"]) for r in server.requests}
        hot = ModelOptions("tiny", server.url, decoding={"temperature": 0.7})
        run(model_agent("openai", hot), tmp_path / "hot")
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
        run(model_agent("openai", ModelOptions("tiny", server.url, fields=fields)), tmp_path)
    assert {name: server.requests[-1].get(name) for name in fields} == fields
    (rule,) = (rule for rule in candidate(tmp_path).rules if rule.name == "decoding")
    assert rule.fault == fault


def test_a_field_of_requests_that_differs_is_warned_of(counting_env: str, tmp_path: Path) -> None:
    with chat_server(calls) as server:
        for name, fields in (("a", {}), ("b", {"top_k": 1})):
            options = ModelOptions("tiny", server.url, fields=fields)
            run(model_agent("openai", options), tmp_path / name)
    (suite,) = evaluation.compare(tmp_path / "a", tmp_path / "b").suites
    (warning,) = suite.warnings
    assert warning.startswith("decodings of ") and "top_k" in warning


def test_a_suite_s_prompt_replaces_what_nobody_chose() -> None:
    suite = Suite("s", 1, (EnvEntry(ENV, TASKS),), prompt_format="verl_agent")
    plain = model_agent("openai", ModelOptions("tiny")).suited(suite)
    assert plain.prompt is not None and plain.prompt.template == "verl_agent"
    assert plain.reply_format == "verl_agent"
    assert isinstance(plain.make, ModelAgents)
    assert plain.make.decoding == Decoding(0.0, 1.0, 512)
    for chosen in (
        ModelOptions("tiny", prompting="react"),
        ModelOptions("tiny", template="react"),
    ):
        spec = model_agent("openai", chosen).suited(suite)
        assert spec.prompt is not None and spec.prompt.template == "react"
        assert spec.reply_format == "react"
    tools = model_agent("openai", ModelOptions("tiny", reply_format="openai")).suited(suite)
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
        agent = model_agent("openai", ModelOptions("tiny", server.url, tries=1))
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


# ------------------------------------------------------------------ cassettes and replays


def test_a_cassette_gives_the_same_run_at_any_concurrency(
    counting_env: str, tmp_path: Path
) -> None:
    tape = tmp_path / "tape.jsonl"
    with chat_server(calls) as server:
        live = ModelOptions("tiny", server.url, reply_format="openai", record=tape)
        run(model_agent("openai", live), tmp_path / "live")
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
        assert (
            command(
                [
                    "evaluate",
                    "--env",
                    ENV,
                    "--agent",
                    "openai",
                    "--model",
                    "tiny",
                    "--episodes",
                    "2",
                ]
                + ["--endpoint", server.url, "--record", str(tape), "--out", str(tmp_path / "a")]
            )
            == 0
        )
    asked = len(server.requests)
    base = ["evaluate", "--env", ENV, "--agent", "cassette", "--model", str(tape)]
    assert command([*base, "--episodes", "2", "--out", str(tmp_path / "b")]) == 0
    assert command([*base, "--episodes", "3", "--out", str(tmp_path / "c")]) == 2
    assert re.search(r"no reply to the request sha256:[0-9a-f]{64};", capsys.readouterr().err)
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
    from agentgym_suite.evaluation.replayed_runs import replayed_run

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


# ------------------------------------------------------------------ prompting


def test_reflexion_records_every_round_and_is_not_ranked(counting_env: str, tmp_path: Path) -> None:
    with chat_server(thinks) as server:
        options = ModelOptions("tiny", server.url, prompting="reflexion", reflexion_rounds=3)
        results = run(model_agent("openai", options), tmp_path)
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
        options = ModelOptions("tiny", server.url, prompting="reflexion")
        run(model_agent("openai", options), tmp_path)
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
        options = ModelOptions("tiny", server.url, prompting="reflexion")
        results = run(model_agent("openai", options), tmp_path)
    tokens = results.envs[ENV].tokens
    assert tokens.prompt == 11 * len(server.requests)
    assert tokens.completion == 3 * len(server.requests)


def test_react_alone_has_one_round_and_no_such_fault(counting_env: str, tmp_path: Path) -> None:
    with chat_server(thinks) as server:
        run(model_agent("openai", ModelOptions("tiny", server.url, prompting="react")), tmp_path)
    assert all(record["earlier_rounds"] == [] for record in records(tmp_path))
    assert not [fault for fault in candidate(tmp_path).faults if "told" in fault]
    system, user = server.requests[0]["messages"]
    assert "Thought:" in system["content"] and "Observation: count 0 of" in user["content"]


def test_a_run_that_is_finished_opens_no_model(counting_env: str, tmp_path: Path) -> None:
    with chat_server(calls) as server:
        spec = model_agent("openai", ModelOptions("tiny", server.url))
        first = run(spec, tmp_path)
    assert isinstance(spec.make, ModelAgents)

    def unwanted() -> Any:
        pytest.fail("the model was opened")

    again = replace(spec, make=replace(spec.make, connect=unwanted))
    assert run(again, tmp_path).envs[ENV].success == first.envs[ENV].success


# ------------------------------------------------------------------ prices


def test_the_price_of_a_call() -> None:
    price = Price(input=2.0, output=8.0, cached_input=0.5)
    assert price.usd(Usage(1000, 20, 600)) == pytest.approx((400 * 2 + 600 * 0.5 + 20 * 8) / 1e6)
    assert price.usd(Usage(10, 0, 99)) == pytest.approx(10 * 0.5 / 1e6)


def test_an_episode_costs_what_its_calls_cost(counting_env: str, tmp_path: Path) -> None:
    with chat_server(calls) as server:
        run(model_agent("openai", ModelOptions("gpt-4.1", server.url)), tmp_path / "known")
        run(model_agent("openai", ModelOptions("tiny", server.url)), tmp_path / "unknown")
    shipped = PriceTable.read()
    each = shipped.models["gpt-4.1"].usd(Usage(1000, 20, 600))
    for record in records(tmp_path / "known"):
        assert record["cost"]["usd"] == pytest.approx(record["n_steps"] * each)
        assert record["cost"]["price_table"] == shipped.name
    assert records(tmp_path / "unknown")[0]["cost"] == {"usd": None, "price_table": shipped.name}


def test_a_price_table_of_one_s_own(counting_env: str, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('as_of = "today"\n[models]\ntiny = { input = 1, output = 2.0 }\n')
    with chat_server(thinks) as server:
        options = ModelOptions("tiny", server.url, prompting="reflexion", price_table=own)
        run(model_agent("openai", options), tmp_path / "run")
    for record in records(tmp_path / "run"):  # every round and reflection costs
        answered = record["n_steps"] + 2
        assert record["cost"] == {
            "usd": pytest.approx(answered * (11 * 1 + 3 * 2) / 1e6),
            "price_table": "own.toml of today",
        }


@pytest.mark.parametrize(
    ("usage", "usd"), [({"prompt_tokens": 1000, "completion_tokens": 99}, 1), ({}, None)]
)
def test_a_reply_that_says_nothing_costs_its_tokens(
    counting_env: str, tmp_path: Path, usage: dict[str, int], usd: int | None
) -> None:
    cut_off = Answer(completion("", finish_reason="length", usage=usage))
    with chat_server([cut_off]) as server:
        results = run(model_agent("openai", ModelOptions("gpt-4.1", server.url)), tmp_path)
    each = PriceTable.read().models["gpt-4.1"].usd(Usage(1000, 99))
    for record in records(tmp_path):
        assert record["cost"]["usd"] == (usd and pytest.approx(each))
        assert record["failure"]["tokens"] == {
            "prompt": usage.get("prompt_tokens", 0),
            "completion": usage.get("completion_tokens", 0),
            "cached": 0,
        }
    assert results.envs[ENV].tokens.prompt == 6 * usage.get("prompt_tokens", 0)
    assert verify_run(tmp_path).verdict == "verified"


def test_usage_that_is_not_told_makes_the_price_unknown(counting_env: str, tmp_path: Path) -> None:
    def silent(request: dict[str, Any]) -> Answer:
        return Answer({**calls(request).body, "usage": None})

    with chat_server(silent) as server:
        run(model_agent("openai", ModelOptions("gpt-4.1", server.url)), tmp_path)
    assert {record["cost"]["usd"] for record in records(tmp_path)} == {None}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", "is not TOML"),
        ('as_of = "t"\n[models]\nm = 3\n', "is no table"),
        ('as_of = "t"\n[models]\nm = { input = 1 }\n', "output"),
        ('as_of = "t"\n[models]\nm = { input = -1, output = 1 }\n', "number from 0"),
        ('as_of = "t"\n[models]\nm = { input = 1, output = 1, out = 1 }\n', "out"),
        ("[models]\n", "as_of"),
    ],
)
def test_what_is_no_price_table_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        PriceTable.read(path)


# ------------------------------------------------------------------ options


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--agent", "openai"], "agent openai has no model; give its name"),
        (["--agent", "cassette"], "agent cassette has no model"),
        (["--agent", "random", "--model", "x"], "--model goes with an agent that has a model"),
        (["--agent", "random", "--record", "x"], "--record goes with an agent"),
        (["--agent", "random", "--prompting", "react"], "--prompting goes with an agent"),
        (["--agent", "openai", "--model", "m", "--record", ""], "--record is empty"),
        (["--agent", "openai", "--model", "m", "--api-key-env", "NONE_SUCH"], "holds no key"),
        (["--agent", "openai", "--model", "m", "--request", "seed=1"], "field seed"),
        (["--agent", "openai", "--model", "m", "--endpoint", "ftp://h"], "no http://"),
        (["--agent", "openai", "--model", "m", "--temperature", "-1"], "temperature is -1"),
        (["--agent", "openai", "--model", "m", "--reflexion-rounds", "1"], "give at least 2"),
        (["--agent", "openai", "--model", "m", "--request-tries", "0"], "tries is 0"),
        (["--agent", "random", "--index", f"{ENV}=x"], "--index goes with --suite"),
    ],
)
def test_wrong_options_are_one_sentence(
    command: Command, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert command(["evaluate", "--env", ENV, *options]) == 2
    told = capsys.readouterr().err.strip()
    assert said in told and "\n" not in told


def test_another_index_makes_a_suite_unrankable_and_is_an_argument() -> None:
    suite = SUITE.searching({ENV: "folder"})
    assert suite.envs[0].kwargs == {"index": "folder"} and suite.envs[0].tasks == TASKS
    assert suite.departures == (f"{ENV} searches another index",)
    assert SUITE.searching({}) == SUITE
    with pytest.raises(UsageError, match="an index is given for 'Other-v0'; suite counting has"):
        SUITE.searching({"Other-v0": "x"})
