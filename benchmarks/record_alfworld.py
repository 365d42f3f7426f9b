"""Record what TextWorld says in generated ALFWorld games, for tests that need no TextWorld.

    python benchmarks/record_alfworld.py --textworld-python PYTHON --out FILE.jsonl.xz

PYTHON is an interpreter with `textworld` and `alfworld` installed; it runs this same file, of
which it uses the second half only, so that nothing of the engine under test is near. Each line
of FILE is one episode: the game's texts and, for every step, the command, TextWorld's
observation, its admissible commands and whether the game is won. Every game is played three
times: along its walkthrough and three commands further, by chance with some unusable input, and
by someone who does to things whatever can be done to them and looks at what comes of it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import lzma
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KINDS = ("walkthrough", "fuzz", "busy")
# Steps through the cycle of families, rooms and sizes without falling into step with it.
_STRIDE = 5
# Commands that change nothing but the place.
_WORDS_ONLY = ("go to", "examine", "look", "inventory", "help")
# How much a busy player wants to do something; anything else hardly.
_URGES = {
    "slice": 60.0,
    "heat": 25.0,
    "clean": 25.0,
    "cool": 25.0,
    "use": 10.0,
    "open": 8.0,
    "take": 3.0,
    "move": 3.0,
    "put": 3.0,
    "go": 0.3,
}
_TREATING_PLACES = ("to sinkbasin", "to microwave", "to fridge")


def record(args: argparse.Namespace) -> None:
    """Make the games here, have them played there, and write what was said."""
    command = [args.textworld_python, __file__, "--play", "--steps", str(args.steps)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as player:
        if player.stdin is None or player.stdout is None:
            raise RuntimeError("the player has no pipes")
        with lzma.open(args.out, "wt", encoding="utf-8", newline="\n", preset=9) as out:
            for done, game in enumerate(_games(args.games, args.seed), start=1):
                player.stdin.write(json.dumps(game) + "\n")
                player.stdin.flush()
                for _ in KINDS:
                    line = player.stdout.readline()
                    if not line:
                        raise SystemExit(f"{args.textworld_python} stopped at {game['game']}")
                    out.write(line)
                sys.stderr.write(f"\r{done}/{args.games} games")
        player.stdin.close()
    sys.stderr.write(f"\n{args.out}: {Path(args.out).stat().st_size:,} bytes\n")


def _games(count: int, seed: int) -> Iterator[dict[str, Any]]:
    from agentgym_suite.alfworld.generator import WORDINGS
    from agentgym_suite.alfworld.generator.making import SPLITS, GameMaker

    makers = [GameMaker(seed, wording=wording) for wording in WORDINGS]
    for turn in range(count):
        made = makers[turn % len(makers)].game(SPLITS[turn % len(SPLITS)], turn * _STRIDE)
        yield {
            "game": made.folder,
            "seed": seed * 1000 + turn,
            "pddl_domain": made.domain,
            "grammar": made.grammar,
            "pddl_problem": made.problem,
            "walkthrough": list(made.walkthrough),
        }


# --- what TextWorld's interpreter runs


def play(steps: int) -> None:
    """Play the games that come in as JSON lines; one line goes out for each episode."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # the planner prints
    env = _textworld()
    for line in sys.stdin:
        game = json.loads(line)
        env.load({key: game[key] for key in ("pddl_domain", "grammar", "pddl_problem")})
        rng = random.Random(game["seed"])
        walkthrough = game["walkthrough"]
        episodes = (
            _along(env, walkthrough, rng),
            _by_chance(env, walkthrough, steps, rng),
            _busily(env, steps, rng),
        )
        for kind, episode in zip(KINDS, episodes, strict=True):
            answers.write(json.dumps({**game, "kind": kind, "steps": episode}) + "\n")
        answers.flush()


def _textworld() -> Any:
    textworld = importlib.import_module("textworld")
    pddl = importlib.import_module("textworld.envs.pddl")
    alfred = importlib.import_module("alfworld.agents.environment.alfred_tw_env")
    wanted = textworld.EnvInfos(won=True, admissible_commands=True, feedback=True)
    return alfred.AlfredDemangler(pddl.PddlEnv(wanted), shuffle=False)


def _along(env: Any, walkthrough: list[str], rng: random.Random) -> list[dict[str, Any]]:
    steps = [_said(None, env.reset())]
    for command in walkthrough:
        steps.append(_said(command, env.step(command)[0]))
    for _ in range(3):
        command = rng.choice(steps[-1]["admissible"])
        steps.append(_said(command, env.step(command)[0]))
    return steps


def _by_chance(
    env: Any, walkthrough: list[str], count: int, rng: random.Random
) -> list[dict[str, Any]]:
    steps = [_said(None, env.reset())]
    for _ in range(count):
        admissible = steps[-1]["admissible"]
        command = rng.choice(admissible)
        roll = rng.random()
        helpful = [known for known in walkthrough if known in admissible]
        deeds = [known for known in admissible if not known.startswith(_WORDS_ONLY)]
        told = [known for known in admissible if known.startswith("examine")]
        if roll < 0.12:
            command = _awkward(command, rng)
        elif roll < 0.3 and helpful:
            command = rng.choice(helpful)
        elif roll < 0.7 and deeds:
            command = rng.choice(deeds)
        elif roll < 0.8 and told:
            command = rng.choice(told)
        steps.append(_said(command, env.step(command)[0]))
    return steps


def _busily(env: Any, count: int, rng: random.Random) -> list[dict[str, Any]]:
    steps = [_said(None, env.reset())]
    receptacles = set(re.findall(r"a (\w+ \d+)", steps[0]["obs"]))
    done: list[str] = [""]
    for _ in range(count):
        admissible = steps[-1]["admissible"]
        urges = [_urge(known, done, receptacles) for known in admissible]
        command = rng.choices(admissible, urges)[0]
        done.append(command)
        steps.append(_said(command, env.step(command)[0]))
    return steps


def _urge(command: str, done: list[str], receptacles: set[str]) -> float:
    """How much a busy player wants to say a command after those said already."""
    last = done[-1]
    verb, _, rest = command.partition(" ")
    source = last.rsplit(" from ", 1)[-1]
    cut = tuple(known[6:].split(" with ")[0] for known in done if known.startswith("slice "))
    urge = _URGES.get(verb, 0.1)
    inspects = verb == "examine" and rest not in receptacles  # so it is held
    if inspects or (verb == "look" and last.startswith(("move", "put"))):
        urge = 12.0
    elif verb == "go" and rest.startswith(_TREATING_PLACES):
        urge = 3.0
    elif verb == "take" and rest.startswith(cut or ("knife", "butterknife")):
        urge = 40.0  # a knife first, then what was sliced with it
    elif verb in ("move", "put") and ("knife" in rest and not cut or rest.endswith(source)):
        urge = 0.2  # not a knife unused, nor back to where it was just taken from
    return urge / 4 if command in done else urge


def _awkward(command: str, rng: random.Random) -> str:
    return rng.choice(
        (
            command.upper(),
            command.replace(" ", "  "),
            f"  {command}\u00a0",
            f"{command}.",
            command.replace("to", "in/on"),
            command.rsplit(" ", 1)[0],
            f"{command.split()[0]} elephant 1",
            "examine",
            "help",
            "",
            "go to cabinet 99",
        )
    )


def _said(command: str | None, state: Any) -> dict[str, Any]:
    return {
        "action": command,
        "obs": state.feedback,
        "admissible": list(state["admissible_commands"]),
        "won": bool(state["won"]),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--textworld-python", metavar="PYTHON", help="one that has TextWorld")
    parser.add_argument("--out", metavar="FILE", help="where the episodes go (.jsonl.xz)")
    parser.add_argument("--games", type=int, default=24, metavar="N")
    parser.add_argument("--seed", type=int, default=7, metavar="S")
    parser.add_argument(
        "--steps", type=int, default=30, metavar="N", help="of an episode without a plan"
    )
    parser.add_argument("--play", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.play:
        play(arguments.steps)
    elif not arguments.textworld_python or not arguments.out:
        parser.error("give --textworld-python and --out")
    else:
        record(arguments)
