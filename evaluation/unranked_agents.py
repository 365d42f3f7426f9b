"""Agents whose runs no leaderboard ranks, by what a run's configuration says of its agent.

The reasons stand in the run's own results and in the rules of admission alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym_suite.agents import AGENTS

#: configuration key of a replay: what the replayed run says of its own agent
RECORDED_AGENT = "recorded_agent"


def agent_faults(agent: Mapping[str, Any]) -> list[str]:
    """Every reason against ranking an agent's runs; empty when there is none.

    Args:
        agent: ``config["agent"]`` of a run's header.
    """
    faults = (baseline_fault(agent), copy_fault(agent), feedback_fault(agent))
    return [fault for fault in faults if fault]


def is_baseline(agent: Mapping[str, Any]) -> bool:
    """Whether it is an agent that comes with the suite, which tells what other rows are worth."""
    return agent.get("name") in AGENTS and "kind" not in agent  # a model may bear any name


def baseline_fault(agent: Mapping[str, Any]) -> str:
    """The suite's own agents are shown beside the ranked rows."""
    if not is_baseline(agent):
        return ""
    return f"{agent['name']} comes with the suite and is shown as a baseline"


def copy_fault(agent: Mapping[str, Any]) -> str:
    """A run that repeats recorded actions or replies says nothing that the recorded run did not."""
    if agent.get("kind") == "replay":
        name = (agent.get(RECORDED_AGENT) or {}).get("name", "another agent")
        return f"it repeats the actions of a run of {name}; rank that run"
    if agent.get("kind") == "cassette":
        return f"it repeats recorded replies of {agent.get('model')}; rank the run they come from"
    return ""


def feedback_fault(agent: Mapping[str, Any]) -> str:
    """An agent that is told of its failure and plays again is none that knows nothing of it."""
    if agent.get("uses_success_feedback_at_test"):
        rounds = agent.get("reflexion_rounds")
        return f"it plays a task up to {rounds} times, told whether it failed"
    recorded = agent.get(RECORDED_AGENT)
    return feedback_fault(recorded) if recorded else ""
