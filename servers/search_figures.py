"""What a server that searches has done: for Prometheus, and as a page for people."""

from __future__ import annotations

import statistics
import time
from collections import deque
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from agentgym_suite.servers.http_metrics import SECONDS_BUCKETS
from agentgym_suite.servers.search_queue import SearchReport
from agentgym_suite.versions import suite_version

REMEMBERED_LATENCIES = 4_096
_QUERIES_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 10_000)


class Load(Protocol):
    """What a server has to do at the moment."""

    @property
    def waiting(self) -> int:
        """Requests that no thread has begun."""
        ...

    @property
    def running(self) -> int:
        """Requests that are being searched."""
        ...


class SearchFigures:
    """Counts searches and answers; one for each application, with a registry of its own.

    Args:
        kind: the index's kind.
        digest: the index's digest.
        rows: its passages.
    """

    def __init__(self, *, kind: str, digest: str, rows: int) -> None:
        self.registry = CollectorRegistry()
        self.requests = 0
        self.queries = 0
        self._searches = 0
        self._searched = 0
        self._latencies: deque[float] = deque(maxlen=REMEMBERED_LATENCIES)
        self._started = time.monotonic()
        self._answered_queries = Counter(
            "agentgym_retrieval_queries_total", "Queries answered", registry=self.registry
        )
        self._batches = Histogram(
            "agentgym_retrieval_search_queries",
            "Queries of one call of the index",
            buckets=_QUERIES_BUCKETS,
            registry=self.registry,
        )
        self._seconds = Histogram(
            "agentgym_retrieval_search_seconds",
            "One call of the index, and how it ended",
            ("outcome",),
            buckets=SECONDS_BUCKETS,
            registry=self.registry,
        )
        self._lost = Counter(
            "agentgym_threads_lost_total",
            "Threads given up because their search took too long",
            registry=self.registry,
        )
        Info("agentgym", "This server", registry=self.registry).info({"version": suite_version()})
        Info("agentgym_retrieval_index", "What is searched", registry=self.registry).info(
            {"kind": kind, "digest": digest, "rows": str(rows)}
        )

    def watch(self, load: Load) -> None:
        """Show how many requests wait and run."""
        depth = Gauge(
            "agentgym_queue_depth", "Requests that wait for a thread", registry=self.registry
        )
        depth.set_function(lambda: load.waiting)
        running = Gauge(
            "agentgym_retrieval_running", "Requests being searched", registry=self.registry
        )
        running.set_function(lambda: load.running)

    def searched(self, report: SearchReport) -> None:
        """Count a call of the index."""
        self._searches += 1
        self._searched += report.queries
        self._batches.observe(report.queries)
        self._seconds.labels(report.outcome).observe(report.seconds)
        if report.outcome == "timeout":
            self._lost.inc()

    def answered(self, queries: int, seconds: float) -> None:
        """Count a request that got its passages."""
        self.requests += 1
        self.queries += queries
        self._latencies.append(seconds)
        self._answered_queries.inc(queries)

    def page(self, load: Load) -> dict[str, Any]:
        """The figures since the start; latencies in ms, of the last answers."""
        return {
            "requests": self.requests,
            "queries": self.queries,
            "searches": self._searches,
            "mean_batch": round(self._searched / self._searches, 3) if self._searches else 0.0,
            "latency_ms": _quantiles(self._latencies),
            "queue_depth": load.waiting,
            "running": load.running,
            "uptime_s": round(time.monotonic() - self._started, 3),
        }


def _quantiles(seconds: deque[float]) -> dict[str, float]:
    if not seconds:
        return {}
    ms = sorted(1_000 * s for s in seconds)
    # a single value has no quantiles by the standard library's rule
    cuts = statistics.quantiles(ms, n=100, method="inclusive") if len(ms) > 1 else ms * 99
    chosen = {"p50": cuts[49], "p90": cuts[89], "p95": cuts[94], "p99": cuts[98], "max": ms[-1]}
    return {name: round(value, 3) for name, value in chosen.items()}
