"""What becomes of log-ratios as actions grow longer, by buckets of length.

CAPO (arXiv 2604.18401) reports that centred sums of log-ratios spread the more the longer an
action is, which is what its ratio's square root is for.
"""

from __future__ import annotations

from torch import Tensor

from agentgym_suite.trainers.ratios import clip_active, out_of_range
from agentgym_suite.trainers.returns import token_means

LENGTHS = (1, 4, 16, 64, 256, 1024, 4096)
"""First length of each bucket; the last one has no end."""


def length_metrics(
    z: Tensor,
    mask: Tensor,
    ratio: Tensor,
    advantages: Tensor,
    *,
    mu: float,
    low: float,
    high: float,
    actions: float,
) -> dict[str, float]:
    """A micro-batch's share of what is logged by length; shares add up over micro-batches.

    ``length/4+/share`` is the share of actions with 4 to 15 tokens. ``sum``, which is Σ(z - μ̂),
    ``square``, its square, ``out_of_range`` and ``active`` are summed over the bucket and divided
    by **all** actions: over ``share`` they are the bucket's means, and the variance of the centred
    sums is square/share - (sum/share)².

    Args:
        z: log-ratios ``[n, R]``, 0 outside the mask.
        mask: bool ``[n, R]``.
        ratio: ``[n, R]`` or ``[n, 1]``.
        advantages: of the same shape.
        mu: the centre; with 0, where none was measured, sums are about 0 and drift apart with the
            lengths inside a bucket, too.
        low: lower clip width.
        high: upper clip width.
        actions: of the mini-batch, all ranks.
    """
    lengths = mask.sum(1)
    centred = z.sum(1) - mu * lengths
    outside = out_of_range(ratio, low, high).to(z.dtype).expand(mask.shape)
    active = clip_active(ratio, advantages, low, high).to(z.dtype).expand(mask.shape)
    measured = {
        "share": (lengths > 0).to(z.dtype),
        "sum": centred,
        "square": centred**2,
        "out_of_range": token_means(outside, mask),
        "active": token_means(active, mask),
    }
    found = {}
    for start, end in zip(LENGTHS, (*LENGTHS[1:], float("inf")), strict=True):
        inside = (lengths >= start) & (lengths < end)
        for name, values in measured.items():
            total = float(values[inside].sum()) / max(actions, 1.0)
            found[f"length/{start}+/{name}"] = total
    return found
