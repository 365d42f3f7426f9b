"""What an environment server has done, as Prometheus reads it.

Everything is counted where it happens, in the host and its sessions, so that every dialect counts.
What the session table and the pool know anyway is read when the figures are.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Sequence
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Histogram, Info
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agentgym_suite.servers.env_sessions import EnvSession, Outcome, Work
from agentgym_suite.servers.env_specs import PROTOCOL
from agentgym_suite.servers.http_metrics import SECONDS_BUCKETS
from agentgym_suite.servers.sessions import Reason, SessionTable
from agentgym_suite.servers.workers import WorkerPool
from agentgym_suite.versions import suite_version


class EnvFigures:
    """Counts sessions and steps; one for each application, with a registry of its own.

    Args:
        env_ids: the environments that are served.
    """

    def __init__(self, env_ids: Sequence[str]) -> None:
        self.registry = CollectorRegistry()
        self._env_ids = tuple(env_ids)
        self._created = Counter(
            "agentgym_sessions_created_total", "Sessions opened", registry=self.registry
        )
        self._closed = Counter(
            "agentgym_sessions_closed_total",
            "Sessions ended, and why",
            ("reason",),
            registry=self.registry,
        )
        self._steps = Counter(
            "agentgym_steps_total",
            "Steps played, and what became of the episode",
            ("env_id", "outcome"),
            registry=self.registry,
        )
        self._step_seconds = Histogram(
            "agentgym_step_seconds",
            "An environment's time for a step, without waiting for a thread",
            buckets=SECONDS_BUCKETS,
            registry=self.registry,
        )
        self._reset_seconds = Histogram(
            "agentgym_reset_seconds",
            "An environment's time for a reset, without waiting for a thread",
            buckets=SECONDS_BUCKETS,
            registry=self.registry,
        )
        self._replayed = Counter(
            "agentgym_replayed_responses_total",
            "Answers given again to a repeated request",
            registry=self.registry,
        )
        Info("agentgym", "This server", registry=self.registry).info(
            {"version": suite_version(), "protocol": PROTOCOL}
        )
        # a rate can be told from the first event on only if the series began at 0
        for reason in get_args(Reason):
            self._closed.labels(reason)
        for env_id in self._env_ids:
            for outcome in get_args(Outcome):
                self._steps.labels(env_id, outcome)

    def watch(self, table: SessionTable[EnvSession], pool: WorkerPool) -> None:
        """Show what is going on in a session table and its pool."""
        self.registry.register(_Load(self._env_ids, table, pool))

    def opened(self) -> None:
        """Count a session whose environment was made."""
        self._created.inc()

    def closed(self, session: EnvSession, reason: Reason) -> None:
        """Count the end of a session that was opened; a broken one as such, whoever ended it."""
        if session.opened:
            self._closed.labels("broken" if session.broken else reason).inc()

    def worked(self, env_id: str, work: Work) -> None:
        """Count a piece of environment work."""
        if work.kind == "step":
            self._steps.labels(env_id, work.outcome).inc()
            self._step_seconds.observe(work.seconds)
        elif work.kind == "reset":
            self._reset_seconds.observe(work.seconds)

    def replayed(self) -> None:
        """Count an answer that was given before."""
        self._replayed.inc()


class _Load(Collector):
    """The figures of this moment."""

    def __init__(
        self, env_ids: Sequence[str], table: SessionTable[EnvSession], pool: WorkerPool
    ) -> None:
        self._env_ids = env_ids
        self._table = table
        self._pool = pool

    def collect(self) -> Iterable[Metric]:
        """One family after the other."""
        live = Tally(place.value.env_id for place in self._table.live())
        active = GaugeMetricFamily("agentgym_sessions_active", "Live sessions", labels=("env_id",))
        for env_id in self._env_ids:
            active.add_metric((env_id,), live[env_id])
        yield active
        yield GaugeMetricFamily(
            "agentgym_queue_depth", "Requests that wait for a thread", value=self._pool.waiting
        )
        yield CounterMetricFamily(
            "agentgym_threads_lost_total",
            "Threads given up because their work took too long",
            value=self._pool.lost_threads,
        )
