"""The critic's loss on a micro-batch: one value a step, or one before each token."""

from __future__ import annotations

from torch import Tensor

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.algorithm import Loss, Sums
from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.losses import clipped_value_loss
from agentgym_suite.trainers.returns import required
from agentgym_suite.trainers.stats import Reducer, mean_and_spread


def critic_share(micro: StepBatch, values: Tensor, sums: Sums, clip: float) -> Loss:
    """½ · mean of max((V - R)², (clipped V - R)²), the share of one micro-batch.

    The mean goes over steps for values ``[n]`` and over sampled tokens for ``[n, R]``; targets
    are those of ``prepare``, made of raw advantages.

    Raises:
        UsageError: no value targets, or values of a shape that they do not have.
    """
    targets = None if micro.targets is None else micro.targets.values
    if targets is None:
        raise UsageError("the batch has no value targets; prepare it first")
    if values.shape != targets.shape:
        raise UsageError(
            f"values have shape {tuple(values.shape)}, their targets {tuple(targets.shape)}; "
            "give one a step to a boundary critic and one a token to a token critic"
        )
    if values.dim() == 1:
        mask, count = ~micro.is_pad, sums.rows
        old = required(micro, "v_old")
    else:
        mask, count = micro.response_mask, sums.tokens
        old = required(micro, "token_values")
    current = values.masked_fill(~mask, 0.0)
    old, targets = old.masked_fill(~mask, 0.0), targets.masked_fill(~mask, 0.0)
    losses = clipped_value_loss(current, old, targets, clip).masked_fill(~mask, 0.0)
    total = losses.sum() / max(count, 1.0)
    moved = ((current - old.to(current.dtype)).abs() > clip).sum() / max(count, 1.0)
    return Loss(total=total, metrics={"value/loss": total.item(), "value/clipped": moved.item()})


def explained_variance(values: Tensor, targets: Tensor, reducer: Reducer) -> float:
    """1 - Var(R - V) / Var(R) over the given values of all ranks; 0 where R does not vary."""
    _, spread, _ = mean_and_spread(targets, reducer, "biased")
    _, left, _ = mean_and_spread(targets - values, reducer, "biased")
    return 1.0 - (left / spread) ** 2 if spread > 0.0 else 0.0
