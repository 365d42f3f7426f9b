"""The numbers of runs side by side, as the terminal, Markdown and the page show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentgym_suite.evaluation.intervals import Interval
from agentgym_suite.evaluation.results import Bounds, EnvResults, FailureCount, RunResults

SMALL_SAMPLE = 30


@dataclass(frozen=True, slots=True)
class EnvRow:
    """One agent in one environment; ``bounds`` stand where an incomplete run has no estimate."""

    agent: str
    results: EnvResults
    success_bounds: Bounds | None
    score_bounds: Bounds | None

    @property
    def steps(self) -> float | None:
        """Mean steps of an episode."""
        interval = self.results.metrics.get("steps")
        return None if interval is None else interval.estimate


@dataclass(frozen=True, slots=True)
class EnvTable:
    """One environment: the agents that played it, best first."""

    env_id: str
    split: str
    n_tasks: int
    trials: int
    rows: tuple[EnvRow, ...]

    @property
    def small(self) -> bool:
        """Whether the sample is too small for firm statements."""
        return self.n_tasks < SMALL_SAMPLE

    @property
    def families(self) -> tuple[str, ...]:
        """Every task family."""
        return tuple(sorted({name for row in self.rows for name in row.results.families}))

    @property
    def metrics(self) -> tuple[str, ...]:
        """Every metric."""
        return tuple(sorted({name for row in self.rows for name in row.results.metrics}))


def env_tables(runs: Sequence[RunResults]) -> list[EnvTable]:
    """The environments in the suite's order, each with its agents, best first."""
    tables = []
    for env_id in dict.fromkeys(env_id for run in runs for env_id in run.envs):
        rows = [_row(run, env_id) for run in runs if env_id in run.envs]
        first = rows[0].results
        rows.sort(key=_place)
        tables.append(EnvTable(env_id, first.split, first.n_tasks, first.trials, tuple(rows)))
    return tables


def macro_rows(runs: Sequence[RunResults]) -> list[tuple[str, Interval, Interval]]:
    """(agent, success, score) over the environments, in the runs' order."""
    return [(run.run.agent, run.macro.success, run.macro.score) for run in runs]


def failure_rows(runs: Sequence[RunResults]) -> list[tuple[str, str, FailureCount]]:
    """(agent, environment, failure) of everything that broke."""
    return [
        (run.run.agent, env_id, failure)
        for run in runs
        for env_id, env in run.envs.items()
        for failure in env.failures
    ]


def percent(value: float | None) -> str:
    """A share in percent with one decimal; a dash for None."""
    return "–" if value is None else f"{100 * value:.1f}"


def number(value: float | None, decimals: int = 2) -> str:
    """A number; a dash for None."""
    return "–" if value is None else f"{value:.{decimals}f}"


def span(value: Interval | Bounds | None) -> str:
    """The two ends in percent; a dash where there are none, "all equal" where they coincide."""
    if isinstance(value, Interval) and value.method == "all-tasks-equal":
        return "all equal"
    if value is None or value.low is None or value.high is None:
        return "–"
    return f"{percent(value.low)} – {percent(value.high)}"


def _row(run: RunResults, env_id: str) -> EnvRow:
    bounds = run.bounds and run.bounds.get(env_id)
    env = run.envs[env_id]
    if not bounds or env.finished == env.planned:
        return EnvRow(run.run.agent, env, None, None)
    return EnvRow(run.run.agent, env, bounds.success, bounds.score)


def _place(row: EnvRow) -> tuple[bool, float, float, str]:
    success, score = row.results.success.estimate, row.results.score.estimate
    return success is None, -(success or 0.0), -(score or 0.0), row.agent
