"""Statistics of success and score (evaluation specification, section 8), on numpy alone.

Every interval is a pure function that returns an ``Interval``; what draws random numbers takes
a seed and uses ``numpy.random.Generator(numpy.random.PCG64(seed))``, so that the same records
give the same interval anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentgym_suite.errors import UsageError

Z_95 = 1.959963984540054
RESAMPLES = 10_000
_PERCENTILES = (2.5, 97.5)
_DRAWS_AT_ONCE = 4_000_000  # bounds the memory of a bootstrap to some 64 MB


class Interval(NamedTuple):
    """An estimate with its 95 % interval.

    Attributes:
        estimate: the value; None when there is nothing to estimate.
        low: lower end.
        high: upper end.
        method: how the interval was made, or why there is none.
        n: how many independent units (tasks) stand behind it.
    """

    estimate: float | None
    low: float | None
    high: float | None
    method: str
    n: int


def no_interval(reason: str, n: int = 0) -> Interval:
    """The interval of a value that cannot be stated, with the reason as its method."""
    return Interval(None, None, None, reason, n)


def wilson(successes: int, n: int) -> Interval:
    """The Wilson score interval of a share: one trial of each of ``n`` tasks (section 8.1).

    Raises:
        UsageError: ``successes`` is not between 0 and ``n``.
    """
    if not 0 <= successes <= n:
        raise UsageError(f"{successes} successes of {n}: give a count between 0 and {n}")
    if n == 0:
        return no_interval("no episodes")
    share = successes / n
    z2 = Z_95 * Z_95
    shrink = 1.0 + z2 / n
    centre = (share + z2 / (2 * n)) / shrink
    half = Z_95 * math.sqrt(share * (1.0 - share) / n + z2 / (4.0 * n * n)) / shrink
    # At the ends the formula is exact, its rounding is not.
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == n else centre + half
    return Interval(share, low, high, "wilson", n)


def task_means(trials: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """The mean over the trials of each task: the independent units of every bootstrap."""
    return np.array([math.fsum(values) / len(values) for values in trials], dtype=np.float64)


def task_bootstrap(means: ArrayLike, *, seed: int = 0, resamples: int = RESAMPLES) -> Interval:
    """The percentile bootstrap over tasks (section 8.2).

    Args:
        means: one value a task, shape (n,).
        seed: of the resampling.
        resamples: how many resamples.

    Returns:
        The interval; of zero width and marked so when all tasks have the same value.
    """
    column = np.asarray(means, dtype=np.float64).reshape(-1, 1)
    return task_bootstraps(column, seed=seed, resamples=resamples)[0]


def task_bootstraps(
    columns: NDArray[np.float64], *, seed: int = 0, resamples: int = RESAMPLES
) -> list[Interval]:
    """``task_bootstrap`` of several quantities at once, on the same resampled tasks.

    Args:
        columns: one row a task, one column a quantity, shape (n, m).
        seed: of the resampling.
        resamples: how many resamples.
    """
    n, quantities = columns.shape
    if n == 0:
        return [no_interval("no episodes")] * quantities
    estimates = columns.mean(axis=0)
    varies = columns.min(axis=0) < columns.max(axis=0)
    bounds = np.stack([estimates, estimates])
    if varies.any():
        means = _resampled_means(columns, seed, resamples)
        bounds = np.percentile(means, _PERCENTILES, axis=0)
    return [
        Interval(float(estimate), float(low), float(high), "task-bootstrap", n)
        if differs
        else Interval(float(estimate), float(estimate), float(estimate), "all-tasks-equal", n)
        for estimate, low, high, differs in zip(estimates, *bounds, varies, strict=True)
    ]


def success_interval(trials: Sequence[Sequence[float]], *, seed: int = 0) -> Interval:
    """The interval of a success rate from the 0/1 trials of each task.

    One trial a task: Wilson. Several: the task bootstrap, because trials of one task are not
    independent; Wilson over the tasks where that collapses (all tasks equal).
    """
    if not trials:
        return no_interval("no episodes")
    if all(len(values) == 1 for values in trials):
        return wilson(sum(int(values[0]) for values in trials), len(trials))
    means = task_means(trials)
    interval = task_bootstrap(means, seed=seed)
    if interval.method != "all-tasks-equal":
        return interval
    n = len(trials)
    # The rate need not be a multiple of 1/n, so the formula takes the nearest count.
    ends = wilson(round(float(means[0]) * n), n)
    return Interval(interval.estimate, ends.low, ends.high, "wilson-degenerate", n)


def macro_interval(
    environments: Sequence[ArrayLike], *, seed: int = 0, resamples: int = RESAMPLES
) -> Interval:
    """The mean of the environments' means, each weighing the same (section 8.7).

    The interval resamples tasks within each environment; standard errors are never pooled.

    Args:
        environments: for each environment one value a task.
        seed: of the resampling.
        resamples: how many resamples.
    """
    columns = [np.asarray(means, dtype=np.float64).reshape(-1, 1) for means in environments]
    if not columns or any(len(column) == 0 for column in columns):
        return no_interval("no episodes")
    n = sum(len(column) for column in columns)
    estimate = float(np.mean([column.mean() for column in columns]))
    rng = np.random.Generator(np.random.PCG64(seed))
    means = np.mean([_means_of_draws(column, rng, resamples) for column in columns], axis=0)
    low, high = np.percentile(means[:, 0], _PERCENTILES)
    return Interval(estimate, float(low), float(high), "stratified-task-bootstrap", n)


def mean_of_rates(
    groups: Sequence[tuple[int, int]], *, seed: int = 0, resamples: int = RESAMPLES
) -> Interval:
    """The mean of several success rates, each weighing the same, as ``macro_interval`` has it.

    A resample of a group of ``n`` right-or-wrong tasks has a binomial number of successes, so that
    none has to be drawn one by one.

    Args:
        groups: (successes, tasks) of each group, one trial a task.
        seed: of the resampling.
        resamples: how many resamples.
    """
    counts = np.array(groups, dtype=np.int64).reshape(-1, 2)
    if len(counts) == 0 or not counts[:, 1].all():
        return no_interval("no episodes")
    successes, n = counts.T
    estimate, total = float((successes / n).mean()), int(n.sum())
    if not ((successes > 0) & (successes < n)).any():  # a resample can give nothing else
        return Interval(estimate, None, None, "every group all right or all wrong", total)
    rng = np.random.Generator(np.random.PCG64(seed))
    means = (rng.binomial(n, successes / n, size=(resamples, len(counts))) / n).mean(axis=1)
    low, high = np.percentile(means, _PERCENTILES)
    return Interval(estimate, float(low), float(high), "stratified-task-bootstrap", total)


def _resampled_means(
    columns: NDArray[np.float64], seed: int, resamples: int
) -> NDArray[np.float64]:
    return _means_of_draws(columns, np.random.Generator(np.random.PCG64(seed)), resamples)


def _means_of_draws(
    columns: NDArray[np.float64], rng: np.random.Generator, resamples: int
) -> NDArray[np.float64]:
    """Means of ``rng.integers(0, n, size=(resamples, n))``, drawn a few rows at a time."""
    n = len(columns)
    rows = max(1, _DRAWS_AT_ONCE // n)
    blocks = []
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        draws = rng.integers(0, n, size=(size, n))
        # How often each task was drawn; one product then serves every column.
        draws += np.arange(size)[:, np.newaxis] * n
        counts = np.bincount(draws.ravel(), minlength=size * n).reshape(size, n)
        blocks.append(counts @ columns / n)
    return np.concatenate(blocks)
