"""Places that are not as they should be: played where that is safe, else named in one sentence."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from agentgym_suite.alfworld import game_layout
from agentgym_suite.alfworld.game_files import parse_game
from agentgym_suite.alfworld.game_index import index_tree
from agentgym_suite.alfworld.game_layout import FAMILY_NAMES, find_family, list_games
from agentgym_suite.alfworld.games import GameTasks, open_library
from agentgym_suite.errors import DataDamaged, DataError, DataMissing, UnknownTask, UsageError
from tests.alfworld.small_world import SIZES, edit, game_files, write_world

pytestmark = pytest.mark.usefixtures("fresh_home")


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world(tmp_path_factory.mktemp("world"))


@pytest.fixture
def world(pristine: Path, tmp_path: Path) -> Path:
    """A copy to spoil; not under json_2.1.1, so that it does not claim to be official."""
    return shutil.copytree(pristine / "json_2.1.1", tmp_path / "games")


def says(error: pytest.ExceptionInfo[DataError], path: Path) -> bool:
    """Whether an error is one line that names a path."""
    text = str(error.value)
    return str(path) in text and "\n" not in text and text.encode() != b""


# ------------------------------------------------------------------------ odd entries


@pytest.mark.parametrize("kind", ["dangling", "loop", "folder", "pipe"])
def test_what_is_no_file_under_a_games_name_is_named(world: Path, kind: str) -> None:
    path = game_files(world)[1]
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path if kind == "loop" else world / "nowhere")
    with pytest.raises(DataError) as caught:
        index_tree(world)
    assert says(caught, path)


def test_a_link_to_itself_beside_the_games_harms_nothing(world: Path) -> None:
    link = world / "train" / "again"
    link.symlink_to(link)
    (world / "gone").symlink_to(world / "nowhere")
    assert len(open_library(world).index.games) == sum(SIZES.values())


def test_a_folder_that_cannot_be_read_is_named(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = world / "train"
    real = os.scandir

    def scandir(path: str) -> object:
        if path == str(closed):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(game_layout.os, "scandir", scandir)
    with pytest.raises(DataError, match="check its permissions") as caught:
        index_tree(world)
    assert says(caught, closed)


@pytest.mark.parametrize("text", ["[" * 100_000, "[1]", "{}", "", "\ud800"])
def test_a_damaged_trajectory_is_named(world: Path, text: str) -> None:
    folder = game_files(world)[0].parent.parent.rename(world / "train" / "kitchen")
    (trajectory,) = folder.rglob("traj_data.json")
    trajectory.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(DataDamaged, match="is not the trajectory") as caught:
        index_tree(world)
    assert says(caught, trajectory)


def test_links_back_to_folders_above_do_not_multiply_games(world: Path) -> None:
    expected = list_games(world)
    (world / "train" / "loop").symlink_to(world)
    (world / "train" / "self").symlink_to(world / "train")
    assert list_games(world) == expected
    one, other = world / "one", world / "other"
    for folder, goal in ((one, other), (other, one)):
        folder.mkdir()
        (folder / "loop").symlink_to(goal)
    assert list_games(world) == expected
    (world / "copy").symlink_to(world / "valid_seen")  # no loop: games of another split
    assert len(list_games(world)) == len(expected) + SIZES["valid_seen"]


# ------------------------------------------------------------------- names and characters


@pytest.mark.parametrize("level", ["trial", "split", "root"])
def test_names_that_are_not_utf8_are_refused(world: Path, level: str) -> None:
    game = game_files(world)[0]
    old = {"trial": game.parent, "split": game.parent.parent.parent, "root": world}[level]
    try:
        new = old.rename(
            os.path.join(os.fsencode(old.parent), b"n\xff").decode("utf-8", "surrogateescape")
        )
    except OSError:
        pytest.skip("this file system has no names but UTF-8")
    root = new if level == "root" else world
    with pytest.raises(DataDamaged, match=r"n\\xff.*not UTF-8: rename it") as caught:
        open_library(root)
    assert str(caught.value).encode()


@pytest.mark.parametrize("key", ["pddl_domain", "grammar", "pddl_problem"])
@pytest.mark.parametrize("raw", [False, True])
def test_half_a_surrogate_pair_is_refused(world: Path, key: str, raw: bool) -> None:
    path = game_files(world)[0]
    value = json.loads(path.read_text("utf-8"))
    text = json.dumps(value | {key: value[key] + "\ud800"}, ensure_ascii=not raw)
    with pytest.raises(DataDamaged, match=f"half a surrogate pair in {key}") as caught:
        parse_game(text.encode("utf-8", "surrogatepass"), str(path), "a/b/c")
    assert says(caught, path)
    with pytest.raises(DataDamaged, match="no list of commands"):
        parse_game(json.dumps(value | {"walkthrough": ["\udc00"]}).encode(), str(path), "a/b/c")


def test_an_escaped_surrogate_in_a_goal_is_indexed_and_refused_at_load(world: Path) -> None:
    path = game_files(world)[0]
    grammar = json.loads(path.read_text("utf-8"))["grammar"]
    edit(path, grammar=grammar.replace("Your task is to: ", "Your task is to: \\ud800"))
    library = open_library(world)
    record = library.index.games[0]
    assert record.path == str(path) and record.goal.startswith("\ufffd")
    with pytest.raises(DataDamaged, match="half a surrogate pair") as caught:
        library.compiled(record)
    assert says(caught, path)


# ---------------------------------------------------------------- what a place is taken for


def test_a_split_or_a_task_that_is_given_alone_keeps_its_ids(world: Path) -> None:
    whole = {game.id for game in list_games(world)}
    split = {game.id for game in list_games(world / "train")}
    assert split == {game_id for game_id in whole if game_id.startswith("train/")}
    folder = game_files(world)[0].parent.parent
    assert {game.id for game in list_games(folder)} <= split
    assert list(open_library(world / "train").index.counts()) == ["train"]


def test_a_game_beside_the_splits_makes_no_nameless_split(world: Path) -> None:
    root = world.rename(world.with_name("json_2.1.1"))
    shutil.copy(game_files(root)[0], root / "game.tw-pddl")
    stray = next(game for game in index_tree(root) if game.id == "json_2.1.1")
    assert stray.split == "json_2.1.1" and not stray.counts


def test_games_that_are_named_beside_a_tree_are_the_split_named(
    world: Path, pristine: Path, tmp_path: Path
) -> None:
    extra = tmp_path / "mine.tw-pddl"
    shutil.copy(game_files(pristine)[0], extra)
    tasks = GameTasks(open_library([world, extra]).index, FAMILY_NAMES)
    assert [tasks.ids[i] for i in tasks.split("named")] == [f"named/{tmp_path.name}/mine.tw-pddl"]
    assert tasks.default_split == "train" and len(tasks.split("train")) == SIZES["train"]


def test_families_that_leave_no_game_are_refused(world: Path) -> None:
    index = open_library(game_files(world)[0]).index
    (task_type,) = {game.task_type for game in index.games}
    other = next(name for name in FAMILY_NAMES if name != task_type)
    with pytest.raises(UsageError, match=f"whose games are of {task_type}"):
        GameTasks(index, (other,))


def test_sentences_stay_short(world: Path) -> None:
    for i in range(30):
        shutil.copytree(world / "valid_seen", world / f"more{i}")
    tasks = GameTasks(open_library(world).index, FAMILY_NAMES)
    with pytest.raises(UsageError, match=r"or one of \d+ more") as caught:
        tasks.split("x" * 10_000)
    assert len(str(caught.value)) < 700
    with pytest.raises(UsageError) as caught:
        find_family("x" * 10_000)
    assert len(str(caught.value)) < 500


def test_numbers_are_said_to_count_within_a_split(world: Path) -> None:
    tasks = GameTasks(open_library(world).index, FAMILY_NAMES)
    with pytest.raises(UnknownTask, match=r"\(numbers count within a split\)"):
        tasks.resolve("train/nothing/like/this")


def test_what_is_neither_a_file_nor_a_folder_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "game.tw-pddl")
    for place in ("/dev/null", tmp_path / "game.tw-pddl", "", "a\0b", "x" * 100_000):
        with pytest.raises((UsageError, DataMissing)) as caught:
            open_library(place)
        assert len(str(caught.value)) < 400
