"""``agentgym-suite leaderboard``: verified runs in their order, and whether a run would be."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from agentgym_suite.console import console
from agentgym_suite.errors import UsageError
from agentgym_suite.evaluation.admission import Candidate, candidate
from agentgym_suite.evaluation.leaderboard import Board, Leaderboard, Row, build_boards
from agentgym_suite.evaluation.leaderboard_files import leaderboard_values, write_leaderboard
from agentgym_suite.evaluation.reference_rows import BENCHMARKS, reference_rows
from agentgym_suite.evaluation.scored_runs import find_runs
from agentgym_suite.evaluation.tables import percent, span
from agentgym_suite.spaces import without_surrogates


def register_leaderboard(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the ``leaderboard`` command with ``build`` and ``check``."""
    parser = commands.add_parser(
        "leaderboard",
        help="rank verified runs, or say what keeps a run from it",
        description="A row is ranked when its run is complete, verified by a replay, played on an "
        "official suite as published, and declared in declaration.toml.",
    )
    parts = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    build = parts.add_parser("build", help="write leaderboard.json, .md and .html")
    build.add_argument(
        "runs", metavar="RUN", nargs="+", help="runs, or folders of nothing but runs"
    )
    build.add_argument("--out", metavar="DIR", required=True, help="folder for the three files")
    build.add_argument(
        "--reference",
        metavar="FILE",
        help="CSV of published numbers instead of the one that comes with the suite",
    )
    build.add_argument(
        "--include-unverified",
        action="store_true",
        help="show also published numbers that nobody has checked",
    )
    build.add_argument(
        "--all-published",
        action="store_true",
        help="show published numbers of every benchmark of the environments, not only of those "
        "whose data the runs play",
    )
    build.add_argument("--json", action="store_true", help="print JSON instead of lines")
    build.set_defaults(run=_build)
    check = parts.add_parser(
        "check",
        help="say rule by rule whether a run would be ranked",
        epilog="exit code: 0 ranked, 1 not ranked",
    )
    check.add_argument("folder", metavar="RUN", help="a run, or a folder of nothing but runs")
    check.add_argument("--json", action="store_true", help="print JSON instead of lines")
    check.set_defaults(run=_check)


def _build(args: argparse.Namespace) -> int:
    if "" in (args.out, *args.runs):  # a variable of the shell that is not set
        raise UsageError("a folder is empty; give the paths of runs, and --out")
    boards = build_boards([Path(run) for run in args.runs])
    own = None if args.reference is None else Path(args.reference)
    candidates = [one for board in boards for one in _candidates(board)]
    reference = reference_rows(
        own,
        environments={env_id for one in candidates for env_id in one.results.envs},
        benchmarks=None if own or args.all_published else _benchmarks(candidates),
        include_unverified=args.include_unverified,
    )
    leaderboard = Leaderboard(boards, reference)
    page = write_leaderboard(Path(args.out), leaderboard)
    out = console(highlight=False)
    if args.json:
        out.out(json.dumps(leaderboard_values(leaderboard), sort_keys=True))
        return 0
    for board in boards:
        _print_board(out, board)
    out.print(f"leaderboard: {without_surrogates(str(page))}", soft_wrap=True)
    return 0


def _candidates(board: Board) -> list[Candidate]:
    shown = (*board.ranked, *board.baselines, *board.unranked, *board.custom)
    return [row.candidate for row in shown]


def _benchmarks(candidates: Sequence[Candidate]) -> set[str]:
    """The benchmarks whose data are played; an embedded world is none."""
    entries = [entry for one in candidates for entry in one.header["suite"]["content"]["env"]]
    return {name for entry in entries for name in BENCHMARKS.get(entry.get("data", ""), ())}


def _print_board(out: Console, board: Board) -> None:
    out.print(f"{board.suite.title or board.suite.id} (suite {board.suite.id})", soft_wrap=True)
    for row in board.ranked:
        note = ""
        if row.against is not None and row.against.indistinguishable:
            note = ", indistinguishable from rank 1"
        out.print(f"  {row.rank}. {row.label}: {_numbers(row)}{note}", soft_wrap=True)
    for row in board.baselines:
        out.print(f"  baseline: {row.label}: {_numbers(row)}", soft_wrap=True)
    for row in (*board.unranked, *board.custom):
        reasons = "; ".join(row.candidate.faults)
        out.print(f"  not ranked: {row.label}: {reasons}", soft_wrap=True)


def _numbers(row: Row) -> str:
    if row.estimate is None:
        return "–"
    return f"{percent(row.estimate.estimate)} ({span(row.estimate)}), n = {row.estimate.n}"


def _check(args: argparse.Namespace) -> int:
    if not args.folder:
        raise UsageError("RUN is empty; give the path of a run")
    found = [candidate(folder) for folder in find_runs(Path(args.folder))]
    out = console(highlight=False)
    if args.json:
        out.out(json.dumps({"runs": [_as_json(run) for run in found]}, sort_keys=True))
    else:
        for run in found:
            _print_rules(out, run)
    return 0 if all(run.ranked for run in found) else 1


def _print_rules(out: Console, run: Candidate) -> None:
    would = "ranked" if run.ranked else "not ranked"
    folder = without_surrogates(str(run.folder))
    out.print(f"{folder}: {would}, submission type {run.submission_type}", soft_wrap=True)
    for rule in run.rules:
        reason = f": {rule.fault}" if rule.fault else ""
        out.print(f"  {rule.answer:7} {rule.name}{reason}", soft_wrap=True)


def _as_json(run: Candidate) -> dict[str, object]:
    return {
        "folder": str(run.folder),
        "ranked": run.ranked,
        "submission_type": run.submission_type,
        "rules": {
            rule.name: rule.fault or (None if rule.known else "unknown") for rule in run.rules
        },
    }
