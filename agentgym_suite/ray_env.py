"""An environment that runs in a Ray actor, seen as if it were here: ``RayEnv`` and its ``Stage``.

Nothing here needs Ray: the two talk through a ``Worker``, which ``ray_pool`` makes of an actor.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from agentgym_suite.calls import ActionCodec
from agentgym_suite.errors import AgentGymSuiteError, EnvError, UsageError, WorkerLost
from agentgym_suite.game import Policy, game_of
from agentgym_suite.making import make_environment
from agentgym_suite.playing import carry_told, told
from agentgym_suite.spaces import UnicodeText
from agentgym_suite.tasks import TaskSet
from agentgym_suite.versions import suite_version

# ------------------------------------------------------------------------- in the actor


@dataclass(frozen=True, slots=True)
class About:
    """What an environment is, told once by its actor."""

    codec: ActionCodec
    goal_key: str
    info_keys: tuple[str, ...]
    version: str
    horizon: int | None
    observation_space: UnicodeText
    action_space: UnicodeText


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception on its way out of the actor."""

    error: BaseException


class Stage:
    """Holds one environment in a process of its own and does what its ``RayEnv`` asks.

    Args:
        spec: the environment's registration, which this process may lack.
        kwargs: arguments of the environment or of ``gym.make``.
    """

    def __init__(self, spec: EnvSpec, kwargs: Mapping[str, Any]) -> None:
        self._id = spec.id
        self._kwargs = kwargs
        self._env: gym.Env[str, str] | None = None
        self._policies: dict[str, Policy] = {}
        gym.registry.setdefault(spec.id, spec)

    def ask(self, call: str, *args: Any) -> Any:
        """The answer of one of the methods below, or what it raised."""
        try:
            return getattr(self, call)(*args)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # an exit, too, is the environment's fault, not the actor's
            return Raised(_carried(error))

    def version(self) -> str:
        """The suite's version here."""
        return suite_version()

    def open(self) -> About:
        """Make a new environment and tell what it is."""
        self._policies.clear()
        self._env = make_environment(self._id, self._kwargs)
        game: Any = game_of(self._env)
        return About(
            game.codec,
            game.goal_key,
            tuple(game.info_keys),
            str(game.version),
            game.horizon,
            game.observation_space,
            game.action_space,
        )

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> Any:
        """As the environment's own."""
        return self._playing().reset(seed=seed, options=options)

    def step(self, action: str) -> Any:
        """As the environment's own."""
        return self._playing().step(action)

    def render(self) -> Any:
        """As the environment's own."""
        return self._playing().render()

    def tasks(self) -> TaskSet:
        """The tasks of the data here."""
        return game_of(self._playing()).tasks

    def policy(self, name: str) -> None:
        """Have a policy ready for the next episode."""
        self._policies[name] = game_of(self._playing()).policy(name)

    def act(self, name: str, observation: str, info: Mapping[str, Any]) -> str:
        """The next action of a policy that was made ready."""
        return self._policies[name](observation, info)

    def random_action(self, rng: np.random.Generator) -> tuple[str, Mapping[str, Any]]:
        """A draw, and the state in which it leaves the generator."""
        return game_of(self._playing()).random_action(rng), rng.bit_generator.state

    def close(self) -> None:
        """End the environment; the actor stays for another."""
        env, self._env = self._env, None
        if env is not None:
            env.close()

    def _playing(self) -> gym.Env[str, str]:
        if self._env is None:
            raise EnvError(f"{self._id} is not open in its Ray worker; report this as a bug")
        return self._env


def _carried(error: BaseException) -> BaseException:
    """An exception that any process of the suite can read, saying what this one says."""
    words = told(error)
    package = type(error).__module__.partition(".")[0]
    known = isinstance(error, AgentGymSuiteError) or package in ("builtins", "gymnasium")
    try:
        twin = pickle.loads(pickle.dumps(error)) if known else None
    except Exception:  # an exception is no reason to lose the actor
        twin = None
    carried = twin if isinstance(twin, BaseException) else EnvError(words)
    carry_told(carried, words)
    return carried


# -------------------------------------------------------------------------- in the driver


class Worker(Protocol):
    """A ``Stage`` seen from here, lent to one ``RayEnv``."""

    def ask(self, call: str, *args: Any) -> Any:
        """What ``Stage.ask`` returns there; ``WorkerLost`` if it cannot be asked any more."""
        ...

    def give_back(self) -> None:
        """Close the environment; another may be lent the worker."""
        ...

    def discard(self) -> None:
        """End the worker, in whatever it is doing."""
        ...


class RayEnv(gym.Env[str, str]):
    """An environment that runs in a Ray actor, seen as if it were here.

    Reset, step and infos are those of the environment with its wrappers. It is made in the actor
    at the first need of it, and given up with it by ``close``: take a new one from the pool.

    Args:
        env_id: the environment's id.
        worker: where it runs.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}

    def __init__(self, env_id: str, worker: Worker) -> None:
        self.env_id = env_id
        self._lock = threading.Lock()
        self._worker: Worker | None = worker

    @cached_property
    def about(self) -> About:
        """What the environment is; asking for it makes it.

        Raises:
            UsageError: its arguments are wrong.
            WorkerLost: the worker is gone, or cannot make it.
        """
        try:
            made: About = self._ask("open")
        except (UsageError, WorkerLost):
            raise
        except Exception as error:  # no full disk there is the fault of the agent that asked first
            self.abandon()
            raise WorkerLost(f"a Ray worker cannot make {self.env_id}: {error}") from error
        return made

    @property
    def observation_space(self) -> UnicodeText:  # type: ignore[override]
        """The space of observations."""
        return self.about.observation_space

    @property
    def action_space(self) -> UnicodeText:  # type: ignore[override]
        """The space of actions."""
        return self.about.action_space

    @property
    def codec(self) -> ActionCodec:
        """The map between tool calls and actions."""
        return self.about.codec

    @property
    def tools(self) -> tuple[dict[str, Any], ...]:
        """OpenAI-style schemas of the grammar's calls, fresh copies."""
        return self.codec.tools

    @property
    def info_keys(self) -> tuple[str, ...]:
        """Every key of ``info``."""
        return self.about.info_keys

    @property
    def goal_key(self) -> str:
        """The info key that says the goal in words; "" where the observation does."""
        return self.about.goal_key

    @property
    def version(self) -> str:
        """The environment's version."""
        return self.about.version

    @property
    def horizon(self) -> int | None:
        """The step limit, None if there is none."""
        return self.about.horizon

    @cached_property
    def tasks(self) -> TaskSet:
        """The ordered tasks of the data in the actor, fetched at first use."""
        tasks: TaskSet = self._ask_made("tasks")
        return tasks

    def policy(self, name: str) -> Policy:
        """A policy for the next episode, which plays in the actor; one at a time of each name.

        Raises:
            UsageError: naming the policies there are.
        """
        self._ask_made("policy", name)

        def act(observation: str, info: Mapping[str, Any]) -> str:
            return str(self._ask("act", name, observation, info))

        return act

    def random_action(self, rng: np.random.Generator) -> str:
        """The environment's own draw, which leaves ``rng`` as it would here."""
        action, state = self._ask_made("random_action", rng)
        rng.bit_generator.state = state
        return str(action)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode; the arguments are those of the environment.

        Raises:
            UsageError: an option or an argument of the environment is wrong.
            WorkerLost: the worker is gone.
        """
        observation, info = self._ask_made("reset", seed, options)
        return observation, info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one action.

        Raises:
            EpisodeNotRunning: before reset, or after the episode ended.
            WorkerLost: the worker is gone, and the episode with it.
        """
        observation, reward, terminated, truncated, info = self._ask_made("step", action)
        return observation, reward, terminated, truncated, info

    def render(self) -> Any:
        """The current observation in render mode "ansi", else None."""
        return self._ask_made("render")

    def close(self) -> None:
        """End the environment and give its worker back; may be called any number of times."""
        worker = self._leave()
        if worker is not None:
            worker.give_back()

    def abandon(self) -> None:
        """End the environment with its worker, whatever that is doing."""
        worker = self._leave()
        if worker is not None:
            worker.discard()

    def _leave(self) -> Worker | None:
        with self._lock:  # a hanging step is given up from another thread than its own
            worker, self._worker = self._worker, None
        return worker

    def _ask_made(self, call: str, *args: Any) -> Any:
        _ = self.about
        return self._ask(call, *args)

    def _ask(self, call: str, *args: Any) -> Any:
        worker = self._worker
        if worker is None:
            raise EnvError(f"{self.env_id} was closed; take a new environment from the pool")
        try:
            answer = worker.ask(call, *args)
        except WorkerLost:
            self.abandon()
            raise
        if isinstance(answer, Raised):
            raise answer.error
        return answer
