"""TextWorld behind the same interface, and both engines side by side; needs the textworld extra."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import agentgym_suite  # noqa: F401
from agentgym_suite import data_cli
from agentgym_suite.alfworld.games import open_library
from agentgym_suite.alfworld.lockstep import (
    Tally,
    compare_episode,
    fuzzing,
    replaying,
)
from agentgym_suite.alfworld.textworld_backend import TextWorldBackend
from agentgym_suite.alfworld.verification import compare, spread
from agentgym_suite.errors import EnvError, MissingExtra, UsageError
from tests.alfworld.small_world import game_files, write_world

pytestmark = [
    pytest.mark.usefixtures("fresh_home"),
    pytest.mark.filterwarnings("ignore:.*is not the complete official data"),
]
INSTALLED = all(importlib.util.find_spec(name) for name in ("textworld", "alfworld"))
needs_textworld = pytest.mark.skipif(
    not INSTALLED, reason="TextWorld is not installed: pip install 'agentgym-suite[textworld]'"
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world(tmp_path_factory.mktemp("world"))


@pytest.mark.skipif(INSTALLED, reason="TextWorld is installed")
def test_without_the_extra_the_install_line_is_the_error(world: Path) -> None:
    env = gym.make("ALFWorld-v0", data=world, backend="textworld")
    with pytest.raises(MissingExtra, match=r"pip install 'agentgym-suite\[textworld\]'"):
        env.reset(seed=0)


def test_an_interpreter_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="does not run"):
        TextWorldBackend("/nowhere/python")


@needs_textworld
def test_both_backends_give_the_same_episodes(world: Path) -> None:
    ours = gym.make("ALFWorld-v0", data=world)
    theirs = gym.make("ALFWorld-v0", data=world, backend="textworld")
    rng = np.random.Generator(np.random.PCG64(3))
    game: Any = ours.unwrapped
    left, right = ours.reset(seed=4), theirs.reset(seed=4)
    for number in range(16):
        differing = {key for key in left[-1] if left[-1][key] != right[-1][key]}
        assert left[:-1] == right[:-1]
        assert differing <= {"state_hash", "provenance", "action_error"}
        command = "LOOK" if number == 3 else game.random_action(rng)
        left, right = ours.step(command), theirs.step(command)  # type: ignore[assignment]
    theirs.close()
    theirs.close()


@needs_textworld
def test_nothing_of_this_process_is_touched(world: Path) -> None:
    before = (list(sys.argv), sys.stdout, dict(os.environ), os.getcwd())
    env = gym.make("ALFWorld-v0", data=world, backend="textworld")
    env.reset(seed=0)
    env.step("look")
    env.close()
    assert (list(sys.argv), sys.stdout, dict(os.environ), os.getcwd()) == before
    assert not any(name.split(".")[0] == "textworld" for name in sys.modules)


@needs_textworld
def test_a_game_textworld_cannot_load_is_an_error_with_its_id(world: Path, tmp_path: Path) -> None:
    path = tmp_path / "game.tw-pddl"
    path.write_text(game_files(world)[0].read_text().replace("(:init", "(:innit", 1))
    env = gym.make("ALFWorld-v0", data=path, backend="textworld")
    with pytest.raises(EnvError, match="TextWorld failed in game named/"):
        env.reset()
    env.close()


@needs_textworld
def test_generated_games_are_the_same_in_both_engines(world: Path) -> None:
    report = compare(open_library(world), [TextWorldBackend()], games=3, steps=15, seed=1)
    assert report.differences == {} and report.games.total() == 3
    assert report.tally.refused > 0 and report.tally.wins > 0 and report.tally.steps > 60


# ------------------------------------------------- the comparison itself, without TextWorld


class Liar:
    """A game that lies after a certain command: something for the comparison to find."""

    def __init__(self, game: Any, trigger: str) -> None:
        self.game, self.trigger = game, trigger
        self.goal, self.data_version = game.goal, game.data_version

    def start(self, shuffle: Any = None) -> Any:
        return LyingPlay(self.game.start(), self.trigger)


class LyingPlay:
    def __init__(self, play: Any, trigger: str) -> None:
        self.play, self.trigger, self.lies = play, trigger, False

    def step(self, command: str) -> tuple[str, bool]:
        self.lies = self.lies or command.startswith(self.trigger)
        return tuple(self.play.step(command))  # type: ignore[return-value]

    @property
    def observation(self) -> str:
        return str(self.play.observation) + ("!" if self.lies else "")

    @property
    def admissible(self) -> tuple[str, ...]:
        return tuple(self.play.admissible)

    @property
    def won(self) -> bool:
        return bool(self.play.won)

    def why_not(self, command: str) -> str:
        return str(self.play.why_not(command))

    def canonical_state(self) -> str:
        return str(self.play.canonical_state())


def test_a_difference_is_found_and_shrunk_to_the_commands_that_show_it(world: Path) -> None:
    library = open_library(world)
    game = library.compiled(library.index.games[0])
    rng = np.random.Generator(np.random.PCG64(0))
    found = compare_episode(game, Liar(game, "examine"), fuzzing(200, rng), Tally())
    assert found is not None and found.field == "observation"
    assert found.commands[-1].startswith("examine") and len(found.commands) <= 2
    assert found.theirs == f"{found.ours}!"


def test_equal_engines_show_no_difference_and_everything_is_counted(world: Path) -> None:
    library = open_library(world)
    game = library.compiled(library.index.games[0])
    rng = np.random.Generator(np.random.PCG64(0))
    tally = Tally()
    assert compare_episode(game, game, fuzzing(60, rng, awkward=0.3), tally) is None
    assert compare_episode(game, game, replaying(["look", "x"]), tally) is None
    assert (tally.episodes, tally.steps) == (2, 62) and 5 < tally.refused < 40


def test_games_are_spread_over_splits_and_families(world: Path) -> None:
    games = open_library(world).index.games
    rng = np.random.Generator(np.random.PCG64(0))
    chosen = spread(games, 12, rng)
    cells = {(game.split, game.task_type) for game in games}
    assert len({(game.split, game.task_type) for game in chosen}) == min(12, len(cells))
    assert len(spread(games, 10_000, rng)) == len(games)


def test_the_command_compares_where_textworld_is_and_says_what_is_missing_where_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parser = argparse.ArgumentParser()
    data_cli.register(parser.add_subparsers(required=True))

    def run(*words: str) -> int:
        args = parser.parse_args(["data", "verify", *words])
        return int(args.run(args))

    small = ("--generated", "--games", "1", "--steps", "3")
    if INSTALLED:
        assert run("alfworld", "--against", "textworld", *small) == 0
        assert "1 games, 2 episodes" in capsys.readouterr().out
    else:
        with pytest.raises(MissingExtra, match="textworld"):
            run("alfworld", "--against", "textworld", *small)
    with pytest.raises(UsageError, match="--games is 0"):
        run("alfworld", "--against", "textworld", "--games", "0")
    with pytest.raises(UsageError, match="cannot compare 'webshop'"):
        run("webshop", "--against", "textworld")
    with pytest.raises(SystemExit):
        run("alfworld", "--against", "inform")
