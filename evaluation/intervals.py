"""Intervals of success and score, on numpy alone.

Every interval is a pure function that returns an ``Interval``; what draws random numbers takes
a seed and uses ``numpy.random.Generator(numpy.random.PCG64(seed))``, so that the same records
give the same interval anywhere. Where all tasks are equal, resampling them says nothing: a rate
of success then has Wilson's ends, any other quantity a width of zero that is marked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentgym_suite.errors import UsageError

Z_95 = 1.959963984540054
RESAMPLES = 10_000
_PERCENTILES = (2.5, 97.5)
WILSON_DEGENERATE = "wilson-degenerate"
"""Method of a rate of success whose tasks are all equal: Wilson's ends over the tasks."""
ALL_EQUAL = "all-tasks-equal"
"""Method of any other quantity whose tasks are all equal: both ends are the estimate."""
_FEW_VALUES = 32  # of so many distinct values a multinomial draw is faster than one for each task
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


JSON_NAMES: Mapping[str, str] = {"estimate": "est"}
"""Fields of an interval that JSON calls otherwise."""


def no_interval(reason: str, n: int = 0) -> Interval:
    """The interval of a value that cannot be stated, with the reason as its method."""
    return Interval(None, None, None, reason, n)


def wilson(successes: int, n: int) -> Interval:
    """The score interval of a share: one trial of each of ``n`` tasks (Wilson 1927).

    Raises:
        UsageError: ``successes`` is not between 0 and ``n``.
    """
    if not 0 <= successes <= n:
        raise UsageError(f"{successes} successes of {n}: give a count between 0 and {n}")
    if n == 0:
        return no_interval("no episodes")
    share = successes / n
    return Interval(share, *_wilson_ends(share, n), "wilson", n)


def _wilson_ends(share: float, n: float) -> tuple[float, float]:
    z2 = Z_95 * Z_95
    shrink = 1.0 + z2 / n
    centre = (share + z2 / (2 * n)) / shrink
    half = Z_95 * math.sqrt(share * (1.0 - share) / n + z2 / (4.0 * n * n)) / shrink
    # At the ends the formula is exact, its rounding is not.
    return 0.0 if share == 0.0 else centre - half, 1.0 if share == 1.0 else centre + half


def _without_spread(estimate: float, n: int, weight: float, *, rate: bool) -> Interval:
    """The interval of a mean whose resamples are all the same.

    Args:
        estimate: the mean.
        n: tasks.
        weight: how many tasks of equal weight they stand for.
        rate: whether it is a rate of success.
    """
    if not rate:
        return Interval(estimate, estimate, estimate, ALL_EQUAL, n)
    return Interval(estimate, *_wilson_ends(estimate, weight), WILSON_DEGENERATE, n)


def task_means(trials: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """The mean over the trials of each task: the independent units of every bootstrap."""
    return np.array([math.fsum(values) / len(values) for values in trials], dtype=np.float64)


def task_bootstrap(
    means: ArrayLike, *, rate: bool = False, seed: int = 0, resamples: int = RESAMPLES
) -> Interval:
    """The percentile bootstrap over tasks.

    Args:
        means: one value a task, shape (n,).
        rate: whether they are rates of success, which have Wilson's ends when all are equal.
        seed: of the resampling.
        resamples: how many resamples.
    """
    column = np.asarray(means, dtype=np.float64).reshape(-1, 1)
    return task_bootstraps(column, rate=rate, seed=seed, resamples=resamples)[0]


def task_bootstraps(
    columns: NDArray[np.float64],
    *,
    rate: bool = False,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> list[Interval]:
    """``task_bootstrap`` of several quantities at once, on the same resampled tasks.

    Args:
        columns: one row a task, one column a quantity, shape (n, m).
        rate: whether all of them are rates of success.
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
        else _without_spread(float(first), n, n, rate=rate)
        for first, estimate, low, high, differs in zip(
            columns[0], estimates, *bounds, varies, strict=True
        )
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
    return task_bootstrap(task_means(trials), rate=True, seed=seed)


def macro_interval(
    groups: Sequence[ArrayLike],
    *,
    rate: bool = False,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Interval:
    """The mean of the means of environments, or of other groups of tasks, each weighing the same.

    The interval resamples tasks within each group; standard errors are never pooled. Where each
    group's tasks are all equal, Wilson's ends take as many tasks as would weigh the same in a
    mean over all: ``m**2 / sum(1/n)`` of ``m`` groups (Kish's effective size).

    Args:
        groups: for each group one value a task.
        rate: whether the values are rates of success.
        seed: of the resampling.
        resamples: how many resamples.
    """
    each = [np.asarray(means, dtype=np.float64).ravel() for means in groups]
    if not each or any(len(values) == 0 for values in each):
        return no_interval("no episodes")
    n = sum(len(values) for values in each)
    estimate = float(np.mean([values.mean() for values in each]))
    if all((values == values[0]).all() for values in each):
        estimate = math.fsum(float(values[0]) for values in each) / len(each)
        weight = len(each) ** 2 / math.fsum(1 / len(values) for values in each)
        return _without_spread(estimate, n, weight, rate=rate)
    rng = np.random.Generator(np.random.PCG64(seed))
    means = np.mean([_stratified_means(values, rng, resamples) for values in each], axis=0)
    low, high = np.percentile(means, _PERCENTILES)
    return Interval(estimate, float(low), float(high), "stratified-task-bootstrap", n)


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample deviation (n-1) over repetitions: what varies between them, no interval."""
    return float(np.mean(values)), float(np.std(values, ddof=1))


def _stratified_means(
    values: NDArray[np.float64], rng: np.random.Generator, resamples: int
) -> NDArray[np.float64]:
    """Means of resamples of one group; of few distinct values only their numbers are drawn."""
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) > _FEW_VALUES:
        return _means_of_draws(values.reshape(-1, 1), rng, resamples)[:, 0]
    n = len(values)
    means: NDArray[np.float64] = rng.multinomial(n, counts / n, size=resamples) @ distinct / n
    return means


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
