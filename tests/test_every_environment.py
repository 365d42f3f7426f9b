"""What holds for every registered environment; a new one falls under these by being registered."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

import agentgym_suite
from agentgym_suite.agents import AGENTS
from agentgym_suite.env import COMMON_INFO_KEYS
from agentgym_suite.episodes import EpisodeRequest
from agentgym_suite.errors import EpisodeNotRunning, UnknownSplit, UnknownTask, UsageError
from agentgym_suite.playing import run_episode

SECTIONS = (
    "Description", "Action Space", "Observation Space", "Rewards", "Starting State", "Episode End",
    "Arguments", "Information", "Data", "Version History",
)  # fmt: skip
every_environment = pytest.mark.parametrize("env_id", agentgym_suite.ENV_IDS)
AWKWARD = ("é 你好 😀", "", "\n", "search[é你好😀]", "x" * 1_000_000)


def game(env: gym.Env[str, str]) -> Any:
    return env.unwrapped


def plain(value: Any) -> Any:
    """An info without numpy types, for comparison."""
    return json.loads(json.dumps(value, default=lambda v: v.tolist()))


def random_transcript(env: gym.Env[str, str], seed: int, steps: int = 8) -> list[Any]:
    rng = np.random.Generator(np.random.PCG64(seed))
    observation, info = env.reset(seed=seed)
    transcript: list[Any] = [(observation, plain(info))]
    for i in range(steps):
        action = AWKWARD[0] if i == 2 else game(env).random_action(rng)
        observation, reward, terminated, truncated, info = env.step(action)
        transcript.append((action, observation, reward, terminated, truncated, plain(info)))
        if terminated or truncated:
            break
    return transcript


@every_environment
def test_gymnasiums_checker_finds_nothing(env_id: str) -> None:
    env = gym.make(env_id)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


@every_environment
def test_the_docstring_is_the_documentation_page(env_id: str) -> None:
    documentation = type(gym.make(env_id).unwrapped).__doc__ or ""
    assert [s for s in SECTIONS if s not in documentation] == []


@every_environment
def test_the_spec_survives_json_and_makes_the_same_environment(env_id: str) -> None:
    env = gym.make(env_id, max_episode_steps=7)
    assert env.spec is not None
    twin = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert random_transcript(twin, 3) == random_transcript(env, 3)
    assert twin.reset(seed=1)[1]["steps_left"] == 7


@every_environment
def test_registering_again_is_silent(env_id: str) -> None:
    agentgym_suite.registry.register_environments()  # type: ignore[attr-defined]
    assert gym.spec(env_id).id == env_id


@every_environment
def test_info_has_fixed_keys_and_types_and_shares_nothing(env_id: str) -> None:
    env = gym.make(env_id)
    _, first = env.reset(seed=1)
    assert set(COMMON_INFO_KEYS) <= set(first) and tuple(first) == game(env).info_keys
    assert json.loads(first["provenance"])["environment"] == env_id
    rng = np.random.Generator(np.random.PCG64(0))
    infos = [first]
    for i in range(5):
        *_, terminated, _, info = env.step("nonsense" if i == 1 else game(env).random_action(rng))
        infos.append(info)
        assert list(info) == list(first)
        assert {k: type(v) for k, v in info.items()} == {k: type(v) for k, v in first.items()}
        assert set(info["metrics"]) == set(first["metrics"])
        assert all(np.isfinite(v) and type(v) is float for v in info["metrics"].values())
        assert 0.0 <= info["score"] <= 1.0 and info["provenance"] == ""
        if terminated:
            break
    mutable = [id(v) for info in infos for v in info.values() if isinstance(v, dict | list)]
    assert len(mutable) == len(set(mutable))


@every_environment
def test_two_instances_in_turns_and_in_threads_never_meet(env_id: str) -> None:
    expected = [random_transcript(gym.make(env_id), seed, 6) for seed in (1, 2)]
    first, second = gym.make(env_id), gym.make(env_id)
    rngs = [np.random.Generator(np.random.PCG64(seed)) for seed in (1, 2)]
    both: list[list[Any]] = []
    for env, seed in ((first, 1), (second, 2)):
        observation, info = env.reset(seed=seed)
        both.append([(observation, plain(info))])
    over = [False, False]
    for i in range(6):
        for k, env in enumerate((first, second)):
            if over[k]:
                continue
            action = AWKWARD[0] if i == 2 else game(env).random_action(rngs[k])
            observation, reward, terminated, truncated, info = env.step(action)
            both[k].append((action, observation, reward, terminated, truncated, plain(info)))
            over[k] = terminated or truncated
    assert both == expected
    threaded: dict[int, Any] = {}
    threads = [
        threading.Thread(
            target=lambda s=seed: threaded.update({s: random_transcript(gym.make(env_id), s, 6)})
        )  # type: ignore[misc]
        for seed in (1, 2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [threaded[1], threaded[2]] == expected


@every_environment
def test_global_generators_are_left_alone(env_id: str) -> None:
    import random

    before = (random.getstate(), np.random.get_state()[1].tobytes())  # type: ignore[index,union-attr]
    env_variables = dict(os.environ)
    random_transcript(gym.make(env_id), 4)
    assert (random.getstate(), np.random.get_state()[1].tobytes()) == before  # type: ignore[index,union-attr]
    assert dict(os.environ) == env_variables


@every_environment
def test_pickles_before_reset_play_the_same_and_live_ones_refuse(env_id: str) -> None:
    env = gym.make(env_id)
    twin = pickle.loads(pickle.dumps(env))
    assert random_transcript(twin, 5) == random_transcript(env, 5)
    env.reset(seed=1)
    with pytest.raises(agentgym_suite.AgentGymSuiteError, match="pickle it before"):
        pickle.dumps(env)
    env.close()
    pickle.dumps(env)


@every_environment
def test_one_seed_is_one_episode_under_any_hash_seed(env_id: str) -> None:
    program = (
        "import gymnasium as gym, agentgym_suite, hashlib\n"
        "from tests.test_every_environment import random_transcript\n"
        f"env = gym.make({env_id!r})\n"
        "played = repr([random_transcript(env, seed) for seed in (0, 1)])\n"
        "print(hashlib.sha256(played.encode()).hexdigest())"
    )
    outputs = set()
    for hash_seed in ("0", "1234"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            cwd=Path(__file__).parents[1],
            capture_output=True,
            text=True,
            check=True,
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1


@every_environment
def test_unknown_tasks_splits_and_options_name_what_there_is(env_id: str) -> None:
    env = gym.make(env_id)
    n = len(game(env).tasks)
    for wrong in ("no-such-task", n, -1, "human-999999999"):
        with pytest.raises(UnknownTask, match="does not exist"):
            env.reset(options={"task_id": wrong})
    with pytest.raises(UnknownSplit, match="choose"):
        env.reset(options={"split": "no-such-split"})
    with pytest.raises(UsageError, match="task_id, split"):
        env.reset(options={"tsak_id": 0})
    first_id = game(env).tasks.ids[0]
    for key in (0, np.int64(0), "0", first_id):
        assert env.reset(options={"task_id": key})[1]["task_id"] == first_id


@every_environment
def test_splits_hold_existing_tasks_and_draws_stay_in_them(env_id: str) -> None:
    env = gym.make(env_id)
    tasks = game(env).tasks
    assert tasks.splits and len(set(tasks.ids)) == len(tasks)
    for name, members in tasks.splits.items():
        assert all(0 <= index < len(tasks) for index in members)
        if len(members):
            drawn = env.reset(seed=11, options={"split": name})[1]
            assert drawn["split"] == name and tasks.resolve(drawn["task_id"]) in members


@every_environment
def test_awkward_actions_are_feedback_and_steps_outside_episodes_errors(env_id: str) -> None:
    env = gym.make(env_id)
    with pytest.raises(gym.error.ResetNeeded):
        env.step("x")
    env.reset(seed=1)
    for action in AWKWARD:
        observation, reward, _, _, info = env.step(action)
        assert isinstance(observation, str) and observation in env.observation_space
        assert isinstance(reward, float)
        assert info["action_valid"] is (info["action_error"] == "")
    env.reset(seed=1)  # five steps are a whole episode in some environments
    assert env.step("a\ud800b")[4]["raw_action"] == "a\ufffdb"
    with pytest.raises(UsageError, match="characters"):
        env.step("x" * ((1 << 20) + 1))
    with pytest.raises(TypeError):
        env.unwrapped.step(b"search[x]")  # type: ignore[arg-type]
    env.close()
    with pytest.raises(EpisodeNotRunning):
        env.unwrapped.step("x")


@every_environment
def test_replaying_parsed_actions_has_the_same_effect(env_id: str) -> None:
    env, twin = gym.make(env_id), gym.make(env_id)
    rng = np.random.Generator(np.random.PCG64(8))
    env.reset(seed=8)
    twin.reset(seed=8)
    for i in range(10):
        raw = (
            ("nonsense", "  ", "Search[ A ]", "x[y]z")[i % 4]
            if i % 3 == 2
            else game(env).random_action(rng)
        )
        left = env.step(raw)
        right = twin.step(left[4]["parsed_action"])
        assert left[:4] == right[:4]
        assert left[4]["state_hash"] == right[4]["state_hash"]
        assert left[4]["action_valid"] == right[4]["action_valid"]
        if left[2] or left[3]:
            break


@every_environment
def test_every_admissible_action_is_valid_and_survives_the_codec(env_id: str) -> None:
    env = gym.make(env_id)
    codec = game(env).codec
    for seed in range(3):
        _, info = env.reset(seed=seed)
        rng = np.random.Generator(np.random.PCG64(seed))
        for _ in range(8):
            for action in info["admissible_actions"]:
                calls = codec.to_calls(action)
                assert "\n".join(codec.to_action(c.name, c.arguments) for c in calls) == action
            *_, terminated, truncated, info = env.step(game(env).random_action(rng))
            assert info["action_valid"], info["action_error"]
            if terminated or truncated:
                break


# papers that no word of the question leads to are found, but lexically judged irrelevant
ORACLE_ARGUMENTS: dict[str, dict[str, Any]] = {"PaperSearch-v0": {"selector": "oracle"}}


@every_environment
def test_the_oracle_solves_every_embedded_task(env_id: str) -> None:
    env = gym.make(env_id, **ORACLE_ARGUMENTS.get(env_id, {}))
    tasks = game(env).tasks
    stride = max(1, len(tasks) // 300)
    failed = []
    for index in range(0, len(tasks), stride):
        episode = run_episode(env, AGENTS["oracle"], EpisodeRequest(tasks.ids[index], seed=index))
        if not episode.success or episode.score != 1.0:
            failed.append((episode.task_id, episode.score, episode.failure))
    assert failed == []


def vector_transcript(envs: Any, copied: bool = True) -> list[Any]:
    observations, infos = envs.reset(seed=[1, 2, 3])
    transcript = [(tuple(observations), plain(infos))]
    for i in range(12):
        actions = tuple(
            AWKWARD[(i + k) % 4] if (i + k) % 4 else (legal or ("search[x]",))[-1]
            for k, legal in enumerate(infos["admissible_actions"])
        )
        observations, rewards, terminated, truncated, infos = envs.step(actions)
        transcript.append(
            (
                tuple(observations),
                rewards.tolist(),
                terminated.tolist(),
                truncated.tolist(),
                plain(infos),
            )
        )
    envs.close()
    return transcript


@every_environment
def test_vector_environments_agree_in_every_mode(env_id: str) -> None:
    def makers() -> list[Any]:
        # a spawned worker knows the id only through the module in front of it
        return [lambda: gym.make(f"agentgym_suite:{env_id}", max_episode_steps=5)] * 3

    expected = vector_transcript(SyncVectorEnv(makers()))
    for context in ("fork", "spawn"):
        for shared_memory in (True, False):
            envs = AsyncVectorEnv(makers(), context=context, shared_memory=shared_memory)
            assert vector_transcript(envs) == expected, (context, shared_memory)
    assert vector_transcript(AsyncVectorEnv(makers(), copy=False)) == expected
    assert vector_transcript(SyncVectorEnv(makers(), copy=False)) == expected


@every_environment
def test_make_vec_makes_the_same_environments(env_id: str) -> None:
    modes = [
        gym.make_vec(env_id, num_envs=3, vectorization_mode=mode) for mode in ("sync", "async")
    ]
    first, second = (vector_transcript(envs) for envs in modes)
    assert first == second


def test_importing_the_suite_brings_nothing_heavy_and_registers_everything() -> None:
    program = (
        "import sys, gymnasium, agentgym_suite\n"
        "heavy = {'torch', 'faiss', 'transformers', 'uvicorn', 'starlette', 'sqlite3', 'httpx',\n"
        "         'pyserini', 'spacy', 'jinja2', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert all(i in gymnasium.registry for i in agentgym_suite.ENV_IDS)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_concurrent_imports_register_once_and_silently() -> None:
    program = (
        "import threading, importlib\n"
        "load = lambda: importlib.import_module('agentgym_suite')\n"
        "threads = [threading.Thread(target=load) for _ in range(4)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "import agentgym_suite; importlib.reload(agentgym_suite)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and not done.stderr, done.stderr


@every_environment
def test_a_refused_reset_leaves_the_environment_usable(env_id: str) -> None:
    env = gym.make(env_id)
    for wrong in ({"task_id": "nope"}, {"split": ["test"]}, {"task_id": "9" * 5000}):
        with pytest.raises(UsageError):
            env.reset(options=wrong)
    for seed in (-1, 1.5, True):
        with pytest.raises(UsageError, match="seed is"):
            env.reset(seed=seed)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="options"):
        env.reset(options=["task_id"])  # type: ignore[arg-type]
    with pytest.raises(gym.error.ResetNeeded):
        env.step("x")
    env.reset(seed=np.int64(3))  # type: ignore[arg-type]
    assert env.step("x")[4]["step"] == 1
    tasks = game(env).tasks
    assert (
        tasks.ids[:2] == [tasks.ids[0], tasks.ids[1]] and tasks.ids[-1] == tasks.ids[len(tasks) - 1]
    )
