"""What breaks on demand, and playing it: for the tests of environments that run elsewhere."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym

from agentgym_suite.env import Transition
from agentgym_suite.episodes import AgentFactory, Episode, EpisodeRequest
from agentgym_suite.registry import TELL_HORIZON
from agentgym_suite.rollouts import MakeEnv, run_episodes
from tests.counting import CountingEnv

ID = "TroubledCounting-v0"
REQUESTS = [EpisodeRequest(f"count-{i}", seed=i) for i in range(20)]


class ForeignError(Exception):
    """One that cannot be pickled and read again."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


class TroubleEnv(CountingEnv):
    """Breaks at task ``count-4`` in its first step, in the way that ``trouble`` says."""

    def __init__(self, trouble: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._trouble = trouble
        if trouble == "make":
            raise OSError("the disk is full")

    def _play(self, action: str) -> Transition:
        if self.target == 5:
            match self._trouble:
                case "hang":
                    threading.Event().wait()
                case "die":
                    os.kill(os.getpid(), signal.SIGKILL)
                case "exit":
                    raise SystemExit(3)
                case "raise":
                    raise RuntimeError("the machine broke")
                case "foreign":
                    raise ForeignError("never", "seen")
        return super()._play(action)


@contextmanager
def registered() -> Iterator[None]:
    """The troubled game under its id."""
    gym.register(
        ID,
        entry_point="tests.troubled_counting:TroubleEnv",
        max_episode_steps=30,
        additional_wrappers=(TELL_HORIZON,),
    )
    try:
        yield
    finally:
        gym.registry.pop(ID, None)


def collect(make_env: MakeEnv, make_agent: AgentFactory, **options: Any) -> list[Episode]:
    """The episodes of the requests, sorted by task."""
    requests = options.pop("requests", REQUESTS)

    async def gather() -> list[Episode]:
        return [e async for e in run_episodes(make_env, make_agent, requests, **options)]

    return sorted(asyncio.run(gather()), key=lambda episode: episode.task_id)
