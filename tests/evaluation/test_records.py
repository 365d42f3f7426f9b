from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.episodes import Episode, Failure, Reply, Step, Timings
from agentgym_suite.evaluation.published_schemas import published_schemas
from agentgym_suite.evaluation.records import (
    EpisodeRecord,
    RecordKey,
    attempt_record,
    episode_record,
    json_line,
)
from agentgym_suite.evaluation.schema import json_schema
from agentgym_suite.prompts import Message
from agentgym_suite.usage import Usage

KEY = RecordKey("tiny", 1, "Counting-v0", "count-0", 0)


def step(text: str = "x", reward: float = 0.0) -> Step:
    return Step(
        observation=text,
        next_observation=text,
        messages=(Message("user", text),),
        reply=Reply(text, usage=Usage(3, 2, 1)),
        action=text,
        parsed_action=text,
        valid=True,
        error="",
        span=(0, 1),
        env_reward=reward,
        reward=9.0,
        terminated=False,
        truncated=False,
        admissible=("a", "b"),
        state_hash="00",
        dropped_steps=2,
        cut_characters=7,
        timings=Timings(0.5, math.inf),
    )


def episode(*steps: Step, **changes: Any) -> Episode:
    values: dict[str, Any] = {
        "task_id": "count-0",
        "trial": 0,
        "seed": 5,
        "group_id": "",
        "task_family": "even",
        "split": "test",
        "steps": steps,
        "score": 0.25,
        "success": False,
        "outcome": "failure",
        "failure": None,
        "metrics": {"m": 1.0},
        "provenance": "{}",
    }
    return Episode(**{**values, **changes})


def stored(value: Episode) -> dict[str, Any]:
    record = episode_record(KEY, value, attempts=1, policy_version=None, keep=lambda text: None)
    line = json_line(record)
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    loaded = json.loads(line, parse_constant=lambda name: pytest.fail(name))
    assert isinstance(loaded, dict)
    return loaded


def test_the_published_schema_is_the_dataclasses() -> None:
    assert {path.name for path in published_schemas()} == {
        "episode.schema.json",
        "results.schema.json",
    }
    for path, text in published_schemas().items():
        assert path.read_text("utf-8") == text, "run `make docs`"


def test_records_satisfy_the_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    schema = json_schema(EpisodeRecord, "t")
    failed = Failure("env_exception", "env", "broken")
    for value in (episode(), episode(step()), episode(step(), failure=failed, outcome="error")):
        jsonschema.validate(stored(value), schema)


def test_a_record_keeps_the_environment_s_own_reward() -> None:
    record = stored(episode(step(reward=0.75)))
    assert record["steps"][0]["reward"] == 0.75
    assert record["steps"][0]["tokens"] == {"prompt": 3, "completion": 2, "cached": 1}
    assert record["steps"][0]["admissible_n"] == 2
    assert (record["steps"][0]["dropped_steps"], record["steps"][0]["cut_characters"]) == (2, 7)
    assert record["key"]["env_id"] == "Counting-v0"
    assert record["final_obs"] == "x"


def test_numbers_that_are_not_finite_become_null() -> None:
    record = stored(episode(step(reward=math.nan), score=math.nan, metrics={"m": -math.inf}))
    assert record["steps"][0]["reward"] is None
    assert record["steps"][0]["latency_s"] == {"model": 0.5, "env": None}
    assert (record["score"], record["metrics"]) == (None, {"m": None})


@given(st.text(max_size=40))
def test_any_text_survives(text: str) -> None:
    assert stored(episode(step(text)))["steps"][0]["reply"] == text


@pytest.mark.parametrize("text", ["a\ud800b", "\udfff", "😀\ud83d"])
def test_lone_surrogates_are_replaced(text: str) -> None:
    reply = stored(episode(step(text)))["steps"][0]["reply"]
    assert "\ufffd" in reply
    reply.encode("utf-8")


def test_line_separators_of_unicode_stay_inside_their_line() -> None:
    assert stored(episode(step("a\u2028b\nc\x85d")))["steps"][0]["obs"] == "a\u2028b\nc\x85d"


def test_an_attempt_says_what_broke() -> None:
    value = episode(step(), failure=Failure("connection", "infra", "gone"), outcome="error")
    record = json.loads(json_line(attempt_record(KEY, value, 2)))
    assert record["attempt"] == 2
    told = {"kind": "connection", "origin": "infra", "message": "gone", "tokens": None}
    assert record["failure"] == told
    assert record["n_steps"] == 1
