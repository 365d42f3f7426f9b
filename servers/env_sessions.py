"""One environment behind a session: what was answered last, and which request comes next.

A client may repeat any request whose answer it did not hear. The episode number and the step
index say which step is meant; the answer to the last one is kept and given again, byte for byte.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

import gymnasium as gym

from agentgym_suite.env import MAX_ACTION_CHARACTERS
from agentgym_suite.errors import UnknownSplit, UnknownTask, UsageError
from agentgym_suite.servers.env_specs import Served, session_spec, tasks_page, text_env
from agentgym_suite.servers.problems import Problem, encode_json

T = TypeVar("T")

Outcome = Literal["running", "terminated", "truncated", "error", "timeout"]


class RunningWork(NamedTuple):
    """The request that a session is busy with."""

    fingerprint: tuple[Any, ...]
    answer: asyncio.Task[bytes]


@dataclass(slots=True)
class Work:
    """A piece of work as the figures count it.

    Attributes:
        kind: "reset" or "step", "" for anything else.
        outcome: what became of the episode; an error until the work says otherwise.
        seconds: how long the environment was at it.
    """

    kind: Literal["", "reset", "step"] = ""
    outcome: Outcome = "error"
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class StoredReset:
    """The last reset that had a key."""

    key: str
    request: str
    body: bytes


@dataclass(frozen=True, slots=True)
class StoredStep:
    """The last step."""

    index: int
    action: str
    body: bytes


class EnvSession:
    """An environment, its episode, and the answers that may be asked for again.

    The methods marked *work* run environment code: call them in a worker thread, one at a time.

    Args:
        served: which environment.
        kwargs: the client's arguments for it.
    """

    def __init__(self, served: Served, kwargs: Mapping[str, Any]) -> None:
        self.served = served
        self.env_id = served.env_id
        self.kwargs = dict(kwargs)
        self.env: gym.Env[str, str] | None = None
        self.episode = 0
        self.step_index = 0
        self.playing = False
        self.broken = ""
        self.observation = ""
        self.state_hash = ""
        self.running: RunningWork | None = None
        self.work = Work()
        self.opened = False
        self._last_reset: StoredReset | None = None
        self._last_step: StoredStep | None = None
        self._at_work = threading.Lock()
        self._closing = False

    # ------------------------------------------------------------------ what may come next

    def repeated_reset(self, key: str, request: Mapping[str, Any]) -> bytes | None:
        """The stored answer if this reset was made before under its key.

        Raises:
            Problem: ``key-mismatch``: the key belonged to another reset.
        """
        stored = self._last_reset
        if not key or stored is None or stored.key != key:
            return None
        if stored.request != _canonical(request):
            raise Problem(
                "key-mismatch",
                f"the key {key[:80]!r} belonged to another reset; use a new key",
            )
        return stored.body

    def repeated_step(self, episode: int, index: int, action: str) -> bytes | None:
        """The stored answer if this is the last step again, None if it is the next one.

        Raises:
            Problem: it is neither.
        """
        if self.episode == 0:
            raise Problem("not-reset", "the session has no episode; reset it before the first step")
        stored = self._last_step
        if episode == self.episode and stored is not None and index == stored.index:
            if stored.action == action:
                return stored.body
            raise Problem(
                "action-mismatch",
                f"step {index} of episode {episode} was another action; "
                f"send step {self.step_index} for a new one",
                **self._expected(),
            )
        if episode != self.episode or index != self.step_index:
            raise Problem(
                "step-index",
                f"step {index} of episode {episode} is not next; "
                f"send step {self.step_index} of episode {self.episode}",
                **self._expected(),
            )
        if not self.playing:
            raise Problem(
                "episode-over",
                f"episode {self.episode} is over; reset for another",
                **self._expected(),
            )
        return None

    def _expected(self) -> dict[str, Any]:
        return {"expected_episode": self.episode, "expected_step_index": self.step_index}

    # --------------------------------------------------------------------------------- work

    def make(self) -> dict[str, Any]:
        """*Work*: make the environment; what a client must know of it.

        Raises:
            Problem: ``invalid``: the client's arguments do not fit.
        """
        try:
            self.env = self.served.make(self.kwargs)
        except (UsageError, TypeError, ValueError, OverflowError) as error:
            if not self.kwargs:
                raise
            told = str(error) if isinstance(error, UsageError) else "its values do not fit"
            raise Problem("invalid", f"env_kwargs: {told}", field="env_kwargs") from error
        self.opened = True
        return session_spec(self.env)

    def reset(self, request: Mapping[str, Any], key: str) -> bytes:
        """*Work*: begin an episode.

        Args:
            request: ``seed``, ``task_id``, ``split``, ``options``, as far as given.
            key: the request's idempotency key, "" if none.

        Raises:
            Problem: ``no-task`` or ``invalid``; the episode before goes on then.
        """
        env = self._environment()
        self.work.kind = "reset"
        options = {**request.get("options", {})}
        options.update({k: request[k] for k in ("task_id", "split") if k in request})
        try:
            observation, info = env.reset(seed=request.get("seed"), options=options)
        except UnknownTask as error:
            raise Problem("no-task", str(error), field="task_id") from None
        except UnknownSplit as error:
            raise Problem("invalid", str(error), field="split") from None
        except UsageError as error:
            raise Problem("invalid", str(error), field="options") from None
        episode = self.episode + 1
        body = encode_json(
            {"episode": episode, "step_index": 0, "observation": observation, "info": info}
        )
        self.episode, self.step_index, self.playing = episode, 0, True
        self.work.outcome = "running"
        self._heard(observation, info)
        self._last_step = None
        self._last_reset = StoredReset(key, _canonical(request), body) if key else None
        return body

    def step(self, action: str) -> bytes:
        """*Work*: play the next step; the answer's ``step_index`` is that of the step after it."""
        env = self._environment()
        self.work.kind = "step"
        observation, reward, terminated, truncated, info = env.step(action)
        index = self.step_index
        body = encode_json(
            {
                "episode": self.episode,
                "step_index": index + 1,
                "observation": observation,
                "reward": reward,
                "terminated": terminated,
                "truncated": truncated,
                "info": info,
            }
        )
        self.step_index = index + 1
        self.playing = not (terminated or truncated)
        self.work.outcome = "terminated" if terminated else "truncated" if truncated else "running"
        self._heard(observation, info)
        self._last_step = StoredStep(index, action, body)
        return body

    def tasks(self, offset: int, limit: int) -> bytes:
        """*Work*: a part of the environment's task ids."""
        return encode_json(tasks_page(text_env(self._environment()).tasks, offset, limit))

    def run(self, work: Callable[[], T]) -> T:
        """*Work*: do a piece of work, and what ``close`` left to it."""
        began = time.perf_counter()
        try:
            with self._at_work:
                return work()
        finally:
            self.work.seconds = time.perf_counter() - began
            if self._closing:
                self.close()

    def close(self) -> None:
        """*Work*: close the environment, at the end of work that hangs; may be called again."""
        self._closing = True
        # the thread of a step that was given up may still be inside the environment
        if not self._at_work.acquire(blocking=False):
            return
        try:
            env, self.env = self.env, None
            if env is not None:
                env.close()
        finally:
            self._at_work.release()

    def _environment(self) -> gym.Env[str, str]:
        if self.env is None:
            raise Problem("no-session", "the session was closed meanwhile; make a new one")
        return self.env

    def _heard(self, observation: str, info: Mapping[str, Any]) -> None:
        self.observation = observation
        self.state_hash = str(info.get("state_hash", ""))


def check_action(action: str) -> None:
    """Refuse an action that no environment takes.

    Raises:
        Problem: ``too-large``.
    """
    if len(action) > MAX_ACTION_CHARACTERS:
        raise Problem(
            "too-large",
            f"the action has {len(action):,} characters; send at most {MAX_ACTION_CHARACTERS:,}",
        )


def _canonical(request: Mapping[str, Any]) -> str:
    return json.dumps(request, sort_keys=True, ensure_ascii=False)
