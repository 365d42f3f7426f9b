"""Success by what tells tasks apart: families, data sets, hops, the oracle's length.

Two rates stand below the groups, since published tables mix them: their mean, each group weighing
the same, and the rate of all their tasks pooled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentgym_suite.evaluation.breakdowns import FAMILY, ORACLE_LENGTH
from agentgym_suite.evaluation.intervals import Interval, no_interval
from agentgym_suite.evaluation.results import EnvResults, FamilyRate, GroupMeans, LengthRate
from agentgym_suite.evaluation.tables import EnvRow, EnvTable

Rates = Mapping[str, FamilyRate] | Mapping[str, LengthRate]
_TITLES = {FAMILY: "task family", ORACLE_LENGTH: "steps of the stored solution"}
_NO_GROUPS = GroupMeans(no_interval("no groups"), no_interval("no groups"))


@dataclass(frozen=True, slots=True)
class GroupColumn:
    """One agent in a table of groups.

    Attributes:
        agent: what its column is called.
        rates: group -> its rate.
        mean: mean of the groups' rates, each weighing the same.
        pooled: rate of the tasks that a group holds.
    """

    agent: str
    rates: Rates
    mean: Interval
    pooled: Interval


@dataclass(frozen=True, slots=True)
class GroupTable:
    """The groups of one environment by one dimension.

    Attributes:
        env_id: the environment.
        dimension: what tells the groups apart, in words.
        groups: their names, in order.
        columns: the agents, best first.
    """

    env_id: str
    dimension: str
    groups: tuple[str, ...]
    columns: tuple[GroupColumn, ...]


def group_tables(table: EnvTable) -> list[GroupTable]:
    """Every dimension of an environment that has more than one group; none of them twice."""
    seen: list[list[Rates]] = []
    found = []
    for kind in _kinds(table):
        columns = [_rates(row.results, kind) for row in table.rows]
        groups = tuple(dict.fromkeys(name for rates in columns for name in rates))
        if len(groups) < 2 or columns in seen:
            continue
        seen.append(columns)
        title = _TITLES.get(kind, kind.replace("_", " "))
        each = tuple(
            _column(row, rates, kind) for row, rates in zip(table.rows, columns, strict=True)
        )
        found.append(GroupTable(table.env_id, title, groups, each))
    return found


def _column(row: EnvRow, rates: Rates, kind: str) -> GroupColumn:
    means = row.results.group_means.get(kind, _NO_GROUPS)
    return GroupColumn(row.agent, rates, means.mean, means.pooled)


def _kinds(table: EnvTable) -> list[str]:
    named = dict.fromkeys(name for row in table.rows for name in row.results.breakdowns)
    return [FAMILY, *named, ORACLE_LENGTH]


def _rates(results: EnvResults, kind: str) -> Rates:
    if kind == FAMILY:
        return results.families
    if kind == ORACLE_LENGTH:
        return results.oracle_lengths
    return results.breakdowns.get(kind, {})
