from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from agentgym_suite.servers.workers import JobTimeout, PoolOverloaded, WorkerPool


def test_results_and_exceptions_come_back() -> None:
    async def use() -> None:
        pool = WorkerPool(2, queue_limit=10)
        assert await pool.run(lambda: 7) == 7
        with pytest.raises(KeyError):
            await pool.run(lambda: {}["x"])
        with pytest.raises(RuntimeError):
            await pool.run(lambda: next(iter(())))
        assert await pool.run(threading.get_ident) != threading.get_ident()
        pool.close()
        with pytest.raises(PoolOverloaded):
            await pool.run(lambda: 7)

    asyncio.run(use())


def test_no_more_jobs_run_or_wait_than_may() -> None:
    at_work, most, lock = 0, 0, threading.Lock()
    release = threading.Event()

    def work() -> None:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        release.wait(10)
        with lock:
            at_work -= 1

    async def use() -> None:
        pool = WorkerPool(3, queue_limit=5)
        jobs = []
        for _ in range(3):
            jobs.append(asyncio.create_task(pool.run(work)))
            await until(lambda: pool.waiting == 0)
        await until(lambda: at_work == 3)
        for _ in range(5):
            jobs.append(asyncio.create_task(pool.run(work)))
        await until(lambda: pool.waiting == 5)
        with pytest.raises(PoolOverloaded):
            await pool.run(work)
        release.set()
        await asyncio.gather(*jobs)
        pool.close()

    asyncio.run(use())
    assert most == 3


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(2_000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen")


def test_waiting_for_a_thread_is_not_running() -> None:
    release = threading.Event()

    async def use() -> None:
        pool = WorkerPool(1, queue_limit=10)
        first = asyncio.create_task(pool.run(lambda: release.wait(10)))
        second = asyncio.create_task(pool.run(lambda: "done", timeout_s=0.2))
        await asyncio.sleep(0.4)  # longer than the second job may run
        assert not second.done()
        release.set()
        assert await second == "done"
        await first
        pool.close()

    asyncio.run(use())


def test_a_hanging_job_is_written_off_and_its_thread_replaced() -> None:
    release = threading.Event()

    async def use() -> None:
        pool = WorkerPool(1, queue_limit=10)
        for lost in (1, 2, 3):
            with pytest.raises(JobTimeout):
                await pool.run(lambda: release.wait(10), timeout_s=0.05)
            assert pool.lost_threads == lost
            assert await pool.run(lambda: "still here", timeout_s=5) == "still here"
        release.set()
        pool.close()

    asyncio.run(use())
