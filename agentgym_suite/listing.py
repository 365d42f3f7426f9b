"""``agentgym-suite list``: the environments, their tasks, and the suites."""

from __future__ import annotations

import argparse
import contextlib
import json
from typing import Any

import gymnasium as gym
from rich.table import Table

from agentgym_suite.console import console
from agentgym_suite.errors import AgentGymSuiteError, UsageError
from agentgym_suite.game import game_of
from agentgym_suite.making import make_environment
from agentgym_suite.own_modules import look_here
from agentgym_suite.registry import ENVIRONMENTS, Environment


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the ``list`` command."""
    parser = commands.add_parser("list", help="the environments and their embedded worlds")
    parser.add_argument(
        "--tasks",
        action="store_true",
        help="open each embedded world and count its tasks; with --env list their ids",
    )
    parser.add_argument(
        "--env", metavar="ID", help="list the task ids of this environment, one a line"
    )
    parser.add_argument(
        "--split", metavar="NAME", help="only those of this split (default: all, split by split)"
    )
    parser.add_argument(
        "--data",
        metavar="PATH",
        help="official files, or the name of a data set (default: the embedded world)",
    )
    parser.add_argument(
        "--suites", action="store_true", help="the suites to evaluate, and whose data are here"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if args.suites:
        return _list_suites(as_json=args.json)
    if args.env is not None:
        return _list_tasks(args)
    if args.split is not None or args.data is not None:
        option = "--split" if args.split is not None else "--data"
        raise UsageError(f"{option} goes with --env ID, whose tasks are listed; give both")
    rows = [_row(environment, args.tasks) for environment in ENVIRONMENTS]
    out = console()
    if args.json:
        out.print_json(json.dumps(rows))
        return 0
    table = Table(title="Environments")
    for name in ("id", "horizon", "what an agent does"):
        table.add_column(name)
    if args.tasks:
        table.add_column("tasks by split")
    for row in rows:
        cells = [row["id"], str(row["horizon"]), row["summary"]]
        if args.tasks:
            cells.append(row.get("problem") or _splits_text(row["splits"]))
        table.add_row(*cells)
    out.print(table)
    out.print('Make one: import gymnasium as gym, agentgym_suite; gym.make("WebShop-v0")')
    return 0


def _list_tasks(args: argparse.Namespace) -> int:
    """Task ids as a suite's ``task_list`` takes them: splits are comments there."""
    arguments = {} if args.data is None else {"data": args.data}
    look_here(args.env)
    with contextlib.closing(make_environment(args.env, arguments)) as env:
        tasks = game_of(env).tasks
    names = list(tasks.splits) if args.split is None else [args.split]
    splits = {name: [tasks.ids[place] for place in tasks.split(name)] for name in names}
    out = console(highlight=False)
    if args.json:
        out.out(json.dumps({"id": args.env, "splits": splits}))
        return 0
    for name, ids in splits.items():
        if args.split is None:
            out.out(f"# {name}")
        for task_id in ids:
            out.out(task_id)
    return 0


def _list_suites(*, as_json: bool) -> int:
    from agentgym_suite.evaluation.suite_listing import absence_here, suite_rows

    rows = suite_rows()
    out = console()
    if as_json:
        out.print_json(json.dumps(rows))
        return 0
    table = Table(title="Suites")
    for name in ("id", "episodes", "primary", "what is played", "data"):
        table.add_column(name, overflow="fold")
    for row in rows:
        what = ", ".join(row["members"]) or row["title"]
        here = "here" if row["here"] else "absent"
        table.add_row(row["id"], f"{row['episodes']:,}", row["primary"], what, here)
    out.print(table)
    if absent := absence_here():
        out.print(absent, soft_wrap=True)
    return 0


def _row(environment: Environment, count_tasks: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": environment.id,
        "horizon": environment.max_episode_steps,
        "summary": environment.summary,
    }
    if count_tasks:
        try:
            with contextlib.closing(gym.make(environment.id)) as env:
                splits = game_of(env).tasks.splits
        except AgentGymSuiteError as error:
            row["problem"] = str(error)
        else:
            row["splits"] = {name: len(members) for name, members in splits.items()}
    return row


def _splits_text(splits: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in splits.items())
