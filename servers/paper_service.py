"""A store of papers behind a bounded number of threads; knows no route."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from agentgym_suite.indexes.paper_index import PaperIndex
from agentgym_suite.servers.problems import Problem
from agentgym_suite.servers.search_figures import SearchFigures
from agentgym_suite.servers.search_queue import SearchReport
from agentgym_suite.servers.search_service import SearchService
from agentgym_suite.servers.workers import JobTimeout, PoolOverloaded, WorkerPool

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PaperSettings:
    """What a server allows.

    Attributes:
        threads: requests worked on at a time.
        queue: requests that may wait for a thread.
        search_timeout_s: longest work on one request.
    """

    threads: int = 1
    queue: int = 256
    search_timeout_s: float = 60.0


class PaperService(SearchService):
    """A paper index, its threads and its figures.

    Args:
        index: what is searched; whoever opened it closes it.
        settings: what is allowed.
    """

    def __init__(self, index: PaperIndex, settings: PaperSettings | None = None) -> None:
        self.settings = settings or PaperSettings()
        self.index = index
        about = index.info()
        self._threads = _Threads(self.settings)
        super().__init__(
            SearchFigures(kind=str(about["kind"]), digest=index.digest, rows=len(index)),
            self._threads,
            most_waiting=self.settings.queue,
            timeout_s=self.settings.search_timeout_s,
        )

    async def answer(self, work: Callable[[PaperIndex], T]) -> T:
        """What ``work`` makes of the index, in a thread.

        Raises:
            Problem: the work's own, ``draining``, ``overloaded``, ``search-timeout`` or
                ``index-failed``.
        """
        began = time.perf_counter()
        with self._answering():
            made = await self._run(work)
        self._ready = True
        self.figures.answered(1, time.perf_counter() - began)
        return made

    async def close(self) -> None:
        """Let the threads end."""
        self._threads.pool.close()

    async def _try_out(self) -> None:
        await self._run(lambda index: index.search("warm up", 1))

    async def _run(self, work: Callable[[PaperIndex], T]) -> T:
        began = time.perf_counter()
        outcome: Literal["answered", "failed", "timeout"] | None = "failed"
        self._threads.taken += 1
        try:
            made = await self._threads.pool.run(
                lambda: work(self.index), self.settings.search_timeout_s
            )
            outcome = "answered"
            return made
        except Problem:
            outcome = "answered"
            raise
        except JobTimeout:
            outcome = "timeout"
            raise
        except PoolOverloaded:
            outcome = None
            raise
        finally:
            self._threads.taken -= 1
            if outcome is not None:
                seconds = time.perf_counter() - began
                self.figures.searched(SearchReport(1, 1, seconds, outcome))


class _Threads:
    """A pool, and how many requests have been given to it."""

    def __init__(self, settings: PaperSettings) -> None:
        self.pool = WorkerPool(settings.threads, settings.queue)
        self.taken = 0

    @property
    def waiting(self) -> int:
        """Requests that no thread has begun."""
        return min(self.pool.waiting, self.taken)

    @property
    def running(self) -> int:
        """Requests that are being worked on."""
        return self.taken - self.waiting
