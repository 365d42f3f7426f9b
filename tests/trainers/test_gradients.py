"""The gradient of every loss against finite differences in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from agentgym_suite.trainers.losses import (
    Divergence,
    KlEstimator,
    clipped_surrogate,
    clipped_value_loss,
    distillation_advantages,
    full_divergence,
    gated_distillation,
    sampled_kl,
)
from agentgym_suite.trainers.registry import make_algorithm
from agentgym_suite.trainers.stats import OneRank
from agentgym_suite.trainers.value_basis import read_out, restricted_entropy
from tests.trainers.small_batches import mixed_batch
from tests.trainers.toy_policy import PARAMETERS, critic_values, outputs, start, sums_of
from tests.trainers.variants import VARIANTS

STEP = 1e-5
# these hold a constant made of the current policy; their terms are checked one by one below
WITH_CURRENT_CONSTANTS = {"opsd-sampled", "grpo_opsd"}


def differences(value: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """Central differences of a scalar function."""
    flat = at.detach().flatten()
    slopes = []
    for place in range(flat.numel()):
        moved = torch.zeros_like(flat)
        moved[place] = STEP
        above = value((flat + moved).reshape(at.shape))
        below = value((flat - moved).reshape(at.shape))
        slopes.append((above - below).detach() / (2 * STEP))
    return torch.stack(slopes).reshape(at.shape)


def check(value: Callable[[Tensor], Tensor], at: Tensor) -> None:
    point = at.detach().clone().requires_grad_()
    (gradient,) = torch.autograd.grad(value(point), point)
    torch.testing.assert_close(gradient, differences(value, at), rtol=1e-6, atol=1e-9)
    assert gradient.abs().max() > 1e-6


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        pytest.param(name, settings, id=label)
        for label, name, settings in VARIANTS
        if label not in WITH_CURRENT_CONSTANTS
    ],
)
def test_the_policy_loss(name: str, settings: dict[str, Any]) -> None:
    algorithm = make_algorithm(name, **settings)
    batch = algorithm.prepare(mixed_batch(), OneRank()).batch
    theta = start()
    constants = sums_of(algorithm, [batch], theta, OneRank())
    # a centre is a constant of the loss; a trajectory's own mean is not
    moving = settings.get("gspo_scope") == "trajectory"

    def value(at: Tensor) -> Tensor:
        sums = sums_of(algorithm, [batch], at, OneRank()) if moving else constants
        return algorithm.loss(batch, outputs(batch, at), sums).total

    check(value, theta)


@pytest.mark.parametrize("name", ["capo", "ppo", "turn_ppo", "st_ppo"])
def test_the_critic_loss(name: str) -> None:
    algorithm = make_algorithm(name)
    batch = algorithm.prepare(mixed_batch(), OneRank()).batch
    sums = sums_of(algorithm, [batch], start(), OneRank())
    kind = algorithm.needs.critic
    check(
        lambda at: algorithm.critic_loss(batch, critic_values(batch, at, kind), sums).total,
        start(seed=2),
    )


def test_the_gradient_of_what_clipping_takes_away() -> None:
    algorithm = make_algorithm("st_ppo", clip_low=0.01, clip_high=0.01)
    batch = algorithm.prepare(mixed_batch(), OneRank()).batch
    sums = sums_of(algorithm, [batch], start(), OneRank())
    check(lambda at: algorithm.clip_bias(batch, outputs(batch, at), sums), start())


def several(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("kind", ["k1", "k2", "k3"])
def test_divergence_estimators(kind: KlEstimator) -> None:
    ref, mask = several(3, 4, seed=1), torch.ones(3, 4, dtype=torch.bool)
    check(lambda at: sampled_kl(at, ref, mask, kind).sum(), several(3, 4))


@pytest.mark.parametrize("kind", ["reverse_kl", "forward_kl", "jsd"])
def test_divergences_over_the_vocabulary(kind: Divergence) -> None:
    teacher = several(3, 6, seed=1)
    check(lambda at: full_divergence(at, teacher, kind).sum(), several(3, 6))


@pytest.mark.parametrize("dual", [0.0, 3.0])
def test_the_surrogate(dual: float) -> None:
    adv = several(4, 9, seed=1)
    check(lambda at: clipped_surrogate(at.exp(), adv, 0.2, 0.28, dual).sum(), 1.5 * several(4, 9))


def test_the_value_loss() -> None:
    old, targets = several(20, seed=1), several(20, seed=2)
    check(lambda at: clipped_value_loss(at, old, targets, 0.5).sum(), several(20))


@pytest.mark.parametrize("kind", ["clip", "tanh"])
def test_the_read_out(kind: Any) -> None:
    check(lambda at: read_out(at, 1.5, kind).sum(), several(20))


def test_the_restricted_entropy() -> None:
    check(lambda at: restricted_entropy(at, (1, 4), 0.7).sum(), several(3, 6))


def test_the_gate_of_distillation_is_a_constant() -> None:
    teacher, scored = several(3, 4, seed=1), torch.ones(3, 4, dtype=torch.bool)
    here = several(3, 4)
    gate = torch.sigmoid(5.0 * (teacher - here))
    point = here.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(gated_distillation(point, teacher, scored, 5.0).sum(), point)
    wanted = differences(lambda at: (gate * (teacher - at)).sum(), here)
    torch.testing.assert_close(gradient, wanted, rtol=1e-6, atol=1e-9)


def test_sampled_distillation_is_a_policy_gradient() -> None:
    algorithm = make_algorithm("opsd", preset="tiny", kl_coef=0.0)
    batch = algorithm.prepare(mixed_batch(), OneRank()).batch
    assert batch.teacher_logprobs is not None and batch.old_logprobs is not None
    theta = torch.zeros(PARAMETERS, dtype=torch.float64, requires_grad=True)  # ratio 1
    sums = sums_of(algorithm, [batch], theta, OneRank())
    loss = algorithm.loss(batch, outputs(batch, theta), sums).total
    (gradient,) = torch.autograd.grad(loss, theta)
    scored = batch.response_mask & batch.teacher_logprobs.isfinite()
    told = distillation_advantages(batch.old_logprobs, batch.teacher_logprobs, scored)

    def value(at: Tensor) -> Tensor:
        logprobs = outputs(batch, at).logprobs.masked_fill(~scored, 0.0)
        return -(told * logprobs).sum() / scored.sum()

    torch.testing.assert_close(gradient, differences(value, theta), rtol=1e-6, atol=1e-9)
