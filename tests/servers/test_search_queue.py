from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from agentgym_suite.errors import RetrievalError
from agentgym_suite.indexes.passages import Found
from agentgym_suite.servers.answer_sizes import AnswerTooLarge, answer_size
from agentgym_suite.servers.search_queue import (
    MOST_BATCHED,
    MOST_SLICE,
    MOST_SLICE_PASSAGES,
    QueueFull,
    SearchQueue,
    SearchReport,
    SearchTimeout,
)
from tests.servers.small_index import FAILS, WAITS, SmallIndex


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


async def held(queue: SearchQueue, index: SmallIndex) -> asyncio.Task[Any]:
    """A request that holds the only thread until the index is released."""
    task = asyncio.create_task(queue.search([WAITS], 1))
    await asyncio.to_thread(index.entered.wait, 30)
    return task


async def begun(
    queue: SearchQueue, *requests: tuple[Sequence[str], int]
) -> list[asyncio.Task[Any]]:
    tasks = [asyncio.create_task(queue.search(queries, k)) for queries, k in requests]
    await asyncio.sleep(0)
    return tasks


def test_waiting_requests_are_searched_together_and_each_gets_its_own() -> None:
    async def work() -> None:
        index, reports = SmallIndex(), []
        queue = SearchQueue(index, batching=True, report=reports.append)
        first = await held(queue, index)
        wanted: list[tuple[Sequence[str], int]] = [
            (["word1"], 3), (["word2", "word3"], 5), ([], 3), (["word4", ""], 3), (["word5"], 5)
        ]  # fmt: skip
        tasks = await begun(queue, *wanted)
        assert (queue.waiting, queue.running, queue.must_wait) == (5, 1, True)
        index.release.set()
        await first
        results = await asyncio.gather(*tasks)
        alone = SmallIndex()
        assert results == [alone.retrieve(queries, k) for queries, k in wanted]
        # only those for as many passages go together; the others keep their order
        assert index.calls[1:] == [
            (("word1", "word4", ""), 3), (("word2", "word3", "word5"), 5)
        ]  # fmt: skip
        assert [(r.requests, r.queries, r.outcome) for r in reports] == [
            (1, 1, "answered"), (3, 3, "answered"), (2, 3, "answered")
        ]  # fmt: skip
        assert (queue.waiting, queue.running, queue.must_wait) == (0, 0, False)
        await queue.close()

    run(work())


def test_without_batching_every_request_is_a_call() -> None:
    async def work() -> None:
        index = SmallIndex()
        queue = SearchQueue(index, batching=False, window_s=10)  # the window has no meaning then
        first = await held(queue, index)
        tasks = await begun(queue, (["word1"], 3), (["word2"], 3))
        index.release.set()
        await asyncio.gather(first, *tasks)
        assert [queries for queries, _ in index.calls] == [(WAITS,), ("word1",), ("word2",)]
        await queue.close()

    run(work())


def test_a_batch_is_bounded_and_a_large_request_is_searched_in_slices() -> None:
    async def work() -> None:
        index = SmallIndex()
        queue = SearchQueue(index, batching=True)
        first = await held(queue, index)
        sizes = (MOST_BATCHED - 1, 3, 1, MOST_BATCHED + 9)
        tasks = await begun(queue, *[(["a"] * size, 2) for size in sizes])
        index.release.set()
        await asyncio.gather(first, *tasks)
        assert [len(queries) for queries, _ in index.calls[1:]] == [
            MOST_BATCHED, 3, MOST_SLICE, MOST_BATCHED + 9 - MOST_SLICE
        ]  # fmt: skip
        await queue.close()

    run(work())


def test_a_window_waits_for_others_and_ends_early_when_the_batch_is_full() -> None:
    async def work() -> None:
        index = SmallIndex()
        queue = SearchQueue(index, batching=True, window_s=0.05)
        assert queue.must_wait
        tasks = await begun(queue, (["word1"], 3))
        await asyncio.sleep(0.01)
        tasks += await begun(queue, (["word2"], 3))
        assert not index.calls
        await asyncio.gather(*tasks)
        assert index.calls == [(("word1", "word2"), 3)]
        await queue.close()

        endless = SearchQueue(index, batching=True, window_s=3_600)
        tasks = await begun(endless, *[(["a"], 3)] * MOST_BATCHED)
        await asyncio.gather(*tasks)
        assert len(index.calls[-1][0]) == MOST_BATCHED
        await endless.close()

    run(work())


def test_a_full_queue_refuses_and_a_cancelled_request_makes_room() -> None:
    async def work() -> None:
        index = SmallIndex()
        queue = SearchQueue(index, limit=2)
        first = await held(queue, index)
        second, third = await begun(queue, (["word1"], 3), (["word2"], 3))
        with pytest.raises(QueueFull):
            await queue.search(["word3"], 3)
        second.cancel()
        await asyncio.wait([second])
        assert queue.waiting == 1
        (fourth,) = await begun(queue, (["word4"], 3))
        index.release.set()
        await asyncio.gather(first, third, fourth)
        assert [queries for queries, _ in index.calls] == [(WAITS,), ("word2",), ("word4",)]
        await queue.close()

    run(work())


def test_a_request_that_is_cancelled_while_it_runs_frees_its_thread() -> None:
    async def work() -> None:
        index = SmallIndex()
        queue = SearchQueue(index)
        first = await held(queue, index)
        first.cancel()
        await asyncio.wait([first])
        assert queue.running == 1  # the index knows no interruption
        index.release.set()
        assert len(await queue.search(["word1"], 3)) == 1
        await queue.close()

    run(work())


def test_a_search_beyond_its_time_ends_alone() -> None:
    async def work() -> None:
        index = SmallIndex()
        reports: list[SearchReport] = []
        queue = SearchQueue(index, timeout_s=0.05, report=reports.append)
        with pytest.raises(SearchTimeout):
            await queue.search([WAITS], 1)
        assert len(await queue.search(["word1"], 3)) == 1
        assert [r.outcome for r in reports] == ["timeout", "answered"]
        index.release.set()
        await queue.close()

    run(work())


def test_one_requests_fault_is_not_anothers() -> None:
    async def work() -> None:
        index = SmallIndex()
        queue = SearchQueue(index, batching=True)
        first = await held(queue, index)
        good, bad, fine = await begun(queue, (["word1"], 3), ([FAILS], 3), (["word2"], 3))
        index.release.set()
        await first
        assert await good == SmallIndex().retrieve(["word1"], 3)
        assert await fine == SmallIndex().retrieve(["word2"], 3)
        with pytest.raises(RetrievalError, match="gone"):
            await bad
        await queue.close()

    run(work())


def test_an_index_that_loses_a_query_is_not_believed() -> None:
    class Losing(SmallIndex):
        def retrieve(self, queries: Sequence[str], k: int) -> list[list[Found]]:
            return super().retrieve(queries, k)[1:]

    async def work() -> None:
        queue = SearchQueue(Losing())
        with pytest.raises(RetrievalError, match="1 of 2 queries"):
            await queue.search(["a", "b"], 1)
        await queue.close()

    run(work())


def test_closing_refuses_those_that_wait(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        index = SmallIndex()
        queue = SearchQueue(index)
        first = await held(queue, index)
        (waiting,) = await begun(queue, (["word1"], 3))
        closing = asyncio.create_task(queue.close())
        with pytest.raises(QueueFull):
            await waiting
        assert not closing.done()  # somebody waits for the first
        index.release.set()
        assert len(await first) == 1
        await closing
        with pytest.raises(QueueFull):
            await queue.search(["word1"], 3)

    with caplog.at_level(logging.WARNING):
        run(work())
    assert not caplog.records


def test_closing_leaves_no_task_of_a_search_that_nobody_waits_for() -> None:
    async def work() -> None:
        index = SmallIndex()
        reports: list[SearchReport] = []
        queue = SearchQueue(index, report=reports.append)
        gone = await held(queue, index)
        gone.cancel()
        await asyncio.wait([gone])
        await queue.close()  # with the index still at work: an event loop may end here
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert [report.outcome for report in reports] == ["abandoned"]
        index.release.set()

    asyncio.run(work())


@pytest.mark.parametrize("given_up", ["timeout", "cancelled"])
def test_a_search_nobody_waits_for_stops_after_its_slice(given_up: str) -> None:
    async def work() -> None:
        index = SmallIndex()
        ended = asyncio.Event()
        reports: list[SearchReport] = []

        def report(one: SearchReport) -> None:
            reports.append(one)
            ended.set()

        timeout_s = 0.05 if given_up == "timeout" else 60
        queue = SearchQueue(index, timeout_s=timeout_s, report=report)
        task = asyncio.create_task(queue.search([WAITS, *["word1"] * (4 * MOST_SLICE)], 1))
        await asyncio.to_thread(index.entered.wait, 30)
        if given_up == "cancelled":
            task.cancel()
        await asyncio.wait([task])
        index.release.set()
        await ended.wait()
        assert len(await queue.search(["word2"], 1)) == 1  # behind it, or in another thread
        assert [len(queries) for queries, _ in index.calls] == [MOST_SLICE, 1]
        expected = "timeout" if given_up == "timeout" else "abandoned"
        assert reports[0].outcome == expected
        await queue.close()

    run(work())


def test_slices_are_smaller_where_many_passages_are_wanted() -> None:
    async def work() -> None:
        index = SmallIndex()
        queue = SearchQueue(index)
        results = await queue.search(["word1", "word2", "word3"], MOST_SLICE_PASSAGES)
        assert results == SmallIndex().retrieve(["word1", "word2", "word3"], 20)
        assert [len(queries) for queries, _ in index.calls] == [1, 1, 1]
        await queue.close()

    run(work())


def test_an_answer_too_large_is_given_up_and_is_not_anothers_fault() -> None:
    async def work() -> None:
        index = SmallIndex()
        most = answer_size(index.retrieve(["word1"], 20))
        queue = SearchQueue(index, batching=True, most_characters=most)
        first = await held(queue, index)
        good, bad = await begun(queue, (["word1"], 20), (["word1"] * 500, 20))
        index.release.set()
        await first
        assert len((await good)[0]) == 20
        with pytest.raises(AnswerTooLarge) as told:
            await bad
        assert (told.value.queries, told.value.characters) == (MOST_SLICE, MOST_SLICE * most)
        await queue.close()

    run(work())
