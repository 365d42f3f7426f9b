"""Means, deviations and groups; what reducers are asked."""

from __future__ import annotations

import statistics

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.trainers.stats import (
    OneRank,
    centred_by_group,
    group_normalised,
    mean_and_spread,
    whiten,
)

ALONE = OneRank()
values = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30)


@given(values)
def test_mean_and_spread_are_those_of_the_standard_library(numbers: list[float]) -> None:
    tensor = torch.tensor(numbers, dtype=torch.float64)
    mean, spread, count = mean_and_spread(tensor, ALONE)
    assert count == len(numbers)
    assert mean == pytest.approx(statistics.fmean(numbers), abs=1e-9)
    assert spread == pytest.approx(statistics.stdev(numbers), abs=1e-6)
    _, biased, _ = mean_and_spread(tensor, ALONE, "biased")
    assert biased == pytest.approx(statistics.pstdev(numbers), abs=1e-6)


def test_one_value_and_none_have_no_spread() -> None:
    assert mean_and_spread(torch.tensor([3.0]), ALONE) == (3.0, 0.0, 1)
    assert mean_and_spread(torch.tensor([]), ALONE) == (0.0, 0.0, 0)


def test_whitened_values_have_mean_zero_and_deviation_one() -> None:
    numbers = torch.arange(9.0, dtype=torch.float64)
    mask = numbers < 7
    whitened = whiten(numbers, mask, ALONE)
    assert float(whitened[mask].mean()) == pytest.approx(0, abs=1e-12)
    assert float(whitened[mask].std()) == pytest.approx(1, abs=1e-7)


def test_whitening_a_large_offset_keeps_the_signal() -> None:
    numbers = torch.tensor([1e6, 1e6 + 1, 1e6 + 2], dtype=torch.float64)
    whitened = whiten(numbers, torch.ones(3, dtype=torch.bool), ALONE)
    assert whitened.tolist() == pytest.approx([-1, 0, 1], abs=1e-6)


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_group_statistics_do_not_depend_on_the_order_of_ranks(numbers: list[float], dice) -> None:  # type: ignore[no-untyped-def]
    everyone = [("g", x) for x in numbers]
    shuffled = list(everyone)
    dice.shuffle(shuffled)
    groups = ["g"] * len(numbers)
    assert group_normalised(numbers, groups, everyone) == group_normalised(
        numbers, groups, shuffled
    )
    assert centred_by_group(numbers, groups, everyone) == centred_by_group(
        numbers, groups, shuffled
    )


def test_a_group_whose_spread_is_below_the_bound_gives_exactly_nothing() -> None:
    scores = [0.5, 0.5 + 1e-9]
    everyone = [("g", x) for x in scores]
    assert group_normalised(scores, ["g", "g"], everyone) == [0.0, 0.0]


@pytest.mark.parametrize("eps", [0.0, 1e-6, 1e-4])
def test_what_is_added_to_a_deviation_does_not_say_what_counts_as_one(eps: float) -> None:
    equal = [("g", 1.0), ("g", 1.0)]
    assert group_normalised([1.0, 1.0], ["g", "g"], equal, eps=eps) == [0.0, 0.0]
    near = [("g", 0.0), ("g", 1e-4)]
    deviation = 1e-4 / 2**0.5
    found = group_normalised([0.0, 1e-4], ["g", "g"], near, eps=eps)
    assert found[1] == pytest.approx(5e-5 / (deviation + eps))


def test_members_on_other_ranks_count() -> None:
    everyone = [("g", 0.0), ("g", 1.0), ("g", 2.0)]
    assert group_normalised([2.0], ["g"], everyone)[0] == pytest.approx(1 / (1 + 1e-6))
    assert centred_by_group([2.0], ["g"], everyone) == [1.0]
