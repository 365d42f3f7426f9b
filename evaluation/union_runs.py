"""Running a union of suites: each member in a folder of its own, and one summary of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym_suite.errors import DataMissing
from agentgym_suite.evaluation.agent_runs import AgentRuns, run_agents, run_folders
from agentgym_suite.evaluation.missing_data import (
    AbsentData,
    absence,
    absent_data,
    refuse_stray_data,
)
from agentgym_suite.evaluation.open_suites import OpenSuite, open_suite
from agentgym_suite.evaluation.primary_values import metric_of
from agentgym_suite.evaluation.settings import AgentSpec, OnProgress, RunOptions, Stop
from agentgym_suite.evaluation.suite_unions import SuiteUnion
from agentgym_suite.evaluation.union_folder import PlannedMember, UnionPlan, is_union
from agentgym_suite.evaluation.union_report import write_union
from agentgym_suite.evaluation.union_results import UnionResults, summarise
from agentgym_suite.files import make_folder


@dataclass(frozen=True, slots=True)
class OpenUnion:
    """A union as it can be played on this machine.

    Attributes:
        union: the union as it was given.
        opened: the members whose data are here, opened, in the union's order.
        absent: suite -> what is absent and how to get it, of the others.
    """

    union: SuiteUnion
    opened: tuple[OpenSuite, ...]
    absent: Mapping[str, str]

    @property
    def setup_s(self) -> dict[str, float]:
        """Seconds that opening took, by suite."""
        return {one.suite.id: sum(one.setup_s.values()) for one in self.opened}


@dataclass(frozen=True, slots=True)
class UnionRuns:
    """What became of it.

    Attributes:
        results: the summary, as ``union.json`` holds it.
        members: suite -> its runs; members that were not played are left out.
        report: path of the page.
    """

    results: UnionResults
    members: Mapping[str, AgentRuns]
    report: Path

    @property
    def complete(self) -> bool:
        """Whether every run of every member whose data are here holds every episode."""
        return self.results.complete


def open_union(
    union: SuiteUnion, data: Mapping[str, str], *, allow_missing: bool = False
) -> OpenUnion:
    """Open the members whose data are here, all of them before any is played.

    Args:
        union: the union.
        data: data set or environment -> path of its official files.
        allow_missing: play what is there instead of refusing when tasks are missing.

    Raises:
        DataMissing: the data of no member are here.
        UsageError: data for what no member plays, or data that do not fit a member.
    """
    refuse_stray_data(union.members, data, f"union {union.id}")
    absent: dict[str, str] = {}
    everything: list[AbsentData] = []
    for member in union.members:
        lacking = absent_data(member, data)
        if lacking:
            absent[member.id] = absence(lacking)
            everything += lacking
    if len(absent) == len(union.members):
        raise DataMissing(f"union {union.id} cannot be played: {absence(everything)}")
    opened = []
    for member in union.members:
        if member.id not in absent:
            names = {name for entry in member.envs for name in (entry.id, entry.data)}
            mine = {name: path for name, path in data.items() if name in names}
            opened.append(open_suite(member, mine, allow_missing=allow_missing))
    return OpenUnion(union, tuple(opened), absent)


def run_union(
    opened: OpenUnion,
    agents: Sequence[AgentSpec],
    out: Path,
    *,
    options: RunOptions | None = None,
    on_progress: OnProgress | None = None,
) -> UnionRuns:
    """Run each agent over each member, or go on with it, and write the reports.

    Raises:
        UsageError: no agent, or the same one twice.
        RunError: a directory cannot be used, or holds runs of the other layout.
    """
    names = [agent.name for agent in agents]
    run_folders(out, names)  # refused before anything is played
    plan = plan_of(opened.union)
    if not is_union(out):  # one that is killed can be reported, too
        make_folder(out)
        write_union(out, summarise(plan, names, {}, opened.absent))
    stop = Stop()
    members: dict[str, AgentRuns] = {}
    for suite in opened.opened:
        if stop.requested:
            break
        members[suite.suite.id] = run_agents(
            suite,
            agents,
            out / suite.suite.id,
            options=options,
            on_progress=on_progress,
            stop=stop,
        )
    runs = {name: done.runs for name, done in members.items()}
    results = summarise(plan, names, runs, opened.absent)
    return UnionRuns(results, members, write_union(out, results))


def plan_of(union: SuiteUnion) -> UnionPlan:
    """What the results of a union need of it."""
    members = tuple(
        PlannedMember(suite.id, suite.version, suite.digest, suite.planned, metric_of(suite))
        for suite in union.members
    )
    return UnionPlan(union.id, union.version, union.digest, union.title, members)
