"""Importance ratios of tokens and of whole actions.

z_i = log π_θ - log π_old of token i. Every kind but ``token`` makes one ratio of an action of L
sampled tokens. Log-ratios are clamped to ±20 before ``exp``, only against overflow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from agentgym_suite.errors import UsageError

RatioKind = Literal["token", "product", "mean", "sqrt", "power", "action_aware"]
MAX_LOG_RATIO = 20.0


def token_log_ratios(logprobs: Tensor, old_logprobs: Tensor, mask: Tensor) -> Tensor:
    """z: current minus old log-probability of each sampled token.

    Args:
        logprobs: log π_θ ``[n, R]``; carries the gradient.
        old_logprobs: log π_old ``[n, R]``, a constant.
        mask: bool ``[n, R]``, true on sampled tokens.

    Returns:
        ``[n, R]``, exactly 0 outside the mask, with no gradient there.
    """
    # both sides are masked before they meet: a NaN or -inf in padding would pass through 0 * x
    current = logprobs.masked_fill(~mask, 0.0)
    return current - old_logprobs.detach().to(logprobs.dtype).masked_fill(~mask, 0.0)


def log_ratio(
    z: Tensor,
    mask: Tensor,
    kind: RatioKind,
    *,
    mu: float = 0.0,
    alpha: float = 0.5,
) -> Tensor:
    """Log of the importance ratio, not yet clamped.

    With S = Σ_i z_i over the L sampled tokens of an action:

    ============= ============================== =========================================
    kind          log w                          source
    ============= ============================== =========================================
    token         z_i                            PPO (arXiv 1707.06347), eq. 7
    product       S                              the action's likelihood ratio
    mean          S / L                          GSPO (arXiv 2507.18071), eq. 7
    sqrt          S / √L                         CAPO (arXiv 2604.18401), ablation
    power         S / L^alpha                    the family of CAPO's ablation
    action_aware  μ(1 - √L) + S / √L             CAPO (arXiv 2604.18401)
    ============= ============================== =========================================

    ``mu`` is a constant: the derivative of ``action_aware`` by z_i is exactly 1/√L. At z = 0
    every kind is 0, and for L = 1 ``action_aware`` is z whatever ``mu`` is.

    Args:
        z: ``[n, R]`` from ``token_log_ratios``.
        mask: bool ``[n, R]``.
        kind: a row of the table.
        mu: mean of z over all tokens of the mini-batch (``action_aware``).
        alpha: exponent of ``power``.

    Returns:
        ``[n, R]`` for ``token``, else ``[n, 1]``; 0 in rows without tokens.

    Raises:
        UsageError: no such kind.
    """
    if kind == "token":
        return z
    counts = mask.sum(1, keepdim=True).to(z.dtype)
    lengths = counts.clamp(min=1.0)
    total = z.sum(1, keepdim=True)
    match kind:
        case "product":
            return total
        case "mean":
            return total / lengths
        case "sqrt":
            return total / lengths.sqrt()
        case "power":
            return total / lengths**alpha
        case "action_aware":
            log_w = mu * (1.0 - lengths.sqrt()) + total / lengths.sqrt()
            return torch.where(counts > 0, log_w, torch.zeros_like(log_w))
    raise UsageError(f"ratio {kind!r} does not exist; use {', '.join(get_args(RatioKind))}")


def importance_ratio(log_w: Tensor) -> Tensor:
    """The ratio w = exp(log w), with log w clamped to ±20."""
    return torch.exp(log_w.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO))


def mean_log_ratio(total: float, tokens: float) -> float:
    """μ̂ = Σ_b Σ_i z_{b,i} / Σ_b L_b over all actions b of the mini-batch, all ranks; a constant.

    Source: CAPO (arXiv 2604.18401), the centre of the action-aware ratio. Weighted by tokens.
    """
    return total / tokens if tokens else 0.0


def trajectory_sums(
    z: Tensor, mask: Tensor, trajectories: Sequence[str]
) -> dict[str, tuple[float, float]]:
    """Σ z and number of tokens of each trajectory among these rows; constants."""
    totals = z.detach().double().sum(1).tolist()
    counts = mask.sum(1).tolist()
    sums: dict[str, tuple[float, float]] = {}
    for name, total, count in zip(trajectories, totals, counts, strict=True):
        if count:
            before = sums.get(name, (0.0, 0.0))
            sums[name] = (before[0] + total, before[1] + count)
    return sums


def trajectory_log_ratio(
    z: Tensor,
    mask: Tensor,
    trajectories: Sequence[str],
    sums: Mapping[str, tuple[float, float]],
) -> Tensor:
    """Mean of z over each row's whole trajectory, of which other rows may lie elsewhere.

    The value is that of ``sums``, the gradient comes from the row's own tokens: weighted by the
    row's share of the trajectory's tokens, the rows' gradients add up to the trajectory's.

    Args:
        z: ``[n, R]`` from ``token_log_ratios``.
        mask: bool ``[n, R]``.
        trajectories: the trajectory of each row.
        sums: Σ z and number of tokens of each, over the mini-batch and all ranks.

    Returns:
        ``[n, 1]``; 0 for a row that is in no trajectory.
    """
    means = [mean_log_ratio(*sums.get(name, (0.0, 0.0))) for name in trajectories]
    own = z.sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)
    return torch.tensor(means, dtype=torch.float64).to(z).unsqueeze(1) + own - own.detach()


def out_of_range(ratio: Tensor, low: float, high: float) -> Tensor:
    """Ratios outside [1 - low, 1 + high], whatever the advantage; bool."""
    return (ratio < 1.0 - low) | (ratio > 1.0 + high)


def clip_active(ratio: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    """Where clipping takes the gradient away; bool.

    A > 0 and w > 1 + high, or A < 0 and w < 1 - low.
    """
    above = (advantages > 0) & (ratio > 1.0 + high)
    below = (advantages < 0) & (ratio < 1.0 - low)
    return above | below
