"""What servers that search have in common: whether they can, and what is said when they cannot."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from agentgym_suite.errors import AgentGymSuiteError
from agentgym_suite.servers.problems import Problem
from agentgym_suite.servers.search_figures import Load, SearchFigures
from agentgym_suite.servers.search_queue import QueueFull, SearchTimeout
from agentgym_suite.servers.workers import JobTimeout, PoolOverloaded

_log = logging.getLogger(__name__)


class SearchService(ABC):
    """The part of a searching server that knows no route and no index.

    Args:
        figures: what it has done.
        load: what waits and runs.
        most_waiting: requests that may wait for a thread.
        timeout_s: longest search.
    """

    def __init__(
        self, figures: SearchFigures, load: Load, *, most_waiting: int, timeout_s: float
    ) -> None:
        self.figures = figures
        self.load = load
        self.draining = False
        self._most_waiting = most_waiting
        self._timeout_s = timeout_s
        self._ready = False  # until a first search succeeds, whoever asked for it
        self._failure = ""
        figures.watch(load)

    @property
    def status(self) -> tuple[str, str]:
        """Whether searches are answered: "ready", "starting", "failed" or "draining", and why."""
        if self.draining:
            return "draining", "the server is shutting down"
        if self._ready:
            return "ready", ""
        return ("failed", self._failure) if self._failure else ("starting", "the index is opening")

    @property
    def in_use(self) -> bool:
        """Whether a request waits or is being searched."""
        return self.load.waiting + self.load.running > 0

    def drain(self) -> None:
        """Begin no further search; those that wait are answered."""
        self.draining = True

    async def warm_up(self) -> None:
        """Search once, so that the first client does not wait for an encoder to load."""
        try:
            await self._try_out()
            self._ready = True
        except Exception as error:
            # a server that cannot search must say so at /readyz, with the reason in its log
            self._failure = "the index cannot be searched; see the server's log"
            known = isinstance(error, AgentGymSuiteError)
            _log.error("the index cannot be searched: %s", error, exc_info=not known)

    @abstractmethod
    async def _try_out(self) -> None:
        """Search for anything."""

    @abstractmethod
    async def close(self) -> None:
        """Let the threads end."""

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Around one search: what stands in its way becomes the problem that clients see.

        Raises:
            Problem: one of the search's own, ``draining``, ``overloaded``, ``search-timeout`` or
                ``index-failed``.
        """
        if self.draining:
            raise Problem("draining", "the server is shutting down; try another", retry_after_s=1)
        try:
            yield
        except Problem:
            raise
        except (QueueFull, PoolOverloaded):
            raise Problem(
                "overloaded",
                f"{self._most_waiting:,} requests are waiting; try again",
                retry_after_s=1,
            ) from None
        except (SearchTimeout, JobTimeout):
            raise Problem(
                "search-timeout",
                f"the search took more than {self._timeout_s:g} s; send fewer queries at a time",
            ) from None
        except Exception as error:
            raise index_failed() from error


def index_failed() -> Problem:
    """The problem of an index that cannot answer; what it raised is for the log."""
    return Problem(
        "index-failed",
        "the index failed; the server's log has the reason under this request's id",
        retry_after_s=1,
    )
