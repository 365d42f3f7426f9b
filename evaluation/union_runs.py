"""Running a union of suites: each member in a folder of its own, and one summary of all.

OUT/<suite>/              the run of one agent, or a folder for each of several
OUT/union.json, union.md  the summary
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym_suite.errors import DataMissing
from agentgym_suite.evaluation.agent_runs import AgentRuns, run_agents, run_folders
from agentgym_suite.evaluation.missing_data import absent_data, refuse_stray_data
from agentgym_suite.evaluation.open_suites import OpenSuite, open_suite
from agentgym_suite.evaluation.settings import AgentSpec, OnProgress, RunOptions, Stop
from agentgym_suite.evaluation.suite_unions import SuiteUnion
from agentgym_suite.evaluation.union_results import UnionResults, summarise
from agentgym_suite.evaluation.union_tables import union_markdown
from agentgym_suite.files import write_atomic, write_json_atomic

UNION_JSON, UNION_MARKDOWN = "union.json", "union.md"


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
        complete: whether every run of every member whose data are here holds every episode.
        report: path of the summary for people.
    """

    results: UnionResults
    members: Mapping[str, AgentRuns]
    complete: bool
    report: Path


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
    absent = {}
    for member in union.members:
        lacking = absent_data(member, data)
        if lacking:
            absent[member.id] = "; ".join(one.sentence for one in lacking)
    if len(absent) == len(union.members):
        told = "; ".join(dict.fromkeys(absent.values()))
        raise DataMissing(f"union {union.id} cannot be played: {told}")
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
    run_folders(out, [agent.name for agent in agents])  # refused before anything is played
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
    results = summarise(opened.union, [agent.name for agent in agents], runs, opened.absent)
    write_json_atomic(out / UNION_JSON, results.as_dict())
    write_atomic(out / UNION_MARKDOWN, union_markdown(results).encode("utf-8"))
    complete = len(members) == len(opened.opened) and all(m.complete for m in members.values())
    return UnionRuns(results, members, complete, out / UNION_MARKDOWN)
