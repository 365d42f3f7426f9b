"""``TextEnv``: what every environment of the suite shares.

Task choice, seeding, step bookkeeping and the info schema live here; a subclass supplies the
game in a few hooks. An episode is a pure function of (data digest, task id, seed, actions).
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import gymnasium as gym
import numpy as np

from agentgym_suite.arguments import shown
from agentgym_suite.calls import ActionCodec
from agentgym_suite.data import canonical_json
from agentgym_suite.errors import EnvError, EpisodeNotRunning, UsageError
from agentgym_suite.game import Policy
from agentgym_suite.spaces import UnicodeText, without_surrogates
from agentgym_suite.tasks import Task, TaskSet
from agentgym_suite.versions import suite_version

MAX_ACTION_CHARACTERS = 1 << 20
COMMON_INFO_KEYS = (
    "task_id",
    "task_family",
    "split",
    "seed",
    "step",
    "steps_left",
    "admissible_actions",
    "action_valid",
    "action_error",
    "raw_action",
    "parsed_action",
    "score",
    "success",
    "metrics",
    "state_hash",
    "provenance",
)
_RESET_OPTIONS = ("task_id", "split")


@dataclass(slots=True)
class Transition:
    """What one reset or step of a game did.

    Attributes:
        observation: the text the policy reads next.
        reward: the environment's own reward, finite.
        terminated: whether the game is over.
        error: why the action was refused, one sentence; "" for a valid action.
        parsed_action: the action as executed; playing it again has exactly the same effect.
    """

    observation: str
    reward: float = 0.0
    terminated: bool = False
    error: str = ""
    parsed_action: str = ""


class TextEnv(gym.Env[str, str], ABC):
    """A Gymnasium environment whose observations and actions are strings.

    Subclasses implement the hooks ``_load_tasks``, ``_begin``, ``_play``, ``_refuse``,
    ``_admissible_actions``, ``_score``, ``_metrics``, ``_details``, ``_state`` and
    ``_provenance``, and set ``codec`` and ``policies`` (name -> factory of a ``Policy`` that may
    read the environment's privileged state, such as "oracle"). The horizon is gymnasium's
    ``TimeLimit``, so ``truncated`` is always False here; ``horizon`` is its length, None if none.

    Args:
        split: the split that a reset without ``task_id`` draws from.
        render_mode: None or "ansi" (``render()`` returns the current observation).
        observation_length: longest observation, in characters; longer ones are cut visibly.
        action_length: longest action of the space; up to 1,048,576 are refused with feedback.
        example_actions: what the action space's ``sample`` picks from.

    Raises:
        UsageError: on an unknown render mode.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}
    version: ClassVar[str] = "1"
    remote_kwargs: ClassVar[tuple[str, ...]] = ("split",)
    detail_keys: ClassVar[tuple[str, ...]] = ()
    goal_key: ClassVar[str] = ""
    codec: ClassVar[ActionCodec]
    policies: ClassVar[Mapping[str, Callable[[Any], Policy]]] = {}
    observation_space: UnicodeText
    action_space: UnicodeText
    _arguments: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Remember the constructor's arguments, which are all that a pickle holds."""
        env = super().__new__(cls)
        env._arguments = (args, kwargs)
        return env

    def __init__(
        self,
        *,
        split: str,
        render_mode: str | None = None,
        observation_length: int = 65536,
        action_length: int = 16384,
        example_actions: Sequence[str] = (),
    ) -> None:
        if not isinstance(render_mode, str | None) or render_mode not in (None, "ansi"):
            raise UsageError(f"render_mode is {shown(render_mode)}; use None or 'ansi'")
        self.render_mode = render_mode
        self.horizon: int | None = None  # set by the wrapper of horizon.py
        self.observation_space = UnicodeText(observation_length)
        self.action_space = UnicodeText(action_length, examples=example_actions)
        self._split = split
        self._tasks: TaskSet | None = None
        self._task = Task("", -1, "")
        self._seed = -1
        self._steps = 0
        self._running = False
        self._observation = ""
        self._invalid_actions = 0
        self._cut_characters = 0
        self._provenance_texts: dict[tuple[int | None, str], str] = {}  # by horizon and split

    # ------------------------------------------------------------------ hooks

    @abstractmethod
    def _load_tasks(self) -> TaskSet:
        """Open the data in the process that uses it and return its tasks."""

    @abstractmethod
    def _begin(self, task: Task) -> Transition:
        """Start the episode of a task."""

    @abstractmethod
    def _play(self, action: str) -> Transition:
        """Execute one action within the action space."""

    @abstractmethod
    def _refuse(self, action: str, error: str) -> Transition:
        """Answer an action that is too long to play: feedback, no change of state."""

    @abstractmethod
    def _admissible_actions(self) -> tuple[str, ...]:
        """The legal actions now; empty when open-ended."""

    @abstractmethod
    def _score(self) -> tuple[float, bool]:
        """The task score so far in [0, 1], and success."""

    @abstractmethod
    def _metrics(self) -> dict[str, float]:
        """A new dict of finite floats, always with the same keys."""

    @abstractmethod
    def _details(self) -> dict[str, Any]:
        """A new dict of the environment's own info keys (``detail_keys``), fixed types."""

    @abstractmethod
    def _state(self) -> str:
        """Canonical JSON of everything the next step depends on."""

    @abstractmethod
    def _provenance(self) -> Mapping[str, Any]:
        """What identifies data, indexes, numbers and backend, for a horizon and a split."""

    def _choose(self, split: str, members: Sequence[int], u: float) -> int:
        """The task position for a uniform draw ``u`` in [0, 1); uniform unless overridden."""
        return members[int(u * len(members))]

    # ------------------------------------------------------------- public API

    @property
    def tasks(self) -> TaskSet:
        """The ordered tasks of the data, with splits and digest."""
        if self._tasks is None:
            self._tasks = self._load_tasks()
        return self._tasks

    @property
    def tools(self) -> tuple[dict[str, Any], ...]:
        """OpenAI-style schemas of the grammar's calls, fresh copies."""
        return self.codec.tools

    @property
    def info_keys(self) -> tuple[str, ...]:
        """Every key of ``info``, the same at reset and at every step."""
        return COMMON_INFO_KEYS + self.detail_keys

    def policy(self, name: str) -> Policy:
        """A policy for the next episode: "oracle", "scripted", as the environment has them.

        Raises:
            UsageError: naming the policies there are.
        """
        if name not in self.policies:
            known = ", ".join(self.policies) or "none"
            raise UsageError(f"{self._name()} has no policy {shown(name)}; it has: {known}")
        return self.policies[name](self)

    def random_action(self, rng: np.random.Generator) -> str:
        """A uniform draw from the admissible actions, or from the action space's examples."""
        actions = self._admissible_actions() or self.action_space.examples or ("",)
        return actions[int(rng.integers(len(actions)))]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: reseeds the environment's generator; alone it picks a task of the split.
            options: ``task_id`` (id or number; wins over the seed's pick) and ``split``.

        Raises:
            UnknownTask, UnknownSplit, UsageError: on a wrong option, with what is legal.
        """
        if not isinstance(options, Mapping | None):
            raise UsageError(f"options is {type(options).__name__}; give a dict or None")
        whole = isinstance(seed, int | np.integer | None) and not isinstance(seed, bool)
        if not whole or (seed is not None and seed < 0):
            raise UsageError(f"seed is {shown(seed)}; give an integer of 0 or more, or None")
        seed = None if seed is None else int(seed)
        task = self._pick(seed, options or {})
        self._task = task
        self._seed = -1 if seed is None else seed
        self._steps = 0
        self._invalid_actions = 0
        self._cut_characters = 0
        self._running = False  # until the new game stands: a failing _begin leaves none
        transition = self._begin(task)
        self._running = True
        observation = self._fit(transition.observation)
        return observation, self._compose_info(transition, "") | {
            "provenance": self._provenance_text()
        }

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one action.

        Raises:
            TypeError: if the action is not a str.
            UsageError: if it has more than 1,048,576 characters.
            EpisodeNotRunning: before reset, or after the episode ended.
        """
        if not isinstance(action, str):
            raise TypeError(f"the action is {type(action).__name__}; give a str")
        horizon = self.horizon
        if not self._running or (horizon is not None and self._steps >= horizon):
            raise EpisodeNotRunning(
                f"{self._name()} has no running episode; call reset() before step()"
            )
        action = without_surrogates(action)
        if len(action) <= self.action_space.max_length:
            transition = self._play(action)
        elif len(action) <= MAX_ACTION_CHARACTERS:
            transition = self._refuse(
                action,
                f"the action has {len(action):,} characters; "
                f"use at most {self.action_space.max_length:,}",
            )
        else:
            raise UsageError(
                f"the action has {len(action):,} characters; give at most {MAX_ACTION_CHARACTERS:,}"
            )
        reward = float(transition.reward)
        if not math.isfinite(reward):
            raise EnvError(f"task {self._task.id} gave the reward {reward}; report this as a bug")
        self._steps += 1
        if transition.error:
            self._invalid_actions += 1
        if transition.terminated:
            self._running = False
        observation = self._fit(transition.observation)
        return (
            observation,
            reward,
            transition.terminated,
            False,
            self._compose_info(transition, action),
        )

    def render(self) -> str | None:
        """The current observation in render mode "ansi", else None."""
        return self._observation if self.render_mode == "ansi" else None

    def close(self) -> None:
        """End the running episode; may be called any number of times."""
        self._running = False

    def __reduce__(self) -> tuple[Any, ...]:
        if self._running:
            raise EnvError(
                f"{self._name()} is in the middle of task {self._task.id}; "
                "pickle it before reset() or after close()"
            )
        return _rebuild, (type(self), *self._arguments, self.spec, self.horizon)

    # ---------------------------------------------------------------- inside

    def _name(self) -> str:
        return self.spec.id if self.spec is not None else type(self).__name__

    def _pick(self, seed: int | None, options: Mapping[str, Any]) -> Task:
        unknown = [key for key in options if key not in _RESET_OPTIONS]
        if unknown:
            raise UsageError(
                f"reset option {shown(unknown[0])} does not exist; use {', '.join(_RESET_OPTIONS)}"
            )
        tasks = self.tasks
        split = options.get("split", self._split)
        members = tasks.split(split)
        super().reset(seed=seed)
        u = float(self.np_random.random())  # drawn always: the episode's stream never depends on it
        task_id = options.get("task_id")
        if task_id is not None:
            index = tasks.resolve(task_id)
            if "split" in options and index not in members:
                raise UsageError(
                    f"task {tasks.ids[index]} is not in split {split!r} but in "
                    f"{tasks.split_of(index)!r}; leave one of the two options out"
                )
            return tasks.task(index, split)
        if not len(members):
            raise UsageError(
                f"split {split!r} has no task in this data; "
                f"choose another of {', '.join(tasks.splits)}"
            )
        return tasks.task(self._choose(split, members, u), split)

    def _fit(self, observation: str) -> str:
        longest = self.observation_space.max_length
        if len(observation) > longest:
            cut = len(observation) - longest + 64
            observation = f"{observation[: longest - 64]}[… {cut:,} characters cut]"
            self._cut_characters += cut
        self._observation = observation
        return observation

    def _compose_info(self, transition: Transition, raw_action: str) -> dict[str, Any]:
        task = self._task
        horizon = self.horizon
        score, success = self._score()
        metrics = self._metrics()
        metrics["invalid_actions"] = float(self._invalid_actions)
        metrics["characters_cut"] = float(self._cut_characters)
        info: dict[str, Any] = {
            "task_id": task.id,
            "task_family": task.family,
            "split": task.split,
            "seed": self._seed,
            "step": self._steps,
            "steps_left": -1 if horizon is None else horizon - self._steps,
            "admissible_actions": self._admissible_actions(),
            "action_valid": not transition.error,
            "action_error": transition.error,
            "raw_action": raw_action,
            "parsed_action": transition.parsed_action,
            "score": score,
            "success": success,
            "metrics": metrics,
            "state_hash": hashlib.sha256(self._state().encode("utf-8")).hexdigest(),
            "provenance": "",
        }
        info.update(self._details())
        return info

    def _provenance_text(self) -> str:
        key = self.horizon, self._task.split
        if key not in self._provenance_texts:
            self._provenance_texts[key] = canonical_json(
                {
                    "suite_version": suite_version(),
                    "environment": self._name(),
                    "environment_version": self.version,
                    "horizon": -1 if self.horizon is None else self.horizon,
                    **self._provenance(),
                }
            )
        return self._provenance_texts[key]


def _rebuild(
    cls: Callable[..., TextEnv],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    spec: Any,
    horizon: int | None,
) -> TextEnv:
    env = cls(*args, **kwargs)
    env.spec = spec
    env.horizon = horizon
    return env
