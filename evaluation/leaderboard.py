"""Leaderboards: the verified runs of a suite, best first, with what may be said of them.

A row is ranked when it keeps every rule of ``admission``; the others are listed with the rule
they break, the suite's own agents as baselines. Published numbers stand in a table of their own.
The same runs give the same bytes, in whichever order they are named.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentgym_suite.errors import UsageError
from agentgym_suite.evaluation.admission import Candidate, candidate
from agentgym_suite.evaluation.comparisons import holm
from agentgym_suite.evaluation.declarations import Declaration
from agentgym_suite.evaluation.intervals import Interval, mean_and_deviation
from agentgym_suite.evaluation.labels import labels
from agentgym_suite.evaluation.primary_values import (
    EnvValues,
    PairedTest,
    macro,
    paired_p,
    primary_values,
)
from agentgym_suite.evaluation.reference_rows import ReferenceRow
from agentgym_suite.evaluation.results import SuiteName
from agentgym_suite.evaluation.run_directory import EPISODES
from agentgym_suite.evaluation.run_header import run_folder
from agentgym_suite.evaluation.scored_runs import find_runs
from agentgym_suite.files import sha256_file

ALPHA = 0.05
_SAME = 1e-12  # estimates that differ by less are tied


@dataclass(frozen=True, slots=True)
class Against:
    """A row against the best one of its table.

    Attributes:
        test: "mcnemar" or "sign-flip", both paired over the tasks.
        p: its p-value.
        adjusted: the same after Holm's correction over the table.
    """

    test: PairedTest
    p: float
    adjusted: float

    @property
    def indistinguishable(self) -> bool:
        """Whether the two cannot be told apart at 95 %."""
        return self.adjusted > ALPHA


@dataclass(frozen=True, slots=True)
class Row:
    """A run in a table.

    Attributes:
        label: what the table calls it.
        run_id: name of the run, made of suite, agent and configuration.
        episodes: digest of its records.
        candidate: the run with the rules it keeps.
        estimate: its primary metric over all environments; None where it may not be shown.
        envs: the same of each environment: id -> (metric, interval).
        values: the tasks' values behind them.
        rank: its place; ties share one. None outside the ranked table.
        against: the test against the best row; None for that one and outside the ranked table.
    """

    label: str
    run_id: str
    episodes: str
    candidate: Candidate
    estimate: Interval | None = None
    envs: Mapping[str, tuple[str, Interval]] | None = None
    values: Mapping[str, EnvValues] | None = None
    rank: int | None = None
    against: Against | None = None

    @property
    def declaration(self) -> Declaration | None:
        """What is declared of the run."""
        return self.candidate.declaration

    @property
    def order(self) -> tuple[bool, float, str, str, str]:
        """Best first; equal ones by name."""
        value = None if self.estimate is None else self.estimate.estimate
        return value is None, -(value or 0.0), self.label, self.run_id, self.episodes


@dataclass(frozen=True, slots=True)
class SeedRow:
    """Several trainings of one recipe: how much the result varies between their seeds.

    Attributes:
        label: model and trainer.
        runs: how many ranked runs.
        mean: mean of their estimates.
        deviation: sample deviation (n-1); no confidence interval.
    """

    label: str
    runs: int
    mean: float
    deviation: float


@dataclass(frozen=True, slots=True)
class Board:
    """The runs of one suite.

    Attributes:
        suite: the suite.
        metrics: what it is ordered by: environment id -> metric.
        ranked: the rows that keep every rule, best first.
        baselines: complete and verified runs of the suite's own agents, best first.
        unranked: rows of the suite as published that break another rule.
        custom: rows of another suite, prompt or decoding.
        seeds: recipes with at least two ranked runs of different weights.
    """

    suite: SuiteName
    metrics: Mapping[str, str]
    ranked: tuple[Row, ...]
    baselines: tuple[Row, ...]
    unranked: tuple[Row, ...]
    custom: tuple[Row, ...]
    seeds: tuple[SeedRow, ...]


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """All boards, and the published numbers of their environments."""

    boards: tuple[Board, ...]
    reference: tuple[ReferenceRow, ...]


def build_boards(folders: Sequence[str | Path]) -> tuple[Board, ...]:
    """One board for each suite of the runs.

    Args:
        folders: runs, or folders of nothing but runs.

    Raises:
        RunError: a folder holds no run, or a damaged one.
        UsageError: the same records twice.
    """
    paths = [path for folder in folders for path in find_runs(run_folder(folder))]
    if not paths:
        raise UsageError("no run is given; name at least one")
    rows = [_row(candidate(path)) for path in paths]
    twice = [digest for digest, count in Counter(r.episodes for r in rows).items() if count > 1]
    if twice:
        names = ", ".join(str(r.candidate.folder) for r in rows if r.episodes == twice[0])
        raise UsageError(f"{names} hold the same records; name each run once")
    suites: defaultdict[tuple[str, int, str], list[Row]] = defaultdict(list)
    for row in rows:
        suite = row.candidate.results.suite
        suites[suite.id, suite.version, suite.digest].append(row)
    return tuple(_board(_labelled(suites[name])) for name in sorted(suites))


def _row(run: Candidate) -> Row:
    """The run with its estimates, where these may be shown."""
    results = run.results
    name = f"{results.run.agent}"
    if run.declaration is not None and not run.baseline and run.declaration.model_name != "none":
        name = f"{run.declaration.model_name} · {results.run.agent}"
    episodes = f"sha256:{sha256_file(run.folder / EPISODES)}"
    row = Row(name, results.run.id, episodes, run)
    if not run.counts:
        return row
    values = primary_values(run.folder, run.header)
    envs = {env_id: (one.metric, one.interval) for env_id, one in values.items()}
    return replace(row, estimate=macro(values), envs=envs, values=values)


def _labelled(rows: Sequence[Row]) -> list[Row]:
    """Rows of one suite; those of one name are told apart by configuration, then by records."""
    configurations = [f" #{row.run_id.rpartition('-')[2]}" for row in rows]
    records = [f".{row.episodes.removeprefix('sha256:')[:6]}" for row in rows]
    told = labels([row.label for row in rows], configurations, records)
    return [replace(row, label=label) for row, label in zip(rows, told, strict=True)]


def _board(rows: Sequence[Row]) -> Board:
    rows = sorted(rows, key=lambda row: row.order)
    ranked = _ranked([row for row in rows if row.candidate.ranked])
    others = [row for row in rows if not row.candidate.ranked and not _stands_beside(row)]
    shown = next((row.envs for row in rows if row.envs is not None), {})
    return Board(
        suite=rows[0].candidate.results.suite,
        metrics={env_id: metric for env_id, (metric, _) in shown.items()},
        ranked=ranked,
        baselines=tuple(row for row in rows if _stands_beside(row)),
        unranked=tuple(row for row in others if row.candidate.submission_type == "standard"),
        custom=tuple(row for row in others if row.candidate.submission_type == "custom"),
        seeds=_seed_rows(ranked),
    )


def _stands_beside(row: Row) -> bool:
    """Whether it is a baseline whose numbers may be read beside the ranked ones."""
    run = row.candidate
    return run.baseline and run.counts and run.submission_type == "standard"


def _ranked(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows with their places and the tests against the best one."""
    if not rows:
        return ()
    best = rows[0].values or {}
    tests = [paired_p(row.values or {}, best) for row in rows[1:]]
    adjusted = holm([p for p, _ in tests])
    against = [None, *(Against(name, p, q) for (p, name), q in zip(tests, adjusted, strict=True))]
    placed: list[Row] = []
    for place, (row, test) in enumerate(zip(rows, against, strict=True), 1):
        tied = bool(placed) and abs(_estimate(placed[-1]) - _estimate(row)) < _SAME
        placed.append(replace(row, rank=placed[-1].rank if tied else place, against=test))
    return tuple(placed)


def _estimate(row: Row) -> float:
    value = None if row.estimate is None else row.estimate.estimate
    return 0.0 if value is None else value


def _seed_rows(ranked: Sequence[Row]) -> tuple[SeedRow, ...]:
    recipes: defaultdict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in ranked:
        if row.declaration is not None:
            recipes[(*row.declaration.training, row.candidate.results.run.agent)].append(row)
    found = []
    for (model, trainer, *_), rows in sorted(recipes.items()):
        weights = {row.candidate.results.run.policy_version for row in rows}
        if len(weights) > 1:  # the same weights twice say nothing about training
            mean, deviation = mean_and_deviation([_estimate(row) for row in rows])
            found.append(SeedRow(f"{model}, {trainer}", len(rows), mean, deviation))
    return tuple(found)
