"""What a run is made of beside its suite: the agent, how it is carried out, how it stands."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from agentgym_suite.agent_sources import AgentSource, SeparateAgents
from agentgym_suite.agents import AGENTS, agent_factory
from agentgym_suite.episodes import AgentFactory, Turn
from agentgym_suite.errors import UsageError
from agentgym_suite.evaluation.prices import Pricing
from agentgym_suite.evaluation.run_directory import Resume
from agentgym_suite.evaluation.suites import Suite, decoding_seed
from agentgym_suite.files import sha256_file
from agentgym_suite.prompts import StepPrompt, prompt_template

Runner = Literal["local", "ray"]


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """An agent as a run knows it.

    Attributes:
        name: its name in tables.
        make: makes the agent of one episode, or all agents of the run.
        config: everything about it that can change a result, such as model and endpoint.
        prompt: builds its messages; None for agents without a model.
        reply_format: how its replies are read.
        policy_version: digest of its weights; None without weights.
        chosen: what was chosen for the agent, so that a suite does not replace it: "prompt",
            "reply_format", and names of decoding settings.
        max_rounds: how often it may play a task in one episode, reflecting on what failed.
        pricing: how its episodes are priced; None for agents without a price.
    """

    name: str
    make: AgentFactory | AgentSource
    config: Mapping[str, Any] = field(default_factory=dict)
    prompt: StepPrompt | None = None
    reply_format: str = "raw"
    policy_version: str | None = None
    chosen: frozenset[str] = frozenset()
    max_rounds: int = 1
    pricing: Pricing | None = None

    def suited(self, suite: Suite) -> AgentSpec:
        """The same agent with what a suite says of prompts and decoding.

        An agent without messages has no prompt, one without a model no decoding, and what was
        chosen for the agent stays.
        """
        spec = self._prompted(suite.prompt_format)
        source = spec.source.suited(
            spec._stated(suite),
            sends_tools=spec.reply_format == "openai",
            step_seed=SuiteSeeds(suite.id, suite.version),
        )
        return replace(spec, make=source, config={**spec.config, **source.config})

    @property
    def source(self) -> AgentSource:
        """What makes its agents."""
        return self.make if isinstance(self.make, AgentSource) else SeparateAgents(self.make)

    def _prompted(self, template: str) -> AgentSpec:
        if not template or self.prompt is None or "prompt" in self.chosen:
            return self
        written_for = prompt_template(template).reply_format
        return replace(
            self,
            prompt=replace(self.prompt, template=template),
            reply_format=self.reply_format if "reply_format" in self.chosen else written_for,
        )

    def _stated(self, suite: Suite) -> dict[str, Any]:
        """What the suite says of decoding and nobody chose otherwise."""
        stated = {} if suite.decoding is None else asdict(suite.decoding)
        return {
            name: value
            for name, value in stated.items()
            if value is not None and name not in self.chosen
        }


@dataclass(frozen=True, slots=True)
class SuiteSeeds:
    """The seeds of a suite's replies.

    Attributes:
        suite: its id.
        version: its version.
    """

    suite: str
    version: int

    def __call__(self, env_id: str, seed: int, turn: Turn) -> int:
        """The seed of the reply to a turn."""
        return decoding_seed(
            self.suite, self.version, env_id, turn.task.id, turn.trial, turn.step_index
        )


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a run is carried out; nothing here changes a result.

    Attributes:
        concurrency: most episodes in flight.
        episode_timeout_s: wall-clock bound of one episode; None waits for ever.
        max_retries: further attempts of an episode lost to environment or infrastructure.
        resume: "auto" goes on with the run in the directory, "never" refuses to.
        runner: where environments run: "local" in threads of this process, "ray" on a cluster.
        ray_address: the Ray cluster, as ``ray_pool.connected`` takes it.
        num_workers: Ray actors, each with an episode in flight; None takes the concurrency.

    Raises:
        UsageError: a number out of its range, an unknown runner, or Ray's options without Ray.
    """

    concurrency: int = 4
    episode_timeout_s: float | None = 600.0
    max_retries: int = 2
    resume: Resume = "auto"
    runner: Runner = "local"
    ray_address: str | None = None
    num_workers: int | None = None

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise UsageError(f"concurrency is {self.concurrency}; give at least 1")
        if self.max_retries < 0:
            raise UsageError(f"max_retries is {self.max_retries}; give 0 or more")
        seconds = self.episode_timeout_s
        if seconds is not None and not 0 < seconds < math.inf:
            raise UsageError(f"episode_timeout_s is {seconds}; give seconds above 0, or None")
        if self.runner not in get_args(Runner):
            raise UsageError(f"runner is {self.runner!r}; use {' or '.join(get_args(Runner))}")
        if self.num_workers is not None and self.num_workers < 1:
            raise UsageError(f"num_workers is {self.num_workers}; give at least 1, or None")
        for name in ("ray_address", "num_workers"):
            if self.runner != "ray" and getattr(self, name) is not None:
                raise UsageError(f"{name} is given, but the runner is {self.runner}; use ray")

    @property
    def in_flight(self) -> int:
        """Most episodes at a time."""
        return self.num_workers or self.concurrency


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run is, for a display.

    Attributes:
        agent: name of the agent.
        env_id: environment being played.
        done: episodes finished, those of earlier times included.
        planned: episodes of the whole run.
        resumed: how many of the finished ones were there when the run was gone on with.
        score: mean score of the finished ones; None before the first.
        successes: how many of them succeeded.
        lost: episodes given up after their retries.
        left_s: expected seconds to the end; None before the first episode that is played now.
        suite: id of the suite.
        stopping: whether the run was asked to end, and waits for the episodes in flight.
    """

    agent: str
    env_id: str
    done: int
    planned: int
    resumed: int = 0
    score: float | None = None
    successes: int = 0
    lost: int = 0
    left_s: float | None = None
    suite: str = ""
    stopping: bool = False


class Stop:
    """A request to start no further episode, shared by the runs of one command."""

    def __init__(self) -> None:
        self.requested = False


OnProgress = Callable[[RunProgress], None]


def named_agent(name: str) -> AgentSpec:
    """The agent of that name, one of ``agents.AGENTS``, or one of your own as ``module:Class``.

    Such a class may have the attributes ``prompt``, a ``StepPrompt`` for agents that take
    messages, and ``reply_format``, how its replies are read.

    Raises:
        UsageError: naming the agents there are, or what is wrong with the module.
    """
    factory = agent_factory(name)
    if name in AGENTS:
        return AgentSpec(name, factory)
    prompt: StepPrompt | None = getattr(factory, "prompt", None)
    written_for = "raw" if prompt is None else prompt_template(prompt.template).reply_format
    return AgentSpec(
        name,
        factory,
        config={"source": _source_digest(factory)},
        prompt=prompt,
        reply_format=getattr(factory, "reply_format", written_for),
    )


def _source_digest(factory: AgentFactory) -> str | None:
    """SHA-256 of the file that defines a factory: another file is another agent."""
    try:
        path = inspect.getsourcefile(factory)
    except TypeError:  # made by code, not written in a file
        return None
    return None if path is None else f"sha256:{sha256_file(path)}"
