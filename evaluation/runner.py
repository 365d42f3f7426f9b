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
from collections.abc import Callable, Iterable, Iterator
from contextlib import (
    AbstractContextManager,
    contextmanager,
    nullcontext,
)
from pathlib import Path

from agentgym_suite.coroutines import complete
from agentgym_suite.episodes import AgentFactory, Episode, EpisodeRequest, PlaySettings
from agentgym_suite.evaluation.episode_keys import EpisodeKey
from agentgym_suite.evaluation.open_suites import OpenEnvironment, OpenSuite
from agentgym_suite.evaluation.plan import planned_episodes, run_header, timestamp
from agentgym_suite.evaluation.records import UNPRICED
from agentgym_suite.evaluation.results import RunResults
from agentgym_suite.evaluation.run_directory import (
    RESULTS,
    RunDirectory,
)
from agentgym_suite.evaluation.scoring import results_bytes, score_run
from agentgym_suite.evaluation.settings import AgentSpec, OnProgress, RunOptions, RunProgress, Stop
from agentgym_suite.evaluation.verdicts import with_verdict
from agentgym_suite.ray_pool import RayEnvPool, connected
from agentgym_suite.rollouts import MakeEnv, run_episodes

RETRIED_ORIGINS = ("env", "infra")


def run_suite(
    opened: OpenSuite,
    agent: AgentSpec,
    out: Path | str,
    *,
    options: RunOptions | None = None,
    on_progress: OnProgress | None = None,
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
        on_progress: called after every episode.
        stop: set by a signal, or by the caller, to end the run early.

    Returns:
        The results, as they stand in ``results.json``; ``status`` says whether all is there.

    Raises:
        UsageError: a wrong argument, also one that an environment reports.
        RunError: the directory cannot be used.
    """
    options = options or RunOptions()
    agent = agent.suited(opened.suite)
    folder = Path(out)
    with RunDirectory(folder, run_header(opened, agent, options), resume=options.resume) as run:
        plan = planned_episodes(opened.suite)
        run.check_keys(key for key, _ in plan)
        stop = stop or Stop()
        with cluster(options):
            played = _Collector(run, agent, options, len(plan), on_progress)
            complete(_play_all(opened.environments, plan, played, stop))
        run.update(
            ended_at=timestamp(),
            setup_s=opened.setup_s,
            wall_s=run.header["wall_s"] + played.wall_s,
        )
        results = with_verdict(folder, score_run(folder))
        run.write(RESULTS, results_bytes(results))
    return results


def cluster(options: RunOptions) -> AbstractContextManager[None]:
    """The connection to the cluster that a run needs, if any; several runs may share one.

    Raises:
        MissingExtra: Ray is wanted and not installed.
        UsageError: there is no cluster.
    """
    return connected(options.ray_address) if options.runner == "ray" else nullcontext()


def _source(environment: OpenEnvironment, options: RunOptions) -> AbstractContextManager[MakeEnv]:
    """What makes the environments of a run, here or on a cluster."""
    if options.runner == "local":
        return nullcontext(environment.make)
    return RayEnvPool.like(environment.make, options.in_flight)


@contextmanager
def _on_signals(stop: Stop, tell: Callable[[], None]) -> Iterator[None]:
    """Listen to SIGINT and SIGTERM, where signals can be listened to; tell of the first one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()

    def ask() -> None:
        if stop.requested and main is not None:
            main.cancel()
        elif not stop.requested:
            stop.requested = True
            tell()

    def handle(number: int, frame: object) -> None:
        loop.call_soon_threadsafe(ask)  # wakes a loop that waits for nothing but the clock

    # Not loop.add_signal_handler: Windows lacks it, and it forgets the handlers before it.
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


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


class _Collector:
    """Takes each episode as it ends: stores it, decides about a retry, keeps count."""

    def __init__(
        self,
        run: RunDirectory,
        agent: AgentSpec,
        options: RunOptions,
        planned: int,
        on_progress: OnProgress | None,
    ) -> None:
        self.run = run
        self.agent = agent
        self.options = options
        self._planned = planned
        self._on_progress = on_progress
        self._started = time.monotonic()
        self._resumed = len(run.finished)
        self._successes = sum(run.finished.values())
        self._lost = 0
        self._env_id = ""

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
            pricing = self.agent.pricing
            cost = UNPRICED if pricing is None else pricing.cost(episode)
            self._successes += self.run.finish(key, episode, cost).success
        self.report(env_id)
        return again

    def tell_stopping(self) -> None:
        """Tell that the run ends once the episodes in flight are finished."""
        self.report(self._env_id, stopping=True)

    def report(self, env_id: str, *, stopping: bool = False) -> None:
        """Tell how far the run is."""
        self._env_id = env_id
        if self._on_progress is None:
            return
        done = len(self.run.finished)
        now = done - self._resumed
        self._on_progress(
            RunProgress(
                self.agent.name,
                env_id,
                done,
                self._planned,
                self._resumed,
                self.run.score_sum / done if done else None,
                self._successes,
                self._lost,
                self.wall_s / now * (self._planned - done) if now else None,
                self.run.header["suite"]["id"],
                stopping,
            )
        )

    def _next_attempt(self, key: EpisodeKey) -> int:
        """Goes on counting after a kill; starts anew for an episode that had been given up."""
        before = self.run.attempts.get(key)
        last = before[-1] if before else 0
        return last + 1 if last <= self.options.max_retries else 1


async def _play_all(
    environments: Iterable[OpenEnvironment],
    plan: list[tuple[EpisodeKey, int]],
    played: _Collector,
    stop: Stop,
) -> None:
    if all(key in played.run.finished for key, _ in plan):  # no reason to load a model
        for environment in environments:
            played.report(environment.entry.id)
        return
    with _on_signals(stop, played.tell_stopping):
        async with played.agent.source.opened() as make_agent:
            for environment in environments:
                env_id = environment.entry.id
                requests = [
                    EpisodeRequest(key.task_id, seed, key.trial)
                    for key, seed in plan
                    if key.env_id == env_id and key not in played.run.finished
                ]
                queue = _Queue(requests, stop)
                await _play_environment(environment, make_agent, queue, played)


async def _play_environment(
    environment: OpenEnvironment, make_agent: AgentFactory, queue: _Queue, played: _Collector
) -> None:
    agent, options, env_id = played.agent, played.options, environment.entry.id
    played.report(env_id)
    with _source(environment, options) as make_env:
        episodes = run_episodes(
            make_env,
            make_agent,
            queue,
            settings=PlaySettings(agent.prompt, agent.reply_format, max_rounds=agent.max_rounds),
            concurrency=options.in_flight,
            timeout_s=options.episode_timeout_s,
        )
        async for episode in episodes:
            if played.take(env_id, episode):
                queue.put_back(episode)
