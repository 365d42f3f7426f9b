"""Paired tests: worked values, and what must hold of any numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.errors import UsageError
from agentgym_suite.evaluation.comparisons import (
    difference_interval,
    holm,
    mcnemar_exact,
    sign_flip,
)

FIRST = [0.2, 0.1, -0.05, 0.3, 0.15, 0.0]
SECOND = [0.5, -0.2, 0.4, 0.1, 0.3, 0.25, -0.1, 0.6]
values = st.lists(st.floats(-1, 1, width=16), min_size=1, max_size=30)


@pytest.mark.parametrize(
    ("b", "c", "p"),
    [(9, 2, 0.0654296875), (15, 3, 0.007537841796875), (6, 0, 0.03125), (0, 0, 1), (4, 4, 1)],
)
def test_mcnemar(b: int, c: int, p: float) -> None:
    assert mcnemar_exact(b, c) == mcnemar_exact(c, b) == p


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(UsageError, match="0 or more"):
        mcnemar_exact(-1, 2)


def test_sign_flip() -> None:
    assert sign_flip(FIRST) == 8 / 64
    assert sign_flip(SECOND) == 18 / 256
    assert sign_flip([0.0] * 40) == sign_flip([]) == 1.0


def test_many_tasks_are_sampled() -> None:
    far = [0.5] * 30
    assert sign_flip(far) == 1 / 10_001
    mixed = [0.3, -0.2, 0.1] * 10
    assert sign_flip(mixed, seed=1) == sign_flip(mixed, seed=1)
    assert 0.05 < sign_flip(mixed) < 0.5


@pytest.mark.parametrize("size", [1e-15 / 7, 1e7 / 7])
def test_sign_flip_knows_no_unit(size: float) -> None:
    few, many = [1.0, 1.0, -1.0, 2.0, 1.0, 1.0], [1.0, -1.0, 2.0, 1.0, -1.0] * 60
    for differences in (few, many):
        assert sign_flip([size * d for d in differences]) == sign_flip(differences)


@given(values)
def test_sign_flip_is_symmetric(d: list[float]) -> None:
    p = sign_flip(d)
    assert 0 < p <= 1
    assert p == sign_flip([-x for x in d])


def test_difference_interval() -> None:
    first, second = difference_interval(FIRST), difference_interval(SECOND)
    assert first.estimate == pytest.approx(0.1166667, abs=1e-7)
    assert (first.low, first.high) == pytest.approx((0.025, 0.2083333), abs=1e-7)
    assert second.estimate == pytest.approx(0.23125)
    assert (second.low, second.high) == pytest.approx((0.04375, 0.40625))
    for seed in range(4):
        again = difference_interval(SECOND, seed)
        assert again.low is not None and again.high is not None
        assert 0.0438 - 1e-4 <= again.low <= 0.05 + 1e-9
        assert 0.4062 - 1e-4 <= again.high <= 0.4125 + 1e-9


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    adjusted = holm([0.0075378, 0.0654297, 0.0625])
    assert adjusted == pytest.approx([0.0226134, 0.125, 0.125])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_never_lowers_and_keeps_the_order(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(raw <= new <= 1 for raw, new in zip(p_values, adjusted, strict=True))
    assert [new for _, new in sorted(zip(p_values, adjusted, strict=True))] == sorted(adjusted)


@given(st.integers(0, 40), st.integers(0, 40))
def test_mcnemar_is_symmetric_and_a_probability(b: int, c: int) -> None:
    assert 0 < mcnemar_exact(b, c) == mcnemar_exact(c, b) <= 1


@given(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=1, max_size=20))
def test_mcnemar_is_the_sign_flip_test_of_flipped_tasks(d: list[float]) -> None:
    assert sign_flip(d) == pytest.approx(mcnemar_exact(d.count(1.0), d.count(-1.0)))


@given(values, st.integers(0, 3))
def test_a_difference_of_nothing_is_certain_to_be_none(d: list[float], seed: int) -> None:
    interval = difference_interval([0.0] * len(d), seed)
    assert interval[:3] == (0.0, 0.0, 0.0)
    turned = difference_interval([-x for x in d], seed)
    one = difference_interval(d, seed)
    assert one.low is not None and turned.high is not None
    assert one.low == pytest.approx(-turned.high, abs=1e-9)
