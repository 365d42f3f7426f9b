"""``agentgym-suite evaluate`` and ``report``: agents over suites, from the command line."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table

from agentgym_suite.agents import AGENTS
from agentgym_suite.errors import UsageError
from agentgym_suite.evaluation.contest import Contest, run_contest
from agentgym_suite.evaluation.report import ScoredRun, find_runs, load_runs, write_report
from agentgym_suite.evaluation.run_directory import RESULTS, write_derived
from agentgym_suite.evaluation.scoring import results_bytes
from agentgym_suite.evaluation.settings import OnStanding, RunOptions, Standing, named_agent
from agentgym_suite.evaluation.suites import load_suite, shipped_suites
from agentgym_suite.evaluation.tables import env_tables, number, percent, span
from agentgym_suite.evaluation.worlds import OpenSuite, ad_hoc_suite, open_suite


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the ``evaluate`` and ``report`` commands."""
    _register_evaluate(commands)
    parser = commands.add_parser("report", help="write the report of finished runs again")
    parser.add_argument("folder", metavar="DIR", type=Path, help="a run, or a folder of runs")
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
    suites = ", ".join(shipped_suites())
    what.add_argument("--suite", metavar="ID|FILE", help=f"a suite ({suites}) or its TOML file")
    what.add_argument("--env", metavar="ID", help="one environment, ad hoc; not rankable")
    parser.add_argument(
        "--data",
        metavar="ENV=PATH",
        action="append",
        default=[],
        help="official files of an environment; without, its embedded world is played",
    )
    parser.add_argument(
        "--tasks", metavar="ID", nargs="+", default=[], help="only these tasks; not rankable"
    )
    parser.add_argument("--split", default="", help="split for --env (default: test)")
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="an argument of the environment for --env, such as goals=synthetic",
    )
    parser.add_argument(
        "--agent",
        metavar="A[,B…]",
        default="random,oracle",
        help=f"agents, of {', '.join(AGENTS)} (default: random,oracle)",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        help="results folder (default: runs/SUITE-AGENT[+AGENT…])",
    )
    parser.add_argument(
        "--concurrency", metavar="N", type=int, default=4, help="episodes in flight (default: 4)"
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
        "--episodes", metavar="N", type=int, help="only the first N tasks; not rankable"
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
    parser.set_defaults(run=_evaluate)


def _evaluate(args: argparse.Namespace) -> int:
    agents = [named_agent(name.strip()) for name in args.agent.split(",") if name.strip()]
    for option in ("trials", "episodes"):
        value = getattr(args, option)
        if value is not None and value < 1:
            raise UsageError(f"--{option} is {value}; give at least 1")
    err = Console(stderr=True)
    with err.status(f"Preparing {args.suite or args.env} …"):
        opened = _opened(args)
    names = "+".join(agent.name for agent in agents)
    out = args.out or Path("runs") / f"{opened.suite.id}-{names}"
    options = RunOptions(args.concurrency, args.timeout, args.max_retries, args.resume)
    with _bars(err) as on_standing:
        contest = run_contest(opened, agents, out, options=options, on_standing=on_standing)
    _print_runs(contest.runs, contest.report, as_json=args.json)
    if not args.json:
        _print_remarks(contest, opened, err)
    return 0 if contest.complete else 1


def _report(args: argparse.Namespace) -> int:
    runs = load_runs(find_runs(args.folder))
    for run in runs:
        write_derived(run.folder / RESULTS, results_bytes(run.results))
    page = write_report(args.folder, runs)
    _print_runs(runs, page, as_json=args.json)
    return 0 if all(run.results.status == "complete" for run in runs) else 1


def _opened(args: argparse.Namespace) -> OpenSuite:
    data = dict(_pair(text, "--data") for text in args.data)
    if args.suite:
        if args.split or args.set:
            raise UsageError("--split and --set go with --env; a suite has its own")
        suite = load_suite(args.suite).part(
            tasks=args.tasks, episodes=args.episodes, trials=args.trials
        )
        return open_suite(suite, data, allow_missing=args.allow_missing)
    stray = sorted(set(data) - {args.env})
    if stray:
        raise UsageError(f"--data is given for {stray[0]!r}, but --env is {args.env!r}")
    return ad_hoc_suite(
        args.env,
        data=data.get(args.env),
        split=args.split,
        tasks=args.tasks,
        trials=args.trials or 1,
        kwargs={key: _value(text) for key, text in (_pair(pair, "--set") for pair in args.set)},
        episodes=args.episodes,
    )


def _pair(text: str, option: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise UsageError(f"{option} is {text!r}; write NAME=VALUE")
    return key, value


def _value(text: str) -> Any:
    """A JSON value where the text is one, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _print_runs(runs: Sequence[ScoredRun], page: Path, *, as_json: bool) -> None:
    if as_json:
        rows = [{"folder": str(run.folder), "results": run.results.as_dict()} for run in runs]
        print(json.dumps({"runs": rows, "report": str(page)}, sort_keys=True, ensure_ascii=False))
        return
    console = Console()
    walls = {run.agent: run.header["wall_s"] for run in runs}
    suite = runs[0].results.suite
    environments = env_tables([run.results for run in runs])
    methods = {row.results.success.method for env in environments for row in env.rows}
    interval = "Wilson 95 %" if methods == {"wilson"} else "95 %"
    table = Table(
        title=f"{suite.title or suite.id} (suite {suite.id}, version {suite.version})",
        box=SIMPLE_HEAD,
        padding=(0, 1),
        collapse_padding=True,
    )
    for name in ("agent", "environment"):
        table.add_column(name, overflow="fold")
    for name in ("tasks", "score", "success", interval, "steps", "time"):
        table.add_column(name, justify="right", no_wrap=True)
    for env in environments:
        for row in env.rows:
            results = row.results
            table.add_row(
                row.agent,
                env.env_id,
                str(env.n_tasks),
                percent(results.score.estimate),
                f"{percent(results.success.estimate)} ({results.successes}/{results.planned})",
                span(row.success_bounds or results.success),
                number(row.steps, 1),
                f"{walls[row.agent]:.1f} s",
            )
        table.add_section()
    console.print(table)
    for run in runs:
        if run.results.status == "incomplete":
            console.print(
                f"{run.agent}: incomplete, {run.results.finished} of {run.results.planned} "
                "episodes; its interval shows the bounds, missing ones as failures and as successes"
            )
    console.print(f"report: {page}", soft_wrap=True)


def _print_remarks(contest: Contest, opened: OpenSuite, err: Console) -> None:
    for env_id, seconds in opened.setup_s.items():
        err.print(f"set-up of {env_id}, one-off builds included: {seconds:.1f} s")
    for reason in opened.suite.departures:
        err.print(f"not rankable: {reason}")
    if not contest.complete:
        err.print("incomplete: the same command goes on with what is missing")


@contextmanager
def _bars(err: Console) -> Iterator[OnStanding]:
    """A bar for each agent, with the live score and the time left."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[standing]}"),
    )
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=err) as bars:

        def draw(standing: Standing) -> None:
            name = standing.agent
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=standing.planned, standing="")
            text = _standing_text(standing)
            bars.update(
                tasks[name],
                completed=standing.done,
                description=f"{name} · {standing.env_id}",
                standing=text,
            )

        yield draw


def _standing_text(standing: Standing) -> str:
    if standing.score is None or standing.left_s is None:
        return ""
    parts = [
        f"score {100 * standing.score:.1f}",
        f"success {standing.successes}/{standing.played}",
    ]
    if standing.lost:
        parts.append(f"lost {standing.lost}")
    minutes, seconds = divmod(round(standing.left_s), 60)
    parts.append(f"{minutes}:{seconds:02d} left")
    return ", ".join(parts)
