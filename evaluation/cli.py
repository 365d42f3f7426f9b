"""``agentgym-suite evaluate`` and ``report``: agents over suites, from the command line."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, get_args

from rich.console import Console
from rich.text import Text

from agentgym_suite.arguments import key_value, settings, shown
from agentgym_suite.console import console
from agentgym_suite.errors import UsageError
from agentgym_suite.evaluation.agent_options import add_agent_options, agents_of
from agentgym_suite.evaluation.agent_runs import AgentRuns, folder_name, run_agents
from agentgym_suite.evaluation.compare_cli import register_compare
from agentgym_suite.evaluation.leaderboard_cli import register_leaderboard
from agentgym_suite.evaluation.open_suites import OpenSuite, ad_hoc_suite, open_suite
from agentgym_suite.evaluation.printing import print_failures, print_runs, print_union
from agentgym_suite.evaluation.report import report_again
from agentgym_suite.evaluation.runner import cluster
from agentgym_suite.evaluation.scored_runs import find_runs, load_runs
from agentgym_suite.evaluation.settings import AgentSpec, OnProgress, Runner, RunOptions
from agentgym_suite.evaluation.suite_unions import load_union, shipped_unions
from agentgym_suite.evaluation.suites import load_suite
from agentgym_suite.evaluation.terminal import live_bars
from agentgym_suite.evaluation.union_folder import is_union, read_union
from agentgym_suite.evaluation.union_report import report_union
from agentgym_suite.evaluation.union_runs import open_union, run_union
from agentgym_suite.evaluation.verify_cli import register_verify
from agentgym_suite.making import registered_id
from agentgym_suite.own_modules import look_here


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the ``evaluate``, ``compare``, ``report``, ``verify`` and ``leaderboard`` commands."""
    _register_evaluate(commands)
    register_compare(commands)
    register_verify(commands)
    register_leaderboard(commands)
    parser = commands.add_parser("report", help="write the report of finished runs again")
    parser.add_argument(
        "folder", metavar="DIR", help="a run, a folder of nothing but runs, or one of a union"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.set_defaults(run=_report)


def _register_evaluate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "evaluate",
        help="run agents over a suite and rank them",
        description="Run agents over a suite of tasks, with intervals, records and a report. "
        "The same command in the same directory goes on where it was stopped.",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--suite",
        metavar="ID|FILE",
        help="a suite or a union of suites, see `agentgym-suite list --suites`, or its TOML file",
    )
    what.add_argument(
        "--env",
        metavar="ID",
        help="one environment, ad hoc, MODULE:ID for one of your own; not rankable",
    )
    parser.add_argument(
        "--data",
        metavar="ENV=PATH",
        action="append",
        default=[],
        help="official files of an environment or data set; without, its embedded world is played",
    )
    parser.add_argument(
        "--tasks", metavar="ID", nargs="+", default=[], help="only these tasks; not rankable"
    )
    parser.add_argument(
        "--split",
        metavar="NAME",
        help="split for --env, one that `agentgym-suite list --tasks` shows (default: test, else "
        "valid_unseen, else the last one; games that were named one by one are all played)",
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="an argument of the environment for --env, a JSON value or a text, such as "
        "strict=false or goals=synthetic; may be given several times",
    )
    parser.add_argument(
        "--index",
        metavar="ENV=PATH|URL",
        action="append",
        default=[],
        help="the index that an environment of a suite searches, a folder or the address of a "
        "retrieval server, instead of its own; not rankable",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="results folder (default: runs/SUITE-AGENT[+AGENT…])",
    )
    parser.add_argument(
        "--concurrency", metavar="N", type=int, default=4, help="episodes in flight (default: 4)"
    )
    parser.add_argument(
        "--runner",
        choices=get_args(Runner),
        default="local",
        help="where environments run: in this process, or on a Ray cluster (default: local)",
    )
    parser.add_argument(
        "--ray-address",
        metavar="HOST:PORT",
        help="the Ray cluster, or auto for the one of this machine (default: the variable "
        "RAY_ADDRESS, else a Ray that is started here and ends with the command)",
    )
    parser.add_argument(
        "--num-workers",
        metavar="N",
        type=int,
        help="environments on the cluster, each with an episode in flight (default: --concurrency)",
    )
    parser.add_argument("--trials", metavar="N", type=int, help="plays of each task")
    parser.add_argument(
        "--max-retries",
        metavar="N",
        type=int,
        default=2,
        help="further attempts after a failure of environment or network (default: 2)",
    )
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=float,
        default=600.0,
        help="wall-clock bound of one episode (default: 600)",
    )
    parser.add_argument(
        "--episodes",
        metavar="N",
        type=int,
        help="only the first N tasks of each environment; not rankable",
    )
    parser.add_argument(
        "--allow-missing",
        action="store_true",
        help="play what the data hold of the suite; not rankable",
    )
    parser.add_argument(
        "--resume",
        choices=("auto", "never"),
        default="auto",
        help="go on with a run of the same configuration, or refuse to (default: auto)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    add_agent_options(parser)
    parser.set_defaults(run=_evaluate)


def _evaluate(args: argparse.Namespace) -> int:
    _check_numbers(args)
    if args.env is not None:
        look_here(args.env)
        args.env = registered_id(args.env)
    out = None if args.out is None else _folder(args.out, "--out")
    agents = agents_of(args)
    options = _options(args)
    err = console(stderr=True)
    with cluster(options):  # first: a cluster that is not there is known before worlds are built
        with err.status(Text(f"Preparing {args.suite or args.env} …")):
            is_shipped = args.suite in shipped_unions()
            work = _union_work(args, err) if is_shipped else _suite_work(args, err)
        names = "+".join(folder_name(agent.name) for agent in agents)
        folder = Path("runs") / f"{work.name}-{names}" if out is None else out
        with live_bars(err) as on_progress:
            played = work.play(agents, folder, options, on_progress)
    played.show()
    return 0 if played.complete else 1


class _Played(NamedTuple):
    """What was played: whether every episode is there, and what prints it."""

    complete: bool
    show: Callable[[], None]


class _Work(NamedTuple):
    """What ``evaluate`` has opened: its name, and what plays it with agents into a folder."""

    name: str
    play: Callable[[list[AgentSpec], Path, RunOptions, OnProgress], _Played]


def _suite_work(args: argparse.Namespace, err: Console) -> _Work:
    """One suite, or an environment ad hoc."""
    opened = _opened(args)

    def play(
        agents: list[AgentSpec], folder: Path, options: RunOptions, on_progress: OnProgress
    ) -> _Played:
        done = run_agents(opened, agents, folder, options=options, on_progress=on_progress)

        def show() -> None:
            print_runs(done.runs, done.report, as_json=args.json)
            print_failures(done.runs, err)
            if not args.json:
                _print_remarks(done, opened, err)

        return _Played(done.complete, show)

    return _Work(opened.suite.id, play)


def _union_work(args: argparse.Namespace, err: Console) -> _Work:
    """A union of suites."""
    if args.tasks or args.split is not None or args.set or args.index:
        raise UsageError(
            f"--tasks, --split, --set and --index go with one suite; {args.suite} is a union"
        )
    union = load_union(args.suite).part(episodes=args.episodes, trials=args.trials)
    opened = open_union(union, _data(args), allow_missing=args.allow_missing)

    def play(
        agents: list[AgentSpec], folder: Path, options: RunOptions, on_progress: OnProgress
    ) -> _Played:
        done = run_union(opened, agents, folder, options=options, on_progress=on_progress)

        def show() -> None:
            print_union(done.results, opened.absent, done.report, err, as_json=args.json)
            for member in done.members.values():
                print_failures(member.runs, err)

        return _Played(done.complete, show)

    return _Work(union.id, play)


def _data(args: argparse.Namespace) -> dict[str, str]:
    return dict(key_value(text, "--data") for text in args.data)


def _options(args: argparse.Namespace) -> RunOptions:
    for name in ("ray_address", "num_workers"):
        if args.runner != "ray" and getattr(args, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} goes with --runner ray")
    return RunOptions(
        concurrency=args.concurrency,
        episode_timeout_s=args.timeout,
        max_retries=args.max_retries,
        resume=args.resume,
        runner=args.runner,
        ray_address=args.ray_address,
        num_workers=args.num_workers,
    )


def _check_numbers(args: argparse.Namespace) -> None:
    """Refuse what a run would refuse, by the option's name and before anything is opened."""
    least_of = {"trials": 1, "episodes": 1, "concurrency": 1, "num_workers": 1, "max_retries": 0}
    for name, least in least_of.items():
        value = getattr(args, name)
        if value is not None and value < least:
            option = name.replace("_", "-")
            raise UsageError(f"--{option} is {value}; give at least {least}")
    if not 0 < args.timeout < math.inf:
        raise UsageError(f"--timeout is {args.timeout:g}; give seconds above 0")


def _folder(text: str, argument: str) -> Path:
    if not text:  # a variable of the shell that is not set; Path("") would be the current folder
        raise UsageError(f"{argument} is empty; give the path of a folder")
    return Path(text)


def _report(args: argparse.Namespace) -> int:
    folder = _folder(args.folder, "DIR")
    err = console(stderr=True)
    if is_union(folder):
        union = report_union(folder)
        absent = read_union(folder).absent
        print_union(union.results, absent, union.page, err, as_json=args.json)
        for member in union.members.values():
            print_failures(member, err)
        return 0 if union.results.complete else 1
    runs = load_runs(find_runs(folder))
    print_runs(runs, report_again(folder, runs), as_json=args.json)
    print_failures(runs, err)
    return 0 if all(run.results.status == "complete" for run in runs) else 1


def _opened(args: argparse.Namespace) -> OpenSuite:
    data = _data(args)
    if args.suite:
        if args.split is not None or args.set:
            raise UsageError("--split and --set go with --env; a suite has its own")
        suite = load_suite(args.suite).part(
            tasks=args.tasks, episodes=args.episodes, trials=args.trials
        )
        suite = suite.searching(dict(key_value(text, "--index") for text in args.index))
        return open_suite(suite, data, allow_missing=args.allow_missing)
    if args.index:
        raise UsageError(f"--index goes with --suite; for {args.env} write --set index=PATH")
    if args.split == "":  # a variable of the shell that is not set
        raise UsageError("--split is empty; name a split, or leave it out")
    stray = sorted(set(data) - {args.env})
    if stray:
        raise UsageError(f"--data is given for {shown(stray[0])}, but --env is {shown(args.env)}")
    return ad_hoc_suite(
        args.env,
        data=data.get(args.env),
        split=args.split or "",
        tasks=args.tasks,
        trials=args.trials or 1,
        kwargs=settings(args.set),
        episodes=args.episodes,
    )


def _print_remarks(done: AgentRuns, opened: OpenSuite, err: Console) -> None:
    took = ", ".join(f"of {env_id} {seconds:.1f} s" for env_id, seconds in opened.setup_s.items())
    err.print(f"set-up {took}, one-off builds included", soft_wrap=True)
    for reason in opened.suite.departures:
        err.print(f"not rankable: {reason}")
    if not done.complete:
        err.print("incomplete: the same command goes on with what is missing")
