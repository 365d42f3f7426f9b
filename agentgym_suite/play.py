"""``agentgym-suite play``: a person plays one episode at a terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import gymnasium as gym
from rich.console import Console
from rich.markup import escape

from agentgym_suite.errors import UsageError
from agentgym_suite.game import game_of
from agentgym_suite.registry import ENV_IDS, ENVIRONMENTS

_HELP = "a number or an action; ? lists the actions, ! lets the oracle play on, empty line leaves"
_SHOWN_ACTIONS = 60


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the ``play`` command."""
    parser = commands.add_parser("play", help="play an environment yourself at the terminal")
    parser.add_argument("env", nargs="?", default=ENV_IDS[0], help=f"one of {', '.join(ENV_IDS)}")
    parser.add_argument("--task", help="task id or number; a random one when not given")
    parser.add_argument("--split", help="the split to draw from")
    parser.add_argument("--seed", type=int, help="seed of the draw")
    parser.add_argument(
        "--data", help="official data or a built store instead of the embedded world"
    )
    parser.add_argument(
        "--agent", choices=("oracle", "scripted"), help="watch a policy instead of playing"
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    env = gym.make(_env_id(args.env), **({"data": args.data} if args.data else {}))
    console = Console(highlight=False)
    try:
        return _play(env, args, console, sys.stdin.readline)
    finally:
        env.close()


def _env_id(name: str) -> str:
    for environment in ENVIRONMENTS:
        if name.lower() in (environment.id.lower(), environment.name):
            return environment.id
    raise UsageError(f"environment {name!r} does not exist; use {', '.join(ENV_IDS)}")


def _play(
    env: gym.Env[str, str], args: argparse.Namespace, console: Console, ask: Callable[[], str]
) -> int:
    game = game_of(env)
    policy = game.policy(args.agent) if args.agent else None
    options = {"task_id": args.task, "split": args.split}
    observation, info = env.reset(
        seed=args.seed, options={key: value for key, value in options.items() if value}
    )
    console.print(f"[bold]{info['task_id']}[/] ({info['split']}). Type {_HELP}.")
    while True:
        _show(console, observation, info)
        if policy is None:
            console.print("[bold cyan]> [/]", end="")
            line = ask()
            answer = line.strip()
            if not answer:
                return 0
            if answer == "?":
                _list_actions(console, info)
                continue
            if answer == "!":
                policy = game.policy("oracle")
                continue
            action = _chosen(answer, info)
        else:
            action = policy(observation, info)
            console.print(f"[bold cyan]> {escape(action)}[/]")
        observation, reward, terminated, truncated, info = env.step(action)
        if info["action_error"]:
            console.print(f"[yellow]{escape(info['action_error'])}[/]")
        if terminated or truncated:
            _show(console, observation, info)
            verdict = "success" if info["success"] else "out of steps" if truncated else "failure"
            console.print(f"[bold]{verdict}[/], score {info['score']:.3f}, reward {reward:g}")
            return 0


def _show(console: Console, observation: str, info: dict[str, Any]) -> None:
    left = f", {info['steps_left']} left" if info["steps_left"] >= 0 else ""
    console.rule(f"step {info['step']}{left}")
    console.print(escape(observation.replace(" [SEP] ", "\n")))


def _list_actions(console: Console, info: dict[str, Any]) -> None:
    actions = info["admissible_actions"]
    for i, action in enumerate(actions[:_SHOWN_ACTIONS], 1):
        console.print(f"{i:3} {escape(action)}")
    if len(actions) > _SHOWN_ACTIONS:
        console.print(f"… and {len(actions) - _SHOWN_ACTIONS} more")


def _chosen(answer: str, info: dict[str, Any]) -> str:
    actions: tuple[str, ...] = info["admissible_actions"]
    if answer in (numbers := [str(i) for i in range(1, len(actions) + 1)]):
        return actions[numbers.index(answer)]
    return answer
