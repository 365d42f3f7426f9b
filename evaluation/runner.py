"""Running an agent over a suite: bounded, resumable, failures kept as data.

The episodes themselves are played by ``rollouts.run_episodes``; here is what surrounds them:
which are still to be played, which are tried again, what is written and when to stop.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections import deque
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentgym_suite.episodes import Episode, EpisodeRequest, PlaySettings
from agentgym_suite.errors import UsageError
from agentgym_suite.evaluation.plan import planned_episodes, run_header, timestamp
from agentgym_suite.evaluation.records import EpisodeKey
from agentgym_suite.evaluation.results import RunResults
from agentgym_suite.evaluation.run_directory import (
    RESULTS,
    RunDirectory,
)
from agentgym_suite.evaluation.scoring import results_bytes, score_run
from agentgym_suite.evaluation.settings import AgentSpec, OnStanding, RunOptions, Standing, Stop
from agentgym_suite.evaluation.worlds import OpenSuite, World
from agentgym_suite.rollouts import run_episodes

RETRIED_ORIGINS = ("env", "infra")


def run_suite(
    opened: OpenSuite,
    agent: AgentSpec,
    out: Path | str,
    *,
    options: RunOptions | None = None,
    on_standing: OnStanding | None = None,
    stop: Stop | None = None,
) -> RunResults:
    """Play every episode of a suite that its directory does not hold yet, and score the run.

    A first SIGINT or SIGTERM starts no further episode, finishes those in flight and scores
    what there is; a second one aborts. Nothing that was finished is lost either way.

    Args:
        opened: the suite with its environments.
        agent: the agent.
        out: the run's directory.
        options: how to carry it out.
        on_standing: called after every episode.
        stop: set by a signal, or by the caller, to end the run early.

    Returns:
        The results, as they stand in ``results.json``; ``status`` says whether all is there.

    Raises:
        UsageError: on a wrong argument, also one that an environment reports.
        RunError: if the directory cannot be used.
    """
    options = options or RunOptions()
    if options.max_retries < 0:
        raise UsageError(f"max_retries is {options.max_retries}; give 0 or more")
    folder = Path(out)
    with RunDirectory(folder, run_header(opened, agent, options), resume=options.resume) as run:
        plan = planned_episodes(opened.suite)
        run.check_keys(key for key, _ in plan)
        stop = stop or Stop()
        played = _Played(run, agent, options, stop, len(plan), on_standing)
        _complete(_play_worlds(opened.worlds, plan, played, stop))
        run.update(
            ended_at=timestamp(),
            setup_s=opened.setup_s,
            wall_s=run.header["wall_s"] + played.wall_s,
        )
        results = score_run(folder)
        run.write(RESULTS, results_bytes(results))
    return results


@contextmanager
def _on_signals(stop: Stop) -> Iterator[None]:
    """Listen to SIGINT and SIGTERM, where signals can be listened to at all."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()

    def ask() -> None:
        if stop.requested and main is not None:
            main.cancel()
        stop.requested = True

    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, ask)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


class _Queue:
    """Requests still to be started; one that comes back is served last.

    ``run_episodes`` asks again after every finished episode, so an empty queue is no end.
    """

    def __init__(self, requests: Iterable[EpisodeRequest], stop: Stop) -> None:
        self._waiting = deque(requests)
        self._stop = stop

    def __iter__(self) -> Iterator[EpisodeRequest]:
        return self

    def __next__(self) -> EpisodeRequest:
        if self._stop.requested or not self._waiting:
            raise StopIteration
        return self._waiting.popleft()

    def put_back(self, episode: Episode) -> None:
        """Have the same episode played again, with the same seed."""
        self._waiting.append(EpisodeRequest(episode.task_id, episode.seed, episode.trial))


class _Played:
    """Takes each episode as it ends: stores it, decides about a retry, keeps the standing."""

    def __init__(
        self,
        run: RunDirectory,
        agent: AgentSpec,
        options: RunOptions,
        stop: Stop,
        planned: int,
        on_standing: OnStanding | None,
    ) -> None:
        self.run = run
        self.agent = agent
        self.options = options
        self._stop = stop
        self._planned = planned
        self._on_standing = on_standing
        self._started = time.monotonic()
        self._scores = 0.0
        self._successes = 0
        self._finished = 0
        self._lost = 0

    @property
    def wall_s(self) -> float:
        """Seconds since the first episode could start."""
        return time.monotonic() - self._started

    def take(self, env_id: str, episode: Episode) -> bool:
        """Store the episode; True when it is to be played again."""
        key = EpisodeKey(env_id, episode.task_id, episode.trial)
        failure = episode.failure
        again = False
        if failure is not None and failure.origin in RETRIED_ORIGINS:
            attempt = self._next_attempt(key)
            self.run.lose(key, episode, attempt)
            again = attempt <= self.options.max_retries
            self._lost += not again
        else:
            self.run.finish(key, episode)
            self._finished += 1
            self._scores += episode.score
            self._successes += episode.success
        self.report(env_id)
        return again

    def report(self, env_id: str) -> None:
        """Tell the standing."""
        if self._on_standing is None:
            return
        done = len(self.run.finished)
        n = self._finished
        left = self.wall_s / n * (self._planned - done) if n else None
        score = self._scores / n if n else None
        self._on_standing(
            Standing(
                self.agent.name,
                env_id,
                done,
                self._planned,
                score,
                self._successes,
                n,
                self._lost,
                left,
            )
        )

    def _next_attempt(self, key: EpisodeKey) -> int:
        """Goes on counting after a kill; starts anew for an episode that had been given up."""
        before = self.run.attempts.get(key)
        last = before[-1] if before else 0
        return last + 1 if last <= self.options.max_retries else 1


async def _play_worlds(
    worlds: Iterable[World], plan: list[tuple[EpisodeKey, int]], played: _Played, stop: Stop
) -> None:
    with _on_signals(stop):
        for world in worlds:
            env_id = world.entry.id
            requests = [
                EpisodeRequest(key.task_id, seed, key.trial)
                for key, seed in plan
                if key.env_id == env_id and key not in played.run.finished
            ]
            played.report(env_id)
            queue = _Queue(requests, stop)
            episodes = run_episodes(
                world.make,
                played.agent.make,
                queue,
                settings=PlaySettings(played.agent.prompt, played.agent.reply_format),
                concurrency=played.options.concurrency,
                timeout_s=played.options.episode_timeout_s,
            )
            async for episode in episodes:
                if played.take(env_id, episode):
                    queue.put_back(episode)


def _complete(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end, also where an event loop runs already (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        _run(work)
        return
    raised: list[BaseException] = []

    def in_thread() -> None:
        try:
            asyncio.run(work)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=in_thread, name="evaluation")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


def _run(work: Coroutine[Any, Any, None]) -> None:
    try:
        asyncio.run(work)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
