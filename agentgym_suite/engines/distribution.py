"""From logits to the distribution that is sampled, and from it to ids: pure functions of tensors.

Bans come first, then temperature, then ``top_p``; what remains is normalised in float32. The
trainer's log-probabilities under the same ``Sampling`` are therefore these, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from agentgym_suite.engines.tokens import Sampling

_BLOCK = 512
_BELOW_ONE = math.nextafter(1.0, 0.0)


def log_distribution(
    logits: Tensor, sampling: Sampling, banned: Tensor | Sequence[int] | None = None
) -> Tensor:
    """The logarithm of the distribution that ids are drawn from.

    Args:
        logits: any float dtype, shape (..., vocabulary).
        sampling: its temperature (0 counts as 1) and ``top_p`` apply, and its ``banned_ids``.
        banned: banned ids in place of ``sampling.banned_ids``, when more are banned.

    Returns:
        float32 of the same shape; -inf where an id cannot be drawn.
    """
    scores = logits.float()
    bans = sampling.banned_ids if banned is None else banned
    if len(bans):
        index = torch.as_tensor(bans, dtype=torch.long, device=scores.device)
        scores = scores.index_fill(-1, index, -torch.inf)
    if sampling.temperature not in (0.0, 1.0):
        scores = scores / sampling.temperature
    found = torch.log_softmax(scores, dim=-1)
    return found if sampling.top_p == 1.0 else _nucleus(found, sampling.top_p)


def draw(log_probabilities: Tensor, uniforms: Tensor) -> Tensor:
    """One id a row by inversion: where the cumulated probability passes the row's number.

    First the block of neighbouring ids, then the id in it, each cumulated in float64. A row's draw
    reads its own number alone, and changes only where rounding moves a cumulated probability
    across that number; no id of probability 0 is ever drawn.

    Args:
        log_probabilities: float32, shape (rows, vocabulary).
        uniforms: float64 in [0, 1), shape (rows,).

    Returns:
        int64 ids, shape (rows,).
    """
    vocabulary = log_probabilities.shape[-1]
    filled = torch.nn.functional.pad(log_probabilities.exp(), (0, -vocabulary % _BLOCK))
    blocks = filled.unflatten(-1, (-1, _BLOCK))
    block, share = _invert(blocks.sum(-1), uniforms.to(filled.device))
    chosen = blocks[torch.arange(len(blocks), device=blocks.device), block]
    place, _ = _invert(chosen, share)
    # past the end where probabilities are nan
    return (block * _BLOCK + place).clamp(max=vocabulary - 1)


def _invert(weights: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
    """The place where the cumulated weights pass a number's share of their sum, by row.

    Returns:
        The places, and how far into its own weight each number lies, from 0 to below 1.
    """
    exact = weights.double()
    cumulated = exact.cumsum(-1)
    total = cumulated[:, -1]
    wanted = torch.minimum(numbers * total, torch.nextafter(total, torch.zeros_like(total)))
    place = torch.searchsorted(cumulated, wanted[:, None], right=True)
    place = place.clamp(max=weights.shape[-1] - 1)
    own = exact.gather(-1, place)
    inside = (wanted[:, None] - (cumulated.gather(-1, place) - own)) / own
    return place[:, 0], inside[:, 0].clamp(0.0, _BELOW_ONE)


def log_probability(log_probabilities: Tensor, ids: Tensor) -> Tensor:
    """The log-probability of each row's id.

    Args:
        log_probabilities: shape (..., vocabulary).
        ids: int64, shape (...).

    Returns:
        The same dtype as ``log_probabilities``, shape (...).
    """
    return log_probabilities.gather(-1, ids[..., None])[..., 0]


def _nucleus(log_probabilities: Tensor, top_p: float) -> Tensor:
    """Only the most probable ids that together hold ``top_p``, normalised anew."""
    ordered, places = log_probabilities.sort(dim=-1, descending=True, stable=True)
    probabilities = ordered.exp()
    before = probabilities.cumsum(-1, dtype=torch.float64) - probabilities
    outside = torch.empty_like(before, dtype=torch.bool).scatter_(-1, places, before >= top_p)
    return torch.log_softmax(log_probabilities.masked_fill(outside, -torch.inf), dim=-1)
