"""The index of games: what counts, in which order, what is read again, and bad data."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import pytest

from agentgym_suite.alfworld import game_index
from agentgym_suite.alfworld.game_index import (
    INDEX_NAME,
    GameIndex,
    data_version_of,
    differences_from_official,
    goal_sentence_of,
    index_tree,
)
from agentgym_suite.alfworld.game_layout import (
    FAMILY_NAMES,
    FoundGame,
    find_families,
    find_family,
    list_games,
    parse_task_folder,
)
from agentgym_suite.alfworld.games import GameTasks, open_library
from agentgym_suite.errors import DataDamaged, DataMissing, UnknownSplit, UnknownTask, UsageError
from tests.alfworld.small_world import SIZES, edit, expand_official, game_files, write_world

pytestmark = [
    pytest.mark.usefixtures("fresh_home"),
    pytest.mark.filterwarnings("ignore:.*is not the complete official data"),
]


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world(tmp_path_factory.mktemp("world"))


@pytest.fixture
def world(pristine: Path, tmp_path: Path) -> Path:
    """A copy to spoil; not under json_2.1.1, so that it does not claim to be official."""
    folder = tmp_path / "games"
    shutil.copytree(pristine / "json_2.1.1", folder)
    return folder


def tasks_of(place: Path | list[Path]) -> GameTasks:
    return GameTasks(open_library(place).index, FAMILY_NAMES)


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    read: list[str] = []
    real = game_index.read_record

    def counting(root: Path, found: FoundGame, game_id: str | None = None) -> object:
        read.append(found.id)
        return real(root, found, game_id)

    monkeypatch.setattr(game_index, "read_record", counting)
    return read


# ------------------------------------------------------------------ what an index holds


def test_records_are_sorted_by_id_and_say_what_path_and_file_say(world: Path) -> None:
    games = index_tree(world)
    assert [game.id for game in games] == sorted(game.id for game in games)
    assert len(games) == sum(SIZES.values())
    for game in games:
        folder = Path(game.path).parent
        assert game.id == folder.relative_to(world).as_posix()
        task = folder.parent.name.split("-")
        assert [game.task_type, game.object, game.receptacle, game.scene] == [
            task[0], task[1], task[3], task[4]
        ]  # fmt: skip
        value = json.loads(Path(game.path).read_text("utf-8"))
        assert game.walkthrough_length == len(value["walkthrough"])
        assert f"Your task is to: {game.goal}" in value["grammar"]
        assert game.solvable is True and game.data_version == "move+help"


def test_the_order_of_the_directory_does_not_matter(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = list_games(world)
    real = os.scandir

    class Shuffled:
        def __init__(self, path: str) -> None:
            with real(path) as entries:
                self.entries = list(entries)
            random.Random(5).shuffle(self.entries)

        def __enter__(self) -> list[os.DirEntry[str]]:
            return self.entries

        def __exit__(self, *_: object) -> None:
            return None

    monkeypatch.setattr(os, "scandir", Shuffled)
    assert list_games(world) == expected


def test_a_kept_index_is_used_again_and_only_changed_games_are_read(
    world: Path, fresh_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = count_reads(monkeypatch)
    first = index_tree(world)
    assert len(read) == len(first)
    read.clear()
    assert index_tree(world) == first and read == []
    changed, gone = game_files(world)[3:5]
    edit(changed, solvable=False)
    shutil.rmtree(gone.parent)
    second = index_tree(world)
    assert read == [changed.parent.relative_to(world).as_posix()]
    assert len(second) == len(first) - 1
    assert [g.solvable for g in second if g.path == str(changed)] == [False]
    kept = list((fresh_home / "alfworld" / "indexes").rglob(INDEX_NAME))
    assert len(kept) == 1  # the state before is not kept


def test_a_damaged_kept_index_is_made_again(world: Path, fresh_home: Path) -> None:
    first = index_tree(world)
    (kept,) = (fresh_home / "alfworld" / "indexes").rglob(INDEX_NAME)
    whole = kept.read_bytes()
    flipped = whole.replace(b'"custom"', b'"custon"').replace(b'"move+help"', b'"move+hemp"')
    for damaged in (b"", b"{}", flipped, b"\xff", whole[:-9], b"[" * 200_000):
        kept.write_bytes(damaged)
        assert index_tree(world) == first
        assert kept.read_bytes() == whole


def test_a_home_that_cannot_be_written_costs_the_cache_and_nothing_else(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AGENTGYM_SUITE_HOME", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="is not kept"):
        assert index_tree(world)


def test_words_that_exclude_count_in_the_games_own_path_only(world: Path, tmp_path: Path) -> None:
    root = tmp_path / "Sliced movable data" / "games"
    shutil.copytree(world, root)
    assert len(index_tree(root)) == sum(SIZES.values())
    folder = game_files(root)[0].parent.parent
    name = "pick_and_place_with_movable_recep-Mug-Pan-Desk-1"
    folder.rename(folder.with_name(name))
    tasks = tasks_of(root)
    assert len(tasks) == sum(SIZES.values()) - 1
    with pytest.raises(UnknownTask, match="movable or Sliced in their path are left out"):
        tasks.resolve(f"train/{name}/trial_1")


def test_unsolvable_games_are_reached_by_their_id_only(world: Path) -> None:
    paths = game_files(world)[:2]
    edit(paths[0], solvable=False)
    edit(paths[1], solvable=None, walkthrough=None, more={"unknown": "keys"})
    tasks = tasks_of(world)
    ids = [path.parent.relative_to(world).as_posix() for path in paths]
    assert [tasks.games[tasks.resolve(i)].solvable for i in ids] == [False, None]
    assert not {tasks.resolve(i) for i in ids} & set(tasks.split("train"))
    assert tasks.task(tasks.resolve(ids[0])).split == "train"


def test_a_folder_without_a_telling_name_is_told_by_its_trajectory(world: Path) -> None:
    path = game_files(world)[0]
    expected = index_tree(world)[0]
    path.parent.parent.rename(path.parent.parent.with_name("kitchen"))
    found = next(game for game in index_tree(world) if "/kitchen/" in game.id)
    assert (found.task_type, found.object, found.receptacle) == (
        expected.task_type, expected.object, expected.receptacle
    )  # fmt: skip
    trajectory = Path(found.path).with_name("traj_data.json")
    trajectory.unlink()
    edit(Path(found.path), note="read again")
    found = next(game for game in index_tree(world) if "/kitchen/" in game.id)
    assert found.task_type == "" and not found.counts


def test_names_with_unicode_are_names(world: Path) -> None:
    folder = game_files(world)[0].parent
    folder.rename(folder.with_name("trial_é你😀"))
    tasks = tasks_of(world)
    assert any(task_id.endswith("trial_é你😀") for task_id in tasks.ids)


@pytest.mark.parametrize(
    ("grammar", "goal", "version"),
    [
        (
            '"task": [{"rhs": "Your task is to: put a mug in desk."}]',
            "put a mug in desk.",
            "custom",
        ),
        ('"task": [{"rhs": "Find \\"it\\"!"}]', 'Find "it"!', "custom"),
        ("nothing", "", "custom"),
        (
            'action PutObject {\n template :: "put {o} in/on {r}";\n}\n'
            'action GotoLocation {\n feedback :: "#arrive#";\n}\n'
            '"arrive": [{"rhs": "You arrive at {lend.name}. #r#"}]',
            "",
            "old",
        ),
    ],
)
def test_goal_and_data_version_are_read_off_the_grammar(
    grammar: str, goal: str, version: str
) -> None:
    assert (goal_sentence_of(grammar), data_version_of(grammar)) == (goal, version)


def test_task_folders_and_families() -> None:
    task = parse_task_folder("look_at_obj_in_light-CD-None-DeskLamp-301")
    assert (task.task_type, task.object, task.receptacle, task.scene) == (
        "look_at_obj_in_light", "CD", "DeskLamp", "301"
    )  # fmt: skip
    assert parse_task_folder("kitchen").task_type == ""
    assert find_family(3) == find_family("3") == find_family("Clean") == find_family("clean")
    assert find_families(["Pick2", 1]) == ("pick_and_place_simple", "pick_two_obj_and_place")
    assert find_families("Look") == ("look_at_obj_in_light",) and len(find_families(None)) == 6
    for wrong in ("Bake", 7, True, []):
        with pytest.raises(UsageError):
            find_families(wrong)  # type: ignore[arg-type]


# ---------------------------------------------------------------------------- places


def test_a_place_is_a_tree_a_game_a_file_or_a_list(pristine: Path) -> None:
    whole = tasks_of(pristine)
    assert tasks_of(pristine / "json_2.1.1").ids == whole.ids
    assert tasks_of(pristine / "json_2.1.1" / "train").ids == [
        task_id for task_id in whole.ids if task_id.startswith("train/")
    ]
    one, other = game_files(pristine)[:2]
    for place in (one, one.parent):
        tasks = tasks_of(place)
        assert list(tasks.ids) == [whole.ids[0]] and tasks.default_split == "named"
    tasks = tasks_of([other, one.parent])
    assert list(tasks.ids) == whole.ids[:2] and list(tasks.split("named")) == [0, 1]


def test_a_named_game_is_played_whatever_it_says_and_wherever_it_lies(
    pristine: Path, tmp_path: Path
) -> None:
    path = tmp_path / "my kitchen.tw-pddl"
    shutil.copy(game_files(pristine)[0], path)
    edit(path, solvable=False)
    tasks = tasks_of(path)
    assert list(tasks.split("named")) == [0] and tasks.ids[0].endswith("/my kitchen.tw-pddl")


def test_environments_share_a_library_until_something_changes(world: Path) -> None:
    first = open_library(world)
    assert open_library(str(world)) is first
    shutil.copytree(world / "train", world / "more")
    assert open_library(world) is not first


def test_splits_have_both_vocabularies_and_absent_ones_name_what_there_is(pristine: Path) -> None:
    tasks = tasks_of(pristine)
    assert list(tasks.splits) == [
        "train", "valid_seen", "valid_unseen", "eval_in_distribution", "eval_out_of_distribution"
    ]  # fmt: skip
    assert tasks.split("eval_out_of_distribution") == tasks.split("valid_unseen")
    assert tasks.task(tasks.split("valid_unseen")[0]).split == "valid_unseen"
    only = tasks_of(pristine / "json_2.1.1" / "train")
    with pytest.raises(UnknownSplit, match=r"choose train \(14\).*data download alfworld"):
        only.split("valid_seen")


def test_tasks_are_found_by_id_short_id_path_and_number_in_a_split(pristine: Path) -> None:
    tasks = tasks_of(pristine)
    position = tasks.split("valid_seen")[1]
    task_id, game = tasks.ids[position], tasks.games[position]
    for key in (task_id, task_id.partition("/")[2], game.path, os.path.relpath(game.path)):
        assert tasks.resolve(key) == position
    assert tasks.locate(1, "valid_seen") == tasks.locate("1", "valid_seen") == task_id
    for wrong in (6, -1, "6", 10**30):
        with pytest.raises(UnknownTask, match="does not exist"):
            tasks.locate(wrong, "valid_seen") if wrong != -1 else tasks.resolve(wrong)
    with pytest.raises(UnknownTask, match="nearest"):
        tasks.resolve(task_id[:-1])


def test_the_digest_follows_contents_and_not_places_or_times(world: Path, tmp_path: Path) -> None:
    digest = open_library(world).index.digest
    shutil.copytree(world, tmp_path / "elsewhere")
    assert open_library(tmp_path / "elsewhere").index.digest == digest
    edit(game_files(world)[0], note="changed")
    assert GameIndex(index_tree(world), "").digest != digest


# -------------------------------------------------------------------------- bad data


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:5000]), "truncated or foreign"),
        (lambda path: path.write_bytes(b"\xff\xfe\x00"), "truncated or foreign"),
        (lambda path: path.write_text("[" * 100_000), "truncated or foreign"),
        (lambda path: path.write_text("[1, 2]"), "no text pddl_domain, grammar, pddl_problem"),
        (lambda path: edit(path, grammar=5), "no text grammar"),
        (lambda path: edit(path, solvable="yes"), "solvable = 'yes'"),
        (lambda path: edit(path, walkthrough=[1]), "no list of commands"),
    ],
)
def test_a_damaged_game_is_named(world: Path, spoil: object, says: str) -> None:
    path = game_files(world)[2]
    spoil(path)  # type: ignore[operator]
    with pytest.raises(DataDamaged, match=says) as caught:
        index_tree(world)
    assert str(path) in str(caught.value)


def test_places_without_games_say_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="there is no .*data download alfworld"):
        open_library(tmp_path / "nowhere")
    with pytest.raises(DataMissing, match="found nothing"):
        open_library(tmp_path)
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(DataMissing, match=r"found notes.txt; expected <split>"):
        open_library(tmp_path)
    (tmp_path / "json_2.1.3_tw-pddl.zip").write_text("")
    with pytest.raises(DataMissing, match="only archives.*data import alfworld"):
        open_library(tmp_path)
    with pytest.raises(DataMissing, match="is no game"):
        open_library(tmp_path / "notes.txt")
    with pytest.raises(UsageError, match="empty list"):
        open_library([])


def test_an_empty_split_folder_is_said_to_be_empty(world: Path) -> None:
    shutil.rmtree(world / "valid_seen")
    (world / "valid_seen").mkdir()
    tasks = tasks_of(world)
    for name in ("valid_seen", "eval_in_distribution"):
        with pytest.raises(UnknownSplit, match=rf"split '{name}' is empty: no game.tw-pddl is"):
            tasks.split(name)
    for name in ("elsewhere", "..", "", "train/..", "x" * 10_000, "\0", 5):
        with pytest.raises(UnknownSplit, match="does not exist") as caught:
            tasks.split(name)  # type: ignore[arg-type]
        assert len(str(caught.value)) < 500


def test_the_same_game_twice_is_refused(world: Path) -> None:
    with pytest.raises(UsageError, match="have the same id"):
        open_library([world, game_files(world)[0]])


def test_incomplete_official_data_is_warned_of(pristine: Path, tmp_path: Path) -> None:
    root = shutil.copytree(pristine, tmp_path / "data") / "json_2.1.1"
    shutil.rmtree(root / "valid_seen")
    shutil.rmtree(root / "valid_unseen")
    (root / "valid_unseen").mkdir()
    with pytest.warns(UserWarning) as caught:
        open_library(tmp_path / "data")
    assert [str(warning.message) for warning in caught] == [
        f"{root} is not the complete official data: split valid_seen is absent; "
        "split valid_unseen is empty; train has 14 games where 3,553 are official; "
        "`agentgym-suite data download alfworld` brings it"
    ]


# ------------------------------------------------------------------------ real data


def test_official_validation_games_are_all_there_in_the_published_order(
    shared: Path, tmp_path: Path
) -> None:
    expand_official(shared, tmp_path)
    with pytest.warns(UserWarning, match="official data: split train is absent; `agentgym"):
        index = open_library(tmp_path).index
    assert differences_from_official(index) == ()
    published = json.loads((shared / "data" / "alfworld" / "split_game_ids.json").read_text())
    for split in ("valid_seen", "valid_unseen"):
        assert [g.id for g in index.games if g.split == split] == [
            f"{split}/{task_id}" for task_id in published[split]
        ]
    assert {g.data_version for g in index.games} == {"move+help"}
