"""What makes the agents of a run: a plain factory, or something that they share and is opened."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from agentgym_suite.episodes import AgentFactory, Turn

StepSeeds = Callable[[str, int, Turn], int]
"""The seed of a reply from the environment's id, the episode's seed and the turn."""


@runtime_checkable
class AgentSource(Protocol):
    """Makes the agents of a run, while what they share, such as a model, is open."""

    @property
    def config(self) -> Mapping[str, Any]:
        """What it says of itself that can change a result."""
        ...

    def suited(
        self, decoding: Mapping[str, Any], *, sends_tools: bool, step_seed: StepSeeds
    ) -> AgentSource:
        """The same source on a suite's terms.

        Args:
            decoding: settings of ``Decoding`` to be replaced.
            sends_tools: whether the environment's functions go with each request.
            step_seed: gives the seed of each reply.
        """
        ...

    def opened(self) -> AbstractAsyncContextManager[AgentFactory]:
        """What makes the agents, inside an ``async with``."""
        ...


@dataclass(frozen=True, slots=True)
class SeparateAgents:
    """Agents that share nothing and sample no reply.

    Attributes:
        make: makes the agent of one episode.
    """

    make: AgentFactory

    @property
    def config(self) -> Mapping[str, Any]:
        """Nothing."""
        return {}

    def suited(
        self, decoding: Mapping[str, Any], *, sends_tools: bool, step_seed: StepSeeds
    ) -> SeparateAgents:
        """The same; a suite's terms are for models."""
        return self

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[AgentFactory]:
        """The factory; nothing is opened."""
        yield self.make
