"""Tests of two runs on the same tasks: McNemar's, sign flips, and Holm's correction.

Each is a pure function; what draws random numbers takes a seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from agentgym_suite.errors import UsageError
from agentgym_suite.evaluation.intervals import Interval, task_bootstrap

MOST_ENUMERATED = 20
PATTERNS = 10_000
_SLACK = 1e-12  # sums of the same differences in another order, as a share of their size
_PATTERNS_AT_ONCE = 4_000_000


def mcnemar_exact(b: int, c: int) -> float:
    """The two-sided exact McNemar test: one binary trial a task.

    Args:
        b: tasks that only the first run solves.
        c: tasks that only the second one solves.

    Raises:
        UsageError: a count is negative.
    """
    if b < 0 or c < 0:
        raise UsageError(f"the counts are {b} and {c}; give 0 or more")
    n = b + c
    if b == c:
        return 1.0
    tail: int = sum(math.comb(n, i) for i in range(min(b, c) + 1))
    return min(1.0, float(2 * tail / 2**n))


def sign_flip(differences: ArrayLike, seed: int = 0) -> float:
    """The two-sided sign-flip permutation test of a mean of zero.

    Up to 20 tasks every pattern of signs is looked at, above that 10,000 random ones.

    Args:
        differences: first run minus second, one value a task, shape (n,); zeros stay in.
        seed: of the random patterns.
    """
    d = np.asarray(differences, dtype=np.float64).ravel()
    n = len(d)
    if n == 0 or not d.any():
        return 1.0
    bound = abs(d.sum()) - _SLACK * abs(d).sum()
    if n <= MOST_ENUMERATED:
        sums = np.zeros(1)
        for value in d:
            sums = np.concatenate([sums + value, sums - value])
        return float(np.mean(np.abs(sums) >= bound))
    rng = np.random.Generator(np.random.PCG64(seed))
    extreme, rows = 0, max(1, _PATTERNS_AT_ONCE // n)
    for start in range(0, PATTERNS, rows):
        signs = rng.integers(0, 2, size=(min(rows, PATTERNS - start), n)) * 2 - 1
        extreme += int(np.count_nonzero(np.abs(signs @ d) >= bound))
    return (1 + extreme) / (1 + PATTERNS)


def difference_interval(differences: ArrayLike, seed: int = 0) -> Interval:
    """The mean difference with its interval: the task bootstrap of the paired differences."""
    return task_bootstrap(differences, seed=seed)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values adjusted by Holm's step-down rule, in the order given.

    Args:
        p_values: of one family: all comparisons that are printed together.
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * p_values[place]))
        adjusted[place] = highest
    return adjusted
