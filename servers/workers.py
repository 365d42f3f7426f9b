"""A bounded pool of threads for environment work, called from the event loop.

The standard library's pool cannot give up a thread that hangs, and waits for it at exit. Here a
job that takes too long is written off with its thread, and a new thread takes the place.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


class PoolOverloaded(Exception):
    """As many jobs wait as may."""


class JobTimeout(Exception):
    """The job ran longer than it may; its thread is written off."""


@dataclass(eq=False, slots=True)
class _Job:
    work: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    result: asyncio.Future[Any]
    started: float | None = None
    lost: bool = False
    finished: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def finish(self) -> bool:
        """Called by the thread at the end of the work; whether it was in time."""
        with self.lock:
            self.finished = True
            return not self.lost

    def write_off(self) -> bool:
        """Called when the time is over; whether the work still runs."""
        with self.lock:
            self.lost = not self.finished
            return self.lost


class WorkerPool:
    """Threads that run blocking work for coroutines.

    Args:
        threads: number of threads.
        queue_limit: most jobs waiting for a thread.
    """

    def __init__(self, threads: int, queue_limit: int) -> None:
        self.threads = threads
        self.queue_limit = queue_limit
        self.lost_threads = 0
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._started = False
        self._closed = False

    @property
    def waiting(self) -> int:
        """Jobs that no thread has begun."""
        return self._jobs.qsize()

    async def run(self, work: Callable[[], T], timeout_s: float | None = None) -> T:
        """The result of ``work()``, called in a thread.

        Args:
            work: blocking work; what it raises is raised here.
            timeout_s: most seconds that it may run, waiting for a thread not counted.

        Raises:
            PoolOverloaded: ``queue_limit`` jobs wait already, or the pool is closed.
            JobTimeout: it ran too long; it may still end in its thread, unheard.
        """
        if self._closed or self.waiting >= self.queue_limit:
            raise PoolOverloaded(f"{self.waiting} jobs are waiting")
        if not self._started:
            self._started = True
            for _ in range(self.threads):
                self._start_thread()
        loop = asyncio.get_running_loop()
        job = _Job(work, loop, loop.create_future())
        self._jobs.put(job)
        watch = None
        if timeout_s is not None:
            watch = loop.call_later(timeout_s, self._watch, job, timeout_s)
        try:
            result: T = await job.result
            return result
        finally:
            if watch is not None:
                watch.cancel()

    def close(self) -> None:
        """Let the threads end when the jobs that wait are done."""
        self._closed = True
        for _ in range(self.threads):
            self._jobs.put(None)

    def _start_thread(self) -> None:
        # daemon: a job that hangs for ever must not keep the process
        threading.Thread(target=self._serve, name="environment work", daemon=True).start()

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.started = time.monotonic()
            outcome: Any = None
            error: BaseException | None = None
            try:
                outcome = job.work()
            except BaseException as raised:
                error = raised
            in_time = job.finish()
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                job.loop.call_soon_threadsafe(_settle, job.result, outcome, error)
            if not in_time:
                return

    def _watch(self, job: _Job, timeout_s: float) -> None:
        if job.result.done():
            return
        now = time.monotonic()
        left = timeout_s if job.started is None else job.started + timeout_s - now
        if left > 0:
            job.loop.call_later(left, self._watch, job, timeout_s)
            return
        if not job.write_off():
            return
        self.lost_threads += 1
        self._start_thread()
        job.result.set_exception(JobTimeout(f"longer than {timeout_s:g} s"))


def _settle(result: asyncio.Future[Any], outcome: Any, error: BaseException | None) -> None:
    if result.done():
        return
    if error is None:
        result.set_result(outcome)
    elif isinstance(error, StopIteration):
        result.set_exception(RuntimeError("StopIteration was raised by the work"))
    else:
        result.set_exception(error)
