"""Collections: the same every time, and honest about what broke."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import gymnasium as gym
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from agentgym_suite.engines.tokens import Sampling
from agentgym_suite.engines.transformers_engine import TransformersEngine
from agentgym_suite.errors import EnvError, UsageError
from agentgym_suite.trainers.collector import (
    Collection,
    Collector,
    RolloutSettings,
    derived_seed,
    plan_groups,
)
from tests.counting import CountingEnv
from tests.trainers.tiny_training import PLAY, TASKS, counting, policy


class Fragile(CountingEnv):
    """Breaks in the first steps of some episodes."""

    lock = threading.Lock()
    left = 0

    def _play(self, action: str) -> Any:
        with Fragile.lock:
            broken, Fragile.left = Fragile.left > 0, Fragile.left - 1
        if broken:
            raise RuntimeError("the machine broke")
        return super()._play(action)


@pytest.fixture(scope="module")
def engine() -> TransformersEngine:
    model, tokenizer = policy()
    return TransformersEngine(model, tokenizer, policy_version="7", max_rows=64)


def collect(
    engine: TransformersEngine,
    make_env: Any = counting,
    rollouts: int = 3,
    needed: bool = True,
    **changes: Any,
) -> Collection:
    settings = RolloutSettings(
        env_id="Counting-v0",
        play=PLAY,
        sampling=Sampling(max_new_tokens=5, stop_ids=engine.tokenizer.stop_ids),
    )
    collector = Collector(make_env, engine, engine.tokenizer, replace(settings, **changes))
    requests = plan_groups(TASKS[:3], rollouts, seed=5, iteration=2)
    return collector.collect(requests, needed=needed)


def test_every_trajectory_becomes_rows_with_the_ids_that_were_sampled(
    engine: TransformersEngine,
) -> None:
    found = collect(engine)
    assert len(found.episodes) == 9 and found.dropped == 0
    assert found.env_steps == len(found.rows) == sum(len(e.steps) for e in found.episodes)
    assert {row.policy_version for row in found.rows} == {"7"}
    assert {row.group_id for row in found.rows} == {"2.0", "2.1", "2.2"}
    for row in found.rows:
        assert row.response_mask == (1,) * len(row.response_ids)
        last = row.response_ids[-1] in engine.tokenizer.stop_ids
        assert row.finish_reason == ("stop" if last else "length")


def test_the_rollouts_of_a_group_start_alike_and_differ(engine: TransformersEngine) -> None:
    rows = [row for row in collect(engine, rollouts=4).rows if row.group_id == "2.0"]
    starts = [row for row in rows if row.step_index == 0]
    assert len({row.prompt_ids for row in starts}) == 1
    assert len({row.env_seed for row in starts}) == 1
    assert len({row.response_ids for row in starts}) > 1


@pytest.mark.parametrize("concurrency", [256, 4])
def test_a_collection_is_the_same_every_time(engine: TransformersEngine, concurrency: int) -> None:
    one, other = (collect(engine, concurrency=concurrency) for _ in range(2))
    assert one.rows == other.rows


def test_replies_do_not_depend_on_what_runs_beside_them(engine: TransformersEngine) -> None:
    whole = {(r.trajectory_id, r.step_index): r.response_ids for r in collect(engine).rows}
    waves = {
        (r.trajectory_id, r.step_index): r.response_ids for r in collect(engine, concurrency=2).rows
    }
    assert whole == waves


def test_a_broken_trajectory_is_played_again_and_counted(engine: TransformersEngine) -> None:
    Fragile.left = 2
    found = collect(engine, make_env=Fragile)
    assert len(found.episodes) == 9 and found.dropped == 0
    assert len(found.failures) == 2
    assert all(e.failure and "the machine broke" in e.failure.message for e in found.failures)


def test_a_group_that_lacks_one_is_dropped_whole_where_members_are_compared(
    engine: TransformersEngine,
) -> None:
    Fragile.left = 1
    alone = collect(engine, make_env=Fragile, attempts=1)
    assert (len(alone.episodes), alone.dropped) == (8, 1)
    Fragile.left = 1
    compared = collect(engine, make_env=Fragile, attempts=1, whole_groups=True)
    assert (len(compared.episodes), compared.dropped) == (6, 3)
    assert compared.env_steps > len(compared.rows), "what was played for nothing counts, too"


def test_nothing_left_is_an_error(engine: TransformersEngine) -> None:
    Fragile.left = 10_000
    with pytest.raises(EnvError, match="every trajectory failed.*the machine broke"):
        collect(engine, make_env=Fragile, attempts=1)
    spared = collect(engine, needed=False, make_env=Fragile, attempts=1)
    assert spared.rows == spared.episodes == () and spared.dropped == 9
    Fragile.left = 0


def test_requests_need_a_seed_of_their_own(engine: TransformersEngine) -> None:
    settings = RolloutSettings(env_id="x", play=PLAY, sampling=Sampling())
    collector = Collector(counting, engine, engine.tokenizer, settings)
    planned = plan_groups(TASKS[:1], 2, seed=1, iteration=1)
    for wrong in ([replace(planned[0], agent_seed=None)], [planned[0], planned[0]]):
        with pytest.raises(UsageError, match="agent_seed"):
            collector.collect(wrong)


def test_every_environment_is_closed(engine: TransformersEngine) -> None:
    opened: list[Any] = []

    class Counted(CountingEnv):
        def __init__(self) -> None:
            super().__init__()
            opened.append(self)
            self.shut = False

        def close(self) -> None:
            self.shut = True
            super().close()

    def make() -> gym.Env[str, str]:
        return Counted()

    collect(engine, make_env=make)
    assert opened and all(env.shut for env in opened)


def test_seeds_are_functions_of_their_parts() -> None:
    assert derived_seed(1, "a") == derived_seed(1, "a") != derived_seed(1, "b")
    assert 0 <= derived_seed("x") < 2**63
