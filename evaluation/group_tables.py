"""Success by what tells tasks apart: families, data sets, hops, the oracle's length.

Two rates stand below the groups, since published tables mix them: their mean, each group weighing
the same, and the rate of all tasks pooled (section 8.7 of the evaluation specification).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentgym_suite.evaluation.intervals import Interval, mean_of_rates, no_interval
from agentgym_suite.evaluation.results import EnvResults, FamilyRate, LengthRate
from agentgym_suite.evaluation.tables import EnvTable

Rates = Mapping[str, FamilyRate] | Mapping[str, LengthRate]
FAMILIES, LENGTHS = "task family", "steps of the oracle"


@dataclass(frozen=True, slots=True)
class GroupColumn:
    """One agent in a table of groups.

    Attributes:
        agent: what its column is called.
        rates: group -> its rate.
        mean: mean of the groups' rates, each weighing the same.
        pooled: rate of all tasks.
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
    for dimension in _dimensions(table):
        columns = [_rates(row.results, dimension) for row in table.rows]
        groups = tuple(dict.fromkeys(name for rates in columns for name in rates))
        if len(groups) < 2 or columns in seen:
            continue
        seen.append(columns)
        found.append(
            GroupTable(
                table.env_id,
                dimension,
                groups,
                tuple(
                    GroupColumn(row.agent, rates, _mean(rates, row.results), row.results.success)
                    for row, rates in zip(table.rows, columns, strict=True)
                ),
            )
        )
    return found


def _dimensions(table: EnvTable) -> list[str]:
    named = dict.fromkeys(name for row in table.rows for name in row.results.breakdowns)
    return [FAMILIES, *(name.replace("_", " ") for name in named), LENGTHS]


def _rates(results: EnvResults, dimension: str) -> Rates:
    if dimension == FAMILIES:
        return results.families
    if dimension == LENGTHS:
        return results.oracle_lengths
    return results.breakdowns.get(dimension.replace(" ", "_"), {})


def _mean(rates: Rates, results: EnvResults) -> Interval:
    known: Sequence[FamilyRate | LengthRate] = list(rates.values())
    if any(rate.est is None for rate in known):
        return no_interval("incomplete")
    if results.trials > 1:  # k and n count trials, which are not independent
        estimate = sum(rate.est or 0.0 for rate in known) / len(known)
        return Interval(estimate, None, None, "several trials of a task", results.n_tasks)
    return mean_of_rates([(rate.k, rate.n) for rate in known])
