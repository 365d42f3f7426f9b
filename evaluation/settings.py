"""What a run is made of beside its suite: the agent, how it is carried out, how it stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentgym_suite.agents import agent_factory
from agentgym_suite.episodes import AgentFactory
from agentgym_suite.evaluation.run_directory import Resume
from agentgym_suite.prompts import StepPrompt


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """An agent as a run knows it.

    Attributes:
        name: its name in tables.
        make: makes the agent of one episode.
        config: everything about it that can change a result, such as model and endpoint.
        prompt: builds its messages; None for agents without a model.
        reply_format: how its replies are read.
        policy_version: digest of its weights; None without weights.
    """

    name: str
    make: AgentFactory
    config: Mapping[str, Any] = field(default_factory=dict)
    prompt: StepPrompt | None = None
    reply_format: str = "raw"
    policy_version: str | None = None


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a run is carried out; nothing here changes a result.

    Attributes:
        concurrency: most episodes in flight.
        episode_timeout_s: wall-clock bound of one episode; None waits for ever.
        max_retries: further attempts of an episode lost to environment or infrastructure.
        resume: "auto" goes on with the run in the directory, "never" refuses to.
    """

    concurrency: int = 4
    episode_timeout_s: float | None = 600.0
    max_retries: int = 2
    resume: Resume = "auto"


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a run stands, for a progress display.

    Attributes:
        agent: name of the agent.
        env_id: environment being played.
        done: episodes finished, those of earlier runs included.
        planned: episodes of the whole run.
        score: mean score of the episodes finished now; None before the first.
        successes: how many of these succeeded.
        played: how many episodes were finished now.
        lost: episodes given up after their retries.
        left_s: expected seconds to the end; None before the first episode.
    """

    agent: str
    env_id: str
    done: int
    planned: int
    score: float | None = None
    successes: int = 0
    played: int = 0
    lost: int = 0
    left_s: float | None = None


class Stop:
    """A request to start no further episode, shared by the runs of one command."""

    def __init__(self) -> None:
        self.requested = False


OnStanding = Callable[[Standing], None]


def named_agent(name: str) -> AgentSpec:
    """The agent of that name, one of ``agents.AGENTS``.

    Raises:
        UsageError: naming the agents there are.
    """
    return AgentSpec(name, agent_factory(name))
