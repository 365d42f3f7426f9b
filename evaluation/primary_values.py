"""The metric that a leaderboard is ordered by: its value of every task, from a run's records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.evaluation.comparisons import mcnemar_exact, sign_flip
from agentgym_suite.evaluation.intervals import (
    Interval,
    macro_interval,
    success_interval,
    task_bootstrap,
    task_means,
)
from agentgym_suite.evaluation.results import PRIMARY, common_metric
from agentgym_suite.evaluation.suites import Suite
from agentgym_suite.evaluation.tallies import read_tallies

PairedTest = Literal["mcnemar", "sign-flip"]
BENCHMARK_METRICS: Mapping[str, str] = {"MultiHopQA-v0": "em", "PaperSearch-v0": "f1_all"}
"""What the benchmarks of an environment are ordered by where that is not success."""
SHARES = frozenset(
    (PRIMARY, "success", "score")
    + ("won",)  # ALFWorld
    + ("r_type", "r_att", "r_option", "r_option_exact", "r_price")  # WebShop
    + ("query_match", "category_match", "title_score", "purchases", "options_asked")
    + ("em", "f1", "support_recall", "support_known")  # multi-hop questions
    + ("f1_all", "recall_all", "precision_all", "f1_all_t0", "recall_all_t0")  # papers
    + ("crawler_recall", "recall_20", "recall_50", "recall_100")
)
"""Metrics that lie between 0 and 1, which are shown in percent; the others are plain numbers."""


@dataclass(frozen=True, slots=True)
class EnvValues:
    """One environment of a complete run.

    Attributes:
        metric: "success", "score" or one of the environment's metrics.
        trials: its value in every trial of every task, in the suite's order.
    """

    metric: str
    trials: tuple[tuple[float, ...], ...]

    @property
    def means(self) -> NDArray[np.float64]:
        """The value of each task, the mean of its trials; shape (tasks,)."""
        return task_means(self.trials)

    @property
    def binary(self) -> bool:
        """Whether each task has one trial that is either right or wrong."""
        return all(len(values) == 1 and values[0] in (0.0, 1.0) for values in self.trials)

    @property
    def interval(self) -> Interval:
        """The mean over the tasks with its interval."""
        if self.metric == "success":
            return success_interval(self.trials)
        return task_bootstrap(self.means)


def primary_metric(suite_metric: str, env_id: str) -> str:
    """The metric of one environment in a suite.

    Args:
        suite_metric: the suite's own; "success" means each benchmark's usual one.
        env_id: the environment.
    """
    if suite_metric != "success":
        return suite_metric
    return BENCHMARK_METRICS.get(env_id, "success")


def metric_of(suite: Suite) -> str:
    """The primary metric of a suite; "primary metric" where its environments differ in it."""
    return common_metric(primary_metric(suite.primary, entry.id) for entry in suite.envs)


def primary_values(folder: Path, header: Mapping[str, Any]) -> dict[str, EnvValues]:
    """The values of every environment of a complete run, in the suite's order."""
    suite_metric = header["suite"]["content"]["metrics"]["primary"]
    found = {}
    for env_id, tally in read_tallies(folder, header).items():
        metric = primary_metric(suite_metric, env_id)
        found[env_id] = EnvValues(metric, tuple(map(tuple, tally.values(metric))))
    return found


def macro(values: Mapping[str, EnvValues]) -> Interval:
    """The mean over the environments, each weighing the same."""
    each = list(values.values())
    if len(each) == 1:
        return each[0].interval
    rate = all(one.metric == "success" for one in each)
    return macro_interval([one.means for one in each], rate=rate)


def paired_p(
    one: Mapping[str, EnvValues], other: Mapping[str, EnvValues]
) -> tuple[float, PairedTest]:
    """The paired test of two runs of one suite, and its name.

    McNemar's exact test for one right-or-wrong trial a task of one environment; else the
    sign-flip test of the difference of the macro means, each environment weighing the same.
    """
    (first, *more), (second, *_) = one.values(), other.values()
    if not more and first.binary and second.binary:
        difference = first.means - second.means
        wins, losses = int((difference > 0).sum()), int((difference < 0).sum())
        return mcnemar_exact(wins, losses), "mcnemar"
    tasks = sum(len(values.trials) for values in one.values())
    differences: list[float] = []
    for env_id, values in one.items():
        weight = tasks / (len(one) * len(values.trials))
        differences += list(weight * (values.means - other[env_id].means))
    return sign_flip(differences), "sign-flip"
