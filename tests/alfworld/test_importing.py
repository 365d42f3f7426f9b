"""`data import`, `generate`, `download` and `verify` of ALFWorld games."""

from __future__ import annotations

import argparse
import json
import shutil
import zipfile
from pathlib import Path

import gymnasium as gym
import pytest

import agentgym_suite  # noqa: F401
from agentgym_suite import data, data_cli
from agentgym_suite.alfworld import game_index
from agentgym_suite.alfworld.games import open_library
from agentgym_suite.errors import DataDamaged, DataError, DataMissing, UsageError
from tests.alfworld.small_world import SIZES, edit, expand_official, game_files, write_world

Capture = pytest.CaptureFixture[str]
GAMES = sum(SIZES.values())


def run(*words: str) -> int:
    parser = argparse.ArgumentParser(prog="agentgym-suite")
    data_cli.register(parser.add_subparsers(required=True))
    args = parser.parse_args(["data", *words])
    return int(args.run(args))


@pytest.fixture(autouse=True)
def home(fresh_home: Path) -> Path:
    return fresh_home


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world(tmp_path_factory.mktemp("world"))


@pytest.fixture
def world(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "given"))


def zip_of(folder: Path, target: Path, name: str = "game.tw-pddl") -> Path:
    """An archive as the publisher packs them: one kind of file, below json_2.1.1."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob(name)):
            archive.write(path, path.relative_to(folder).as_posix())
    return target


def test_a_folder_and_the_zip_of_it_give_the_same_games(
    world: Path, tmp_path: Path, capsys: Capture
) -> None:
    archive = zip_of(world, tmp_path / "tw.zip")
    trajectories = zip_of(world, tmp_path / "json.zip", "traj_data.json")
    made = {}
    for name, words in {
        "folder": (str(world),),
        "split folder's parent": (str(world / "json_2.1.1"),),
        "zip": ("--games", str(archive)),
        "both": (str(archive), "--trajectories", str(trajectories)),
    }.items():
        out = tmp_path / name
        assert run("import", "alfworld", *words, "--out", str(out)) == 0
        assert f"where: {out}\n" in capsys.readouterr().out
        made[name] = data.load_manifest(out)
        assert open_library(out).index.digest == made[name].notes["data_digest"]
    assert {manifest.notes["data_digest"] for manifest in made.values()} == {
        made["folder"].notes["data_digest"]
    }
    assert made["both"].counts == made["zip"].counts and made["zip"].counts["games"] == GAMES
    assert list((tmp_path / "both").rglob("traj_data.json"))
    assert not list((tmp_path / "zip").rglob("traj_data.json"))


def test_counts_version_and_every_problem_are_reported(
    world: Path, tmp_path: Path, capsys: Capture
) -> None:
    paths = game_files(world)
    edit(paths[0], solvable=False)
    paths[1].unlink()
    shutil.rmtree(world / "json_2.1.1" / "valid_seen")
    out = tmp_path / "out"
    run("import", "alfworld", str(world), "--out", str(out))
    said = capsys.readouterr().out
    for words in (
        "data version: move+help",
        "split valid_seen is absent",
        "split valid_train is absent",
        "train has 12 games where 3,553 are official",
        f"{paths[0].parent.name} is not in its split: solvable is False",
        f"{paths[1].parent.relative_to(world / 'json_2.1.1')} has no game.tw-pddl",
        "games: 18 (published 4,027)",
    ):
        assert words in said, words


def test_imported_games_play_without_reading_them_for_an_index_again(
    world: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("import", "alfworld", str(world))
    folder = home / "alfworld" / "alfworld"
    monkeypatch.setattr(game_index, "read_record", None)  # must not be called
    env = gym.make("ALFWorld-v0", data=folder, split="valid_seen")
    assert env.reset(seed=0)[1]["split"] == "valid_seen"
    assert not (home / "alfworld" / "indexes").exists()


def test_a_download_is_a_fetch_and_the_same_import(
    world: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    archive = zip_of(world, tmp_path / "tw.zip")
    table = (
        "[alfworld]\nunpacked_bytes = 1\n"
        '[alfworld.files."json_2.1.3_tw-pddl.zip"]\n'
        f'address = "{archive.as_uri()}"\nabout_bytes = 1\n'
    )
    (tmp_path / "sources.toml").write_text(table)
    monkeypatch.setenv("AGENTGYM_SUITE_SOURCES", str(tmp_path / "sources.toml"))
    assert run("download", "alfworld", "--yes") == 0
    assert f"where: {home / 'alfworld' / 'alfworld'}\n" in capsys.readouterr().out
    assert open_library(home / "alfworld" / "alfworld").index.games


@pytest.mark.parametrize("kind", ["truncated", "page", "crc", "absent", "empty", "jsononly"])
def test_damaged_and_wrong_sources_are_one_sentence(world: Path, tmp_path: Path, kind: str) -> None:
    archive = zip_of(world, tmp_path / "tw.zip")
    raw = archive.read_bytes()
    if kind == "truncated":
        archive.write_bytes(raw[: len(raw) // 2])
    elif kind == "page":
        archive.write_text("<html>quota exceeded</html>")
    elif kind == "crc":
        middle = len(raw) // 2
        archive.write_bytes(raw[:middle] + bytes(64) + raw[middle + 64 :])
    elif kind == "absent":
        archive.unlink()
    elif kind == "empty":
        zip_of(world, archive, "nothing")
    else:
        zip_of(world, archive, "traj_data.json")
    with pytest.raises(DataError) as caught:
        run("import", "alfworld", str(archive), "--out", str(tmp_path / "out"))
    assert str(archive) in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_damaged_games_are_named_and_nothing_is_published(world: Path, tmp_path: Path) -> None:
    paths = game_files(world)[:3]
    for path in paths:
        path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(DataDamaged, match="3 games are damaged") as caught:
        run("import", "alfworld", str(world), "--out", str(tmp_path / "out"))
    for path in paths:
        assert path.parent.name in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_an_import_of_which_nothing_can_be_played_is_refused(world: Path, tmp_path: Path) -> None:
    for path in game_files(world):
        edit(path, solvable=False)
    with pytest.raises(DataDamaged, match=rf"none of the {GAMES} games .* solvable is False"):
        run("import", "alfworld", str(world), "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("packed", [True, False])
def test_trajectories_without_a_trajectory_are_refused(
    world: Path, tmp_path: Path, packed: bool
) -> None:
    nothing = tmp_path / "nothing"
    (nothing / "json_2.1.1" / "train").mkdir(parents=True)
    if packed:
        nothing = zip_of(world, tmp_path / "none.zip", "nothing")
    words = ("--trajectories", str(nothing), "--out", str(tmp_path / "out"))
    with pytest.raises(DataMissing, match=r"none.*|nothing.*holds no traj_data.json"):
        run("import", "alfworld", str(world), *words)
    assert not (tmp_path / "out").exists()


def test_a_zip_cannot_write_outside_its_place(world: Path, tmp_path: Path) -> None:
    archive = zip_of(world, tmp_path / "tw.zip")
    with zipfile.ZipFile(archive, "a") as grown:
        grown.writestr("../../escaped/game.tw-pddl", "x")
        grown.writestr("/absolute/game.tw-pddl", "x")
        grown.writestr("json_2.1.1/train/readme.txt", "not wanted")
    run("import", "alfworld", str(archive), "--out", str(tmp_path / "out"))
    manifest = data.load_manifest(tmp_path / "out")
    assert manifest.counts["games"] == GAMES and "readme" not in str(manifest.files)
    problems = manifest.notes["problems"]
    assert isinstance(problems, list) and sum("was left out" in str(p) for p in problems) == 2
    assert not (tmp_path / "escaped").exists()


def test_a_folder_of_archives_names_one(world: Path, tmp_path: Path) -> None:
    folder = tmp_path / "downloads"
    folder.mkdir()
    archive = zip_of(world, folder / "json_2.1.3_tw-pddl.zip")
    with pytest.raises(DataMissing, match="only archives") as caught:
        run("import", "alfworld", str(folder))
    assert str(archive) in str(caught.value)


def test_options_that_contradict_are_refused(world: Path) -> None:
    with pytest.raises(UsageError, match="give one"):
        run("import", "alfworld", str(world), "--games", str(world))
    with pytest.raises(UsageError, match="say where the games are"):
        run("import", "alfworld")


def test_verify_finds_a_changed_byte(world: Path, home: Path, capsys: Capture) -> None:
    run("import", "alfworld", str(world))
    folder = home / "alfworld" / "alfworld"
    with pytest.raises(DataDamaged, match="is not the published alfworld"):
        run("verify", "alfworld")  # whole, but only a part of the published games
    path = game_files(folder)[0]
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b"go to", b"GO TO", 1))
    with pytest.raises(DataDamaged, match="SHA-256"):
        run("verify", "alfworld")
    capsys.readouterr()


def test_generated_games_are_published_and_can_be_made_again(
    tmp_path: Path, capsys: Capture
) -> None:
    for name in ("one", "other"):
        words = ("--games", "10", "--seed", "5", "--out", str(tmp_path / name))
        assert run("generate", "alfworld", *words) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'one'}\n{tmp_path / 'other'}\n"
    one, other = (data.load_manifest(tmp_path / name) for name in ("one", "other"))
    assert one.digest == other.digest and one.counts["games"] == 10
    assert run("verify", str(tmp_path / "one")) == 0
    env = gym.make("ALFWorld-v0", data=tmp_path / "one")
    assert json.loads(env.reset(seed=0)[1]["provenance"])["data_digest"] == one.notes["data_digest"]
    for number, advice in (("0", "give 1 or more"), (str(10**30), "give at most")):
        with pytest.raises(UsageError, match=f"--games is {number}; {advice}"):
            run("generate", "alfworld", "--games", number, "--out", str(tmp_path / "none"))
    for place in ("", "a\0b"):
        with pytest.raises(UsageError, match="--data is "):
            run("verify", "--against", "textworld", "alfworld", "--data", place, "--python", "py")


def test_published_games_are_known_by_their_own_index_alone(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("import", "alfworld", str(world), "--out", str(tmp_path / "out"))
    looked = game_index.index_tree(world / "json_2.1.1")
    (tmp_path / "moved").mkdir()
    folder = (tmp_path / "out").rename(tmp_path / "moved" / "again")
    listed: list[Path] = []
    real = game_index.list_games
    monkeypatch.setattr(game_index, "list_games", lambda root: listed.append(root) or real(root))
    root = folder / "json_2.1.1"
    known = game_index.index_tree(root)
    assert listed == []
    assert [(g.id, g.sha256, g.size) for g in known] == [(g.id, g.sha256, g.size) for g in looked]
    assert [g.path for g in known] == [str(path) for path in game_files(root)]
    Path(known[0].path).unlink()
    with pytest.raises(DataMissing, match=r"is not at .*game.tw-pddl any more"):
        gym.make("ALFWorld-v0", data=folder).reset(options={"task_id": known[0].id})
    (folder / game_index.INDEX_NAME).write_text("{}")
    assert len(game_index.index_tree(root)) == len(known) - 1 and listed == [root]


def test_official_games_import_whole(shared: Path, tmp_path: Path, capsys: Capture) -> None:
    expand_official(
        shared, tmp_path / "tree", "--split", "valid_seen", "valid_unseen", "valid_train"
    )
    run("import", "alfworld", str(zip_of(tmp_path / "tree", tmp_path / "tw.zip")))
    said = capsys.readouterr().out
    assert "valid seen: 140 (published 140)" in said and "valid unseen: 134" in said
    assert [line.strip() for line in said.splitlines() if "absent" in line] == [
        "split train is absent"
    ]
