"""``agentgym-suite play``: a person plays one episode at a terminal."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import re
from typing import Any

import gymnasium as gym
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from agentgym_suite.arguments import settings, shown
from agentgym_suite.errors import UsageError
from agentgym_suite.game import Policy, game_of
from agentgym_suite.making import make_environment, registered_id
from agentgym_suite.own_modules import look_here
from agentgym_suite.registry import ENV_IDS, ENVIRONMENTS

_LISTED = 60
_LEAVE = ("", "q", "quit", "exit")
_HELP = (
    "Type a number of the list, an action, or words to search for. "
    "? lists the actions again, ! lets the oracle play on, an empty line leaves."
)
_PLACEHOLDER = re.compile(r"(\w+)\[<\w+>\]")


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the ``play`` command."""
    parser = commands.add_parser("play", help="play an environment yourself at the terminal")
    parser.add_argument(
        "env",
        nargs="?",
        default=ENV_IDS[0],
        help=f"one of {', '.join(ENV_IDS)}, or MODULE:ID for one of your own",
    )
    parser.add_argument("--task", help="task id or number; a random one when not given")
    parser.add_argument("--split", help="the split to draw from (see list --tasks)")
    parser.add_argument("--seed", type=int, help="seed of the draw")
    parser.add_argument("--data", help="official data or a built store; else the embedded world")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an argument of the environment, such as strict=false",
    )
    parser.add_argument(
        "--agent", choices=("oracle", "scripted"), help="watch a policy instead of playing"
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    with contextlib.suppress(ImportError):  # arrows and history at the prompt, where there are
        importlib.import_module("readline")
    arguments = settings(args.set) | _given(data=args.data)
    with contextlib.closing(make_environment(_env_id(args.env), arguments)) as env:
        observation, info = env.reset(
            seed=args.seed, options=_given(task_id=args.task, split=args.split)
        )
        policy = game_of(env).policy(args.agent) if args.agent else None
        return Terminal(env, Console(highlight=False)).play(observation, info, policy)


def _given(**options: str | None) -> dict[str, Any]:
    """The options of the command line that were given; an empty one was."""
    return {name: value for name, value in options.items() if value is not None}


def _env_id(name: str) -> str:
    for environment in ENVIRONMENTS:
        if name.lower() in (environment.id.lower(), environment.name):
            return environment.id
    if ":" in name:
        look_here(name)
        return registered_id(name)
    raise UsageError(
        f"environment {shown(name)} does not exist; use {', '.join(ENV_IDS)}, or MODULE:ID for one "
        "of your own"
    )


class Terminal:
    """One episode at a terminal: the pages go out, a person's lines come in."""

    def __init__(self, env: gym.Env[str, str], console: Console) -> None:
        self._env = env
        self._console = console

    def play(self, observation: str, info: dict[str, Any], policy: Policy | None) -> int:
        """Play to the end, or until the person leaves.

        Args:
            observation: what the reset returned.
            info: the same.
            policy: plays instead of the person, if given.
        """
        self._console.print(f"[bold]{escape(info['task_id'])}[/] ({info['split']}). {_HELP}")
        self._show(observation, info)
        while True:
            action = self._ask(info) if policy is None else policy(observation, info)
            if action is None:
                return 0
            if action == "!":
                policy = game_of(self._env).policy("oracle")
                continue
            if policy is not None:
                self._console.print(f"[bold cyan]> {escape(action)}[/]")
            observation, _, terminated, truncated, info = self._env.step(action)
            self._show(observation, info, listing=policy is None)
            if terminated or truncated:
                return self._end(info, truncated)

    def _ask(self, info: dict[str, Any]) -> str | None:
        """The next action, "!" for the oracle, None to leave; typing errors cost no step."""
        while True:
            try:
                line = input("> ").strip()
            except (EOFError, RuntimeError):  # no more input, or none at all
                return None
            if line in _LEAVE:
                return None
            if line == "!":
                return line
            if line in ("?", "help"):
                self._list(info)
                continue
            action = read_action(line, info["admissible_actions"])
            if action is not None:
                return action
            self._console.print(f"[yellow]{escape(line)} is no action here.[/] {_HELP}")

    def _show(self, observation: str, info: dict[str, Any], *, listing: bool = True) -> None:
        left = f", {info['steps_left']} left" if info["steps_left"] >= 0 else ""
        self._console.rule(f"step {info['step']}{left}")
        self._console.print(escape(observation.replace(" [SEP] ", "\n")))
        chosen = info.get("options", "{}")
        if chosen != "{}":
            self._console.print(f"[green]chosen: {escape(chosen)}[/]")
        if info["action_error"]:
            self._console.print(f"[yellow]{escape(info['action_error'])}[/]")
        if listing and info["admissible_actions"]:
            self._list(info)

    def _list(self, info: dict[str, Any]) -> None:
        actions = info["admissible_actions"]
        for number, action in enumerate(actions[:_LISTED], 1):
            self._console.print(f"[bold cyan]{number:3}[/] {escape(action)}")
        if len(actions) > _LISTED:
            self._console.print(f"    … and {len(actions) - _LISTED} more")

    def _end(self, info: dict[str, Any], truncated: bool) -> int:
        verdict = "success" if info["success"] else "out of steps" if truncated else "failure"
        title = f"{verdict}, score {info['score']:.3f}"
        table = Table("what counted", "value", title=title)
        for name, value in info["metrics"].items():
            if value:
                table.add_row(name, f"{value:g}")
        self._console.print(table if table.row_count else title)
        return 0


def read_action(line: str, admissible: tuple[str, ...]) -> str | None:
    """The action a person means: a number of the list, an action, or words to search for.

    Args:
        line: what was typed, stripped and not empty.
        admissible: the legal actions; ``name[<word>]`` stands for any argument.

    Returns:
        The action; None for a line that is none, which then costs no step.
    """
    if not admissible or line in admissible or re.fullmatch(r"\w+\[.+\]", line):
        return line
    if line.isascii() and line.isdigit():
        numbers = [str(number) for number in range(1, len(admissible) + 1)]
        line = admissible[numbers.index(line)] if line in numbers else ""
        return line if line and not _PLACEHOLDER.fullmatch(line) else None
    open_ended = next((m[1] for a in admissible if (m := _PLACEHOLDER.fullmatch(a))), None)
    named = [a for a in admissible if a.lower().endswith(f"[{line.lower()}]")]
    if len(named) == 1:
        return named[0]
    return f"{open_ended}[{line}]" if open_ended and line.isprintable() else None
