"""The numbers of runs side by side, as the terminal, Markdown and the page show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentgym_suite.evaluation.intervals import ALL_EQUAL, Interval
from agentgym_suite.evaluation.results import (
    SMALL_SAMPLE,
    Bounds,
    EnvResults,
    FailureCount,
    FamilyRate,
    LengthRate,
)
from agentgym_suite.evaluation.scored_runs import ScoredRun, place

_NAMED_BY_THE_ENVIRONMENT: Mapping[str, str] = {
    "recall": "recall_all",
    "recall@20": "recall_20",
    "recall@50": "recall_50",
    "recall@100": "recall_100",
    "searches": "search_calls",
    "expansions": "expand_calls",
}
"""Retrieval's common name -> the same number under the environment's own."""


@dataclass(frozen=True, slots=True)
class EnvRow:
    """One run in one environment.

    Attributes:
        run: the run.
        results: its results in this environment.
        success_bounds: stand where an incomplete run has no estimate.
        score_bounds: likewise.
    """

    run: ScoredRun
    results: EnvResults
    success_bounds: Bounds | None
    score_bounds: Bounds | None

    @property
    def agent(self) -> str:
        """What the row is called."""
        return self.run.label

    @property
    def steps(self) -> float | None:
        """Mean steps of an episode."""
        interval = self.results.metrics.get("steps")
        return None if interval is None else interval.estimate

    def metric(self, name: str) -> Interval | None:
        """A metric of the environment, or of its retrieval."""
        results = self.results
        return results.metrics.get(name) or results.retrieval.get(name)

    @property
    def counts(self) -> str:
        """Successes of the episodes: "97/100", or "33/40 of 100" after 40 of them."""
        return counts(self.results.successes, self.results.finished, self.results.planned)

    @property
    def broken(self) -> int:
        """Episodes that a failure ended."""
        return sum(failure.episodes for failure in self.results.failures)


@dataclass(frozen=True, slots=True)
class EnvTable:
    """One environment: the agents that played it, best first.

    Attributes:
        env_id: the environment.
        split: split of its tasks, "" if the suite names none.
        n_tasks: tasks.
        trials: trials of each.
        rows: the runs.
        primary: the metric that orders the rows.
    """

    env_id: str
    split: str
    n_tasks: int
    trials: int
    rows: tuple[EnvRow, ...]
    primary: str

    @property
    def small(self) -> bool:
        """Whether the sample is too small for firm statements."""
        return self.n_tasks < SMALL_SAMPLE

    @property
    def metrics(self) -> tuple[str, ...]:
        """Every metric once, what concerns retrieval behind the others."""
        named = sorted({name for row in self.rows for name in row.results.metrics})
        found = sorted({name for row in self.rows for name in row.results.retrieval})
        new = [name for name in found if _NAMED_BY_THE_ENVIRONMENT.get(name) not in named]
        return tuple(dict.fromkeys((*named, *new)))

    @property
    def outcomes(self) -> tuple[str, ...]:
        """Every outcome that an episode had."""
        return tuple(sorted({name for row in self.rows for name in row.results.outcomes}))

    @property
    def ks(self) -> tuple[str, ...]:
        """Numbers of trials that pass@k and pass^k are told of, from 2."""
        found = {k for row in self.rows for k in row.results.pass_at if k != "1"}
        return tuple(sorted(found, key=int))


def env_tables(runs: Sequence[ScoredRun]) -> list[EnvTable]:
    """The environments in the suite's order, each with its runs, best first."""
    tables = []
    for env_id in dict.fromkeys(env_id for run in runs for env_id in run.results.envs):
        rows = [_row(run, env_id) for run in runs if env_id in run.results.envs]
        first = rows[0].results
        rows.sort(key=lambda row: place(row.run, [row.results]))
        tables.append(
            EnvTable(env_id, first.split, first.n_tasks, first.trials, tuple(rows), first.metric)
        )
    return tables


def macro_rows(runs: Sequence[ScoredRun]) -> list[tuple[str, Interval, Interval]]:
    """(agent, success, score) over the environments, in the runs' order."""
    return [(run.label, run.results.macro.success, run.results.macro.score) for run in runs]


def failure_rows(runs: Sequence[ScoredRun]) -> list[tuple[str, str, FailureCount]]:
    """(agent, environment, failure) of everything that broke."""
    return [
        (run.label, env_id, failure)
        for run in runs
        for env_id, env in run.results.envs.items()
        for failure in env.failures
    ]


def failure_sentences(runs: Sequence[ScoredRun]) -> list[str]:
    """One sentence for each kind of failure that ended episodes."""
    return [
        f"{label}: {episodes(failure.episodes)} of {env_id} ended in {failure.kind}: "
        f"{failure.message or 'no message'}"
        for label, env_id, failure in failure_rows(runs)
        if failure.episodes
    ]


def episodes(n: int) -> str:
    """A number of episodes, in words."""
    return "1 episode" if n == 1 else f"{n} episodes"


def counts(successes: int, finished: int, planned: int) -> str:
    """Successes of the finished episodes, and of how many planned ones while some are missing."""
    rest = "" if finished == planned else f" of {planned}"
    return f"{successes}/{finished}{rest}"


def percent(value: float | None) -> str:
    """A share in percent with one decimal; a dash for None."""
    return "–" if value is None else f"{100 * value:.1f}"


def number(value: float | None, decimals: int = 2) -> str:
    """A number; a dash for None."""
    return "–" if value is None else f"{value:.{decimals}f}"


def rate_interval(rate: FamilyRate | LengthRate) -> Interval:
    """The rate of a group of tasks as any other interval."""
    return Interval(rate.est, rate.low, rate.high, "by tasks", rate.n)


def span(value: Interval | Bounds | FamilyRate | LengthRate | None) -> str:
    """The two ends in percent; a dash where there are none, "all equal" where they coincide."""
    if isinstance(value, Interval) and value.method == ALL_EQUAL:
        return "all equal"
    if value is None or value.low is None or value.high is None:
        return "–"
    return f"{percent(value.low)} – {percent(value.high)}"


def _row(run: ScoredRun, env_id: str) -> EnvRow:
    bounds = run.results.bounds and run.results.bounds.get(env_id)
    env = run.results.envs[env_id]
    if not bounds or env.finished == env.planned:
        return EnvRow(run, env, None, None)
    return EnvRow(run, env, bounds.success, bounds.score)
