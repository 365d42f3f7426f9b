"""Tables of trainings with several seeds: success with its interval, cost, paired differences.

The rules are those of evaluation: tasks are the independent units, trials and seeds of one task
are not; every planned episode counts; differences are paired by task, their p values adjusted by
Holm's rule over all pairs of a table. Deviations over seeds stand beside, and are no interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from curves import Panel, chart, over_repetitions
from training_runs import GREEDY, SEEN, UNSEEN, UNSEEN_GREEDY, TrainedRun

from agentgym_suite.errors import UsageError
from agentgym_suite.evaluation.comparisons import difference_interval, holm
from agentgym_suite.evaluation.intervals import Interval, mean_and_deviation, success_interval
from agentgym_suite.evaluation.primary_values import EnvValues, paired_p
from agentgym_suite.trainers.outcomes import success_rate

EVALUATIONS = (SEEN, GREEDY, UNSEEN, UNSEEN_GREEDY)
ALPHA = 0.05
REGIME = {
    "out of range": "clip/out_of_range",
    "clip active": "clip/active",
    "tokens an action": "rollout/response_tokens",
    "steps an episode": "rollout/steps",
    "PI coverage": "credit/coverage",
}
"""What a table of ablations tells beside success: means over the iterations."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Success in one evaluation.

    Attributes:
        mean: over the seeds.
        deviation: of the seeds' means (n-1); None for one seed.
        interval: over the tasks.
        missing: planned episodes that could not be played; they count as failures.
    """

    mean: float
    deviation: float | None
    interval: Interval
    missing: int


@dataclass(frozen=True, slots=True)
class Row:
    """One variant over its seeds.

    Attributes:
        label: what the table calls it.
        planned: seeds that were asked for.
        runs: those that are finished, in the order of seeds.
        reasons: why others are not, by seed.
        measured: evaluation -> success; empty when no run is finished.
    """

    label: str
    planned: int
    runs: tuple[TrainedRun, ...]
    reasons: Mapping[int, str]
    measured: Mapping[str, Measured]

    def average(self, name: str) -> float | None:
        """The mean over the seeds of a metric's newest value."""
        return _average([run.last(name) for run in self.runs])

    def typical(self, name: str) -> float | None:
        """The mean over the seeds of a metric's mean over the iterations."""
        return _average([value for run in self.runs if (value := run.mean(name)) is not None])

    @property
    def failures(self) -> int:
        """Episodes of training that broke, with evaluated ones that could not be played."""
        broken = sum(run.total("rollout/failures") for run in self.runs)
        return int(broken) + sum(one.missing for one in self.measured.values())

    def as_dict(self) -> dict[str, Any]:
        """The row as JSON values."""
        return {
            "label": self.label,
            "seeds": [run.seed for run in self.runs],
            "planned": self.planned,
            "reasons": {str(seed): reason for seed, reason in self.reasons.items()},
            "success": {
                name: {**asdict(one), "interval": one.interval._asdict()}
                for name, one in self.measured.items()
            },
            "environment_steps": self.average("env_steps"),
            "episodes": self.average("episodes"),
            "optimizer_steps": self.average("optimizer_steps"),
            "wall_s": self.average("wall_s"),
            "cpu_s": self.average("cpu_s"),
            "peak_memory_mib": max((run.most("peak_memory_mib") for run in self.runs), default=0.0),
            "failures": self.failures,
            **{name: self.typical(metric) for name, metric in REGIME.items()},
        }


@dataclass(frozen=True, slots=True)
class Pair:
    """Two variants, task by task, over the seeds that both have finished.

    Attributes:
        first: label of the one.
        second: label of the other.
        seeds: common ones.
        difference: first minus second, with its interval over tasks, of this pair alone.
        test: "mcnemar" for one trial a task, else "sign-flip".
        p: two-sided.
        adjusted: by Holm's rule over all pairs of the table.
    """

    first: str
    second: str
    seeds: tuple[int, ...]
    difference: Interval
    test: str
    p: float
    adjusted: float

    @property
    def sentence(self) -> str:
        """What may be said of the two."""
        value = self.difference.estimate or 0.0
        if self.adjusted > ALPHA or value == 0.0:
            return f"{self.first} and {self.second} cannot be told apart"
        higher, lower = (self.first, self.second) if value > 0 else (self.second, self.first)
        return f"{higher} is higher than {lower}"

    def as_dict(self) -> dict[str, Any]:
        """The pair as JSON values, with its sentence."""
        value = {**asdict(self), "difference": self.difference._asdict()}
        return {**value, "sentence": self.sentence}


def table_row(label: str, runs: Sequence[TrainedRun]) -> Row:
    """The row of one variant.

    Args:
        label: what the table calls it.
        runs: one a seed, finished or not.
    """
    finished = tuple(run for run in runs if run.outcomes)
    names = [name for name in EVALUATIONS if all(name in run.outcomes for run in finished)]
    return Row(
        label,
        len(runs),
        finished,
        {run.seed: run.failure for run in runs if not run.outcomes},
        {name: _measured(finished, name) for name in names if finished},
    )


def paired_differences(rows: Sequence[Row], evaluation: str = SEEN) -> list[Pair]:
    """Every pair of rows that have a seed in common, adjusted together.

    Raises:
        UsageError: two runs of one table were evaluated on different tasks.
    """
    found = []
    for one, other in combinations(rows, 2):
        left, right = ({run.seed: run for run in row.runs} for row in (one, other))
        seeds = [seed for seed in left if seed in right]
        if not seeds or evaluation not in one.measured or evaluation not in other.measured:
            continue
        first, second = (
            _trials([side[seed] for seed in seeds], evaluation) for side in (left, right)
        )
        if first.keys() != second.keys():
            raise UsageError(
                f"{one.label} and {other.label} were evaluated on different tasks; compare runs of "
                "one environment and split"
            )
        values = [EnvValues("success", tuple(map(tuple, t.values()))) for t in (first, second)]
        p, test = paired_p({"": values[0]}, {"": values[1]})
        difference = difference_interval(values[0].means - values[1].means)
        found.append((one.label, other.label, tuple(seeds), difference, test, p))
    adjusted = holm([pair[-1] for pair in found])
    return [Pair(*pair, value) for pair, value in zip(found, adjusted, strict=True)]


def success_table(rows: Sequence[Row], *, regime: bool = False) -> list[str]:
    """The rows as Markdown.

    Args:
        rows: in the order of the table.
        regime: tell ratios and lengths instead of cost.
    """
    head = ["", "seeds", "success, temperature 1", "95 % over tasks", "greedy"]
    head += ["unseen, temperature 1", "unseen, greedy"]
    if regime:
        head += list(REGIME)
    else:
        head += ["environment steps", "episodes", "optimizer steps", "wall s", "CPU s"]
        head += ["peak MiB", "failures"]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        told = row.as_dict()
        cells = [row.label, f"{len(row.runs)} of {row.planned}"]
        cells += [_mean(row, SEEN), _ends(row.measured.get(SEEN))]
        cells += [_mean(row, name) for name in EVALUATIONS[1:]]
        if regime:
            cells += [_number(told[name], "{:.3f}") for name in REGIME]
        else:
            keys = ("environment_steps", "episodes", "optimizer_steps", "wall_s", "cpu_s")
            cells += [_number(told[key], "{:,.0f}") for key in keys]
            cells += [_number(told["peak_memory_mib"] or None, "{:,.0f}"), str(row.failures)]
        lines.append(cells)
    return [f"| {' | '.join(cells)} |" for cells in lines]


def learning_curves(rows: Sequence[Row], title: str) -> str:
    """Mean and range over the seeds on training and unseen tasks, one panel a row, as SVG."""
    panels = [
        Panel(
            row.label,
            [
                over_repetitions("training tasks", [run.curve(SEEN) for run in row.runs]),
                over_repetitions("unseen tasks", [run.curve(UNSEEN) for run in row.runs]),
            ],
        )
        for row in rows
        if row.runs
    ]
    return chart(panels, title=title, x_label="environment steps", y_label="success")


def unfinished(rows: Sequence[Row]) -> list[str]:
    """One line for each run that is not finished, with the reason."""
    return [
        f"* {row.label}, seed {seed}: {reason}"
        for row in rows
        for seed, reason in row.reasons.items()
    ]


def difference_table(pairs: Iterable[Pair]) -> list[str]:
    """The pairs as Markdown, smallest adjusted p first."""
    lines = ["| pair | difference | 95 % of this pair alone | p | adjusted p | |", "|---" * 6 + "|"]
    for pair in sorted(pairs, key=lambda pair: (pair.adjusted, pair.p)):
        low, high = pair.difference.low, pair.difference.high
        lines.append(
            f"| {pair.first} - {pair.second} | {pair.difference.estimate:+.3f} | "
            f"{low:+.3f} to {high:+.3f} | {pair.p:.2g} | {pair.adjusted:.2g} | {pair.sentence} |"
        )
    return lines


def _measured(runs: Sequence[TrainedRun], evaluation: str) -> Measured:
    means = [success_rate(run.outcomes[evaluation]) for run in runs]
    trials = list(_trials(runs, evaluation).values())
    missing = sum(o is None for run in runs for t in run.outcomes[evaluation].values() for o in t)
    mean, deviation = mean_and_deviation(means) if len(means) > 1 else (means[0], None)
    return Measured(mean, deviation, success_interval(trials), missing)


def _trials(runs: Sequence[TrainedRun], evaluation: str) -> dict[str, list[float]]:
    """The trials of each task over all runs; one that is missing is a failure."""
    found: dict[str, list[float]] = {}
    for run in runs:
        for task, outcomes in run.outcomes[evaluation].items():
            found.setdefault(task, []).extend(float(outcome or 0) for outcome in outcomes)
    return found


def _average(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _mean(row: Row, evaluation: str) -> str:
    one = row.measured.get(evaluation)
    if one is None:
        return "-"
    return f"{one.mean:.3f}" + (f" ± {one.deviation:.3f}" if one.deviation is not None else "")


def _ends(one: Measured | None) -> str:
    if one is None or one.interval.low is None or one.interval.high is None:
        return "-"
    return f"{one.interval.low:.3f} to {one.interval.high:.3f}"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
