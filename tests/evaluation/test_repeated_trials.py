"""pass@k, pass^k and spreads: the worked values, and what must hold of any numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.errors import UsageError
from agentgym_suite.evaluation.intervals import mean_and_deviation
from agentgym_suite.evaluation.repeated_trials import (
    pass_at_k,
    pass_hat_k,
    pass_intervals,
    trial_spread,
)

DIGITS = 5e-10  # half of the last digit that the worked values print
THREE_TASKS = [[1, 1, 1, 1], [1, 0, 1, 0], [0, 0, 0, 0]]
trials = st.integers(1, 6).flatmap(
    lambda n: st.lists(
        st.lists(st.sampled_from([0.0, 1.0]), min_size=n, max_size=n), min_size=1, max_size=8
    )
)


@pytest.mark.parametrize(
    ("n", "c", "k", "value"), [(8, 3, 2, 0.642857143), (10, 1, 5, 0.5), (8, 7, 2, 1), (4, 0, 3, 0)]
)
def test_pass_at_k(n: int, c: int, k: int, value: float) -> None:
    assert pass_at_k(n, c, k) == pytest.approx(value, abs=DIGITS)


@pytest.mark.parametrize(
    ("n", "c", "k", "value"), [(8, 3, 2, 0.107142857), (8, 6, 4, 0.214285714), (8, 1, 2, 0)]
)
def test_pass_hat_k(n: int, c: int, k: int, value: float) -> None:
    assert pass_hat_k(n, c, k) == pytest.approx(value, abs=DIGITS)


def test_a_suite_is_the_mean_over_its_tasks() -> None:
    at, hat = pass_intervals(THREE_TASKS)
    assert list(at) == list(hat) == ["1", "2", "3", "4"]
    assert at["2"].estimate == pytest.approx(0.611111111, abs=DIGITS)
    assert hat["2"].estimate == pytest.approx(0.388888889, abs=DIGITS)
    assert at["2"].n == 3 and at["2"].method == "task-bootstrap"


def test_a_table_never_has_two_rules_for_equal_tasks() -> None:
    at, hat = pass_intervals([[1.0, 1.0]] * 10)
    for interval in (*at.values(), *hat.values()):
        assert interval.method == "wilson-degenerate" and interval.estimate == 1.0
        assert interval.low == pytest.approx(0.722467200, abs=DIGITS) and interval.high == 1.0
    at, _ = pass_intervals([[1.0, 0.0]] * 10)
    assert at["1"].method == at["2"].method == "wilson-degenerate"
    assert (at["1"].estimate, at["2"].estimate) == (0.5, 1.0)


def test_one_trial_has_the_interval_of_the_success_rate() -> None:
    at, hat = pass_intervals([[1.0]] * 116 + [[0.0]] * 18)
    assert at == hat and list(at) == ["1"]
    assert at["1"].method == "wilson" and at["1"].low == pytest.approx(0.797648859, abs=DIGITS)


@pytest.mark.parametrize(("n", "c", "k"), [(4, 5, 1), (4, -1, 1), (4, 2, 0), (4, 2, 5)])
def test_impossible_counts_are_refused(n: int, c: int, k: int) -> None:
    for function in (pass_at_k, pass_hat_k):
        with pytest.raises(UsageError, match="1 <= k <= n"):
            function(n, c, k)


@given(st.integers(1, 30).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_pass_at_k_grows_and_pass_hat_k_falls_from_the_same_rate(counts: tuple[int, int]) -> None:
    n, c = counts
    at = [pass_at_k(n, c, k) for k in range(1, n + 1)]
    hat = [pass_hat_k(n, c, k) for k in range(1, n + 1)]
    assert at[0] == pytest.approx(c / n) and hat[0] == pytest.approx(c / n)
    assert at == sorted(at) and hat == sorted(hat, reverse=True)
    assert all(0 <= low <= high <= 1 for low, high in zip(hat, at, strict=True))
    assert at[-1] == float(c > 0) and hat[-1] == float(c == n)


@given(trials)
def test_the_first_of_both_is_the_mean(values: list[list[float]]) -> None:
    at, hat = pass_intervals(values)
    mean = sum(map(sum, values)) / sum(map(len, values))
    assert at["1"].estimate == hat["1"].estimate == pytest.approx(mean)
    for interval in (*at.values(), *hat.values()):
        estimate, low, high, _, n = interval
        assert estimate is not None and low is not None and high is not None
        assert 0 <= low <= high <= 1 and n == len(values)


def test_seeds_are_mean_and_sample_deviation() -> None:
    mean, deviation = mean_and_deviation([0.91, 0.94, 0.90])
    assert (mean, deviation) == pytest.approx((0.916667, 0.020817), abs=5e-7)
    by_task = [[float(task < wins) for wins in (91, 94, 90)] for task in range(100)]
    spread = trial_spread(by_task)
    assert spread is not None and spread.n == 3
    assert (spread.mean, spread.std) == pytest.approx((0.916667, 0.020817), abs=5e-7)


def test_one_trial_has_no_spread() -> None:
    assert trial_spread([[1.0], [0.0]]) is None and trial_spread([]) is None
    assert pass_intervals([]) == ({}, {})
