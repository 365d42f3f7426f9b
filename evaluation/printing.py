"""What ``evaluate`` and ``report`` print: tables and sentences, or JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from agentgym_suite.console import console
from agentgym_suite.evaluation.run_directory import torn_files
from agentgym_suite.evaluation.scored_runs import ScoredRun
from agentgym_suite.evaluation.tables import failure_sentences
from agentgym_suite.evaluation.terminal import leaderboard
from agentgym_suite.evaluation.union_results import UnionResults
from agentgym_suite.evaluation.union_tables import union_table
from agentgym_suite.spaces import without_surrogates


def print_runs(runs: Sequence[ScoredRun], page: Path, *, as_json: bool) -> None:
    """The runs of a suite, best first, and where their page is."""
    out = console()
    if as_json:
        rows = [{"folder": str(run.folder), "results": run.results.as_dict()} for run in runs]
        _print_json({"runs": rows, "report": str(page)})
        return
    out.print(leaderboard(runs, out.width))
    for run in runs:
        if run.results.status == "incomplete":
            out.print(
                f"{run.label}: incomplete, {run.results.finished} of {run.results.planned} "
                "episodes; its interval shows the bounds, missing ones as failures and as successes"
            )
    _print_page(page)


def print_union(
    results: UnionResults, absent: Mapping[str, str], page: Path, err: Console, *, as_json: bool
) -> None:
    """The results of a union, where their page is, and how to get the data that are absent."""
    if as_json:
        _print_json(results.as_dict())
        return
    console().print(union_table(results))
    _print_page(page)
    for sentence in dict.fromkeys(absent.values()):
        err.print(sentence, soft_wrap=True)


def print_failures(runs: Sequence[ScoredRun], err: Console) -> None:
    """One sentence for each kind of failure that ended episodes, and for each torn line."""
    torn = [
        f"{run.label}: {name} ends in a torn line, which is not counted; `evaluate` plays its "
        "episode again"
        for run in runs
        for name in torn_files(run.folder)
    ]
    for sentence in (*torn, *failure_sentences(runs)):
        err.print(sentence, soft_wrap=True)


def _print_json(value: Mapping[str, object]) -> None:
    # not print(), which a reader that goes away would break
    console().out(json.dumps(value, sort_keys=True), highlight=False)


def _print_page(page: Path) -> None:
    console().print(f"report: {without_surrogates(str(page))}", soft_wrap=True)
