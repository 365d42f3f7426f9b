"""What a server says about the environments it serves, as JSON values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from agentgym_suite.env import TextEnv
from agentgym_suite.errors import UsageError
from agentgym_suite.spaces import UnicodeText
from agentgym_suite.tasks import NumberedIds, TaskSet

PROTOCOL = "agentgym-suite/1"
MOST_EXAMPLES = 1_000
MOST_IDS = 10_000
# settable for every environment: gymnasium's own argument
HORIZON_KWARG = "max_episode_steps"


@dataclass(frozen=True, slots=True)
class Served:
    """One environment id of a server, with the server's own arguments.

    Attributes:
        env_id: a registered Gymnasium id.
        kwargs: arguments of ``gym.make`` that the server fixes (data, index, backend).
    """

    env_id: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def make(self, client_kwargs: Mapping[str, Any]) -> gym.Env[str, str]:
        """A new environment.

        Raises:
            UsageError: it cannot be made so.
        """
        # the checker compares observations with the space at each step, which tests do already
        return gym.make(self.env_id, disable_env_checker=True, **{**self.kwargs, **client_kwargs})


def text_env(env: gym.Env[str, str]) -> TextEnv:
    """The environment inside its wrappers.

    Raises:
        UsageError: it is none of the suite's kind.
    """
    inner = env.unwrapped
    if not isinstance(inner, TextEnv):
        raise UsageError(f"{type(inner).__name__} is no TextEnv; serve an environment of the suite")
    return inner


def settable_kwargs(env: gym.Env[str, str]) -> tuple[str, ...]:
    """The arguments that a client may choose."""
    return (*(k for k in text_env(env).remote_kwargs if k != HORIZON_KWARG), HORIZON_KWARG)


def session_spec(env: gym.Env[str, str]) -> dict[str, Any]:
    """What a client needs to look like this environment."""
    inner = text_env(env)
    return {
        "observation_space": space_spec(inner.observation_space),
        "action_space": space_spec(inner.action_space),
        "max_episode_steps": None if env.spec is None else env.spec.max_episode_steps,
        "metadata": dict(inner.metadata),
        "tools": list(inner.tools),
        "info_keys": list(inner.info_keys),
        "goal_key": inner.goal_key,
    }


def env_info(env_id: str, env: gym.Env[str, str], provenance: Mapping[str, Any]) -> dict[str, Any]:
    """One environment's entry of ``/v1/info``.

    Args:
        env_id: its id.
        env: one that was made with the server's arguments alone.
        provenance: what its first reset said of data and indexes.
    """
    inner = text_env(env)
    spec = session_spec(env)
    tasks = inner.tasks
    return {
        "env_id": env_id,
        "version": inner.version,
        "observation_space": spec["observation_space"],
        "action_space": spec["action_space"],
        "max_episode_steps": spec["max_episode_steps"],
        "metadata": spec["metadata"],
        "info_keys": spec["info_keys"],
        "goal_key": spec["goal_key"],
        "splits": {name: len(members) for name, members in tasks.splits.items()},
        "tasks": len(tasks),
        "tasks_digest": tasks.digest,
        "provenance": dict(provenance),
        "tools": spec["tools"],
        "remote_kwargs": list(settable_kwargs(env)),
    }


def space_spec(space: Any) -> dict[str, Any]:
    """A text space, with the examples it samples from."""
    if not isinstance(space, UnicodeText):
        raise UsageError(f"the space is {type(space).__name__}; serve spaces of UnicodeText only")
    spec: dict[str, Any] = {
        "type": "UnicodeText",
        "min_length": space.min_length,
        "max_length": space.max_length,
    }
    if space.examples:
        spec["examples"] = list(space.examples[:MOST_EXAMPLES])
    return spec


def tasks_page(tasks: TaskSet, offset: int, limit: int) -> dict[str, Any]:
    """A part of a task set: its ids from ``offset`` on, and how the splits divide them.

    Numbered ids are told by their prefix alone, and splits of consecutive tasks by their ends, so
    that millions of tasks fit in one short answer.
    """
    page: dict[str, Any] = {
        "tasks": len(tasks),
        "digest": tasks.digest,
        "splits": {name: _positions(members) for name, members in tasks.splits.items()},
    }
    if isinstance(tasks.ids, NumberedIds):
        page["prefix"] = tasks.ids.prefix
    else:
        end = min(offset + min(limit, MOST_IDS), len(tasks))
        page["ids"] = [tasks.ids[i] for i in range(offset, end)]
    return page


def _positions(members: Sequence[int]) -> dict[str, int] | list[int]:
    if isinstance(members, range) and members.step == 1:
        return {"start": members.start, "stop": members.stop}
    return [int(position) for position in members]
