"""``agentgym-suite compare``: which of two runs is better, and whether that can be said."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from agentgym_suite.console import console
from agentgym_suite.errors import IncompleteRun, UsageError
from agentgym_suite.evaluation.paired_results import Comparison, Flip, Pair, SuiteComparison, p_text
from agentgym_suite.evaluation.paired_runs import compare
from agentgym_suite.evaluation.results import LengthRate
from agentgym_suite.evaluation.tables import percent
from agentgym_suite.spaces import without_surrogates

INCOMPLETE = 1
_TESTS = {"mcnemar": "McNemar's exact test", "sign-flip": "sign-flip test"}


def register_compare(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the ``compare`` command."""
    parser = commands.add_parser(
        "compare",
        help="test whether one run is better than another",
        description="Compare runs of one suite task by task: differences with intervals, paired "
        "tests adjusted for their number by Holm's method, and the tasks that flipped.",
        epilog="exit code: 0 compared, 1 a run is incomplete, 2 the runs cannot be compared",
    )
    parser.add_argument(
        "folders",
        metavar="DIR",
        nargs="+",
        help="runs, folders of nothing but runs, or folders of unions; every pair is compared",
    )
    parser.add_argument(
        "--common-tasks",
        action="store_true",
        help="compare the tasks that all runs have finished, even of different suites; where these "
        "are ordered by different metrics, name one with --metric",
    )
    parser.add_argument(
        "--metric",
        metavar="NAME",
        help="success, score, steps or a metric of the environments (default: what a leaderboard "
        "is ordered by: success, em of questions, f1_all of papers)",
    )
    parser.add_argument(
        "--oracle",
        metavar="RUN",
        help="a run of the oracle on the same tasks: tell success by the steps that it needed",
    )
    parser.add_argument(
        "--flips",
        metavar="N",
        type=int,
        default=3,
        help="flipped tasks to show of each environment; --json holds all of them (default: 3)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of sentences")
    parser.set_defaults(run=_compare)


def _compare(args: argparse.Namespace) -> int:
    if not all(args.folders) or args.oracle == "":  # a variable of the shell that is not set
        raise UsageError("a folder is empty; give the path of a run")
    if args.flips < 0:
        raise UsageError(f"--flips is {args.flips}; give 0 or more")
    try:
        comparison = compare(
            *map(Path, args.folders),
            common_tasks=args.common_tasks,
            metric=args.metric,
            oracle=args.oracle,
        )
    except IncompleteRun as error:
        console(stderr=True).print(f"agentgym-suite: {error}", soft_wrap=True)
        return INCOMPLETE
    out = console(highlight=False)
    if args.json:
        out.out(json.dumps(comparison.as_dict(), sort_keys=True), highlight=False)
    else:
        for line in lines(comparison, args.flips):
            out.print(without_surrogates(line), soft_wrap=True)
    return 0 if comparison.complete else INCOMPLETE


def lines(comparison: Comparison, flips: int) -> Iterator[str]:
    """A comparison in words, line by line.

    Args:
        comparison: the comparison.
        flips: how many flipped tasks to name of each pair in each environment.
    """
    for suite in comparison.suites:
        yield from _suite_lines(suite, flips)
    for name, reason in comparison.left_out.items():
        yield f"suite {name} is not compared: {reason}"
    if comparison.family > 1:
        yield f"p-values are adjusted by Holm's method for {comparison.family} tests"


def _suite_lines(suite: SuiteComparison, flips: int) -> Iterator[str]:
    yield f"suite {suite.suite}: {', '.join(run.label for run in suite.runs)}"
    for run in suite.runs:
        if run.finished < run.planned:
            yield f"  {run.label} is incomplete, {run.finished} of {run.planned} episodes"
    yield from (f"  {remark}" for remark in suite.remarks)
    yield from (f"  warning: {warning}" for warning in suite.warnings)
    for pair in suite.pairs:
        yield f"  {pair.sentence}"
        yield f"    {_numbers(pair)}"
        yield from (f"    {_flip_line(pair, flip)}" for flip in pair.flips[:flips])
        if len(pair.flips) > flips:
            yield f"    {len(pair.flips)} tasks that one solved more often; --json lists them all"
    for env_id, by_label in suite.oracle_lengths.items():
        for label, rates in by_label.items():
            told = "; ".join(_length(name, rate) for name, rate in rates.items())
            yield f"  {env_id}, {label}, success by the oracle's steps: {told}"


def _numbers(pair: Pair) -> str:
    values = ", ".join(
        f"{label} {pair.number(value.estimate or 0.0)}"
        for label, value in ((pair.first, pair.first_value), (pair.second, pair.second_value))
    )
    words = ("won", "lost", "tied") if pair.share else ("higher", "lower", "equal")
    amounts = zip((pair.wins, pair.losses, pair.ties), words, strict=True)
    counts = f"{', '.join(f'{n} {word}' for n, word in amounts)} of {pair.n} tasks"
    return f"{values}; {counts}; {_TESTS[pair.test]}, p = {p_text(pair.p)}"


def _flip_line(pair: Pair, flip: Flip) -> str:
    won, link, lost, other = pair.first, flip.first_link, pair.second, flip.second_link
    if flip.second > flip.first:
        won, link, lost, other = lost, other, won, link
    return f"{flip.task_id}: solved by {won} ({link}), not by {lost} ({other})"


def _length(name: str, rate: LengthRate) -> str:
    extra = "" if rate.extra_steps is None else f", {rate.extra_steps:+.1f} steps"
    return f"{name}: {percent(rate.est)} ({rate.k}/{rate.n}{extra})"
