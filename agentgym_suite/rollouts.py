"""``run_episodes``: many episodes at once, bounded, with timeouts and failures kept as data.

Each episode runs in a thread of its own, so that a step that hangs can be given up with its
environment while the others go on. Threads are daemons: a lost one never keeps the process alive.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Protocol, runtime_checkable

import gymnasium as gym

from agentgym_suite.episodes import (
    AgentFactory,
    Episode,
    EpisodeRequest,
    Failure,
    PlaySettings,
    Reply,
)
from agentgym_suite.errors import UsageError
from agentgym_suite.playing import EpisodeRecorder, classify, run_episode

MakeEnv = Callable[[], gym.Env[str, str]]

OnEpisode = Callable[[int, int], None]
"""Told how many episodes are over, and of how many."""


@runtime_checkable
class RunsElsewhere(Protocol):
    """An environment in another process, which can be ended from here in the middle of a step."""

    def abandon(self) -> None:
        """End it, whatever it is doing; the call in progress raises."""
        ...


async def run_episodes(
    make_env: MakeEnv,
    make_agent: AgentFactory,
    requests: Iterable[EpisodeRequest],
    *,
    settings: PlaySettings | None = None,
    concurrency: int = 16,
    timeout_s: float | None = None,
    max_failures: int | None = None,
) -> AsyncIterator[Episode]:
    """Play every request and yield the episodes in order of completion.

    Args:
        make_env: makes one environment; idle ones are used again, hung ones never.
        make_agent: makes the agent of one episode.
        requests: what to play; read lazily, at most ``concurrency`` ahead.
        settings: how to play.
        concurrency: most episodes in flight.
        timeout_s: wall-clock bound of one episode; past it the episode is a failure.
        max_failures: stop starting episodes after so many failures; None never stops.

    Raises:
        UsageError: on a wrong argument, also one that an environment reports (unknown task).
    """
    if concurrency < 1:
        raise UsageError(f"concurrency is {concurrency}; give at least 1")
    if timeout_s is not None and not timeout_s > 0:
        raise UsageError(f"timeout_s is {timeout_s}; give seconds above 0, or None")
    pool = _EnvPool(make_env)
    waiting = iter(requests)
    running: set[asyncio.Task[Episode]] = set()
    failures = 0
    try:
        while True:
            stopped = max_failures is not None and failures >= max_failures
            while not stopped and len(running) < concurrency:
                request = next(waiting, None)
                if request is None:
                    break
                play = _play(pool, make_agent, request, settings or PlaySettings(), timeout_s)
                running.add(asyncio.create_task(play))
            if not running:
                return
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            refused = [error for task in done if (error := task.exception()) is not None]
            if refused:
                raise refused[0]
            for task in done:
                episode = task.result()
                failures += episode.failure is not None
                yield episode
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        pool.close()


class _EnvPool:
    """Idle environments; one is lent to one episode at a time."""

    def __init__(self, make_env: MakeEnv) -> None:
        self._make_env = make_env
        self._idle: list[gym.Env[str, str]] = []
        self._lock = threading.Lock()
        self._closed = False

    def take(self) -> gym.Env[str, str]:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return self._make_env()

    def give_back(self, env: gym.Env[str, str]) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(env)
                return
        env.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for env in idle:
            env.close()


class _Answers:
    """What an asynchronous agent is asked in its episode's thread, resolved in the event loop.

    When the episode is given up, an answer on its way is cancelled, and one that was not begun is
    closed: none is left behind that nobody awaits.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._closed = False
        self._unbegun: Awaitable[Reply] | None = None
        self._task: asyncio.Future[Reply] | None = None
        self._promise: concurrent.futures.Future[Reply] = concurrent.futures.Future()

    def wait(self, answer: Awaitable[Reply]) -> Reply:
        """The answer; called in the episode's thread.

        Raises:
            CancelledError: the episode was given up.
        """
        with self._lock:
            if self._closed:
                _drop(answer)
                raise concurrent.futures.CancelledError
            self._unbegun = answer
            promise = self._promise = concurrent.futures.Future()
            self._loop.call_soon_threadsafe(self._begin)
        return promise.result()

    def close(self) -> None:
        """Give up what is asked, now and later; called in the event loop."""
        with self._lock:
            self._closed = True
            unbegun, self._unbegun = self._unbegun, None
        if unbegun is not None:
            _drop(unbegun)
        if self._task is not None:
            self._task.cancel()
        self._promise.cancel()

    def _begin(self) -> None:
        answer, self._unbegun = self._unbegun, None
        if answer is not None:
            self._task = asyncio.ensure_future(answer)
            self._task.add_done_callback(self._deliver)

    def _deliver(self, task: asyncio.Future[Reply]) -> None:
        error = None if task.cancelled() else task.exception()
        if task.cancelled():
            self._promise.cancel()
        elif self._promise.cancelled():
            return
        elif error is not None:
            self._promise.set_exception(error)
        else:
            self._promise.set_result(task.result())


def _drop(answer: Awaitable[Reply]) -> None:
    if inspect.iscoroutine(answer):
        answer.close()


async def _play(
    pool: _EnvPool,
    make_agent: AgentFactory,
    request: EpisodeRequest,
    settings: PlaySettings,
    timeout_s: float | None,
) -> Episode:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Episode] = loop.create_future()
    recorder = EpisodeRecorder(request)
    answers = _Answers(loop)
    held: list[gym.Env[str, str]] = []

    def settle(episode: Episode | BaseException) -> None:
        if future.done():
            return
        if isinstance(episode, BaseException):
            future.set_exception(episode)
        else:
            future.set_result(episode)

    def work() -> None:
        result = _play_here(pool, held, make_agent, request, settings, recorder, answers.wait)
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result)

    threading.Thread(target=work, name=f"episode {request.task_id}", daemon=True).start()
    try:
        return await asyncio.wait_for(future, timeout_s)
    except TimeoutError:
        message = f"the episode took longer than {timeout_s} s in its {recorder.phase} call"
        if recorder.phase == "agent":
            return recorder.finish(Failure("timeout_model", "infra", message))
        return recorder.finish(Failure("env_timeout", "env", message))
    finally:  # given up: the thread stops after its step, a pending model call at once
        recorder.abandoned.set()
        answers.close()
        if future.cancelled():
            for env in tuple(held):
                if isinstance(env.unwrapped, RunsElsewhere):
                    env.unwrapped.abandon()


def _play_here(
    pool: _EnvPool,
    held: list[gym.Env[str, str]],
    make_agent: AgentFactory,
    request: EpisodeRequest,
    settings: PlaySettings,
    recorder: EpisodeRecorder,
    wait: Callable[[Awaitable[Reply]], Reply],
) -> Episode | BaseException:
    """The episode, or what the caller must be told; a broken environment is used no more."""
    try:
        env = pool.take()
    except UsageError as refused:
        return refused
    except Exception as broken:  # an environment that cannot be made is data, too
        return recorder.finish(classify(broken, "env"))
    held.append(env)
    if recorder.abandoned.is_set():  # given up while it was made: nobody else can end it
        env.close()
        return recorder.finish()
    try:
        episode = run_episode(env, make_agent, request, settings, recorder=recorder, wait=wait)
    except BaseException as raised:
        held.clear()
        env.close()
        return raised
    held.clear()  # before the look at "abandoned": none is both ended and lent again
    if episode.failure is None and not recorder.abandoned.is_set():
        pool.give_back(env)
    else:
        env.close()
    return episode
