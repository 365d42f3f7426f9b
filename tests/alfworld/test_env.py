"""ALFWorld-v0: episodes and rewards, info, choice of games, policies."""

from __future__ import annotations

import json
import pickle
import threading
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import agentgym_suite  # noqa: F401
from agentgym_suite.agents import AGENTS
from agentgym_suite.alfworld.game_layout import FAMILIES
from agentgym_suite.episodes import EpisodeRequest
from agentgym_suite.errors import (
    UnknownSplit,
    UnknownTask,
    UsageError,
)
from agentgym_suite.playing import run_episode
from tests.alfworld.small_world import SIZES, edit, expand_official, game_files, game_of, make

pytestmark = [
    pytest.mark.usefixtures("fresh_home"),
    pytest.mark.filterwarnings("ignore:.*is not the complete official data"),
]


def win(env: gym.Env[str, str], **options: Any) -> list[tuple[str, float, bool, bool, Any]]:
    """Play the stored walkthrough of a task."""
    _, info = env.reset(options=options)
    return [env.step(command) for command in info["walkthrough"]]


# ------------------------------------------------------------------ episodes and rewards


def test_walkthroughs_win_once_on_their_last_command(world: Path) -> None:
    env = make(world, walkthrough=True)
    for task_id in game_of(env).tasks.ids:
        steps = win(env, task_id=task_id)
        assert [step[1] for step in steps] == [0.0] * (len(steps) - 1) + [1.0]
        assert [step[2] for step in steps] == [False] * (len(steps) - 1) + [True]
        assert not any(step[3] for step in steps)
        last = steps[-1][4]
        assert last["won"] and last["success"] and last["score"] == 1.0
        assert all(step[4]["action_valid"] for step in steps)


def test_the_step_limit_truncates_and_is_never_a_success(world: Path) -> None:
    env = make(world, max_episode_steps=3)
    _, info = env.reset(seed=1)
    assert info["steps_left"] == 3 and json.loads(info["provenance"])["horizon"] == 3
    for _ in range(3):
        _, reward, terminated, truncated, info = env.step("look")
    assert (reward, terminated, truncated, info["success"]) == (0.0, False, True, False)
    assert make(world).spec.max_episode_steps == 50  # type: ignore[union-attr]


def test_the_same_task_again_begins_again_and_seeds_choose_games(world: Path) -> None:
    env = make(world)
    first = env.reset(options={"task_id": 3})
    env.step("look")
    again = env.reset(options={"task_id": 3})
    assert first[0] == again[0] and first[1]["state_hash"] == again[1]["state_hash"]
    chosen = [env.reset(seed=seed)[1]["task_id"] for seed in range(40)]
    assert chosen == [make(world).reset(seed=seed)[1]["task_id"] for seed in range(40)]
    assert len(set(chosen)) > SIZES["train"] // 2


def test_a_game_that_is_won_at_reset_says_so_and_ends_with_any_first_step(own_game: Path) -> None:
    text = json.loads(own_game.read_text())
    problem = text["pddl_problem"]
    edit(own_game, pddl_problem=problem[: problem.lower().index("(:goal")] + "(:goal (and)))")
    for command in ("look", "nonsense", "", "x" * 20_000):
        env = make(own_game)
        _, info = env.reset()
        assert info["won"] and info["success"]
        _, reward, terminated, truncated, info = env.step(command)
        assert (reward, terminated, truncated, info["won"]) == (1.0, True, False, True)


def test_threads_and_turns_give_the_transcripts_of_one_env_alone(world: Path) -> None:
    def transcript(seed: int) -> list[Any]:
        env = make(world)
        agent = game_of(env).policy("scripted")
        observation, info = env.reset(seed=seed)
        played: list[Any] = [observation]
        for _ in range(12):
            observation, reward, terminated, _, info = env.step(agent(observation, info))
            played.append((observation, reward, info["admissible_actions"], info["state_hash"]))
            if terminated:
                break
        return played

    alone = {seed: transcript(seed) for seed in range(8)}
    threaded: dict[int, Any] = {}

    def run(seed: int) -> None:
        threaded[seed] = transcript(seed)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert threaded == alone


def test_environments_of_one_place_share_one_compiled_game(world: Path) -> None:
    first, second = make(world), make(world)
    first.reset(options={"task_id": 0})
    second.reset(options={"task_id": 0})
    assert game_of(first).library is game_of(second).library
    assert game_of(first).play.game is game_of(second).play.game
    second.step("look")
    assert game_of(first).play is not game_of(second).play


def test_pickles_hold_arguments_only_and_play_the_same(world: Path) -> None:
    env = make([str(world)], task_types=("Pick", 4))
    twin = pickle.loads(pickle.dumps(env))
    assert twin.reset(seed=2)[0] == env.reset(seed=2)[0]


# --------------------------------------------------------------------------------- info


def test_info_says_what_the_game_is(world: Path) -> None:
    env = make(world)
    labels = {family.name for family in FAMILIES}
    for position in (0, SIZES["train"] - 1):
        observation, info = env.reset(options={"task_id": position})
        assert observation.endswith(f"Your task is to: {info['goal']}")
        assert info["task_type"] == info["task_family"] and info["task_type"] in labels
        assert info["game_id"] == info["task_id"] and Path(info["game_file"]).is_file()
        folder = f"{info['task_type']}-{info['object']}-None-{info['receptacle']}-{info['scene']}"
        assert folder in info["game_file"]
        assert info["data_version"] == "move+help" and info["won"] is False
        assert info["walkthrough"] == () and info["facts"] == ()
        assert list(info["admissible_actions"]) == sorted(set(info["admissible_actions"]))
    provenance = json.loads(env.reset(seed=0)[1]["provenance"])
    assert provenance["backend"] == "native" and provenance["data_digest"].startswith("sha256:")


def test_facts_are_shown_when_asked_for(world: Path) -> None:
    env = make(world, facts=True)
    _, info = env.reset(options={"task_id": 0})
    go = next(c for c in info["admissible_actions"] if c.startswith("go to "))
    *_, after = env.step(go)
    assert len(info["facts"]) > 50 and set(info["facts"]) != set(after["facts"])
    assert any(fact.startswith("atlocation(agent1, loc ") for fact in info["facts"])


def test_shuffled_numbers_are_the_seeds_and_so_is_the_walkthrough(world: Path) -> None:
    env = make(world, shuffle_numbers=True, walkthrough=True)
    plain, _ = make(world).reset(options={"task_id": 1})
    seen = {}
    for seed in range(4):
        observation, info = env.reset(seed=seed, options={"task_id": 1})
        assert env.reset(seed=seed, options={"task_id": 1})[0] == observation
        seen[observation] = info["state_hash"]
        assert sorted(observation.split()) == sorted(plain.split()) or observation != plain
        steps = [env.step(command) for command in info["walkthrough"]]
        assert steps[-1][1] == 1.0
    assert len(set(seen.values())) == len(seen) > 1


def test_state_hashes_are_equal_for_equal_states_only(world: Path) -> None:
    env = make(world)
    _, info = env.reset(options={"task_id": 0})
    start = info["state_hash"]
    opened = [c for c in info["admissible_actions"] if c.startswith("go to ")]
    *_, there = env.step(opened[0])
    assert there["state_hash"] != start
    *_, looked = env.step("inventory")
    assert looked["state_hash"] == there["state_hash"]
    _, other = env.reset(options={"task_id": 1})
    assert other["state_hash"] != start


# -------------------------------------------------------------------------------- choice


def test_families_filter_the_tasks(world: Path) -> None:
    for keys, labels in (
        (("Pick2", 2), {"Pick2", "Look"}),
        ("pick_heat_then_place_in_recep", {"Heat"}),
    ):
        tasks = game_of(make(world, task_types=keys)).tasks
        names = {family.name for family in FAMILIES if family.label in labels}
        assert {tasks.task(i).family for i in range(len(tasks))} == names
    with pytest.raises(UsageError, match="task type 'Bake'"):
        make(world, task_types="Bake")


def test_tasks_by_number_count_within_the_split(world: Path) -> None:
    env = make(world)
    by_number = env.reset(options={"task_id": 2, "split": "eval_out_of_distribution"})[1]
    assert by_number["task_id"].startswith("valid_unseen/")
    assert by_number["split"] == "eval_out_of_distribution"
    short = by_number["task_id"].partition("/")[2]
    assert env.reset(options={"task_id": short})[1]["task_id"] == by_number["task_id"]
    assert env.reset(options={"task_id": by_number["game_file"]})[0]
    with pytest.raises(UnknownTask, match="numbers 0 to 5"):
        env.reset(options={"task_id": 6, "split": "valid_seen"})
    with pytest.raises(UnknownSplit, match="valid_train"):
        env.reset(options={"split": "valid_train"})


def test_named_games_need_no_split(world: Path) -> None:
    paths = game_files(world)
    env = make(paths[-1])
    _, info = env.reset(seed=0)
    assert info["split"] == "named" and info["game_file"] == str(paths[-1])
    drawn = {make(paths[:2]).reset(seed=seed)[1]["task_id"] for seed in range(12)}
    assert len(drawn) == 2


# ------------------------------------------------------------------------------ policies


def test_the_rule_baseline_does_not_cheat_and_often_succeeds(world: Path) -> None:
    env = make(world)
    episodes = [
        run_episode(env, AGENTS["scripted"], EpisodeRequest(task_id, seed=0))
        for task_id in game_of(env).tasks.ids
    ]
    assert all(episode.failure is None for episode in episodes)
    assert all(step.valid for episode in episodes for step in episode.steps)
    assert sum(episode.success for episode in episodes) > len(episodes) / 2


# ------------------------------------------------------------------------------ real data


def test_evaluation_visits_every_validation_game_once(shared: Path, tmp_path: Path) -> None:
    expand_official(shared, tmp_path, "--split", "valid_unseen")
    env = make(tmp_path, split="valid_unseen", walkthrough=True)
    tasks = game_of(env).tasks
    visited = []
    for number in range(len(tasks.split("valid_unseen"))):
        observation, info = env.reset(options={"task_id": number})
        visited.append(info["task_id"])
        assert observation.endswith(f"Your task is to: {info['goal']}") and not info["won"]
        assert env.step(info["walkthrough"][0])[4]["action_valid"]
    assert len(set(visited)) == 134 and visited == sorted(visited)


def test_handmade_games_of_every_data_version_play(shared: Path, tmp_path: Path) -> None:
    expand_official(shared, tmp_path, "--split", "handmade")
    env = make(tmp_path, split="handmade")
    versions = {}
    for number in range(14):
        _, info = env.reset(options={"task_id": number})
        versions[info["task_id"].split("/")[1]] = info["data_version"]
        assert info["won"] is ("Mug-None-CoffeeMachine" in info["task_id"])
        assert ("help" in info["admissible_actions"]) is (info["data_version"] != "old")
    assert versions == {"v03": "old", "v04": "move+help", "v212": "move+help"}
