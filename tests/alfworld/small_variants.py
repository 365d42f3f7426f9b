"""Variants of the small game that use what the official games do not, and TextWorld's answers.

    python -m tests.alfworld.small_variants --python PATH   # records them anew

PATH is an interpreter that has TextWorld 1.7.0 and alfworld 0.4.2. The recording holds, for each
variant, what TextWorld said to random commands; the games' texts come from this file.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from agentgym_suite.alfworld import textworld_worker
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
)

RECORDING = Path(__file__).parent / "fixtures" / "textworld_on_small_games.jsonl.xz"
STACKED = FACTS + " (in chest_bar_b tray_bar_c) (in chest_bar_a tray_bar_c)"
LISTS = "[{o.name + ' in ' + c.name | in(o:object, c:box)}] {o.name | held(o:object)}"
SWAP = """:parameters (?a - agent ?t - thing ?u - thing)
 :precondition (and (held ?t) (not (= ?t ?u)))
 :effect (and (not (held ?t)) (held ?u) (when (exists (?b - box) (in ?u ?b)) (lit ?u)))"""
EITHER = """:parameters (?t - thing ?b - box)
 :precondition (or (and (held ?t) (or (lid ?b) (lit ?t)))
   (exists (?p - place ?a - agent) (and (at ?a ?p) (boxAt ?b ?p) (in ?t ?b))))
 :effect (marked ?t)"""
CLEAR = ":parameters (?t - thing) :precondition (not (lit ?t)) :effect (not (marked ?t))"
NOTE = ":parameters (?x - object) :precondition (held ?x) :effect (marked ?x)"
NESTED_TYPES = "agent place box - object\n thing - object cup ball - thing glass mug - cup"
NESTED_OBJECTS = OBJECTS.replace(
    "ball_bar_1 ball_bar_2 cup_bar_1 - thing",
    "ball_bar_1 ball_bar_2 - ball cup_bar_1 cup_bar_2 - cup mug_bar_1 mug_bar_0 - mug"
    " glass_bar_1 - glass thing_bar_1 - thing",
)
NESTED_FACTS = FACTS + " ".join(
    f" (in {id_} tray_bar_c) (kind {id_} {kind}) (kind {kind} {id_})"
    for id_, kind in (
        ("mug_bar_1", "ball_bar_1"),
        ("mug_bar_0", "chest_bar_a"),
        ("glass_bar_1", "mug_bar_0"),
        ("thing_bar_1", "glass_bar_1"),
        ("cup_bar_2", "thing_bar_1"),
    )
)


def _with(name: str, body: str, texts: tuple[str, str], **rules: Any) -> dict[str, str]:
    return {
        "domain": domain_text({**ACTIONS, name: body}),
        "grammar": grammar_text({**TEXTS, name: texts}, {**RULES, **rules}),
    }


def _telling(text: str, **rules: Any) -> dict[str, str]:
    return {"grammar": grammar_text({**TEXTS, "wait": ("wait", text)}, {**RULES, **rules})}


VARIANTS: dict[str, dict[str, str]] = {
    "as it is": {},
    "boxes stand in boxes": {"problem": problem_text(STACKED)},
    "lists over subtypes": {**_telling(LISTS), "problem": problem_text(STACKED)},
    "types below types": {
        **_telling(
            "[{o.id | in(o:object, b:box)}] [{x.id + ' ' + y.id | kind(x:object, y:object)}]"
            " [{x.id + ' ' + y.id | kind(x:thing, y:cup)}] [{t.type + t.id | in(t:cup, b:box)}]"
            " [{x.id | in(x:object, b:box) & in(x:object, b:box)}]"
        ),
        "domain": domain_text(types=NESTED_TYPES),
        "problem": problem_text(NESTED_FACTS, objects=NESTED_OBJECTS),
    },
    "nested queries": _telling(
        "[{t.name + '@' + p.name | at(a:agent, p:place) & boxat(b:box, p:place)"
        " & not_in(t:thing, b:box)}]"
        " [{t.name + '@' + p.name | at(a:agent, p:place) & boxat(b:box, p:place)"
        " & in(t:object, b:box)}]"
    ),
    "explicit negatives": _telling(
        "[{t.name + ' was in ' + b.name | not_in(t:thing, b:box)}] {t.name | !held(t:thing)}"
    ),
    "negatives and facts": _telling(
        "[{t.name | !in(t:thing, b:box) & in(t:thing, c:box)}] {x.name | not_nothing(x:thing)}"
    ),
    "a command that depends on the state": {
        "grammar": grammar_text(
            {**TEXTS, "flip": ("flip {t} [{b.name | in(o:thing, b:box)}]", "#light#")}
        )
    },
    "deletes of what can never be": {
        **_with(
            "clear",
            CLEAR,
            ("clear {t}", "[{t.name | not_marked(t:thing)}] {t.name | marked(t:thing)}"),
        ),
        "problem": problem_text(FACTS + " (marked ball_bar_1)"),
    },
    "an effect under exists": _with(
        "swap",
        SWAP,
        ("swap {t} {u}", "#ray# {u.name or t.name}"),
        ray=[
            {"condition": "lit(u:thing)", "rhs": "lit"},
            {"condition": "!lit(u:thing)", "rhs": "dark"},
            {"rhs": "?"},
        ],
    ),
    "or over exists": {
        **_with("either", EITHER, ("either {t} {b}", "[{x.name | marked(x:object)}]")),
        "problem": problem_text(
            goal="(or (marked ball_bar_1) (exists (?t - thing) (and (lit ?t) (held ?t))))"
        ),
    },
    "a parameter wider than its object": {
        **_with(
            "note",
            NOTE,
            (
                "note {x}",
                "[{y.name | marked(y:object)}] {x.name | marked(x:object)} {z.name"
                " | held(z:object)}",
            ),
        ),
        "problem": problem_text(STACKED),
    },
    "two actions with one command": {
        "grammar": grammar_text(
            {**TEXTS, "drop": ("drop {t} into {b}", "down"), "pull": ("walk to {b}", "pulled")}
        ),
    },
    "separators and cuts": {
        "grammar": grammar_text(
            rules={
                **RULES,
                "list_last_separator": [{"rhs": " plus "}],
                "list_empty": [{"rhs": "// gone\n  none; dropped"}],
                "task": [{"rhs": "\n\t Goal: a b; c <d>"}],
            }
        ),
    },
    "won at reset": {"problem": problem_text(goal="(in ball_bar_2 tray_bar_c)")},
    "a box on the start": {"problem": problem_text(FACTS.replace("yard_bar_1", "hall_bar_0"))},
    "names with basin and without bar": {
        "problem": problem_text(
            FACTS + " (in sink_bar_3_bar_sinkbasin tray_bar_c) (in plain tray_bar_c)",
            objects=f"{OBJECTS} sink_bar_3_bar_sinkbasin plain - thing sink_bar_2 - thing",
        )
    },
    "undeclared types and unused facts": {
        "domain": domain_text(
            {**ACTIONS, "grab": ACTIONS["grab"].replace("?t - object", "?t - thing,")}
        ),
        "problem": problem_text(
            FACTS + " (strange cup_bar_1) (in ball_bar_1 chest_bar_a)", goal="(marked me)"
        ),
    },
}


def main() -> None:
    """Record every variant."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    with subprocess.Popen(
        [options.python, "-P", str(Path(textworld_worker.__file__))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        episodes = [_record(process, name, options.steps) for name in VARIANTS]
    with lzma.open(RECORDING, "wt", encoding="utf-8", preset=9) as out:
        out.writelines(json.dumps(episode) + "\n" for episode in episodes)


def _record(process: subprocess.Popen[str], variant: str, steps: int) -> dict[str, Any]:
    def ask(**request: Any) -> dict[str, Any]:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        answer: dict[str, Any] = json.loads(process.stdout.readline())
        if "error" in answer:
            raise SystemExit(f"{variant}: {answer['error']}")
        return answer

    game = game_file(**VARIANTS[variant])
    with tempfile.NamedTemporaryFile("w", suffix=".tw-pddl") as file:
        json.dump(
            {
                "pddl_domain": game.domain,
                "grammar": game.grammar,
                "pddl_problem": game.problem,
                "walkthrough": ["none"],
            },
            file,
        )
        file.flush()
        ask(load=file.name)
    state = ask(reset=True)
    told = [{"action": None, **state}]
    draw = random.Random(variant)
    for _ in range(steps):
        action = draw.choice(state["admissible"]) if draw.random() < 0.95 else "hop"
        state = ask(step=action)
        told.append({"action": action, **state})
    return {"variant": variant, "steps": told}


if __name__ == "__main__":
    main()
