"""A small game of our own for the engine's tests: pieces that each test exchanges."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym_suite.alfworld.compiling import compile_game
from agentgym_suite.alfworld.game import CompiledGame
from agentgym_suite.alfworld.game_files import GameFile
from agentgym_suite.alfworld.play import Play

TYPES = "agent place box - object\n thing"
PREDICATES = """
 (at ?a - agent ?p - place) (boxAt ?b - box ?p - place) (thingAt ?t - thing ?p - place)
 (in ?t ?b - box) (held ?t) (busy) (lid ?b - box) (ajar ?b - box) (lit ?t) (marked ?t)
 (kind ?t ?k - object) (fits ?b ?k)
"""
ACTIONS: dict[str, str] = {
    "wait": ":parameters (?a - agent) :effect (marked ?a)",
    "walk": """:parameters (?a - agent ?from - place ?to - place ?b - box)
      :precondition (and (at ?a ?from) (boxAt ?b ?to))
      :effect (and (not (at ?a ?from)) (at ?a ?to) (increase (total-cost) 1))""",
    "grab": """:parameters (?a - agent ?p - place ?t - object ?b - box)
      :precondition (and (at ?a ?p) (boxAt ?b ?p) (in ?t ?b) (not (busy))
        (or (not (lid ?b)) (ajar ?b)))
      :effect (and (not (in ?t ?b)) (held ?t) (busy) (not (thingAt ?t ?p)))""",
    "drop": """:parameters (?a - agent ?p - place ?t - object ?b - box)
      :precondition (and (held ?t) (at ?a ?p) (boxAt ?b ?p) (or (not (lid ?b)) (ajar ?b)))
      :effect (and (in ?t ?b) (thingAt ?t ?p) (not (held ?t)) (not (busy)))""",
    "pull": """:parameters (?a - agent ?p - place ?b - box)
      :precondition (and (lid ?b) (at ?a ?p) (boxAt ?b ?p) (not (ajar ?b)))
      :effect (ajar ?b)""",
    "flip": """:parameters (?t - thing) :precondition (held ?t)
      :effect (and (when (lit ?t) (not (lit ?t))) (when (not (lit ?t)) (lit ?t)))""",
}
TEXTS: dict[str, tuple[str, str]] = {
    "wait": ("wait", "Time goes by."),
    "walk": ("walk to {b}", "At [{b.name | boxat(b:box, to:place)}]. #box#"),
    "grab": ("grab {t} from {b}", "Got {t.name}."),
    "drop": ("drop {t} into {b}", "The {t} is in the {b}. #box#"),
    "pull": ("pull {b}", "#box#"),
    "flip": ("flip {t}", "#light#"),
}
RULES: dict[str, list[dict[str, str]]] = {
    "intro": [{"rhs": "Hello.\n#boxes#\n#task#"}],
    "task": [{"rhs": "Goal: fill the box."}],
    "boxes": [{"rhs": "Boxes: [{b.indefinite + ' ' + b.name | boxat(b:box, p:place)}]."}],
    "box": [
        {
            "condition": "lid(b:box) & ajar(b:box)",
            "rhs": "In it [{o.name | in(o:object, b:box)}].",
        },
        {"condition": "lid(b:box)", "rhs": "Shut."},
        {"rhs": "On it [{o.name | in(o:object, b:box)}]."},
    ],
    "light": [
        {"condition": "lit(t:thing)", "rhs": "lit"},
        {"condition": "not_lit(t:thing)", "rhs": "dark"},
        {"rhs": "unknown"},
    ],
    "list_empty": [{"rhs": "nothing"}],
    "list_separator": [{"rhs": ", "}],
    "list_last_separator": [{"rhs": " and "}],
}
OBJECTS = """me - agent hall_bar_0 yard_bar_1 - place
 chest_bar_a chest_bar_b tray_bar_c - box ball_bar_1 ball_bar_2 cup_bar_1 - thing"""
FACTS = """(at me hall_bar_0)
 (boxAt chest_bar_a yard_bar_1) (boxAt chest_bar_b yard_bar_1) (boxAt tray_bar_c hall_bar_0)
 (lid chest_bar_a) (in ball_bar_1 chest_bar_a)
 (in ball_bar_2 tray_bar_c) (in cup_bar_1 tray_bar_c)"""
GOAL = "(in ball_bar_2 chest_bar_b)"


def domain_text(
    actions: Mapping[str, str] = ACTIONS, types: str = TYPES, predicates: str = PREDICATES
) -> str:
    blocks = "\n".join(f"(:action {name} {body})" for name, body in actions.items())
    return (
        f"(define (domain small) (:requirements :adl) (:types {types})\n"
        f"(:predicates {predicates}) (:functions (total-cost) - number)\n{blocks})"
    )


def grammar_text(
    texts: Mapping[str, tuple[str, str]] = TEXTS,
    rules: Mapping[str, Sequence[Mapping[str, Any]]] = RULES,
) -> str:
    actions = "\n".join(
        f'action {name} {{ template :: "{template}"; feedback :: "{feedback}"; }}'
        for name, (template, feedback) in texts.items()
    )
    return f'grammar :: """{json.dumps(rules)}""";\n{actions}\n'


def problem_text(facts: str = FACTS, goal: str = GOAL, objects: str = OBJECTS) -> str:
    return (
        f"(define (problem p) (:domain small) (:objects {objects})\n"
        f" (:init {facts})\n (:goal {goal}))"
    )


def game_file(**texts: str) -> GameFile:
    """A game file of the small world; ``domain``, ``grammar``, ``problem`` may be exchanged."""
    return GameFile(
        "small/game",
        texts.get("domain", domain_text()),
        texts.get("grammar", grammar_text()),
        texts.get("problem", problem_text()),
        None,
        None,
        "",
    )


def small_game(**texts: str) -> CompiledGame:
    return compile_game(game_file(**texts))


def small_play(*commands: str, **texts: str) -> Play:
    """An episode after some commands, each of which must do something."""
    play = small_game(**texts).start()
    for command in commands:
        assert play.step(command)[1], f"{command!r} did nothing; {play.admissible}"
    return play
