"""The summary of a union as files, and made again from the runs of its suites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from agentgym_suite.errors import RunError
from agentgym_suite.evaluation.pages import render_page
from agentgym_suite.evaluation.report import report_again
from agentgym_suite.evaluation.run_directory import HTML, write_derived
from agentgym_suite.evaluation.scored_runs import ScoredRun, find_runs, load_runs
from agentgym_suite.evaluation.union_folder import (
    UNION_HTML,
    UNION_JSON,
    UNION_MARKDOWN,
    read_union,
)
from agentgym_suite.evaluation.union_results import MemberResults, UnionResults, summarise
from agentgym_suite.evaluation.union_tables import union_markdown
from agentgym_suite.files import explain_full_disk, write_json_atomic


@dataclass(frozen=True, slots=True)
class UnionReport:
    """A union that was reported again.

    Attributes:
        results: the summary, as ``union.json`` holds it.
        members: suite -> its runs, best first; suites that were not played are left out.
        page: path of the page.
    """

    results: UnionResults
    members: Mapping[str, Sequence[ScoredRun]]
    page: Path


def report_union(folder: Path) -> UnionReport:
    """Score the runs of a union again and write every report anew.

    Raises:
        RunError: the folder is none of a union, or a run of it is damaged or of another suite.
    """
    stored = read_union(folder)
    members: dict[str, list[ScoredRun]] = {}
    for member in stored.plan.members:
        path = folder / member.suite
        if not path.is_dir():
            continue
        runs = load_runs(find_runs(path))
        suite = runs[0].results.suite
        if (suite.id, suite.version) != (member.suite, member.version):
            raise RunError(
                f"{path} holds runs of {suite.id}, version {suite.version}, where the union has "
                f"{member.suite}, version {member.version}; move them away"
            )
        report_again(path, runs)
        members[member.suite] = runs
    played = (run.agent for runs in members.values() for run in runs)
    agents = list(dict.fromkeys((*stored.agents, *played)))
    results = summarise(stored.plan, agents, members, stored.absent)
    return UnionReport(results, members, write_union(folder, results))


def write_union(folder: Path, results: UnionResults) -> Path:
    """Write ``union.json``, ``union.md`` and ``union.html``; returns the page's path."""
    with explain_full_disk(folder):
        write_json_atomic(folder / UNION_JSON, results.as_dict())
    write_derived(folder / UNION_MARKDOWN, union_markdown(results).encode("utf-8"))
    write_derived(folder / UNION_HTML, union_page(folder, results).encode("utf-8"))
    return folder / UNION_HTML


class _SuiteTable(NamedTuple):
    """One suite of the union: each agent's results, best first."""

    plan: MemberResults
    report: str
    rows: list[tuple[str, MemberResults]]


def union_page(folder: Path, results: UnionResults) -> str:
    """The page: the means, then each suite, with a link to the report of those that were played."""
    tables = []
    for place, member in enumerate(results.rows[0].members):
        rows = [(row.agent, row.members[place]) for row in results.rows]
        rows.sort(key=lambda row: -(row[1].means.primary.estimate or 0.0))
        report = f"{member.suite}/{HTML}"
        tables.append(_SuiteTable(member, report if (folder / report).is_file() else "", rows))
    return render_page("union.html", union=results, tables=tables)
