"""Runs of the counting game by a model behind an endpoint that knows how to play it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from agentgym_suite import evaluation
from agentgym_suite.decoding import Decoding
from agentgym_suite.evaluation.model_specs import EndpointOptions, model_agent
from agentgym_suite.evaluation.open_suites import open_suite
from agentgym_suite.evaluation.run_directory import EPISODES, read_records
from agentgym_suite.evaluation.settings import AgentSpec, RunOptions
from agentgym_suite.evaluation.suites import EnvEntry, Suite
from tests.chat_server import Answer, completion, tool_call

ENV = "Counting-v0"
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


def openai(url: str, model: str = "tiny", **options: Any) -> AgentSpec:
    """The agent of a model behind an endpoint."""
    return model_agent("openai", EndpointOptions(model, endpoint=url, **options))
