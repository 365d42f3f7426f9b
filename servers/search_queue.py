"""Searches from the event loop: a bounded queue in front of threads, and batches where they pay.

Requests wait on the event loop, in one deque, so that nothing needs a lock and a request whose
client went away leaves no trace. A free thread takes the request that came first; where the index
works on many queries at the price of a few, it takes the others that wait for as many passages
along, and each gets what it would have got alone. The thread asks the index for a slice of the
queries at a time and stops in between when nobody waits any more: an index knows no interruption.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from agentgym_suite.errors import RetrievalError
from agentgym_suite.indexes.passages import Found, PassageIndex
from agentgym_suite.servers.answer_sizes import AnswerTooLarge, answer_size
from agentgym_suite.servers.workers import JobTimeout, PoolOverloaded, WorkerPool

MOST_BATCHED = 64  # queries of several requests together
MOST_SLICE = 64  # queries of one call of the index
MOST_SLICE_PASSAGES = 16_384  # of one call: it decides how late a large answer is noticed

Results = list[list[Found]]
Outcome = Literal["answered", "failed", "timeout", "abandoned"]


class QueueFull(Exception):
    """As many requests wait as may."""


class SearchTimeout(Exception):
    """The search ran longer than it may."""


@dataclass(frozen=True, slots=True)
class SearchReport:
    """What one search of the index was.

    Attributes:
        requests: how many were answered by it.
        queries: how many texts it was to search for.
        seconds: how long it took.
        outcome: whether the index answered; "abandoned" when nobody waited for it any more.
    """

    requests: int
    queries: int
    seconds: float
    outcome: Outcome


@dataclass(eq=False, slots=True)
class _Request:
    queries: Sequence[str]
    k: int
    arrived: float
    answer: asyncio.Future[Results]


class SearchQueue:
    """The way from coroutines to an index.

    Args:
        index: what is searched; several threads may call it at a time.
        threads: calls of the index at a time.
        limit: most requests that wait for a thread.
        timeout_s: most seconds of one search, waiting not counted; what is left of it is given up.
        most_characters: longest answer to one request, as ``answer_size`` counts.
        batching: whether one search may answer several requests.
        window_s: how long a request may wait for others to join it; 0 takes only those that wait
            for a thread anyway. Without meaning unless ``batching``.
        report: told of every search.
    """

    def __init__(
        self,
        index: PassageIndex,
        *,
        threads: int = 1,
        limit: int = 256,
        timeout_s: float = 60.0,
        most_characters: int = sys.maxsize,
        batching: bool = False,
        window_s: float = 0.0,
        report: Callable[[SearchReport], None] | None = None,
    ) -> None:
        self.limit = limit
        self.timeout_s = timeout_s
        self.batching = batching
        self.window_s = window_s if batching else 0.0
        self._index = index
        self._most_characters = most_characters
        self._report = report
        self._pool = WorkerPool(threads, threads)
        self._free = threads
        self._waiting: deque[_Request] = deque()
        self._running = 0
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: dict[asyncio.Task[None], list[_Request]] = {}

    @property
    def waiting(self) -> int:
        """Requests that no thread has begun."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Requests that are being searched."""
        return self._running

    @property
    def must_wait(self) -> bool:
        """Whether a request that came now would not begin at once."""
        return not self._free or bool(self.window_s)

    async def search(self, queries: Sequence[str], k: int) -> Results:
        """The best ``k`` passages for each query; cancelled while it waits, it is never begun.

        Raises:
            QueueFull: ``limit`` requests wait already.
            SearchTimeout: the index took too long.
            AnswerTooLarge: the passages hold more than ``most_characters``.
            Exception: what the index raised.
        """
        if len(self._waiting) >= self.limit:
            raise QueueFull(f"{len(self._waiting)} requests are waiting")
        loop = asyncio.get_running_loop()
        request = _Request(queries, k, loop.time(), loop.create_future())
        self._waiting.append(request)
        self._begin_what_can()
        try:
            return await request.answer
        except asyncio.CancelledError:
            if request in self._waiting:
                self._waiting.remove(request)
            raise

    async def close(self) -> None:
        """Let the threads end, and return when nothing of the queue is left on the event loop.

        Requests that still wait are not begun, searches that somebody waits for are answered, and
        those that nobody waits for are left to their threads.
        """
        for request in self._waiting:
            request.answer.set_exception(QueueFull("the queue is closed"))
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._pool.close()
        for task, batch in self._tasks.items():
            if all(request.answer.done() for request in batch):
                task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ------------------------------------------------------------------- on the event loop

    def _begin_what_can(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting and self._free:
            due = self._waiting[0].arrived + self.window_s
            if self.window_s and loop.time() < due and not self._batch_is_full():
                if self._timer is None:
                    self._timer = loop.call_at(due, self._window_is_over)
                return
            batch = self._take_batch()
            self._free -= 1
            self._running += len(batch)
            task = loop.create_task(self._answer(batch))
            self._tasks[task] = batch
            task.add_done_callback(self._tasks.pop)

    def _window_is_over(self) -> None:
        self._timer = None
        self._begin_what_can()

    def _batch_is_full(self) -> bool:
        k = self._waiting[0].k
        return sum(len(r.queries) for r in self._waiting if r.k == k) >= MOST_BATCHED

    def _take_batch(self) -> list[_Request]:
        """The first request, and others for the same number of passages as far as they fit."""
        first = self._waiting.popleft()
        batch, size = [first], len(first.queries)
        if not self.batching:
            return batch
        left: deque[_Request] = deque()
        for request in self._waiting:
            if request.k == first.k and size + len(request.queries) <= MOST_BATCHED:
                batch.append(request)
                size += len(request.queries)
            else:
                left.append(request)
        self._waiting = left
        return batch

    async def _answer(self, batch: list[_Request]) -> None:
        try:
            await self._search(batch)
        finally:
            self._free += 1
            self._running -= len(batch)
            self._begin_what_can()

    async def _search(self, batch: list[_Request]) -> None:
        queries = [query for request in batch for query in request.queries]
        try:
            results = await self._call(queries, batch)
        except SearchTimeout as error:
            _settle(batch, error)
        except Exception as error:
            if len(batch) == 1:
                _settle(batch, error)
                return
            # one request's fault must not be another's
            for request in batch:
                if not request.answer.done():
                    await self._search([request])
        else:
            start = 0
            for request in batch:
                stop = start + len(request.queries)
                if not request.answer.done():
                    request.answer.set_result(results[start:stop])
                start = stop

    async def _call(self, queries: list[str], batch: list[_Request]) -> Results:
        began = time.perf_counter()
        outcome: Outcome = "failed"
        try:
            results = await self._pool.run(partial(self._in_slices, queries, batch), self.timeout_s)
            whole = len(results) == len(queries)
            outcome = "answered" if whole else "abandoned"
            return results
        except asyncio.CancelledError:
            outcome = "abandoned"
            raise
        except JobTimeout:
            outcome = "timeout"
            raise SearchTimeout(f"longer than {self.timeout_s:g} s") from None
        except PoolOverloaded:  # the server is closing
            raise QueueFull("the queue is closed") from None
        finally:
            if self._report is not None:
                seconds = time.perf_counter() - began
                self._report(SearchReport(len(batch), len(queries), seconds, outcome))

    # ------------------------------------------------------------------------- in a thread

    def _in_slices(self, queries: list[str], batch: list[_Request]) -> Results:
        """The results of all queries, or of the first of them once nobody waits for the rest."""
        k = batch[0].k
        size = max(1, min(MOST_SLICE, MOST_SLICE_PASSAGES // max(1, k)))
        results: Results = []
        characters = 0
        while len(results) < len(queries):
            # a request that timed out, or whose client went away, has its answer already
            if all(request.answer.done() for request in batch):
                break
            wanted = queries[len(results) : len(results) + size]
            found = self._index.retrieve(wanted, k)
            if len(found) != len(wanted):
                raise RetrievalError(
                    f"the index answered {len(found)} of {len(wanted)} queries; verify it"
                )
            results += found
            characters += answer_size(found)
            if characters > self._most_characters:
                raise AnswerTooLarge(len(results), characters)
        return results


def _settle(batch: list[_Request], error: Exception) -> None:
    for request in batch:
        if not request.answer.done():
            request.answer.set_exception(error)
