"""Intervals: worked values to their printed digits, coverage, and what must hold of any numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.errors import UsageError
from agentgym_suite.evaluation.intervals import (
    macro_interval,
    success_interval,
    task_bootstrap,
    task_bootstraps,
    task_means,
    wilson,
)

TRIALS = [[1, 1, 0], [0, 0, 0], [1, 1, 1], [1, 0, 0]]
SCORES = [1, 0.5, 0, 1, 0.5, 1, 1, 0, 0.5, 1]


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [
        (116, 134, 0.797648859, 0.913312856),
        (10, 10, 0.722467200, 1.0),
        (0, 5, 0.0, 0.434482465),
        (57, 128, 0.362055249, 0.531756605),
    ],
)
def test_wilson_worked_values(k: int, n: int, low: float, high: float) -> None:
    interval = wilson(k, n)
    assert interval.estimate == k / n
    assert interval.low == pytest.approx(low, abs=5e-10)
    assert interval.high == pytest.approx(high, abs=5e-10)
    assert interval.method == "wilson"
    assert interval.n == n


def test_wilson_of_nothing_is_null() -> None:
    assert wilson(0, 0)[:3] == (None, None, None)


@pytest.mark.parametrize(("k", "n"), [(-1, 3), (4, 3)])
def test_wilson_refuses_impossible_counts(k: int, n: int) -> None:
    with pytest.raises(UsageError, match="successes"):
        wilson(k, n)


@pytest.mark.parametrize(
    ("n", "p", "coverage"),
    [(10, 0.5, 0.978516), (20, 0.1, 0.956826), (134, 0.9, 0.958186), (500, 0.58, 0.948714)],
)
def test_wilson_exact_coverage(n: int, p: float, coverage: float) -> None:
    total = 0.0
    for k in range(n + 1):
        interval = wilson(k, n)
        assert interval.low is not None and interval.high is not None
        if interval.low <= p <= interval.high:
            log_p = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
            total += math.exp(log_p + k * math.log(p) + (n - k) * math.log(1 - p))
    assert total == pytest.approx(coverage, abs=5e-7)


@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n - 1), st.just(n))))
def test_wilson_lies_in_the_unit_interval_and_grows_with_k(counts: tuple[int, int]) -> None:
    k, n = counts
    lower, upper = wilson(k, n), wilson(k + 1, n)
    for interval in (lower, upper):
        estimate, low, high = interval[:3]
        assert estimate is not None and low is not None and high is not None
        assert 0 <= low <= estimate <= high <= 1
    assert lower[1] < upper[1] and lower[2] < upper[2]  # type: ignore[operator]


def test_bootstrap_worked_example_a() -> None:
    interval = success_interval(TRIALS)
    assert interval.estimate == pytest.approx(0.5)
    assert interval.low == pytest.approx(1 / 6, abs=1e-12)
    assert interval.high == pytest.approx(5 / 6, abs=1e-12)
    assert (interval.method, interval.n) == ("task-bootstrap", 4)


@pytest.mark.parametrize("seed", range(5))
def test_bootstrap_worked_example_b(seed: int) -> None:
    interval = task_bootstrap(SCORES, seed=seed)
    assert interval.estimate == pytest.approx(0.65)
    assert interval.low == pytest.approx(0.40, abs=1e-12)
    assert interval.high == pytest.approx(0.90, abs=1e-12)


def test_bootstrap_draws_what_the_specification_says(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.Generator(np.random.PCG64(3)).random(37)
    draws = np.random.Generator(np.random.PCG64(7)).integers(0, 37, size=(10_000, 37))
    low, high = np.percentile(values[draws].mean(axis=1), (2.5, 97.5))
    # Few draws at once, so that the blocks are proved to continue one stream.
    monkeypatch.setattr("agentgym_suite.evaluation.intervals._DRAWS_AT_ONCE", 37 * 97)
    interval = task_bootstrap(values, seed=7)
    assert interval.low == pytest.approx(low, abs=1e-12)
    assert interval.high == pytest.approx(high, abs=1e-12)


def test_columns_share_their_resamples() -> None:
    columns = np.stack([SCORES, np.array(SCORES) * 2, np.ones(10)], axis=1)
    first, double, constant = task_bootstraps(columns)
    assert first == task_bootstrap(SCORES)
    assert double.low == pytest.approx(2 * (first.low or 0))
    assert constant[:4] == (1.0, 1.0, 1.0, "all-tasks-equal")


def test_equal_tasks_do_not_claim_certainty_of_success() -> None:
    interval = success_interval([[1.0, 1.0]] * 10)
    assert interval.method == "wilson-degenerate"
    assert interval.estimate == 1.0
    assert interval.low == pytest.approx(0.722467200, abs=5e-10)


def test_one_trial_a_task_is_wilson() -> None:
    assert success_interval([[1.0]] * 57 + [[0.0]] * 71) == wilson(57, 128)


def test_bootstrap_of_nothing_is_null() -> None:
    assert task_bootstrap([])[:3] == (None, None, None)
    assert success_interval([])[:3] == (None, None, None)
    assert macro_interval([])[:3] == (None, None, None)


def test_macro_weighs_environments_equally() -> None:
    one = macro_interval([[1.0] * 89 + [0.0], [0.0] * 9 + [1.0]])
    assert one.estimate == pytest.approx((89 / 90 + 1 / 10) / 2) and one.n == 100
    assert one.method == "stratified-task-bootstrap"
    equal = macro_interval([[1.0] * 90, [0.0] * 10])
    assert equal == (0.5, 0.5, 0.5, "all-tasks-equal", 100)


@pytest.mark.parametrize("value", [0.0, 0.4, 1.0])
def test_equal_tasks_follow_one_rule(value: float) -> None:
    tasks = [value] * 10
    ends = task_bootstrap(tasks, rate=True)
    assert ends[0] == value and ends.method == "wilson-degenerate"
    assert ends[1:3] == pytest.approx(wilson(round(10 * value), 10)[1:3])
    assert task_bootstraps(np.full((10, 2), value), rate=True) == [ends, ends]
    assert success_interval([[value, value]] * 10) == ends
    assert macro_interval([tasks], rate=True) == ends
    marked = (value, value, value, "all-tasks-equal")
    assert task_bootstrap(tasks)[:4] == macro_interval([tasks, tasks])[:4] == marked


def test_a_macro_of_perfect_runs_claims_no_certainty() -> None:
    even = macro_interval([[1.0] * 5, [1.0] * 5], rate=True)
    assert even[:2] == (1.0, pytest.approx(0.722467200, abs=5e-10)) and even.n == 10
    # Few tasks of one group weigh as much as the many of the other: 4 / (1/90 + 1/10) = 36.
    uneven = macro_interval([[1.0] * 90, [1.0] * 10], rate=True)
    assert uneven.low == pytest.approx(wilson(36, 36).low or 0.0) and uneven.high == 1.0


def test_clustering_covers_and_pooling_does_not() -> None:
    rng = np.random.Generator(np.random.PCG64(20))
    clustered = pooled = 0
    simulations = 1000
    for simulation in range(simulations):
        chances = rng.beta(0.5, 0.5, size=100)
        trials = rng.random((100, 4)) < chances[:, np.newaxis]
        by_task = task_bootstrap(task_means(trials.tolist()), seed=simulation, resamples=1000)
        together = wilson(int(trials.sum()), 400)
        clustered += by_task.low <= 0.5 <= by_task.high  # type: ignore[operator]
        pooled += together.low <= 0.5 <= together.high  # type: ignore[operator]
    assert 0.93 <= clustered / simulations <= 0.985
    assert pooled / simulations < 0.88


def test_a_macro_resamples_the_tasks_of_each_group() -> None:
    groups = [[1.0] * k + [0.0] * (n - k) for k, n in ((30, 40), (3, 12), (55, 100))]
    groups.append(np.linspace(0.0, 1.0, 50).tolist())  # too many values to be drawn together
    interval = macro_interval(groups)
    assert interval.estimate == pytest.approx(np.mean([np.mean(group) for group in groups]))
    assert (interval.method, interval.n) == ("stratified-task-bootstrap", 202)
    rng = np.random.Generator(np.random.PCG64(11))
    drawn = [np.array(g)[rng.integers(0, len(g), size=(10_000, len(g)))].mean(1) for g in groups]
    ends = np.percentile(np.mean(drawn, axis=0), (2.5, 97.5))
    assert interval[1:3] == pytest.approx(ends, abs=0.004)
    assert macro_interval(groups) == interval != macro_interval(groups, seed=1)
    assert macro_interval([[1.0, 0.0], []])[:3] == (None, None, None)
