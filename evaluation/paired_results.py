"""What comparing runs gives: differences, tests and flipped tasks, in numbers and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from agentgym_suite.evaluation.intervals import ALL_EQUAL, Interval
from agentgym_suite.evaluation.leaderboard import ALPHA
from agentgym_suite.evaluation.primary_values import SHARES, PairedTest
from agentgym_suite.evaluation.results import LengthRate, plain

COMPARISON_SCHEMA_VERSION = 2


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A run of one suite that is compared.

    Attributes:
        label: what tables call it: its agent, with the folder where that alone is ambiguous.
        agent: its agent.
        folder: its directory.
        suite: id and version of its suite.
        planned: its episodes.
        finished: how many of them are finished.
    """

    label: str
    agent: str
    folder: str
    suite: str
    planned: int
    finished: int


@dataclass(frozen=True, slots=True)
class Flip:
    """A task that one run solves more often than the other.

    Attributes:
        task_id: the task.
        first: share of the first run's trials that succeeded.
        second: of the second run's.
        first_link: where the first run's page shows its first trial.
        second_link: the same of the second run.
    """

    task_id: str
    first: float
    second: float
    first_link: str
    second_link: str


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs in one environment, or over all of them.

    Attributes:
        env_id: the environment; "" for the mean over all, each weighing the same.
        metric: what is compared.
        first: label of the first run.
        second: label of the second one.
        n: tasks that both have played.
        first_value: the first run's mean with its interval.
        second_value: the second run's.
        difference: mean of first minus second over the tasks, with its interval.
        test: "mcnemar", exact, for one right-or-wrong trial a task of one environment; else
            "sign-flip".
        p: its two-sided p-value.
        adjusted: the same after Holm's correction over everything compared in one call.
        wins: tasks in which the first run has the higher value.
        losses: tasks in which the second one has.
        ties: the others.
        flips: tasks whose success differs; empty for the mean over all.
    """

    env_id: str
    metric: str
    first: str
    second: str
    n: int
    first_value: Interval
    second_value: Interval
    difference: Interval
    test: PairedTest
    p: float
    adjusted: float
    wins: int
    losses: int
    ties: int
    flips: tuple[Flip, ...]

    @property
    def place(self) -> str:
        """The environment in words."""
        return self.env_id or "all environments"

    @property
    def indistinguishable(self) -> bool:
        """Whether the two cannot be told apart at 95 %."""
        return self.adjusted > ALPHA

    @property
    def sentence(self) -> str:
        """The comparison in words."""
        difference = self.difference.estimate or 0.0
        told = f"adjusted p = {p_text(self.adjusted)}"
        where = f"{self.place}, {self.metric}"
        if self.indistinguishable:
            return (
                f"{where}: {self.first} and {self.second} are indistinguishable at 95 %"
                f"{' beside the other tests' if self.p <= ALPHA else ''}, "
                f"difference {self.shown(difference)} ({self.ends()}), {told}"
            )
        higher, lower = (self.first, self.second)[:: 1 if difference > 0 else -1]
        return (
            f"{where}: {higher} is higher than {lower} by {self.shown(abs(difference))} "
            f"({self.ends(turned=difference < 0)}), {told}"
        )

    def ends(self, *, turned: bool = False) -> str:
        """The interval of the difference in words.

        Args:
            turned: of second minus first instead.
        """
        _, low, high, method, _ = self.difference
        if low is None or high is None or method == ALL_EQUAL:
            which = f"all {self.n} tasks" if self.env_id else "all tasks of each environment"
            return f"the same {'difference ' if self.difference.estimate else ''}in {which}"
        low, high = (-high, -low) if turned else (low, high)
        alone = " of this pair alone" if self.adjusted > self.p else ""
        return f"interval{alone} {self.number(low)} to {self.number(high)}"

    @property
    def share(self) -> bool:
        """Whether the metric is a share, which is shown in percent."""
        return self.metric in SHARES

    def number(self, value: float) -> str:
        """A value of the metric: in percent where it is a share."""
        return f"{100 * value + 0.0:.1f}" if self.share else f"{value + 0.0:.3g}"

    def shown(self, value: float) -> str:
        """A difference with its unit."""
        return f"{self.number(value)} points" if self.share else self.number(value)


@dataclass(frozen=True, slots=True)
class SuiteComparison:
    """The runs of one suite.

    Attributes:
        suite: its id and version; of several suites all of them.
        runs: the runs, in the order in which they were named.
        pairs: every pair of them in every environment, then over all of these.
        remarks: which tasks were compared, where not all of every run.
        warnings: settings that differ between the runs.
        oracle_lengths: environment -> label -> success by the steps of the oracle's run; empty
            without one.
    """

    suite: str
    runs: tuple[ComparedRun, ...]
    pairs: tuple[Pair, ...]
    remarks: tuple[str, ...]
    warnings: tuple[str, ...]
    oracle_lengths: Mapping[str, Mapping[str, Mapping[str, LengthRate]]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs compared with each other.

    Attributes:
        schema_version: version of this schema.
        suites: one comparison for each suite; of runs that are no unions just one.
        left_out: suite of a union -> who has no run of it.
        family: how many tests the p-values are adjusted for.
    """

    schema_version: int
    suites: tuple[SuiteComparison, ...]
    left_out: Mapping[str, str]
    family: int

    def __str__(self) -> str:
        """The sentence of every pair, line by line; of several suites with the suite's name."""
        several = len(self.suites) > 1
        return "\n".join(
            f"{suite.suite}: {pair.sentence}" if several else pair.sentence
            for suite in self.suites
            for pair in suite.pairs
        )

    @property
    def complete(self) -> bool:
        """Whether every run holds every episode."""
        return all(c.finished == c.planned for suite in self.suites for c in suite.runs)

    @property
    def pairs(self) -> Sequence[Pair]:
        """Every pair of every suite."""
        return [pair for suite in self.suites for pair in suite.pairs]

    def as_dict(self) -> dict[str, Any]:
        """The comparison as JSON values, floats rounded to 12 decimals, with its sentences."""
        value = {field.name: plain(getattr(self, field.name)) for field in fields(self)}
        for told, suite in zip(value["suites"], self.suites, strict=True):
            for one, pair in zip(told["pairs"], suite.pairs, strict=True):
                one |= {"p": pair.p, "adjusted": pair.adjusted}  # a small one is not rounded away
                one |= {"indistinguishable": pair.indistinguishable, "sentence": pair.sentence}
        return value


def p_text(p: float) -> str:
    """A p-value with two significant digits."""
    return f"{p:.2g}"
