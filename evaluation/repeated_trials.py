"""Several trials of each task: pass@k, pass^k and what varies between the trials.

Only the ``success`` flag counts; a score on the way never enters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from agentgym_suite.errors import UsageError
from agentgym_suite.evaluation.intervals import (
    Interval,
    mean_and_deviation,
    success_interval,
    task_bootstraps,
)
from agentgym_suite.evaluation.results import Spread


def pass_at_k(n: int, c: int, k: int) -> float:
    """The chance that at least one of ``k`` trials succeeds, without bias: 1 - C(n-c,k)/C(n,k).

    Args:
        n: trials of the task.
        c: how many of them succeeded.
        k: trials drawn from them, without putting back.

    Raises:
        UsageError: not 0 <= c <= n and 1 <= k <= n.
    """
    _check(n, c, k)
    drawings = math.comb(n, k)
    return (drawings - math.comb(n - c, k)) / drawings  # of whole numbers: rounded once


def pass_hat_k(n: int, c: int, k: int) -> float:
    """The chance that all of ``k`` trials succeed, without bias: C(c,k)/C(n,k).

    Args:
        n: trials of the task.
        c: how many of them succeeded.
        k: trials drawn from them, without putting back.

    Raises:
        UsageError: not 0 <= c <= n and 1 <= k <= n.
    """
    _check(n, c, k)
    return math.comb(c, k) / math.comb(n, k)


def pass_intervals(
    trials: Sequence[Sequence[float]],
) -> tuple[dict[str, Interval], dict[str, Interval]]:
    """pass@k and pass^k over the tasks, for every k up to the number of trials.

    Args:
        trials: 0 or 1 for each trial of each task, as many for every task.

    Returns:
        k -> pass@k, and k -> pass^k; for k = 1 both are the success rate with its own interval.
    """
    n = min((len(values) for values in trials), default=0)
    if n == 0:
        return {}, {}
    counts = [round(math.fsum(values)) for values in trials]
    later = range(2, n + 1)
    success = success_interval(trials)
    at, hat = {"1": success}, {"1": success}
    if later:
        rows = [[f(n, c, k) for f in (pass_at_k, pass_hat_k) for k in later] for c in counts]
        intervals = task_bootstraps(np.array(rows, dtype=np.float64), rate=True)
        at |= {str(k): one for k, one in zip(later, intervals[: n - 1], strict=True)}
        hat |= {str(k): one for k, one in zip(later, intervals[n - 1 :], strict=True)}
    return at, hat


def trial_spread(trials: Sequence[Sequence[float]]) -> Spread | None:
    """Mean and sample deviation of the trials' means over the tasks.

    Args:
        trials: a value for each trial of each task, as many for every task.

    Returns:
        None for fewer than two trials.
    """
    n = min((len(values) for values in trials), default=0)
    if n < 2:
        return None
    means = [math.fsum(values[t] for values in trials) / len(trials) for t in range(n)]
    return Spread(*mean_and_deviation(means), n)


def _check(n: int, c: int, k: int) -> None:
    if not (0 <= c <= n and 1 <= k <= n):
        raise UsageError(f"{c} successes in {n} trials, k = {k}: give 0 <= c <= n and 1 <= k <= n")
