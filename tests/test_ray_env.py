"""``RayEnv`` and ``Stage`` without Ray: what passes between them, and how it ends."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from agentgym_suite.agents import agent_factory
from agentgym_suite.episodes import EpisodeRequest, Reply, Turn
from agentgym_suite.errors import EnvError, EpisodeNotRunning, MissingExtra, UsageError, WorkerLost
from agentgym_suite.game import game_of
from agentgym_suite.making import make_environment
from agentgym_suite.playing import run_episode
from agentgym_suite.ray_env import RayEnv, Stage
from agentgym_suite.ray_pool import RayEnvPool, connected
from tests.troubled_counting import ID, REQUESTS, collect, registered


@pytest.fixture(scope="module", autouse=True)
def game() -> Iterator[None]:
    with registered():
        yield


class Here:
    """A worker in this process; what passes is pickled, as on its way to an actor."""

    def __init__(self, **kwargs: Any) -> None:
        self.stage = Stage(gym.registry[ID], kwargs)
        self.ended = ""
        self.lost = False

    def ask(self, call: str, *args: Any) -> Any:
        if self.lost:
            raise WorkerLost("gone")
        return pickle.loads(pickle.dumps(self.stage.ask(call, *pickle.loads(pickle.dumps(args)))))

    def give_back(self) -> None:
        self.ended += "given back"

    def discard(self) -> None:
        self.ended += "discarded"


@pytest.mark.parametrize("agent", ["oracle", "random"])
def test_episodes_equal_those_of_the_environment_itself(agent: str) -> None:
    here = collect(partial(make_environment, ID, {}), agent_factory(agent))
    assert collect(lambda: RayEnv(ID, Here()), agent_factory(agent)) == here
    assert all(len(episode.steps) > 0 and episode.failure is None for episode in here)


def test_it_offers_what_the_environment_offers() -> None:
    env, twin = RayEnv(ID, Here(split="test")), make_environment(ID, {"split": "test"})
    game: Any = game_of(twin)
    assert (env.tools, env.info_keys, env.goal_key) == (game.tools, game.info_keys, game.goal_key)
    assert (env.version, env.horizon) == (game.version, 30)
    assert (env.observation_space, env.action_space) == (twin.observation_space, twin.action_space)
    assert env.action_space.examples == game.action_space.examples
    observation, info = env.reset(seed=3)
    assert (observation, info) == twin.reset(seed=3) and info["split"] == "test"
    ours, theirs = (np.random.Generator(np.random.PCG64(5)) for _ in range(2))
    drawn = [env.random_action(ours) for _ in range(10)]
    assert drawn == [game.random_action(theirs) for _ in range(10)]
    assert ours.random() == theirs.random()
    assert env.step("add[1]") == twin.step("add[1]")


def test_two_policies_may_play_in_turns() -> None:
    env = RayEnv(ID, Here())
    first, second = env.policy("oracle"), env.policy("oracle")
    observation, info = env.reset(options={"task_id": "count-3"})
    assert first(observation, info) == second(observation, info) == "add[3]"
    with pytest.raises(UsageError, match="oracle"):
        env.policy("nobody")


def test_exceptions_come_through_as_what_they_are() -> None:
    env = RayEnv(ID, Here(trouble="raise"))
    with pytest.raises(gym.error.ResetNeeded):
        env.step("add[1]")
    env.reset(options={"task_id": "count-0"})
    env.step("add[1]")
    with pytest.raises(EpisodeNotRunning, match="reset"):
        env.step("add[1]")
    with pytest.raises(UsageError, match="count-77"):
        env.reset(options={"task_id": "count-77"})
    with pytest.raises(UsageError, match="colour"):
        RayEnv(ID, Here(colour="red")).reset()
    env.reset(options={"task_id": "count-4"})
    with pytest.raises(RuntimeError, match="the machine broke"):
        env.step("add[1]")


@pytest.mark.parametrize("trouble", ["raise", "foreign", "exit"])
def test_a_failure_says_what_it_says_here(trouble: str) -> None:
    request = EpisodeRequest("count-4", 0)
    here = run_episode(make_environment(ID, {"trouble": trouble}), agent_factory("oracle"), request)
    away = run_episode(RayEnv(ID, Here(trouble=trouble)), agent_factory("oracle"), request)
    assert away == here
    assert away.failure is not None and "troubled_counting.py, _play" in away.failure.message


def test_an_environment_that_cannot_be_made_is_no_fault_of_the_agent() -> None:
    worker = Here(trouble="make")
    episode = run_episode(RayEnv(ID, worker), agent_factory("oracle"), REQUESTS[0])
    assert episode.failure is not None
    assert (episode.failure.kind, episode.failure.origin) == ("worker_lost", "infra")
    assert "the disk is full" in episode.failure.message
    assert worker.ended == "discarded"  # another machine may have room


@pytest.mark.parametrize("asked_for", ["a step", "an action"])
def test_a_lost_worker_is_a_failure_of_the_infrastructure(asked_for: str) -> None:
    worker = Here()

    class Loses:
        def __init__(self, env: gym.Env[str, str], seed: int) -> None:
            self._oracle = game_of(env).policy("oracle")

        def act(self, turn: Turn) -> Reply:
            worker.lost = turn.step_index == 1 and asked_for == "an action"
            action = self._oracle(turn.observation, turn.info)
            worker.lost = turn.step_index == 1
            return Reply(action)

        def close(self) -> None:
            pass

    episode = run_episode(RayEnv(ID, worker), Loses, EpisodeRequest("count-9", 0))
    assert episode.failure is not None and episode.outcome == "error"
    assert (episode.failure.kind, episode.failure.origin) == ("worker_lost", "infra")
    assert len(episode.steps) == 1
    assert worker.ended == "discarded"


def test_a_closed_environment_is_given_back_once_and_used_no_more() -> None:
    worker = Here()
    env = RayEnv(ID, worker)
    env.reset(seed=0)
    env.close()
    env.close()
    env.abandon()
    assert worker.ended == "given back"
    with pytest.raises(EnvError, match="closed"):
        env.step("add[1]")


def test_a_hanging_step_is_given_up_with_its_worker() -> None:
    ended = threading.Event()
    workers: list[Hanging] = []

    class Hanging(Here):
        def __init__(self) -> None:
            super().__init__()
            workers.append(self)

        def ask(self, call: str, *args: Any) -> Any:
            if call == "step" and self.stage.ask("step", *args)[4]["target"] == 5:
                assert ended.wait(60)
                raise WorkerLost("ended")
            return super().ask(call, *args)

        def discard(self) -> None:
            super().discard()
            ended.set()

    (episode,) = collect(
        lambda: RayEnv(ID, Hanging()),
        agent_factory("oracle"),
        requests=[EpisodeRequest("count-4", 0)],
        timeout_s=0.5,
    )
    assert episode.failure is not None and episode.failure.kind == "env_timeout"
    assert [worker.ended for worker in workers] == ["discarded"]


def test_wrong_arguments_are_refused_before_ray_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match="'Nothing-v0' is not registered"):
        RayEnvPool("Nothing-v0")
    with pytest.raises(UsageError, match="num_actors is 0"):
        RayEnvPool(ID, num_actors=0)
    with pytest.raises(UsageError, match="cpus is -1"):
        RayEnvPool(ID, cpus=-1)
    with pytest.raises(MissingExtra, match=r"agentgym-suite\[ray\]"):
        RayEnvPool(ID)
    with pytest.raises(MissingExtra, match=r"agentgym-suite\[ray\]"), connected():
        pass
