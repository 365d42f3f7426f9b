"""The oracle: wins by planning, from any state, in any family; and the planner under it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from agentgym_suite.agents import AGENTS
from agentgym_suite.alfworld.games import open_library
from agentgym_suite.alfworld.oracle import plan_commands
from agentgym_suite.alfworld.planning import Operator, Relaxation, Wish, search
from agentgym_suite.episodes import EpisodeRequest
from agentgym_suite.playing import run_episode
from tests.alfworld.small_world import edit, expand_official, write_world

pytestmark = [
    pytest.mark.usefixtures("fresh_home"),
    pytest.mark.filterwarnings("ignore:.*is not the complete official data"),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world(tmp_path_factory.mktemp("world"))


def wins(play: Any, commands: tuple[str, ...] | None) -> bool:
    """Whether the commands are admissible one by one and win with the last and not before."""
    assert commands is not None
    for command in commands:
        assert command in play.admissible and not play.won
        play.step(command)
    return bool(play.won)


def test_plans_win_and_are_no_longer_than_walkthroughs(world: Path) -> None:
    library = open_library(world)
    for record in library.index.games:
        play = library.compiled(record).start()
        commands = plan_commands(play)
        assert wins(play, commands), record.id
        assert commands is not None and len(commands) <= record.walkthrough_length


def test_planning_changes_nothing_and_is_repeatable(world: Path) -> None:
    library = open_library(world)
    play = library.compiled(library.index.games[5]).start()
    before = (play.canonical_state(), play.observation, play.admissible)
    assert plan_commands(play) == plan_commands(play)
    assert (play.canonical_state(), play.observation, play.admissible) == before


def test_the_oracle_takes_over_in_any_state(world: Path) -> None:
    """After any muddle, hands full or not, it finds a way from where things are."""
    env = gym.make("ALFWorld-v0", data=world, max_episode_steps=100)
    game: Any = env.unwrapped
    rng = np.random.Generator(np.random.PCG64(1))
    taken_over = 0
    for task_id in game.tasks.ids[::2]:
        policy = game.policy("oracle")
        observation, info = env.reset(options={"task_id": task_id})
        over = False
        for _ in range(30):
            if not over:
                observation, _, over, _, info = env.step(game.random_action(rng))
        if over:
            continue
        taken_over += 1
        steps = 0
        while not over and steps < 50:
            command = policy(observation, info)
            if steps == 1:  # somebody meddles: the plan made before no longer fits
                command = game.random_action(rng)
            observation, _, over, _, info = env.step(command)
            steps += 1
        assert info["success"], (task_id, info["goal"])
    assert taken_over > 5


def test_a_game_that_cannot_be_won_is_played_to_its_end_without_complaint(tmp_path: Path) -> None:
    world = write_world(tmp_path / "world")
    for path in world.rglob("game.tw-pddl"):
        problem = json.loads(path.read_text("utf-8"))["pddl_problem"]
        fewer, removed = re.subn(r"(?i)\(pickupable [^)]*\)", "", problem)
        assert removed
        edit(path, pddl_problem=fewer)  # nothing can be taken any more
    env = gym.make("ALFWorld-v0", data=world, max_episode_steps=5)
    game: Any = env.unwrapped
    for task_id in game.tasks.ids[:8]:
        env.reset(options={"task_id": task_id})
        assert plan_commands(game.play) is None
        episode = run_episode(env, AGENTS["oracle"], EpisodeRequest(task_id, seed=0))
        assert episode.failure is None and len(episode.steps) == 5
        assert all(step.valid for step in episode.steps)


def test_official_validation_games_are_all_won_within_the_horizon(
    shared: Path, tmp_path: Path
) -> None:
    expand_official(shared, tmp_path)
    library = open_library(tmp_path)
    lengths = []
    for record in library.index.games:
        play = library.compiled(record).start()
        commands = plan_commands(play)
        assert wins(play, commands), record.id
        assert commands is not None
        lengths.append(len(commands) - record.walkthrough_length)
    assert len(lengths) == 274 and max(lengths) <= 2


# ------------------------------------------------------------------------------ planner


def operator(name: str, needs: str, makes: str) -> Operator:
    def wishes(text: str) -> frozenset[Wish]:
        return frozenset(Wish((x.lstrip("-"),), not x.startswith("-")) for x in text.split())

    return Operator((name,), wishes(needs), wishes(makes))


SHOP = (
    operator("walk", "home", "-home shop"),
    operator("return", "shop", "-shop home"),
    operator("buy", "shop money -bread", "bread -money"),
    operator("earn", "home -money", "money"),
    operator("eat", "home bread", "full -bread"),
)


@pytest.mark.parametrize(
    ("start", "goal", "expected"),
    [
        ("home money", "full", "walk buy return eat"),
        ("home", "full", "earn walk buy return eat"),
        ("home money bread", "full -bread", "eat"),
        ("shop money", "bread money home", "buy return earn"),
        ("home", "home -shop", ""),
        ("home", "rich", None),
    ],
)
def test_search_finds_shortest_plans(start: str, goal: str, expected: str | None) -> None:
    state = frozenset((fact,) for fact in start.split())
    wishes = operator("", goal, "").needs
    found = search(SHOP, state, wishes, most_states=100)
    assert (found if found is None else " ".join(o.key[0] for o in found)) == expected


def test_relaxed_plans_forget_losses() -> None:
    relaxation = Relaxation(SHOP)
    state = frozenset({("home",), ("money",)})
    goal = {Wish(("bread",), True), Wish(("money",), True), Wish(("home",), True)}
    plan = relaxation.relaxed_plan(state, goal, relaxation.makers(state))
    assert plan is not None and {o.key[0] for o in plan} == {"walk", "buy"}
    assert relaxation.relaxed_plan(state, {Wish(("rich",), True)}, relaxation.makers(state)) is None
