"""Single terms of a loss, value by value."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.losses import (
    aggregate,
    clipped_away,
    clipped_surrogate,
    clipped_value_loss,
    full_divergence,
    sampled_kl,
)
from agentgym_suite.trainers.ratios import (
    clip_active,
    importance_ratio,
    log_ratio,
    out_of_range,
    token_log_ratios,
)


def scalar(value: float) -> torch.Tensor:
    return torch.tensor([[value]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("ratio", "advantage", "surrogate", "active"),
    [
        (1.5, 2.0, 2.4, True),  # above, praised: held
        (1.5, -2.0, -3.0, False),  # above, blamed: pushed back at full weight
        (0.5, 2.0, 1.0, False),
        (0.5, -2.0, -1.6, True),
        (1.1, 2.0, 2.2, False),
        (1.1, -2.0, -2.2, False),
        (1.5, 0.0, 0.0, False),
    ],
)
def test_the_four_sides_of_clipping(
    ratio: float, advantage: float, surrogate: float, active: bool
) -> None:
    w = scalar(ratio).requires_grad_()
    value = clipped_surrogate(w, scalar(advantage), 0.2, 0.2)
    assert value.item() == pytest.approx(surrogate)
    assert clip_active(w.detach(), scalar(advantage), 0.2, 0.2).item() is active
    (gradient,) = torch.autograd.grad(value.sum(), w)
    assert gradient.item() == (0.0 if active else advantage)
    away = clipped_away(w.detach(), scalar(advantage), 0.2, 0.2).item()
    assert away == pytest.approx(ratio * advantage - surrogate)


@pytest.mark.parametrize(
    ("ratio", "advantage", "surrogate"),
    [
        (9.0, -2.0, -6.0),  # held at c·A
        (2.0, -2.0, -4.0),  # not yet
        (9.0, 2.0, 2.4),  # praise is none of its business
        (0.1, 2.0, 0.2),
    ],
)
def test_the_dual_clip(ratio: float, advantage: float, surrogate: float) -> None:
    value = clipped_surrogate(scalar(ratio), scalar(advantage), 0.2, 0.2, 3.0)
    assert value.item() == pytest.approx(surrogate)


def test_uneven_clips() -> None:
    ratios = torch.tensor([0.75, 0.85, 1.25, 1.3])
    assert out_of_range(ratios, 0.2, 0.28).tolist() == [True, False, False, True]
    assert clipped_surrogate(scalar(1.25), scalar(1.0), 0.2, 0.28).item() == 1.25
    assert clipped_surrogate(scalar(1.3), scalar(1.0), 0.2, 0.28).item() == pytest.approx(1.28)


@given(st.floats(-3, 3), st.floats(-2, 2), st.floats(0, 0.9), st.floats(0, 2))
def test_the_surrogate_is_the_smaller_of_two(
    log_w: float, advantage: float, low: float, high: float
) -> None:
    w = math.exp(log_w)
    wanted = min(w * advantage, max(1 - low, min(1 + high, w)) * advantage)
    found = clipped_surrogate(scalar(w), scalar(advantage), low, high).item()
    assert found == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize(
    ("kind", "value"), [("k1", 0.3), ("k2", 0.045), ("k3", math.exp(-0.3) + 0.3 - 1)]
)
def test_estimators_of_divergence(kind: Any, value: float) -> None:
    mask = torch.ones(1, 1, dtype=torch.bool)
    found = sampled_kl(scalar(-1.0), scalar(-1.3), mask, kind)
    assert found.item() == pytest.approx(value, abs=1e-12)


def test_the_third_estimator_is_bounded_and_never_negative() -> None:
    mask = torch.ones(1, 3, dtype=torch.bool)
    current = torch.tensor([[-80.0, -1.0, 0.0]], dtype=torch.float64)
    ref = torch.tensor([[0.0, -1.0, -80.0]], dtype=torch.float64)
    found = sampled_kl(current, ref, mask, "k3")
    assert found.tolist() == [[10.0, 0.0, 10.0]]


def test_the_other_estimators_have_no_bound() -> None:
    mask = torch.ones(1, 2, dtype=torch.bool)
    current = torch.tensor([[-80.0, 0.0]], dtype=torch.float64, requires_grad=True)
    ref = torch.tensor([[0.0, -80.0]], dtype=torch.float64)
    first, second = (sampled_kl(current, ref, mask, "k1"), sampled_kl(current, ref, mask, "k2"))
    assert first.tolist() == [[-80.0, 80.0]] and second.tolist() == [[3200.0, 3200.0]]
    (gradient,) = torch.autograd.grad(first.sum(), current)
    assert gradient.tolist() == [[1.0, 1.0]]


def test_log_ratios_are_held_only_against_overflow() -> None:
    far = torch.tensor([100.0, -100.0, 5.0], dtype=torch.float64)
    found = importance_ratio(far).tolist()
    assert found == pytest.approx([math.exp(20), math.exp(-20), math.exp(5)])


def test_log_ratios_outside_the_mask_are_nothing() -> None:
    mask = torch.tensor([[True, False]])
    current = torch.tensor([[-1.0, float("nan")]], requires_grad=True)
    old = torch.tensor([[-1.5, -float("inf")]])
    z = token_log_ratios(current, old, mask)
    assert z.tolist() == [[0.5, 0.0]]
    (gradient,) = torch.autograd.grad(z.sum(), current)
    assert gradient.tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize(
    ("value", "old", "target", "loss"),
    [
        (0.2, 0.0, 1.0, 0.32),  # within the clip: ½·0.8²
        (0.9, 0.0, 1.0, 0.125),  # moved too far towards it: the clipped 0.5 counts
        (-0.9, 0.0, 1.0, 1.805),  # moved away: the worse one counts
    ],
)
def test_the_clipped_value_loss(value: float, old: float, target: float, loss: float) -> None:
    found = clipped_value_loss(scalar(value), scalar(old), scalar(target), 0.5)
    assert found.item() == pytest.approx(loss)


@given(st.lists(st.floats(-5, 5), min_size=3, max_size=3))
def test_divergences_vanish_between_equals_and_are_positive_elsewhere(logits: list[float]) -> None:
    student = torch.tensor(logits, dtype=torch.float64)
    teacher = torch.tensor([0.0, 1.0, -1.0], dtype=torch.float64)
    for kind in ("reverse_kl", "forward_kl", "jsd"):
        assert full_divergence(student, student, kind).item() == pytest.approx(0, abs=1e-12)  # type: ignore[arg-type]
        assert full_divergence(student, teacher, kind).item() >= -1e-12  # type: ignore[arg-type]
    assert full_divergence(student, teacher, "jsd").item() <= math.log(2) + 1e-12


def test_names_that_do_not_exist_are_refused() -> None:
    one, mask = scalar(0.0), torch.ones(1, 1, dtype=torch.bool)
    wrong: Any = "other"
    with pytest.raises(UsageError, match="KL estimator 'other' does not exist; use k1, k2, k3"):
        sampled_kl(one, one, mask, wrong)
    with pytest.raises(UsageError, match="divergence 'other' does not exist; use reverse_kl"):
        full_divergence(one, one, wrong)
    with pytest.raises(UsageError, match="aggregation 'other' does not exist; use token-mean"):
        aggregate(one, mask, wrong, tokens=1, rows=1)
    with pytest.raises(UsageError, match="ratio 'other' does not exist; use token, product"):
        log_ratio(one, mask, wrong)
    with pytest.raises(UsageError, match="'traj-nested' needs row weights"):
        aggregate(one, mask, "traj-nested", tokens=1, rows=1)


def test_a_mini_batch_without_tokens_aggregates_to_nothing() -> None:
    empty = torch.zeros(2, 3, dtype=torch.bool)
    values = torch.full((2, 3), float("nan"))
    for mode in ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "dr-grpo"):
        assert aggregate(values, empty, mode, tokens=0, rows=0).item() == 0.0  # type: ignore[arg-type]


def test_what_the_clip_takes_away_includes_the_dual_clip() -> None:
    ratio = torch.tensor([5.0, 2.0, 1.0], dtype=torch.float64)
    punished = torch.tensor([-1.0, -1.0, 1.0], dtype=torch.float64)
    assert clipped_away(ratio, punished, 0.2, 0.2).tolist() == [0.0, 0.0, 0.0]
    assert clipped_away(ratio, punished, 0.2, 0.2, 3.0).tolist() == [-2.0, 0.0, 0.0]
