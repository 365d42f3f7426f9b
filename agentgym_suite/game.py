"""What an environment of the suite offers beside Gymnasium's interface, local or remote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, cast

import gymnasium as gym
import numpy as np

from agentgym_suite.calls import ActionCodec
from agentgym_suite.tasks import TaskSet


class Policy(Protocol):
    """A way to play one episode of an environment without a language model."""

    def __call__(self, observation: str, info: Mapping[str, Any]) -> str:
        """The next action, from what ``reset`` or ``step`` returned last."""
        ...


class Game(Protocol):
    """The environment inside its wrappers, as agents, prompts and servers use it."""

    horizon: int | None

    @property
    def goal_key(self) -> str:
        """The info key that says the goal in words; "" where the observation does."""
        ...

    @property
    def codec(self) -> ActionCodec:
        """Maps actions to tool calls and back."""
        ...

    @property
    def tools(self) -> tuple[dict[str, Any], ...]:
        """OpenAI-style schemas of the grammar's calls, fresh copies."""
        ...

    @property
    def tasks(self) -> TaskSet:
        """The ordered tasks of the data, with splits and digest."""
        ...

    def policy(self, name: str) -> Policy:
        """A policy for the next episode, such as "oracle"."""
        ...

    def random_action(self, rng: np.random.Generator) -> str:
        """A draw from the admissible actions."""
        ...


def game_of(env: gym.Env[str, str]) -> Game:
    """The environment of this suite inside ``env``'s wrappers."""
    return cast(Game, env.unwrapped)


def env_id_of(env: gym.Env[str, str]) -> str:
    """The Gymnasium id of an environment, wherever it runs; "" for one that was made by hand."""
    if env.spec is not None:
        return env.spec.id
    return str(getattr(env.unwrapped, "env_id", ""))  # one in a worker of a cluster has no spec
