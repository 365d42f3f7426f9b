"""A generated world, and a copy of one of its games to spoil."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.alfworld.small_world import game_files, write_world


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small world, which no test changes."""
    return write_world(tmp_path_factory.mktemp("world"))


@pytest.fixture
def own_game(world: Path, tmp_path: Path) -> Path:
    """A copy of one game, to spoil."""
    path = tmp_path / "game.tw-pddl"
    path.write_bytes(game_files(world)[0].read_bytes())
    return path
