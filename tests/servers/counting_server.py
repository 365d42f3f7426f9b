"""The counting game as a server sees it: with a step that hangs, and named or numbered ids."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

import gymnasium as gym

from agentgym_suite.env import Transition
from agentgym_suite.errors import UsageError
from agentgym_suite.registry import TELL_HORIZON
from agentgym_suite.tasks import TaskSet
from tests.counting import CountingEnv

ENV_ID = "ServedCounting-v0"
HORIZON = 6


class Hold:
    """Keeps ``say[wait]`` waiting; gymnasium copies arguments deeply, so copies are the same."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.release = threading.Event()

    def __deepcopy__(self, memo: dict[int, Any]) -> Hold:
        return self


class Closed(list[Any]):
    """The environments that were closed."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Closed:
        return self


class ServedCountingEnv(CountingEnv):
    remote_kwargs: ClassVar[tuple[str, ...]] = ("split", "bonus")
    detail_keys = ("target", "total", "history")

    def __init__(
        self,
        split: str = "train",
        render_mode: str | None = None,
        *,
        bonus: int = 0,
        named_ids: bool = False,
        hold: Hold | None = None,
        closed: Closed | None = None,
    ) -> None:
        if not isinstance(bonus, int) or bonus < 0:
            raise UsageError(f"bonus is {bonus!r}; give 0 or more")
        super().__init__(split, render_mode)
        self._bonus = bonus
        self._named_ids = named_ids
        self._hold = hold
        self._closed = closed
        self._history: tuple[str, ...] = ()

    def _load_tasks(self) -> TaskSet:
        if self._named_ids:
            return TaskSet([f"é-{i}" for i in range(10)], {"train": [0, 2, 4], "test": range(5, 8)})
        return super()._load_tasks()

    def _begin(self, task: Any) -> Transition:
        self._history = ()
        return super()._begin(task)

    def _play(self, action: str) -> Transition:
        if action == "say[wait]" and self._hold is not None:
            self._hold.entered.set()
            self._hold.release.wait(30)
        self._history += (action,)
        transition = super()._play(action)
        if action == "say[nan]":
            transition.reward = float("nan")
        transition.reward += self._bonus
        return transition

    def _details(self) -> dict[str, Any]:
        return {**super()._details(), "history": self._history}

    def close(self) -> None:
        if self._closed is not None:
            self._closed.append(self)
        super().close()


def register() -> None:
    if ENV_ID not in gym.registry:
        gym.register(
            ENV_ID,
            entry_point=ServedCountingEnv,
            max_episode_steps=HORIZON,
            additional_wrappers=(TELL_HORIZON,),
        )
