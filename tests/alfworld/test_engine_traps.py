"""The traps of the original, one test each, on the official kitchen of the hand-made games.

The recordings cover them too; here each has a name, and its reason stands beside it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from agentgym_suite.alfworld.compiling import Compiler
from agentgym_suite.alfworld.game import CompiledGame
from agentgym_suite.alfworld.game_files import GameFile
from agentgym_suite.alfworld.play import Play
from agentgym_suite.errors import DataDamaged
from tests.alfworld.official import official_games
from tests.alfworld.small_game import (
    ACTIONS,
    FACTS,
    OBJECTS,
    RULES,
    TEXTS,
    domain_text,
    game_file,
    grammar_text,
    problem_text,
    small_game,
    small_play,
)

Kitchen = Callable[[str], GameFile]


@pytest.fixture(scope="module")
def kitchen(shared: Path) -> Kitchen:
    games = {game.game_id: game for game in official_games(shared, "handmade")}

    def pick(text: str) -> GameFile:
        return next(game for id_, game in games.items() if text in id_)

    return pick


def played(game: GameFile, *commands: str) -> Play:
    play = Compiler().compile(game).start()
    for command in commands:
        assert play.step(command)[1], f"{command!r}; {play.admissible}"
    return play


def test_01_only_held_objects_can_be_examined_because_of_a_comma(kitchen: Kitchen) -> None:
    game = kitchen("v04/")
    fixed = game._replace(domain=game.domain.replace("?l - location, ?r", "?l - location ?r"))
    here = played(game, "go to countertop 1")
    there = played(fixed, "go to countertop 1")
    examined = [c for c in here.admissible if c.startswith("examine")]
    assert all(c in ("examine countertop 1",) or "countertop" not in c for c in examined)
    assert len([c for c in there.admissible if c.startswith("examine")]) > len(examined)


def test_02_going_where_one_is_does_nothing_and_says_why() -> None:
    play = small_play("walk to chest 1")
    assert "walk to chest 1" not in play.admissible
    assert "walk to chest 2" not in play.admissible  # it stands on the same spot
    assert "pull chest 2" in play.admissible
    assert play.step("walk to chest 2") == ("Nothing happens.", False)
    assert "already in reach" in play.why_not("walk to chest 2")


def test_03_look_away_from_all_receptacles_sees_nothing(kitchen: Kitchen) -> None:
    play = played(kitchen("v04/"))
    assert play.observation.startswith(
        "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle"
    )
    assert play.step("look")[0] == (
        "You are in the middle of a room. Looking quickly around you, you see nothing."
    )


def test_04_the_floor_list_needs_an_explicit_negative_fact(kitchen: Kitchen) -> None:
    play = played(kitchen("v04/"), "go to countertop 1")
    assert play.step("look")[0].endswith("Next to it, you see nothing.")
    taken = next(c for c in play.admissible if c.startswith("take"))
    name = taken.split(" from ")[0].removeprefix("take ")
    play.step(taken)
    assert play.step("look")[0].endswith("Next to it, you see nothing.")
    play.step(f"move {name} to countertop 1")
    assert play.step("look")[0].endswith("Next to it, you see nothing.")


def test_05_explicit_negatives_come_from_executed_effects_only() -> None:
    texts = {**TEXTS, "wait": ("wait", "[{t.name | not_in(t:thing, b:box)}]")}
    play = small_play(grammar=grammar_text(texts))
    assert play.step("wait")[0] == "nothing"
    play.step("grab ball 1 from tray 1")
    assert play.step("wait")[0] == "ball 1"
    play.step("drop ball 1 into tray 1")
    assert play.step("wait")[0] == "nothing"


def test_06_texts_see_conditional_effects_that_did_not_fire() -> None:
    game = small_game(problem=problem_text(goal="(lit ball_bar_2)"))
    play = game.start()
    play.step("grab ball 1 from tray 1")
    # the true state flips; the texts see the add and then the delete, each time
    for won in (True, False, True):
        assert play.step("flip ball 1") == ("dark", True)
        assert play.won is won


def test_07_one_thing_in_hand_and_the_goal_reads_the_true_state() -> None:
    play = small_play("grab ball 1 from tray 1")
    assert not [c for c in play.admissible if c.startswith("grab")]
    assert [c for c in play.admissible if c.startswith("flip")] == ["flip ball 1"]


def test_08_hot_and_cool_clear_each_other_and_clean_stays(kitchen: Kitchen) -> None:
    play = played(kitchen("v04/pick_heat"))
    heat = _until(play, "heat ")
    thing = heat.removeprefix("heat ").partition(" with ")[0]
    play.step(heat)
    assert "hot" in play.step(f"examine {thing}")[0]
    fridge = next(c for c in play.admissible if c.startswith("go to fridge"))
    play.step(fridge)
    play.step(f"cool {thing} with {fridge.removeprefix('go to ')}")
    told = play.step(f"examine {thing}")[0]
    assert "cold" in told
    assert "hot" not in told


def _until(play: Play, verb: str) -> str:
    """Carry things to appliances until a verb is possible."""
    places = [c for c in play.admissible if c.startswith("go to ")]
    for place in places:
        play.step(place)
        for opening in [c for c in play.admissible if c.startswith("open ")]:
            play.step(opening)
        for take in [c for c in play.admissible if c.startswith("take ")]:
            held = play.copy()
            held.step(take)
            thing = take.removeprefix("take ").partition(" from ")[0]
            if "In it" in held.step(f"examine {thing}")[0]:
                continue  # a container is told as one, whatever its temperature
            for other in places:
                tried = held.copy()
                tried.step(other)
                found = [c for c in tried.admissible if c.startswith(verb)]
                if found:
                    play.step(take)
                    play.step(other)
                    return found[0]
    raise AssertionError(f"nothing here to {verb}")


def test_09_slicing_reads_where_a_thing_is_said_to_be() -> None:
    # thingAt is written when a thing is put down and need not agree with the box it lies in
    body = """:parameters (?t - thing ?p - place ?a - agent)
      :precondition (and (at ?a ?p) (thingAt ?t ?p)) :effect (marked ?t)"""
    facts = FACTS.replace("(in cup_bar_1 tray_bar_c)", "(thingAt cup_bar_1 hall_bar_0)")
    play = small_play(
        "cut cup 1",
        domain=domain_text({**ACTIONS, "cut": body}),
        grammar=grammar_text({**TEXTS, "cut": ("cut {t}", "cut")}),
        problem=problem_text(facts),
    )
    assert "grab cup 1 from tray 1" not in play.admissible


def test_10_a_closed_box_blocks_taking_and_putting() -> None:
    play = small_play("grab ball 1 from tray 1", "walk to chest 2")
    assert "drop ball 1 into chest 2" not in play.admissible
    play.step("pull chest 2")
    assert "drop ball 1 into chest 2" in play.admissible


def test_11_without_the_fact_a_box_is_an_open_surface() -> None:
    assert small_play().step("walk to chest 1")[0] == "At chest 1. On it nothing."


def test_12_the_first_alternative_that_applies_is_told() -> None:
    rules = {**RULES, "box": [{"rhs": "first"}, {"rhs": "second"}]}
    assert (
        small_play(grammar=grammar_text(rules=rules)).step("walk to chest 1")[0].endswith("first")
    )


def test_13_names_count_down_and_ids_without_bar_keep_a_blank() -> None:
    objects = f"{OBJECTS} Sink_bar_9_bar_SinkBasin sink_bar_1 lamp cup_bar_unused - thing"
    facts = FACTS + "".join(
        f" (lit {x})" for x in ("Sink_bar_9_bar_SinkBasin", "sink_bar_1", "lamp")
    )
    game = small_game(problem=problem_text(facts, objects=objects))
    names = dict(zip(game.entities.ids, game.names, strict=False))
    assert names["chest_bar_a"] == "chest 2"
    assert names["chest_bar_b"] == "chest 1"
    assert names["sink_bar_9_bar_sinkbasin"] == "sinkbasin 1"
    assert names["sink_bar_1"] == "sink 1"
    assert names["lamp"] == "lamp "
    assert names["cup_bar_1"] == "cup 1"  # what no fact mentions is not counted


def test_14_two_placeholders_are_never_one_entity() -> None:
    texts = {
        **TEXTS,
        "wait": ("wait", "[{x.name + y.name | in(x:thing, b:box) & in(y:thing, b:box)}]"),
    }
    assert small_play(grammar=grammar_text(texts)).step("wait")[0] == "ball 1cup 1and cup 1ball 1"


def test_15_real_newlines_in_quotes_and_swallowed_white_space() -> None:
    texts = {**TEXTS, "wait": ("wait", "\n first\n")}
    assert small_play(grammar=grammar_text(texts)).step("wait")[0] == "first\n"


def test_16_of_two_actions_with_one_command_the_first_is_executed() -> None:
    texts = {**TEXTS, "pull": ("walk to {b}", "pulled")}
    play = small_play("walk to chest 1", grammar=grammar_text(texts))
    assert play.admissible.count("walk to chest 2") == 1
    assert play.step("walk to chest 2")[0] == "pulled"  # walking there does not exist
    both = {**TEXTS, "drop": ("wait", "dropped")}
    assert small_play("grab ball 1 from tray 1", grammar=grammar_text(both)).step("wait")[0] == (
        "Time goes by."
    )


@pytest.mark.parametrize("space", [" ", "\n", "\t", "\u00a0", "\u3000"])
def test_17_outer_white_space_is_stripped_and_nothing_else_forgiven(space: str) -> None:
    play = small_play()
    assert play.step(f"{space}wait{space}")[1]
    for command in (
        "",
        space,
        "Wait",
        "wait.",
        "walk  to chest 1",
        "go to chest 1",
        "w" * 1_000_000,
    ):
        before = play.canonical_state()
        assert play.step(command) == ("Nothing happens.", False)
        assert play.canonical_state() == before
        assert 0 < len(play.why_not(command)) < 500


def test_18_won_is_a_property_of_the_state(kitchen: Kitchen) -> None:
    play = played(kitchen("v04/pick_and_place_simple-Mug-None-CoffeeMachine-14"))
    assert play.won
    small = small_play(problem=problem_text(goal="(in ball_bar_2 tray_bar_c)"))
    assert small.won
    small.step("grab ball 1 from tray 1")
    assert not small.won
    small.step("drop ball 1 into tray 1")
    assert small.won


def test_19_a_thing_in_two_boxes_is_taken_from_one_and_stays_in_the_other() -> None:
    play = small_play(problem=problem_text(FACTS + " (in ball_bar_2 chest_bar_a)"))
    play.step("grab ball 1 from tray 1")
    play.step("walk to chest 2")
    assert play.step("pull chest 2")[0] == "In it ball 2and ball 1."


def test_20_the_type_object_is_the_root_of_all() -> None:
    play = small_play(problem=problem_text(FACTS + " (in chest_bar_b tray_bar_c)"))
    assert "grab chest 1 from tray 1" in play.admissible


def test_21_and_22_are_the_grammars_own(kitchen: Kitchen) -> None:
    game = kitchen("v04/")
    plus = game._replace(grammar=game.grammar.replace('"rhs": ", and "', '"rhs": " plus "'))
    told = played(plus).observation
    assert "1plus a " in told
    assert ", and a " not in told


def test_data_versions(kitchen: Kitchen) -> None:
    compiler = Compiler()
    versions = {v: compiler.compile(kitchen(f"{v}/")).data_version for v in ("v03", "v04", "v212")}
    assert versions == {"v03": "old", "v04": "move+help", "v212": "move+help"}
    assert small_game().data_version == "custom"


def test_a_goal_that_nothing_reaches_plays_on() -> None:
    play = small_play("walk to chest 1", problem=problem_text(goal="(busy me)".replace(" me", "")))
    assert not play.won
    assert not small_play(problem=problem_text(goal="(in nobody tray_bar_c)")).won


def test_facts_about_nothing_are_an_error() -> None:
    with pytest.raises(DataDamaged, match="ghost_bar_1"):
        small_game(problem=problem_text(FACTS + " (lit ghost_bar_1)"))


def test_shuffled_numbers_permute_names_and_nothing_else() -> None:
    game = small_game()
    plain = game.start()
    seen = set()
    for seed in range(8):
        play = game.start(np.random.default_rng(seed))
        assert sorted(play.names) == sorted(plain.names)
        assert len(play.admissible) == len(plain.admissible)
        same = game.start(np.random.default_rng(seed))
        assert (same.observation, same.admissible) == (play.observation, play.admissible)
        seen.add(play.observation)
    assert len(seen) == 2
    assert plain.observation == game.start().observation


def test_copies_go_their_own_way_and_states_are_equal_only_if_alike() -> None:
    play = small_play("grab ball 1 from tray 1")
    other = play.copy()
    other.step("drop ball 1 into tray 1")
    assert play.step("flip ball 1")[1]
    assert play.canonical_state() != other.canonical_state()
    assert json.loads(small_play().canonical_state()) == []
    one = small_play(
        "pull chest 2", problem=problem_text(FACTS.replace("yard_bar_1", "hall_bar_0"))
    )
    two = one.copy()
    two.step("wait")
    assert one.canonical_state() == two.canonical_state()


def test_texts_are_the_same_from_many_threads(shared: Path) -> None:
    games = [g for g, _ in zip(official_games(shared, "valid_unseen"), range(12), strict=False)]
    compiler = Compiler()
    compiled = [compiler.compile(game) for game in games]

    def transcript(game: CompiledGame) -> list[object]:
        play = game.start()
        rng = np.random.default_rng(len(game.game_id))
        told: list[object] = [play.observation]
        for _ in range(40):
            command = play.admissible[int(rng.integers(len(play.admissible)))]
            told += [play.step(command), play.admissible, play.won, play.canonical_state()]
        return told

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(transcript, compiled * 4))
    alone = [transcript(Compiler().compile(game)) for game in games]
    assert together == alone * 4


def test_one_domain_text_is_compiled_once() -> None:
    compiler = Compiler()
    one, two = compiler.compile(game_file()), compiler.compile(game_file())
    assert one.domain is two.domain
    assert one.plans is two.plans
    assert Compiler().compile(game_file()).domain is not one.domain


def test_facts_and_commands_for_a_planner() -> None:
    play = small_play("grab ball 1 from tray 1")
    facts = set(play.facts())
    assert ("held", "ball_bar_2") in facts
    assert ("in", "ball_bar_2", "tray_bar_c") not in facts
    assert ("boxat", "tray_bar_c", "hall_bar_0") in facts
    drop = play.command_for("drop", ("me", "hall_bar_0", "ball_bar_2", "tray_bar_c"))
    assert drop == "drop ball 1 into tray 1"
    assert play.command_for("drop", ("me", "yard_bar_1", "ball_bar_2", "tray_bar_c")) is None
    assert play.game.problem.objects["cup_bar_1"] == "thing"
