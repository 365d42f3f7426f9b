from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import threading
import time
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from agentgym_suite.agents import agent_factory
from agentgym_suite.env import Transition
from agentgym_suite.episodes import Episode, EpisodeRequest, Reply, Turn
from agentgym_suite.errors import ModelUnusable, UsageError
from agentgym_suite.rollouts import _Answers, run_episodes
from tests.counting import CountingEnv

REQUESTS = [EpisodeRequest(f"count-{i % 20}", seed=i, trial=i // 20) for i in range(60)]


def collect(
    make_env: Callable[[], Any], make_agent: Any, requests: Any = REQUESTS, **options: Any
) -> list[Episode]:
    async def gather() -> list[Episode]:
        return [e async for e in run_episodes(make_env, make_agent, requests, **options)]

    return asyncio.run(gather())


def by_key(episodes: list[Episode]) -> dict[tuple[str, int], Episode]:
    return {(episode.task_id, episode.trial): episode for episode in episodes}


def test_concurrency_changes_nothing_but_the_order() -> None:
    runs = [collect(CountingEnv, agent_factory("random"), concurrency=n) for n in (1, 4, 16)]
    assert all(len(run) == len(REQUESTS) for run in runs)
    assert by_key(runs[0]) == by_key(runs[1]) == by_key(runs[2])


def test_at_most_so_many_environments_exist_and_all_are_closed() -> None:
    made: list[CountingEnv] = []
    closed: list[CountingEnv] = []

    class Counted(CountingEnv):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

        def close(self) -> None:
            closed.append(self)
            super().close()

    collect(Counted, agent_factory("oracle"), concurrency=3)
    assert 1 <= len(made) <= 3
    assert set(map(id, made)) == set(map(id, closed))


def test_one_failing_episode_does_not_end_the_others() -> None:
    class Breaking(CountingEnv):
        def _play(self, action: str) -> Transition:
            if self.target == 5:
                raise RuntimeError("broken task")
            return super()._play(action)

    episodes = collect(Breaking, agent_factory("oracle"))
    failed = [e for e in episodes if e.failure]
    assert len(episodes) == 60 and {e.task_id for e in failed} == {"count-4"}
    assert all(e.failure is not None and e.failure.origin == "env" for e in failed)


def test_an_environment_that_cannot_be_made_is_a_failure_with_its_task() -> None:
    def broken() -> CountingEnv:
        raise OSError("no data")

    episodes = collect(broken, agent_factory("oracle"), REQUESTS[:3])
    assert [e.failure and e.failure.kind for e in episodes] == ["env_exception"] * 3
    assert {e.task_id for e in episodes} == {"count-0", "count-1", "count-2"}


def test_max_failures_stops_with_what_is_finished() -> None:
    class Hopeless(CountingEnv):
        def _play(self, action: str) -> Transition:
            raise RuntimeError("always")

    episodes = collect(Hopeless, agent_factory("oracle"), concurrency=2, max_failures=3)
    assert 3 <= len(episodes) <= 4 and all(e.failure for e in episodes)


def test_a_hanging_step_is_given_up_with_its_environment() -> None:
    release = threading.Event()
    made: list[CountingEnv] = []

    class Hanging(CountingEnv):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

        def _play(self, action: str) -> Transition:
            if self.target == 3 and self.total:
                release.wait()
            return super()._play(action)

    class Slow:
        def act(self, turn: Turn) -> Reply:
            return Reply("add[1]")

        def close(self) -> None:
            pass

    requests = [EpisodeRequest(f"count-{i}", seed=0) for i in (2, 0, 1, 3)]
    episodes = collect(Hanging, lambda env, seed: Slow(), requests, concurrency=1, timeout_s=1.0)
    release.set()
    by_task = {e.task_id: e for e in episodes}
    failure = by_task["count-2"].failure
    assert failure is not None and (failure.kind, failure.origin) == ("env_timeout", "env")
    assert len(by_task["count-2"].steps) == 1
    assert all(by_task[f"count-{i}"].success for i in (0, 1, 3))
    assert len(made) == 2


def test_a_hanging_agent_is_a_model_timeout() -> None:
    release = threading.Event()

    class Stuck:
        def act(self, turn: Turn) -> Reply:
            release.wait()
            return Reply("")

        def close(self) -> None:
            pass

    (episode,) = collect(CountingEnv, lambda env, seed: Stuck(), REQUESTS[:1], timeout_s=0.2)
    release.set()
    assert episode.failure is not None and episode.failure.kind == "timeout_model"


def test_a_given_up_episode_is_not_played_on() -> None:
    acts: list[int] = []

    class Slow:
        def act(self, turn: Turn) -> Reply:
            acts.append(turn.step_index)
            time.sleep(0.1)
            return Reply("say[still here]")

        def close(self) -> None:
            acts.append(-1)

    (episode,) = collect(CountingEnv, lambda env, seed: Slow(), REQUESTS[:1], timeout_s=0.25)
    assert episode.failure is not None
    deadline = time.monotonic() + 10
    while -1 not in acts and time.monotonic() < deadline:
        time.sleep(0.01)
    assert acts[-1] == -1 and len(acts) <= 5


def test_asynchronous_agents_share_the_event_loop() -> None:
    loops = set()

    class Asking:
        async def act(self, turn: Turn) -> Reply:
            loops.add(id(asyncio.get_running_loop()))
            await asyncio.sleep(0.001)
            return Reply(f"add[{min(3, int(turn.info['target']) - int(turn.info['total']))}]")

        def close(self) -> None:
            pass

    episodes = collect(CountingEnv, lambda env, seed: Asking(), concurrency=8)
    assert len(loops) == 1 and all(e.success for e in episodes)


def test_an_answer_that_comes_after_the_end_is_dropped() -> None:
    ended, closed = threading.Event(), threading.Event()

    class Late:
        def act(self, turn: Turn) -> Awaitable[Reply]:
            ended.wait()  # nobody waits for the episode any more, and its loop is closed
            return self._answer()

        async def _answer(self) -> Reply:
            return Reply("add[1]")

        def close(self) -> None:
            closed.set()

    class Refused:
        async def act(self, turn: Turn) -> Reply:
            raise ModelUnusable("no such model")

        def close(self) -> None:
            pass

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(ModelUnusable):
            collect(CountingEnv, lambda env, seed: (Late, Refused)[seed](), REQUESTS[:2])
        ended.set()
        assert closed.wait(10)
        gc.collect()
    assert [str(one.message) for one in caught] == []


def test_an_answer_that_was_not_begun_is_dropped() -> None:
    async def answer() -> Reply:
        return Reply("add[1]")

    async def give_up() -> BaseException:
        answers = _Answers(asyncio.get_running_loop())
        waiting = asyncio.to_thread(answers.wait, answer())
        task = asyncio.create_task(waiting)
        await asyncio.sleep(0)  # the thread starts, and asks while the loop is held
        while answers._unbegun is None:
            time.sleep(0.001)
        answers.close()
        (outcome,) = await asyncio.gather(task, return_exceptions=True)
        return outcome

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = asyncio.run(give_up())
        gc.collect()
    assert isinstance(outcome, asyncio.CancelledError | concurrent.futures.CancelledError)
    assert [str(one.message) for one in caught] == []


def test_wrong_requests_and_arguments_raise() -> None:
    with pytest.raises(UsageError, match="count-77"):
        collect(CountingEnv, agent_factory("oracle"), [EpisodeRequest("count-77", 0)])
    with pytest.raises(UsageError, match="timeout_s"):
        collect(CountingEnv, agent_factory("oracle"), timeout_s=0)
    with pytest.raises(UsageError, match="concurrency"):
        collect(CountingEnv, agent_factory("oracle"), concurrency=0)


def test_leaving_early_closes_the_environments() -> None:
    closed = threading.Event()

    class Watched(CountingEnv):
        def close(self) -> None:
            closed.set()
            super().close()

    async def first() -> Episode:
        episodes = run_episodes(Watched, agent_factory("oracle"), REQUESTS, concurrency=2)
        try:
            return await anext(episodes)
        finally:
            await episodes.aclose()  # type: ignore[attr-defined]

    assert asyncio.run(first()).success
    deadline = time.monotonic() + 10
    while not closed.is_set() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert closed.is_set()
