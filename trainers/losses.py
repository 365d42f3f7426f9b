"""Terms of a loss: surrogates, divergences, value losses, distillation, aggregation.

All are elementwise but ``aggregate``, which is the one place where tokens become a number: it
divides a micro-batch's numerator by denominators of the whole mini-batch.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from agentgym_suite.errors import UsageError

Aggregation = Literal[
    "token-mean",
    "seq-mean-token-mean",
    "seq-mean-token-sum",
    "dr-grpo",
    "action-mean",
    "traj-nested",
]
KlEstimator = Literal["k1", "k2", "k3"]
Divergence = Literal["reverse_kl", "forward_kl", "jsd"]

MAX_KL_EXPONENT = 20.0  # veRL's bounds: of the exponent, and of k3 itself
MAX_K3 = 10.0


def clipped_surrogate(
    ratio: Tensor, advantages: Tensor, low: float, high: float, dual_clip: float = 0.0
) -> Tensor:
    """What a policy step is to raise, elementwise; the policy loss is minus its aggregate.

    s = min(w·A, clip(w, 1 - low, 1 + high)·A), PPO (arXiv 1707.06347), eq. 7; with dual clip c > 1
    and A < 0: max(s, c·A), arXiv 1912.09729, eq. 5.

    Args:
        ratio: w, ``[n, R]`` or ``[n, 1]``.
        advantages: Â, broadcastable; a constant.
        low: lower clip width.
        high: upper clip width.
        dual_clip: c; 0 for none.
    """
    advantages = advantages.detach().to(ratio.dtype)
    clipped = ratio.clamp(1.0 - low, 1.0 + high) * advantages
    surrogate = torch.minimum(ratio * advantages, clipped)
    if dual_clip:
        bounded = torch.maximum(surrogate, dual_clip * advantages)
        surrogate = torch.where(advantages < 0, bounded, surrogate)
    return surrogate


def clipped_away(
    ratio: Tensor, advantages: Tensor, low: float, high: float, dual_clip: float = 0.0
) -> Tensor:
    """w·A minus the clipped surrogate: not 0 where clipping, or dual clipping, is active."""
    advantages = advantages.detach().to(ratio.dtype)
    return ratio * advantages - clipped_surrogate(ratio, advantages, low, high, dual_clip)


def sampled_kl(logprobs: Tensor, ref_logprobs: Tensor, mask: Tensor, kind: KlEstimator) -> Tensor:
    """Estimate of KL(π_θ ‖ π_ref) on each sampled token.

    With d = log π_ref - log π_θ: k1 = -d, k2 = d²/2, k3 = e^d - d - 1 (J. Schulman, "Approximating
    KL divergence", 2020; k3 is veRL's ``low_var_kl``). For k3 alone, d is held in ±20 and the value
    in ±10.

    Args:
        logprobs: log π_θ ``[n, R]``; carries the gradient.
        ref_logprobs: log π_ref ``[n, R]``; a constant.
        mask: bool ``[n, R]``.
        kind: the estimator.

    Returns:
        ``[n, R]``, 0 outside the mask.

    Raises:
        UsageError: no such estimator.
    """
    ref = ref_logprobs.detach().to(logprobs.dtype).masked_fill(~mask, 0.0)
    d = ref - logprobs.masked_fill(~mask, 0.0)
    match kind:
        case "k1":
            return -d
        case "k2":
            return 0.5 * d**2
        case "k3":
            held = d.clamp(-MAX_KL_EXPONENT, MAX_KL_EXPONENT)
            return (torch.expm1(held) - held).clamp(-MAX_K3, MAX_K3)
    raise UsageError(
        f"KL estimator {kind!r} does not exist; use {', '.join(get_args(KlEstimator))}"
    )


def clipped_value_loss(values: Tensor, old: Tensor, targets: Tensor, clip: float) -> Tensor:
    """½ max((V - R)², (V_old + clip(V - V_old, ±ε) - R)²), elementwise.

    Source: PPO2 of OpenAI Baselines, also veRL's critic loss.

    Args:
        values: V under the current weights; carries the gradient.
        old: V of the frozen weights.
        targets: R; a constant.
        clip: ε.
    """
    old, targets = old.detach().to(values.dtype), targets.detach().to(values.dtype)
    clipped = old + (values - old).clamp(-clip, clip)
    return 0.5 * torch.maximum((values - targets) ** 2, (clipped - targets) ** 2)


def full_divergence(
    student_logits: Tensor, teacher_logits: Tensor, kind: Divergence = "reverse_kl"
) -> Tensor:
    """Divergence between two distributions over the vocabulary, to be differentiated directly.

    Reverse KL(student ‖ teacher), forward KL(teacher ‖ student), or their Jensen-Shannon
    divergence with equal weights (arXiv 2306.13649). Give kept ids alone.

    Args:
        student_logits: ``[…, V]``; carries the gradient.
        teacher_logits: ``[…, V]``; a constant.
        kind: which.

    Returns:
        ``[…]``, in nats.

    Raises:
        UsageError: no such divergence.
    """
    student = torch.log_softmax(student_logits, -1)
    teacher = torch.log_softmax(teacher_logits.detach(), -1)
    match kind:
        case "reverse_kl":
            return (student.exp() * (student - teacher)).sum(-1)
        case "forward_kl":
            return (teacher.exp() * (teacher - student)).sum(-1)
        case "jsd":
            middle = torch.logaddexp(student, teacher) - torch.log(student.new_tensor(2.0))
            there = (student.exp() * (student - middle)).sum(-1)
            back = (teacher.exp() * (teacher - middle)).sum(-1)
            return 0.5 * (there + back)
    raise UsageError(f"divergence {kind!r} does not exist; use {', '.join(get_args(Divergence))}")


def distillation_advantages(logprobs: Tensor, teacher_logprobs: Tensor, scored: Tensor) -> Tensor:
    """Â_k = log π_T - log π_θ on sampled tokens, a constant: the policy gradient of -KL(θ ‖ T).

    Differentiating log π_θ - log π_T itself on samples has an expected gradient of 0 and never
    hears the teacher, so the difference is used as an advantage.

    Args:
        logprobs: log π_θ ``[n, R]``.
        teacher_logprobs: log π_T ``[n, R]``; anything, NaN too, where not scored.
        scored: bool ``[n, R]``, sampled tokens that the teacher scored.

    Returns:
        ``[n, R]``, 0 where not scored, without a gradient.
    """
    teacher = teacher_logprobs.detach().to(logprobs.dtype).masked_fill(~scored, 0.0)
    return teacher - logprobs.detach().masked_fill(~scored, 0.0)


def gated_distillation(
    logprobs: Tensor, teacher_logprobs: Tensor, scored: Tensor, beta: float
) -> Tensor:
    """g·(log π_T - log π_θ) on sampled tokens with the gate g = σ(β(log π_T - log π_θ)) constant.

    Raises the student where the teacher is surer. Our reading of a public fork of SDAR; there is
    no published equation to compare with. Arguments as in ``distillation_advantages``; 0 where
    not scored.
    """
    gap = distillation_advantages(logprobs, teacher_logprobs, scored)
    current = logprobs.masked_fill(~scored, 0.0)
    teacher = teacher_logprobs.detach().to(logprobs.dtype).masked_fill(~scored, 0.0)
    return torch.sigmoid(beta * gap) * (teacher - current)


def aggregate(
    values: Tensor,
    mask: Tensor,
    mode: Aggregation,
    *,
    tokens: float,
    rows: float,
    dr_constant: float = 1.0,
    row_weights: Tensor | None = None,
) -> Tensor:
    """A micro-batch's share of the aggregate over its mini-batch: numerator / denominator.

    =================== ============================================================
    mode                whole mini-batch
    =================== ============================================================
    token-mean          Σ_tokens x / N_tokens
    seq-mean-token-mean (1/N_rows) Σ_rows (1/L) Σ_i x
    seq-mean-token-sum  (1/N_rows) Σ_rows Σ_i x
    dr-grpo             Σ_tokens x / (N_rows · constant), arXiv 2503.20783
    action-mean         (1/N_actions) Σ_actions x; x of a token is averaged first
    traj-nested         (1/N_traj) Σ_traj (1/T) Σ_t (1/L) Σ_i x, through ``row_weights``
    =================== ============================================================

    Shares of micro-batches and ranks add up, however the rows are split.

    Args:
        values: x, ``[n, R]``, or ``[n, 1]`` when all tokens of an action share it.
        mask: bool ``[n, R]``; what lies outside is never read.
        mode: a row of the table.
        tokens: N_tokens of the mini-batch, all ranks.
        rows: its rows in which something was sampled (N_rows = N_actions), all ranks.
        dr_constant: the constant of ``dr-grpo``.
        row_weights: N_row / (N_traj · T) of each row ``[n]`` for ``traj-nested``.

    Returns:
        Scalar; 0 for a mini-batch without tokens.

    Raises:
        UsageError: no such mode, or ``traj-nested`` without weights.
    """
    sums = values.expand(mask.shape).masked_fill(~mask, 0.0).sum(1)
    lengths = mask.sum(1).clamp(min=1).to(sums.dtype)
    match mode:
        case "token-mean":
            return sums.sum() / max(tokens, 1.0)
        case "seq-mean-token-mean" | "action-mean":
            return (sums / lengths).sum() / max(rows, 1.0)
        case "seq-mean-token-sum":
            return sums.sum() / max(rows, 1.0)
        case "dr-grpo":
            return sums.sum() / (max(rows, 1.0) * dr_constant)
        case "traj-nested":
            if row_weights is None:
                raise UsageError("aggregation 'traj-nested' needs row weights; pass them")
            weights = row_weights.detach().to(sums.dtype)
            return (weights * sums / lengths).sum() / max(rows, 1.0)
    raise UsageError(f"aggregation {mode!r} does not exist; use {', '.join(get_args(Aggregation))}")
