"""The process in which TextWorld plays: one game at a time, asked by JSON lines.

TextWorld swaps ``sys.stdout``, overwrites the process's arguments, shares parser state between its
objects and never unloads the library that each one loads; so it gets a process of its own.
This file imports nothing of the suite and runs under any interpreter that has textworld and
alfworld. One request a line, ``{"load": path}``, ``{"reset": true}`` or ``{"step": command}``; one
answer a line, ``{"observation", "admissible", "won"}`` or ``{"error", "missing"}``.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any


def serve() -> None:
    """Answer requests until the input ends."""
    # whatever the libraries print must not get between the answers
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    env: Any = None
    for line in sys.stdin:
        try:
            if env is None:
                env = _make()
            answer = _answer(env, json.loads(line))
        except Exception as error:
            missing = isinstance(error, ImportError)
            answer = {"error": f"{type(error).__name__}: {error}", "missing": missing}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _make() -> Any:
    textworld = importlib.import_module("textworld")
    pddl = importlib.import_module("textworld.envs.pddl")
    alfred = importlib.import_module("alfworld.agents.environment.alfred_tw_env")
    wanted = textworld.EnvInfos(won=True, admissible_commands=True)
    return alfred.AlfredDemangler(pddl.PddlEnv(wanted), shuffle=False)


def _answer(env: Any, request: dict[str, Any]) -> dict[str, Any]:
    if "load" in request:
        env.load(request["load"])
        return {}
    state = env.step(request["step"])[0] if "step" in request else env.reset()
    return {
        "observation": state["feedback"],
        "admissible": list(state["admissible_commands"]),
        "won": bool(state["won"]),
    }


if __name__ == "__main__":
    serve()
