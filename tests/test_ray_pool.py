"""Environments in the actors of a Ray on this machine; skipped where Ray is not installed."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import gymnasium as gym
import pytest

import agentgym_suite
from agentgym_suite.agents import agent_factory
from agentgym_suite.episodes import EpisodeRequest, Reply, Turn
from agentgym_suite.errors import UsageError, WorkerLost
from agentgym_suite.game import game_of
from agentgym_suite.making import make_environment
from agentgym_suite.ray_env import RayEnv
from agentgym_suite.ray_pool import RayEnvPool, connected
from agentgym_suite.rollouts import run_episodes
from tests.troubled_counting import ID, REQUESTS, collect, registered


@pytest.fixture(scope="module", autouse=True)
def game() -> Iterator[None]:
    with registered():
        yield


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """Ray of this machine, connected to for the whole module."""
    ray = pytest.importorskip("ray", reason="Ray is not installed: no actors to play in")
    with connected():
        yield ray


def pid_of(ray: Any, env: gym.Env[str, str]) -> int:
    worker: Any = cast(RayEnv, env.unwrapped)._worker
    return int(ray.get(worker._handle.__ray_call__.remote(lambda stage: os.getpid())))


def is_gone(pid: int) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


class Queue(deque[EpisodeRequest]):
    """Requests, to which an episode that is to be played again can be added meanwhile."""

    def __iter__(self) -> Iterator[EpisodeRequest]:
        return self

    def __next__(self) -> EpisodeRequest:
        if not self:
            raise StopIteration
        return self.popleft()


class Killing:
    """An agent that kills the worker of one task's first attempt in its second step."""

    def __init__(self, ray: Any, name: str, task_id: str, *, before: bool) -> None:
        self._ray, self._make = ray, agent_factory(name)
        self._task_id, self._before = task_id, before
        self.killed = 0

    def __call__(self, env: gym.Env[str, str], seed: int) -> Any:
        agent: Any = self._make(env, seed)
        act = agent.act

        def acting(turn: Turn) -> Any:
            doomed = turn.task.id == self._task_id and turn.step_index == 1 and not self.killed
            if doomed and self._before:
                self._kill(env)
            reply = act(turn)
            if doomed and not self._before:
                self._kill(env)
            return reply

        agent.act = acting
        return agent

    def _kill(self, env: gym.Env[str, str]) -> None:
        self.killed = pid_of(self._ray, env)
        os.kill(self.killed, signal.SIGKILL)
        assert is_gone(self.killed)


@pytest.mark.parametrize("name", ["oracle", "random"])
@pytest.mark.parametrize("env_id", agentgym_suite.ENV_IDS)
def test_episodes_equal_the_local_ones_though_a_worker_is_killed(
    ray: Any, env_id: str, name: str
) -> None:
    make = partial(make_environment, env_id, {})
    ids = list(game_of(make()).tasks.ids[:6])
    requests = [EpisodeRequest(task_id, seed) for seed, task_id in enumerate(ids)]
    here = collect(make, agent_factory(name), requests=requests)
    doomed = next(e.task_id for e in here if len(e.steps) > 1)
    killing = Killing(ray, name, doomed, before=name == "random")
    queue = Queue(requests)
    lost, played = [], []

    async def play(pool: RayEnvPool) -> None:
        async for episode in run_episodes(pool, killing, queue, concurrency=2):
            if episode.failure is None:
                played.append(episode)
            else:
                lost.append(episode)
                queue.append(EpisodeRequest(episode.task_id, episode.seed))

    with RayEnvPool(env_id, {}, num_actors=2) as pool:
        asyncio.run(play(pool))
    assert sorted(played, key=lambda e: e.task_id) == here
    assert [(e.task_id, e.failure and e.failure.kind) for e in lost] == [(doomed, "worker_lost")]
    assert lost[0].failure is not None and lost[0].failure.origin == "infra"


def test_a_dying_environment_costs_its_episode_alone(ray: Any) -> None:
    with RayEnvPool(ID, {"trouble": "die"}, 3) as pool:
        episodes = collect(pool, agent_factory("oracle"), concurrency=3)
    failed = {e.task_id: e.failure.kind for e in episodes if e.failure is not None}
    assert failed == {"count-4": "worker_lost"} and len(episodes) == 20


def test_a_hanging_step_is_given_up_and_its_actor_killed(ray: Any) -> None:
    pids: dict[str, int] = {}

    def watched(env: gym.Env[str, str], seed: int) -> Any:
        agent: Any = agent_factory("oracle")(env, seed)
        pids[f"count-{seed}"] = pid_of(ray, env)
        return agent

    with RayEnvPool(ID, {"trouble": "hang"}, 2) as pool:
        episodes = collect(pool, watched, concurrency=2, timeout_s=10.0)
        assert is_gone(pids["count-4"])
    failed = {e.task_id: e.failure.kind for e in episodes if e.failure is not None}
    assert failed == {"count-4": "env_timeout"} and len(episodes) == 20


def test_failing_episodes_do_not_cost_their_workers(ray: Any) -> None:
    pids = set()

    def watched(env: gym.Env[str, str], seed: int) -> Any:
        pids.add(pid_of(ray, env))
        if seed % 2:
            raise ValueError("no such model")
        return agent_factory("oracle")(env, seed)

    with RayEnvPool(ID, {}, 2) as pool:
        episodes = collect(pool, watched, concurrency=2)
        assert len(pids) <= 2
    assert [e.failure and e.failure.origin for e in episodes].count("agent") == 10
    assert all(is_gone(pid) for pid in pids)
    assert ray.is_initialized()  # it was there before the pool


def test_asynchronous_agents_stay_in_this_process(ray: Any) -> None:
    seen = set()

    class Asking:
        async def act(self, turn: Turn) -> Reply:
            seen.add(os.getpid())
            await asyncio.sleep(0)
            return Reply(f"add[{min(3, int(turn.info['target']) - int(turn.info['total']))}]")

        def close(self) -> None:
            pass

    with RayEnvPool(ID, {}, 4) as pool:
        episodes = collect(pool, lambda env, seed: Asking(), concurrency=4)
    assert all(e.success for e in episodes) and seen == {os.getpid()}


def test_more_episodes_than_actors_are_refused_in_one_sentence(ray: Any) -> None:
    with RayEnvPool(ID, {}, 1) as pool, pytest.raises(UsageError, match="all 1 Ray actors"):
        collect(pool, agent_factory("oracle"), concurrency=2)
    with pytest.raises(UsageError, match="closed"):
        pool()


def test_what_cannot_be_sent_is_refused_in_one_sentence(ray: Any) -> None:
    with pytest.raises(
        UsageError, match="trouble of TroubledCounting-v0 is .*lock.*cannot be sent"
    ):
        RayEnvPool(ID, {"trouble": threading.Lock()})


def test_wrong_arguments_of_the_environment_are_told(ray: Any) -> None:
    with RayEnvPool(ID, {"colour": "red"}, 1) as pool, pytest.raises(UsageError, match="colour"):
        collect(pool, agent_factory("oracle"), concurrency=1)


def test_a_cluster_without_room_is_told(ray: Any) -> None:
    with RayEnvPool(ID, {}, 1, cpus=1000.0, start_timeout_s=1.0) as pool:
        (episode,) = collect(pool, agent_factory("oracle"), requests=REQUESTS[:1], concurrency=1)
    assert episode.failure is not None and episode.failure.kind == "worker_lost"
    assert "CPUs are free" in episode.failure.message


def test_the_example_of_the_page_runs(ray: Any, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[1] / "docs" / "ray.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    exec(compile(example, "ray.md", "exec"), {"__name__": "example"})
    assert sorted(capsys.readouterr().out.split("\n"))[1:] == sorted(
        f"human-{i} 1.0 None" for i in range(20)
    )


def test_closing_the_pool_ends_the_call_in_progress(ray: Any) -> None:
    pool = RayEnvPool(ID, {"trouble": "hang"}, 1)
    env = pool()
    env.reset(options={"task_id": "count-4"})
    raised: list[BaseException] = []

    def step() -> None:
        try:
            env.step("add[1]")
        except WorkerLost as error:
            raised.append(error)

    thread = threading.Thread(target=step)
    thread.start()
    pool.close()
    thread.join(60)
    assert len(raised) == 1


def test_no_cluster_at_an_address_is_told_at_once() -> None:
    ray = pytest.importorskip("ray", reason="Ray is not installed: no cluster to look for")
    if ray.is_initialized():
        ray.shutdown()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(UsageError, match="no Ray cluster answers"), connected(address):
            pass
    with pytest.raises(UsageError, match="'nonsense'"), connected("nonsense"):
        pass


def test_a_ray_of_the_pools_own_is_ended_with_it() -> None:
    ray = pytest.importorskip("ray", reason="Ray is not installed: no actors to play in")
    if ray.is_initialized():
        ray.shutdown()
    before = signal.getsignal(signal.SIGTERM)
    with RayEnvPool(ID, {}, 1) as pool:
        assert ray.is_initialized() and signal.getsignal(signal.SIGTERM) == before
        assert collect(pool, agent_factory("oracle"), requests=REQUESTS[:1], concurrency=1)[
            0
        ].success
    assert not ray.is_initialized()
