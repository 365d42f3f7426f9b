"""Trajectories whose environments live in Ray actors; skipped where Ray is not installed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium as gym
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from agentgym_suite.engines.tokens import Sampling
from agentgym_suite.engines.transformers_engine import TransformersEngine
from agentgym_suite.episodes import PlaySettings
from agentgym_suite.making import make_environment
from agentgym_suite.prompts import StepPrompt
from agentgym_suite.ray_pool import RayEnvPool, connected
from agentgym_suite.trainers.collector import (
    Collection,
    Collector,
    RolloutSettings,
    plan_groups,
)
from tests.trainers.tiny_training import TASKS, policy
from tests.troubled_counting import ID, registered

PLAY = PlaySettings(prompt=StepPrompt("terse"), max_steps=6)


@pytest.fixture(scope="module", autouse=True)
def ray() -> Iterator[Any]:
    """Ray of this machine, connected to for the whole module."""
    ray = pytest.importorskip("ray", reason="Ray is not installed: make test-ray")
    with registered(), connected():
        yield ray


def make() -> gym.Env[str, str]:
    return make_environment(ID, {})


class Killing:
    """An engine that kills one actor of the pool when it is asked for the second time."""

    def __init__(self, engine: TransformersEngine, ray: Any, pool: RayEnvPool) -> None:
        self._engine, self._ray, self._pool = engine, ray, pool
        self.asked = 0

    def generate(self, prompts: Sequence[Sequence[int]], *how: Any) -> Any:
        self.asked += 1
        if self.asked == 2:
            handle: Any = next(iter(self._pool._actors))._handle
            pid = self._ray.get(handle.__ray_call__.remote(lambda stage: os.getpid()))
            os.kill(pid, signal.SIGKILL)
        return self._engine.generate(prompts, *how)


def collect(make_env: Any, engine: Any, tokenizer: Any) -> Collection:
    sampling = Sampling(max_new_tokens=6, stop_ids=tokenizer.stop_ids)
    settings = RolloutSettings(env_id=ID, play=PLAY, sampling=sampling, concurrency=4)
    requests = plan_groups(TASKS[:2], 2, seed=41, iteration=1)
    return Collector(make_env, engine, tokenizer, settings).collect(requests)


def sampled(collection: Collection) -> list[tuple[Any, ...]]:
    return [
        (row.trajectory_id, row.step_index, row.prompt_ids, row.response_ids, row.reward)
        for row in collection.rows
    ]


def test_trajectories_equal_the_local_ones_though_a_worker_is_killed(ray: Any) -> None:
    model, words = policy()
    engine = TransformersEngine(model, words, policy_version="start")
    here = collect(make, engine, engine.tokenizer)
    with RayEnvPool.like(make, 4) as pool:
        there = collect(pool, engine, engine.tokenizer)
    assert there.rows == here.rows and not there.failures
    with RayEnvPool.like(make, 4) as pool:
        hit = collect(pool, Killing(engine, ray, pool), engine.tokenizer)
    assert [one.failure and one.failure.kind for one in hit.failures] == ["worker_lost"]
    assert sampled(hit) == sampled(here)
    assert hit.env_steps == here.env_steps + len(hit.failures[0].steps)
