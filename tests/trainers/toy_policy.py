"""A policy of seven parameters, and the driver that a training loop would be.

What the policy says of a token depends on the token's place (trajectory, step, position) alone,
so that rows may be ordered, padded, split and spread at will. Padding is filled with NaN: whoever
reads it is found out.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from agentgym_suite.trainers.algorithm import Algorithm, PolicyOutputs, Sums
from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.stats import OneRank, Reducer

PARAMETERS = 7
NAN = float("nan")


def start(dtype: torch.dtype = torch.float64, seed: int = 1) -> Tensor:
    """Parameters away from the frozen policy, so that ratios are not 1."""
    dice = random.Random(seed)
    values = [dice.uniform(-1, 1) for _ in range(PARAMETERS)]
    return torch.tensor(values, dtype=dtype, requires_grad=True)


@cache
def drawn(place: str, count: int) -> Tensor:
    """``[count, parameters]``, always the same at one place."""
    dice = random.Random(place)
    lines = [[dice.uniform(-1, 1) for _ in range(PARAMETERS)] for _ in range(count)]
    return torch.tensor(lines, dtype=torch.float64).reshape(count, PARAMETERS)


def features(batch: StepBatch, kind: str, dtype: torch.dtype) -> Tensor:
    """``[n, R, parameters]``, drawn by identity; NaN outside the response."""
    n, width = batch.response_mask.shape
    table = torch.full((n, width, PARAMETERS), NAN, dtype=dtype)
    for number, row in enumerate(batch.rows):
        count = len(row.response_ids)
        first = 0 if batch.side == "right" else width - count
        place = f"{kind} {row.trajectory_id} {row.step_index}"
        table[number, first : first + count] = drawn(place, count).to(dtype)
    return table


def row_features(batch: StepBatch, kind: str, dtype: torch.dtype) -> Tensor:
    """``[n, parameters]``, drawn by identity; NaN in pads."""
    table = torch.full((len(batch), PARAMETERS), NAN, dtype=dtype)
    for number, row in enumerate(batch.rows):
        if not row.is_pad:
            table[number] = drawn(f"{kind} {row.trajectory_id} {row.step_index}", 1)[0].to(dtype)
    return table


def score(table: Tensor, theta: Tensor) -> Tensor:
    """Features times parameters; NaN stays NaN and carries no gradient."""
    missing = table.isnan().any(-1)
    value = (table.masked_fill(missing.unsqueeze(-1), 0.0) * theta).sum(-1)
    return value.masked_fill(missing, NAN)


def outputs(batch: StepBatch, theta: Tensor, size: float = 0.05) -> PolicyOutputs:
    """Log-probabilities within ``size`` or so of the frozen ones, and all else."""
    assert batch.old_logprobs is not None
    dtype = theta.dtype
    z = size * score(features(batch, "z", dtype), theta)
    return PolicyOutputs(
        logprobs=batch.old_logprobs.to(dtype) + z,
        entropy=1.0 + 0.1 * score(features(batch, "entropy", dtype), theta),
        divergence=score(features(batch, "divergence", dtype), theta) ** 2,
        v_margin=score(row_features(batch, "v", dtype), theta),
        q_margin=score(row_features(batch, "q", dtype), theta),
    )


def critic_values(batch: StepBatch, theta: Tensor, kind: str) -> Tensor:
    """Values of a boundary critic ``[n]`` or a token critic ``[n, R]``."""
    if kind == "boundary":
        return score(row_features(batch, "critic", theta.dtype), theta)
    return score(features(batch, "critic", theta.dtype), theta)


@dataclass(frozen=True)
class Update:
    """Loss and gradient of one mini-batch, policy and critic together."""

    loss: Tensor
    gradient: Tensor
    critic_loss: Tensor
    critic_gradient: Tensor
    metrics: dict[str, float]


def update(
    algorithm: Algorithm,
    batch: StepBatch,
    parts: Sequence[Sequence[int]],
    *,
    dtype: torch.dtype = torch.float64,
    reducer: Reducer | None = None,
    size: float = 0.05,
) -> Update:
    """One mini-batch of a prepared batch, split into micro-batches of those rows."""
    reducer = reducer or OneRank()
    theta = start(dtype)
    micros = [batch.select(part).to("cpu", dtype) for part in parts]
    sums = sums_of(algorithm, micros, theta, reducer, size)
    total, metrics = torch.zeros((), dtype=dtype), {}
    for micro in micros:
        share = algorithm.loss(micro, outputs(micro, theta, size), sums)
        share.total.backward()  # type: ignore[no-untyped-call]
        total = total + share.total.detach()
        for name, value in share.metrics.items():
            metrics[name] = metrics.get(name, 0.0) + value
    phi = start(dtype, seed=2)
    critic_total = torch.zeros((), dtype=dtype)
    kind = algorithm.needs.critic
    for micro in micros if kind != "none" else []:
        share = algorithm.critic_loss(micro, critic_values(micro, phi, kind), sums)
        share.total.backward()  # type: ignore[no-untyped-call]
        critic_total = critic_total + share.total.detach()
    gradient = theta.grad if theta.grad is not None else torch.zeros_like(theta)
    critic_gradient = phi.grad if phi.grad is not None else torch.zeros_like(phi)
    return Update(
        reducer.sum(total.reshape(1)),
        reducer.sum(gradient),
        reducer.sum(critic_total.reshape(1)),
        reducer.sum(critic_gradient),
        metrics,
    )


def sums_of(
    algorithm: Algorithm,
    micros: Sequence[StepBatch],
    theta: Tensor,
    reducer: Reducer,
    size: float = 0.05,
) -> Sums:
    """Steps 2 to 4 of the protocol."""
    sums = Sums()
    for micro in micros:
        sums += algorithm.count(micro)
        if algorithm.needs.log_ratio_pass:
            with torch.no_grad():
                sums += algorithm.measure(micro, outputs(micro, theta, size))
    sums = sums.reduced(reducer)
    if algorithm.needs.clip_bias_pass:
        away = [algorithm.clip_bias(m, outputs(m, theta, size), sums) for m in micros]
        (bias,) = torch.autograd.grad(sum(away), theta)  # type: ignore[arg-type]
        sums = sums.with_clip_bias_norm(float(reducer.sum(bias).norm()))
    return sums
