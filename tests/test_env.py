"""The contract of ``TextEnv``, on the tests' own counting game."""

from __future__ import annotations

import json
import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.wrappers import TimeLimit

from agentgym_suite.env import COMMON_INFO_KEYS
from agentgym_suite.errors import EnvError, EpisodeNotRunning, UnknownSplit, UnknownTask, UsageError
from agentgym_suite.registry import TELL_HORIZON
from tests.counting import CountingEnv


def test_an_episode_from_reset_to_the_end() -> None:
    env = CountingEnv(render_mode="ansi")
    observation, info = env.reset(options={"task_id": "count-3"})
    assert observation == env.render() == "Count to 4. é 你好 😀"
    assert info["seed"] == -1 and info["split"] == "test" and info["task_family"] == "odd"
    assert json.loads(info["provenance"])["environment"] == "CountingEnv"
    _, reward, terminated, truncated, info = env.step("add[3]")
    assert (reward, terminated, truncated, info["score"]) == (0.0, False, False, 0.0)
    assert info["provenance"] == "" and info["step"] == 1
    _, reward, terminated, _, info = env.step("add[1]")
    assert (reward, terminated, info["success"]) == (1.0, True, True)
    with pytest.raises(EpisodeNotRunning, match="reset"):
        env.step("add[1]")


def test_steps_outside_an_episode_are_reset_needed() -> None:
    with pytest.raises(ResetNeeded):
        CountingEnv().step("add[1]")
    env = CountingEnv()
    env.reset()
    env.close()
    env.close()
    with pytest.raises(EpisodeNotRunning):
        env.step("add[1]")


def test_info_has_the_same_keys_and_types_at_every_step() -> None:
    env = CountingEnv()
    _, first = env.reset(seed=1)
    infos = [env.step(action)[4] for action in ("add[1]", "nonsense", "say[x]")]
    assert tuple(first) == env.info_keys and set(COMMON_INFO_KEYS) < set(first)
    for info in infos:
        assert list(info) == list(first)
        assert [type(v) for v in info.values()] == [type(v) for v in first.values()]
        assert set(info["metrics"]) == set(first["metrics"])


def test_a_bad_action_is_data_and_counts_a_step() -> None:
    env = CountingEnv()
    _, before = env.reset(seed=1)
    observation, reward, terminated, _, info = env.step("jump")
    assert observation.startswith("No:") and reward == 0 and not terminated
    assert not info["action_valid"] and info["action_error"] and info["step"] == 1
    assert info["state_hash"] == before["state_hash"]
    assert info["metrics"]["invalid_actions"] == 1.0


def test_long_actions_are_refused_with_feedback_up_to_a_mebibyte() -> None:
    env = CountingEnv()
    env.reset(seed=1)
    info = env.step("add[1]" + "x" * 1_000_000)[4]
    assert "16,384" in info["action_error"] and not info["action_valid"]
    assert not env.step("é" * (1 << 20))[4]["action_valid"]
    with pytest.raises(UsageError, match="1,048,576"):
        env.step("x" * ((1 << 20) + 1))
    with pytest.raises(TypeError, match="int"):
        env.step(3)  # type: ignore[arg-type]


def test_lone_surrogates_are_replaced_before_the_game_sees_them() -> None:
    env = CountingEnv()
    env.reset(seed=1)
    observation, *_, info = env.step("say[a\ud800b😀]")
    assert observation == "a\ufffdb😀" and info["raw_action"] == "say[a\ufffdb😀]"
    assert observation in env.observation_space


def test_long_observations_are_cut_visibly_and_counted() -> None:
    env = CountingEnv(observation_length=200)
    env.reset(seed=1)
    observation, *_, info = env.step(f"say[{'y' * 5000}]")
    assert observation in env.observation_space and observation.endswith("characters cut]")
    assert info["metrics"]["characters_cut"] > 4800


def test_one_seed_is_one_episode_whoever_played_before() -> None:
    env, other = CountingEnv(), CountingEnv()
    first = env.reset(seed=5)
    env.reset()
    env.reset(options={"split": "test"})
    np.random.default_rng(0)
    assert env.reset(seed=5) == other.reset(seed=5) == first
    assert first[1]["split"] == "train" and first[1]["seed"] == 5
    following = [env.reset()[1]["task_id"] for _ in range(5)]
    assert following == [other.reset()[1]["task_id"] for _ in range(5)]
    assert {env.reset(seed=i)[1]["task_id"] for i in range(200)} == {
        f"count-{i}" for i in range(10, 20)
    }


def test_task_and_split_options() -> None:
    env = CountingEnv()
    for key in ("count-3", 3, np.int32(3), "3"):
        assert env.reset(seed=9, options={"task_id": key})[1]["task_id"] == "count-3"
    assert env.reset(options={"split": "test"})[1]["split"] == "test"
    with pytest.raises(UnknownTask, match="count-0 to count-19"):
        env.reset(options={"task_id": "count-20"})
    with pytest.raises(UnknownSplit, match="train, test"):
        env.reset(options={"split": "dev"})
    with pytest.raises(UsageError, match="task_id, split"):
        env.reset(options={"goal": 1})
    with pytest.raises(UsageError, match="not in split 'train'"):
        env.reset(options={"task_id": 3, "split": "train"})
    with pytest.raises(UsageError, match="task_id"):
        env.reset(options={"task_id": True})


def test_steps_left_follows_the_horizon_of_the_spec() -> None:
    gym.register(
        "Counting-v0",
        entry_point="tests.counting:CountingEnv",
        max_episode_steps=4,
        additional_wrappers=(TELL_HORIZON,),
    )
    try:
        env = gym.make("Counting-v0", max_episode_steps=2)
        assert env.reset(seed=1)[1]["steps_left"] == 2
        env.step("say[a]")
        *_, truncated, info = env.step("say[a]")
        assert truncated and info["steps_left"] == 0
        with pytest.raises(EpisodeNotRunning):
            env.step("say[a]")
        assert gym.make("Counting-v0").reset(seed=1)[1]["steps_left"] == 4
        assert gym.make("Counting-v0", max_episode_steps=-1).reset(seed=1)[1]["steps_left"] == -1
        twin = pickle.loads(pickle.dumps(gym.make("Counting-v0", max_episode_steps=3)))
        assert twin.reset(seed=1)[1]["steps_left"] == 3
        assert gym.make(gym.make("Counting-v0").spec).reset(seed=1)[1]["steps_left"] == 4
    finally:
        del gym.registry["Counting-v0"]
    assert CountingEnv().reset(seed=1)[1]["steps_left"] == -1
    assert isinstance(TimeLimit(CountingEnv(), 3).reset(seed=1)[0], str)


def test_pickles_hold_the_constructor_arguments() -> None:
    env = CountingEnv(split="test", observation_length=300)
    twin = pickle.loads(pickle.dumps(env))
    assert twin.reset(seed=2) == env.reset(seed=2)
    with pytest.raises(EnvError, match="in the middle of task count-"):
        pickle.dumps(env)
    env.close()
    assert pickle.loads(pickle.dumps(env)).observation_space == env.observation_space


def test_unknown_render_mode_and_policy() -> None:
    with pytest.raises(UsageError, match="ansi"):
        CountingEnv(render_mode="human")
    with pytest.raises(UsageError, match="oracle"):
        CountingEnv().policy("genius")
    assert CountingEnv().render() is None
