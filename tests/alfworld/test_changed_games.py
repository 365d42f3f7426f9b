"""What changed since it was indexed is never played under its old identity."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import agentgym_suite  # noqa: F401
from agentgym_suite import data
from agentgym_suite.alfworld.game_index import INDEX_NAME, GameRecord, index_tree
from agentgym_suite.alfworld.games import open_library
from agentgym_suite.alfworld.generated_files import publish_generated
from agentgym_suite.alfworld.textworld_backend import TextWorldBackend
from agentgym_suite.errors import DataDamaged
from tests.alfworld.small_world import edit, game_files, write_world

pytestmark = pytest.mark.usefixtures("fresh_home")


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world(tmp_path_factory.mktemp("world"))


@pytest.fixture
def world(pristine: Path, tmp_path: Path) -> Path:
    """A copy to spoil; not under json_2.1.1, so that it does not claim to be official."""
    return shutil.copytree(pristine / "json_2.1.1", tmp_path / "games")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published") / "mine"
    publish_generated(folder, games=12, seed=4)
    return folder


def rewrite(path: Path, goal: str) -> None:
    """Another goal sentence in a file of the same size and time."""
    status = path.stat()
    raw = path.read_bytes()
    start = raw.index(b"Your task is to: ") + len(b"Your task is to: ")
    path.write_bytes(raw[:start] + goal.encode() + raw[start + len(goal) :])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


# ------------------------------------------------------------------------- the games


def test_a_game_rewritten_under_an_open_library_is_refused_until_opened_anew(world: Path) -> None:
    env: Any = gym.make("ALFWorld-v0", data=world)
    first, other = env.unwrapped.tasks.ids[:2]
    env.reset(options={"task_id": other})
    digest = env.unwrapped.library.index.digest
    path = game_files(world)[0]
    edit(path, note="changed")
    with pytest.raises(DataDamaged, match=r"game.tw-pddl changed since it was indexed") as caught:
        env.reset(options={"task_id": first})
    assert str(path) in str(caught.value)
    again: Any = gym.make("ALFWorld-v0", data=world)  # while the first is still there
    assert again.reset(options={"task_id": first})[1]["task_id"] == first
    assert again.unwrapped.library.index.digest != digest


def test_a_game_that_an_episode_plays_goes_on_as_it_was(world: Path) -> None:
    library = open_library(world)
    record = library.index.games[0]
    game = library.compiled(record)
    edit(Path(record.path), note="changed")
    assert library.compiled(record) is game


def test_a_published_game_edited_at_equal_size_is_refused(made: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(made, tmp_path / "mine")
    path = game_files(folder)[0]
    rewrite(path, "sing")
    env: Any = gym.make("ALFWorld-v0", data=folder)
    with pytest.raises(DataDamaged, match="make it again if it was imported or generated"):
        env.reset(options={"task_id": str(path)})


def test_the_other_engine_is_given_the_game_of_the_index_only(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TextWorldBackend, "_ask_versions", lambda self: "")
    record = index_tree(world)[0]
    edit(Path(record.path), note="changed")
    with pytest.raises(DataDamaged, match="changed since it was indexed"):
        TextWorldBackend().load(record).start()


# ------------------------------------------------------------------------- the index


def kept_index(home: Path) -> Path:
    (kept,) = (home / "alfworld" / "indexes").rglob(INDEX_NAME)
    return kept


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25
)
@given(st.data())
def test_no_flipped_bit_of_a_kept_index_is_believed(
    pristine: Path, fresh_home: Path, drawn: st.DataObject
) -> None:
    root = pristine / "json_2.1.1"
    first = index_tree(root)
    kept = kept_index(fresh_home)
    raw = bytearray(kept.read_bytes())
    bit = drawn.draw(st.integers(0, len(raw) * 8 - 1))
    raw[bit // 8] ^= 1 << bit % 8
    kept.write_bytes(raw)
    assert index_tree(root) == first


@pytest.mark.parametrize("value", [[1], {}, 1.5])
def test_rows_of_other_kinds_are_not_believed(world: Path, fresh_home: Path, value: object) -> None:
    """Also where the manifest says that the file is whole."""
    first = index_tree(world)
    kept = kept_index(fresh_home)
    whole, fields = kept.read_bytes(), list(GameRecord._fields)
    for place in range(len(fields)):
        content = json.loads(whole)
        assert content["fields"] == fields
        content["games"][0][place] = value
        kept.write_text(json.dumps(content))
        manifest = kept.with_name(data.MANIFEST_NAME)
        about = json.loads(manifest.read_text())
        about["files"][INDEX_NAME]["sha256"] = data.sha256_file(kept)
        manifest.write_text(json.dumps(about))
        assert index_tree(world) == first, fields[place]


def test_a_damaged_published_index_is_read_from_the_games(made: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(made, tmp_path / "mine")
    before = open_library(folder).index.games
    kept = folder / INDEX_NAME
    kept.write_bytes(kept.read_bytes().replace(b'"train"', b'"trial"'))
    after = index_tree(folder / "json_2.1.1")
    assert [(g.id, g.split, g.sha256) for g in after] == [(g.id, g.split, g.sha256) for g in before]
    (folder / data.MANIFEST_NAME).write_text("[")
    assert index_tree(folder / "json_2.1.1") == after


def test_a_changed_trajectory_is_read_again(world: Path) -> None:
    path = game_files(world)[0]
    folder = path.parent.rename(path.parent.with_name("kept")).parent.rename(
        world / "train/kitchen"
    )
    trajectory = folder / "kept" / "traj_data.json"

    def family() -> str:
        return next(game.task_type for game in index_tree(world) if "/kitchen/" in game.id)

    before = family()
    value = json.loads(trajectory.read_text())
    other = "pick_clean_then_place_in_recep"
    assert before not in ("", other)
    trajectory.write_text(json.dumps(value | {"task_type": other}))
    assert family() == other
    trajectory.unlink()
    assert family() == ""
