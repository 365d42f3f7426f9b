"""The generated households: determinism, coverage, oddities, solvability, and words of our own."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from agentgym_suite.alfworld.compiling import compile_game
from agentgym_suite.alfworld.game_files import read_game
from agentgym_suite.alfworld.generator import (
    DEFAULT_SEED,
    EMBEDDED_GAMES,
    WORDINGS,
    embedded_world,
    generate,
    made_games,
    split_sizes,
)
from agentgym_suite.alfworld.generator.making import GameMaker, MadeGame, cycle
from agentgym_suite.alfworld.generator.naming import display_names, spot_id, thing_id
from agentgym_suite.alfworld.generator.proof import is_won_by_its_walkthrough
from agentgym_suite.alfworld.generator.rules import load_rules
from agentgym_suite.alfworld.generator.tables import OBJECT_COUNTS, RECEPTACLE_COUNTS, load_tables
from agentgym_suite.alfworld.generator.tasks import FAMILIES
from agentgym_suite.data import sha256_file
from agentgym_suite.errors import UsageError
from tests.alfworld.problem_facts import Pairs, facts_of

# Whatever changes a byte of the embedded world changes what results were measured on: raise
# GENERATOR_VERSION together with this digest.
EMBEDDED_DIGEST = "8842cada129cdbf42550fad968a74176c6d7f006b46d2aeab2014b462446b89c"


@pytest.fixture(scope="module")
def embedded() -> list[MadeGame]:
    return list(made_games(EMBEDDED_GAMES, check=False))


@pytest.fixture(scope="module")
def many() -> list[MadeGame]:
    return list(made_games({"train": 960}, seed=9, check=False))


def folder_digest(folder: Path) -> str:
    lines = [
        f"{path.relative_to(folder).as_posix()} {sha256_file(path)}"
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


# --- the same everywhere


def test_the_embedded_world_is_the_one_that_was_checked(tmp_path: Path) -> None:
    assert embedded_world(tmp_path) == EMBEDDED_GAMES
    assert folder_digest(tmp_path) == EMBEDDED_DIGEST


def test_bytes_do_not_depend_on_hash_seed_or_locale() -> None:
    program = (
        "import hashlib; from agentgym_suite.alfworld.generator import made_games\n"
        "games = made_games({'train': 24, 'valid_unseen': 24}, check=False)\n"
        "print(hashlib.sha256(repr([(g.folder, g.problem, g.grammar, g.walkthrough, g.traj_data)"
        " for g in games]).encode()).hexdigest())"
    )

    def digest(hash_seed: str, locale: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "LC_ALL": locale}
        return subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            capture_output=True,
            check=True,
            text=True,
        ).stdout

    assert digest("1", "C") == digest("2", "C.UTF-8")


def test_a_smaller_world_is_part_of_a_larger_one(many: list[MadeGame]) -> None:
    assert list(made_games({"train": 50}, seed=9, check=False)) == many[:50]


def test_any_game_can_be_made_alone(many: list[MadeGame]) -> None:
    maker = GameMaker(9)
    assert [maker.game("train", number) for number in (777, 3, 48)] == [
        many[number] for number in (777, 3, 48)
    ]


def test_seeds_are_different_worlds(many: list[MadeGame]) -> None:
    other = made_games({"train": 48}, seed=10, check=False)
    assert not {game.problem for game in other} & {game.problem for game in many}


# --- what there is


def test_every_split_holds_every_family_room_and_size(embedded: list[MadeGame]) -> None:
    fitting = {
        (family.name, room, size)
        for family in FAMILIES.values()
        for room in family.rooms
        for size in RECEPTACLE_COUNTS
    }
    assert len(fitting) == 42
    assert {(c.family.name, c.room, c.size) for c in cycle()} == fitting
    for split, count in EMBEDDED_GAMES.items():
        games = [game for game in embedded if game.folder.startswith(f"{split}/")]
        assert len(games) == count
        assert {(g.cell.family.name, g.cell.room, g.cell.size) for g in games} == fitting


def test_sizes_are_what_they_are_called(many: list[MadeGame]) -> None:
    for game in many:
        facts = facts_of(game)
        low, high = RECEPTACLE_COUNTS[game.cell.size]
        assert low <= len(facts["receptacleType"]) <= high
        low, high = OBJECT_COUNTS[game.cell.size]
        assert low <= len(facts["objectType"]) <= high


def test_seen_rooms_are_rooms_of_training_and_unseen_ones_are_not() -> None:
    rooms: dict[str, dict[int, Pairs]] = defaultdict(dict)
    for game in made_games(split_sizes(700), seed=2, check=False):
        split = game.folder.split("/")[0]
        scene = game.traj_data["scene"]["scene_num"]
        furniture = facts_of(game)["receptacleAtLocation"]
        assert rooms[split].setdefault(scene, furniture) == furniture
    train, seen, unseen = rooms["train"], rooms["valid_seen"], rooms["valid_unseen"]
    assert len(train) == 108 and len(unseen) == 12
    assert seen.items() <= train.items()
    assert not set(unseen) & set(train)
    assert not {frozenset(room) for room in unseen.values()} & {
        frozenset(room) for room in train.values()
    }


def test_the_embedded_seen_rooms_are_rooms_of_training(embedded: list[MadeGame]) -> None:
    scenes: dict[str, set[int]] = defaultdict(set)
    for game in embedded:
        scenes[game.folder.split("/")[0]].add(game.traj_data["scene"]["scene_num"])
    assert scenes["valid_seen"] <= scenes["train"]
    assert not scenes["valid_unseen"] & scenes["train"]
    assert len(scenes["train"]) > 80 and len(scenes["valid_unseen"]) == 12


def test_any_number_of_games_is_dealt_out() -> None:
    for games in (1, 9, 10, 19, 1000):
        sizes = split_sizes(games)
        assert sum(sizes.values()) == games
        assert sizes["train"] >= sizes["valid_seen"] == sizes["valid_unseen"]


def test_one_must_read_to_act(embedded: list[MadeGame]) -> None:
    """No task, source or goal place is common enough for a policy that does not read."""
    tasks = Counter(game.folder.split("/")[1].rsplit("-", 1)[0] for game in embedded)
    assert len(tasks) > 180 and max(tasks.values()) <= 4
    assert len({game.grammar for game in embedded}) > 180
    openings = Counter(game.walkthrough[0].rsplit(" ", 1)[0] for game in embedded)
    assert len(openings) >= 20 and max(openings.values()) < len(embedded) / 4
    searched = sum(any(c.startswith("open") for c in game.walkthrough) for game in embedded)
    assert searched > len(embedded) / 4


def test_both_sentences_of_each_family(many: list[MadeGame]) -> None:
    heard: dict[str, set[str]] = defaultdict(set)
    for game in many:
        _, thing, _, place, _ = game.folder.split("/")[1].split("-")
        sentence = re.search(r"Your task is to: ([^\"]*)\"", game.grammar)
        assert sentence is not None and sentence[1].endswith(".")
        letters = {place.lower(): "R", thing.lower(): "X"}
        words = sentence[1].removesuffix(".").split()
        heard[game.cell.family.name].add(" ".join(letters.get(word, word) for word in words))
    assert heard == {
        "pick_and_place_simple": {"put a X in R", "put some X on R"},
        "look_at_obj_in_light": {"look at X under the R", "examine the X with the R"},
        "pick_clean_then_place_in_recep": {
            "put a clean X in R",
            "clean some X and put it in R",
        },
        "pick_heat_then_place_in_recep": {"put a hot X in R", "heat some X and put it in R"},
        "pick_cool_then_place_in_recep": {"put a cool X in R", "cool some X and put it in R"},
        "pick_two_obj_and_place": {"put two X in R", "find two X and put them in R"},
    }


# --- the official format


def test_files_are_the_official_ones(tmp_path: Path) -> None:
    calls: list[tuple[str, int, int | None]] = []
    sizes = generate(tmp_path, games=30, seed=3, check=False, progress=lambda *c: calls.append(c))
    assert sizes == {"train": 24, "valid_seen": 3, "valid_unseen": 3}
    assert calls == [("generate games", 20, 30), ("generate games", 30, 30)]
    made = {game.folder: game for game in made_games(sizes, seed=3, check=False)}
    found = sorted(tmp_path.glob("json_2.1.1/*/*/*/game.tw-pddl"))
    assert len(found) == len({path.parent.name for path in found}) == 30
    for path in found:
        game_id = path.parent.relative_to(tmp_path / "json_2.1.1").as_posix()
        game, read = made[game_id], read_game(path, game_id)
        assert (read.domain, read.grammar, read.problem) == (
            game.domain,
            game.grammar,
            game.problem,
        )
        assert read.solvable and read.walkthrough == game.walkthrough
        assert (path.parent / "initial_state.pddl").read_text() == game.problem
        traj = json.loads((path.parent / "traj_data.json").read_bytes())
        assert traj == game.traj_data
        params = traj["pddl_params"]
        folder = path.parent.parent.name
        target = params["parent_target"] or params["toggle_target"]
        expected = [traj["task_type"], params["object_target"], "None", target]
        assert folder == "-".join([*expected, str(traj["scene"]["scene_num"])])
        assert "movable" not in game_id and "Sliced" not in game_id


def test_ids_and_names_follow_the_official_scheme(embedded: list[MadeGame]) -> None:
    assert thing_id("Mug", (59, 95, -102)) == (
        "Mug_bar__plus_00_dot_59_bar__plus_00_dot_95_bar__minus_01_dot_02"
    )
    assert spot_id(-4, 8, 1, 45) == "loc_bar__minus_4_bar_8_bar_1_bar_45"
    mugs = [thing_id("Mug", (x, 0, 0)) for x in (-1, 1, 2)]
    sink = thing_id("Sink", (0, 0, 0))
    basin = thing_id("Sink", (0, 0, 0), "SinkBasin")
    names = display_names([*mugs, sink, basin])
    # "_minus_" sorts before "_plus_": the first id of a name has the highest number
    assert [names[mug] for mug in mugs] == ["mug 3", "mug 2", "mug 1"]
    assert (names[sink], names[basin]) == ("sink 1", "sinkbasin 1")
    number = r"_(?:plus|minus)_\d\d_dot_\d\d"
    identifier = re.compile(rf"[A-Za-z]+(?:_bar_{number}){{3}}(?:_bar_\w+)?")
    spot = re.compile(r"loc(?:_bar_(?:_minus_)?\d+){2}_bar_[0-3]_bar_\d+")
    for game in embedded:
        facts = facts_of(game)
        ids = [thing for thing, _ in facts["objectType"] | facts["receptacleType"]]
        assert len({name.lower() for name in ids}) == len(ids)
        assert all(identifier.fullmatch(name) for name in ids)
        assert all(spot.fullmatch(place) for _, place in facts["objectAtLocation"])


# --- solvable


@pytest.mark.parametrize("wording", WORDINGS)
@pytest.mark.parametrize("quirks", [True, False])
def test_walkthroughs_win_in_the_engine(wording: str, quirks: bool) -> None:
    """What the generator reasons out is what the engine plays: no attempt is ever refused."""
    games = made_games({"train": 48}, seed=6, quirks=quirks, wording=wording, check=False)
    assert [g.folder for g in games if not is_won_by_its_walkthrough(g.game_file)] == []


def test_every_embedded_walkthrough_wins_in_the_engine(embedded: list[MadeGame]) -> None:
    assert [g.folder for g in embedded if not is_won_by_its_walkthrough(g.game_file)] == []
    assert all(3 <= len(game.walkthrough) <= 12 for game in embedded)


def test_a_game_that_cannot_be_won_is_drawn_again() -> None:
    refused: list[str] = []

    def accept(game: object) -> bool:
        refused.append(str(game))
        return len(refused) > 2

    again = GameMaker(DEFAULT_SEED, accept=accept).game("train", 0)
    assert len(refused) == 3
    assert again.problem != GameMaker(DEFAULT_SEED).game("train", 0).problem


@pytest.mark.parametrize("wording", WORDINGS)
def test_the_wording_is_recognised(wording: str) -> None:
    game = next(made_games({"train": 1}, wording=wording, check=False))
    compiled = compile_game(game.game_file)
    assert (compiled.data_version, compiled.warnings) == (wording, ())
    assert ("help" in compiled.start().admissible) is (wording == "move+help")


def test_an_unknown_wording_is_refused() -> None:
    with pytest.raises(UsageError, match="'new'.*move[+]help, old"):
        next(made_games({"train": 1}, wording="new", check=False))


def test_tables_name_only_what_there_is() -> None:
    tables = load_tables()
    for receptacle in tables.receptacles.values():
        assert receptacle.accepts <= tables.objects.keys(), receptacle.name
    for room in tables.rooms.values():
        assert {row.kind for row in room.furniture} <= tables.receptacles.keys()
        assert {name for name, _, _ in room.fixtures} <= tables.objects.keys()
        assert set(room.stock) <= tables.objects.keys()
        assert len(room.scenes) == 30


# --- the words are our own


def test_no_long_run_of_words_is_the_official_rules(shared: Path) -> None:
    """Parameter lists, commands and replies are the interface; nothing else may be the same."""
    data = shared / "data" / "alfworld"
    interface = re.compile(
        r":parameters \([^)]*\)"
        r'|(?:template|feedback) :: "[^"\n]*";'
        r"|You are in the middle of a room. Looking quickly around you, you see"
    )

    def runs(text: str) -> set[tuple[str, ...]]:
        words = re.findall(r"[a-z0-9_']+", interface.sub("", text).lower())
        return {tuple(words[start : start + 12]) for start in range(len(words) - 11)}

    official = runs((data / "domain_embedded.pddl").read_text())
    official |= runs((data / "grammar_template.twl2").read_text())
    assert len(official) > 1000
    for wording in WORDINGS:
        rules = load_rules(wording)
        assert not runs(rules.domain) & official
        assert not runs(rules.grammar) & official
