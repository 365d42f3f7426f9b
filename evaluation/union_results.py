"""The results of a union of suites: those of each member, and their means.

Every member weighs the same in a mean, whatever its size; the interval resamples tasks within
each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.evaluation.intervals import Interval, macro_interval, no_interval, task_means
from agentgym_suite.evaluation.results import plain
from agentgym_suite.evaluation.scored_runs import ScoredRun
from agentgym_suite.evaluation.tallies import read_tallies
from agentgym_suite.evaluation.union_folder import (
    UNION_SCHEMA_VERSION,
    PlannedMember,
    UnionPlan,
)

MemberStatus = Literal["complete", "incomplete", "not played", "data absent"]


class _EnvColumns(NamedTuple):
    """One environment of a complete run: one row a task, its primary metric, success, score."""

    metric: str
    values: NDArray[np.float64]


class Means(NamedTuple):
    """Primary metric, success and score, each with its interval."""

    primary: Interval
    success: Interval
    score: Interval


@dataclass(frozen=True, slots=True)
class MemberResults:
    """One agent on one member.

    Attributes:
        suite: the suite's id.
        version: its version.
        digest: digest of the suite as it is in the union.
        status: how far the run is.
        reason: why there is no run; "" where there is one.
        planned: episodes of the run.
        finished: finished ones.
        metric: the suite's primary metric; "primary metric" where its environments differ in it.
        means: means over the suite's environments; without estimates unless complete.
    """

    suite: str
    version: int
    digest: str
    status: MemberStatus
    reason: str
    planned: int
    finished: int
    metric: str
    means: Means


@dataclass(frozen=True, slots=True)
class UnionRow:
    """One agent on a union.

    Attributes:
        agent: its name.
        members: its results, in the union's order.
        covered: how many members the means are over: those whose data are here.
        means: means over these members; without estimates unless all of them are complete.
        rankable: whether nothing in the runs themselves speaks against ranking it.
        not_rankable_reasons: what does; every member whose data are absent is one.
    """

    agent: str
    members: tuple[MemberResults, ...]
    covered: int
    means: Means
    rankable: bool
    not_rankable_reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnionResults:
    """The results of several agents on a union, best first."""

    schema_version: int
    id: str
    version: int
    digest: str
    title: str
    rows: tuple[UnionRow, ...]

    @property
    def complete(self) -> bool:
        """Whether every run of every suite whose data are here holds every episode."""
        members = [member for row in self.rows for member in row.members]
        return all(member.status in ("complete", "data absent") for member in members)

    def as_dict(self) -> dict[str, Any]:
        """The results as JSON values, floats rounded to 12 decimals."""
        return {field.name: plain(getattr(self, field.name)) for field in fields(self)}


def summarise(
    plan: UnionPlan,
    agents: Sequence[str],
    runs: Mapping[str, Sequence[ScoredRun]],
    absent: Mapping[str, str],
) -> UnionResults:
    """The results of agents on a union.

    Args:
        plan: the union.
        agents: the agents' names.
        runs: suite -> its runs.
        absent: suite -> why its data are not here.
    """
    rows = [
        _row(plan, agent, {r.results.suite.id: r for r in _of(agent, runs)}, absent)
        for agent in agents
    ]
    rows.sort(key=lambda r: (r.means.primary.estimate is None, -(r.means.primary.estimate or 0.0)))
    return UnionResults(
        UNION_SCHEMA_VERSION, plan.id, plan.version, plan.digest, plan.title, tuple(rows)
    )


def _of(agent: str, runs: Mapping[str, Sequence[ScoredRun]]) -> list[ScoredRun]:
    return [run for several in runs.values() for run in several if run.agent == agent]


def _row(
    plan: UnionPlan, agent: str, runs: Mapping[str, ScoredRun], absent: Mapping[str, str]
) -> UnionRow:
    columns = {
        name: _columns(run) for name, run in runs.items() if run.results.status == "complete"
    }
    members = tuple(
        _member(one, runs.get(one.suite), absent.get(one.suite), columns.get(one.suite))
        for one in plan.members
    )
    reasons = []
    for member in members:
        run = runs.get(member.suite)
        told = [member.status] if run is None else run.results.not_rankable_reasons
        reasons += [f"{member.suite}: {reason}" for reason in told]
    here = [member for member in members if member.status != "data absent"]
    lacking = [member.suite for member in here if member.status != "complete"]
    means = (
        _no_means(f"incomplete: {', '.join(lacking)}")
        if lacking
        else _means([env for member in here for env in columns[member.suite]])
    )
    return UnionRow(agent, members, len(here), means, not reasons, tuple(reasons))


def _member(
    plan: PlannedMember,
    run: ScoredRun | None,
    absent: str | None,
    columns: Sequence[_EnvColumns] | None,
) -> MemberResults:
    status: MemberStatus
    if run is None:
        status = "not played" if absent is None else "data absent"
    else:
        status = run.results.status
    return MemberResults(
        suite=plan.suite,
        version=plan.version,
        digest=plan.digest,
        status=status,
        reason="" if run is not None else absent or "the command was stopped before it",
        planned=plan.planned if run is None else run.results.planned,
        finished=0 if run is None else run.results.finished,
        metric=plan.metric if run is None else run.results.metric,
        means=_no_means(status) if run is None or columns is None else _own_means(run, columns),
    )


def _own_means(run: ScoredRun, columns: Sequence[_EnvColumns]) -> Means:
    """Of a suite of one environment exactly what its own results say."""
    results = run.results
    if len(results.envs) > 1:
        return Means(_means(columns).primary, results.macro.success, results.macro.score)
    env = next(iter(results.envs.values()))
    return Means(env.primary, env.success, env.score)


def _means(envs: Sequence[_EnvColumns]) -> Means:
    rates = all(env.metric == "success" for env in envs), True, False
    return Means(
        *(
            macro_interval([env.values[:, i] for env in envs], rate=rate)
            for i, rate in enumerate(rates)
        )
    )


def _no_means(reason: str) -> Means:
    return Means(*[no_interval(reason)] * 3)


def _columns(run: ScoredRun) -> list[_EnvColumns]:
    found = []
    for env_id, tally in read_tallies(run.folder, run.header).items():
        primary = run.results.envs[env_id].metric
        columns = [task_means(tally.values(name)) for name in (primary, "success", "score")]
        found.append(_EnvColumns(primary, np.stack(columns, axis=1)))
    return found
