"""CAPO's family of ratios by length of the action, on the log-ratios of real updates.

A policy plays, CAPO learns from it mini-batch by mini-batch, and each mini-batch is looked at
before it is learned from, under the weights that the earlier ones have left: what the clip of every
ratio of the family would then do to the same actions.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from iterations import MICRO_TOKENS, Iteration, household, largest_gap, play
from torch import Tensor

from agentgym_suite.engines.loading import load_policy
from agentgym_suite.trainers.batch import StepBatch, collate
from agentgym_suite.trainers.length_metrics import LENGTHS, length_metrics
from agentgym_suite.trainers.passes import scored
from agentgym_suite.trainers.ratios import (
    RatioKind,
    importance_ratio,
    log_ratio,
    mean_log_ratio,
    token_log_ratios,
)
from agentgym_suite.trainers.registry import make_algorithm
from agentgym_suite.trainers.returns import required, token_means
from agentgym_suite.trainers.tiny_policy import build_policy

KINDS: dict[str, tuple[RatioKind, float]] = {
    "token": ("token", 0.5),
    "product": ("product", 0.5),
    "power .25": ("power", 0.25),
    "sqrt": ("sqrt", 0.5),
    "power .75": ("power", 0.75),
    "mean": ("mean", 0.5),
    "action-aware": ("action_aware", 0.5),
}
CLIPS = (1e-3, 5e-2)
"""The paper's, and that of the preset ``tiny``."""
FEWEST = 20  # actions of a bucket that is told
ON_POLICY = 1e-3  # rounding of two forwards, summed over an action


class Looks:
    """What is seen of mini-batches before they are learned from."""

    def __init__(self, iteration: Iteration) -> None:
        self._iteration = iteration
        self.parts: list[tuple[Tensor, Tensor, Tensor]] = []

    def __call__(self, part: StepBatch) -> None:
        """Keep log-ratios, mask and advantages of a mini-batch."""
        now = scored(part, self._iteration.policy, self._iteration.forward, MICRO_TOKENS)
        z = token_log_ratios(now.logprobs, required(part, "old_logprobs"), part.response_mask)
        assert part.targets is not None
        self.parts.append((z, part.response_mask, part.targets.advantages))


def by_length(
    parts: Sequence[tuple[Tensor, Tensor, Tensor]], kind: str, clip: float
) -> dict[str, dict[str, float]]:
    """First length of a bucket -> its actions, and the shares of them out of range and clipped."""
    name, alpha = KINDS[kind]
    actions = float(sum((mask.sum(1) > 0).sum() for _, mask, _ in parts))
    sums: dict[str, float] = defaultdict(float)
    for z, mask, advantages in parts:
        mu = _centre(z, mask)
        ratio = importance_ratio(log_ratio(z, mask, name, mu=mu, alpha=alpha))
        given = advantages if name == "token" else token_means(advantages, mask).unsqueeze(1)
        shares = length_metrics(z, mask, ratio, given, mu=mu, low=clip, high=clip, actions=actions)
        for key, value in shares.items():
            sums[key] += value
    found = {}
    for start in LENGTHS:
        share = sums[f"length/{start}+/share"]
        if share * actions >= FEWEST:
            found[f"{start}+"] = {
                "actions": round(share * actions),
                "out_of_range": sums[f"length/{start}+/out_of_range"] / share,
                "active": sums[f"length/{start}+/active"] / share,
            }
    return found


def growth(parts: Sequence[tuple[Tensor, Tensor, Tensor]]) -> float | None:
    """The exponent b of mean (Σ(z - μ))² ~ L^b over the buckets of length; None for one bucket."""
    points = []
    for start, end in zip(LENGTHS, (*LENGTHS[1:], math.inf), strict=True):
        squares, lengths = [], []
        for z, mask, _ in parts:
            counts = mask.sum(1)
            chosen = (counts >= start) & (counts < end)
            squares += ((z.sum(1) - _centre(z, mask) * counts) ** 2)[chosen].tolist()
            lengths += counts[chosen].tolist()
        if len(squares) >= FEWEST:
            points.append((math.log(_mean(lengths)), math.log(_mean(squares))))
    if len(points) < 2:
        return None
    x, y = (_mean([point[axis] for point in points]) for axis in (0, 1))
    spread = sum((a - x) ** 2 for a, _ in points)
    return sum((a - x) * (b - y) for a, b in points) / spread


def checks_of(parts: Sequence[tuple[Tensor, Tensor, Tensor]]) -> dict[str, bool]:
    """What must hold of every member of the family on the same log-ratios."""
    first, later = parts[0], parts[1:]
    z, mask = (torch.cat([_widened(part[n], later) for part in later]) for n in (0, 1))
    mu, single = _centre(z, mask), mask.sum(1) == 1
    every = {
        name: log_ratio(z, mask, kind, mu=mu, alpha=alpha)
        for name, (kind, alpha) in KINDS.items()
        if name != "token"
    }
    lengths = mask.sum(1, keepdim=True).double().clamp(min=1)
    centred = ((z - mu) * mask).sum(1, keepdim=True)
    other_form = (mu + centred / lengths.sqrt()) * (mask.sum(1, keepdim=True) > 0)
    powers = {
        "product": log_ratio(z, mask, "power", alpha=0.0),
        "sqrt": log_ratio(z, mask, "power", alpha=0.5),
        "mean": log_ratio(z, mask, "power", alpha=1.0),
    }
    alone = z.sum(1, keepdim=True)[single]
    return {
        "every ratio is 1 before the first update": float(first[0].sum(1).abs().max()) < ON_POLICY,
        "log-ratios have moved after it": float(z.abs().max()) > ON_POLICY,
        "the powers 0, 1/2 and 1 are product, sqrt and mean": all(
            torch.equal(powers[name], every[name]) for name in powers
        ),
        "action-aware in its other form": largest_gap(every["action-aware"], other_form) < 1e-9,
        "one token: every ratio is the token's": all(
            largest_gap(value[single], alone) < 1e-12 for value in every.values()
        )
        if bool(single.any())
        else True,
    }


def measured(
    policy: Any, tokenizer: Any, *, horizon: int, new_tokens: int, rows: int
) -> dict[str, Any]:
    """Play, learn, and tell the family by length.

    Args:
        policy: trained in place.
        tokenizer: of it.
        horizon: most steps of an episode.
        new_tokens: most tokens of an action.
        rows: of a mini-batch.
    """
    tasks = household(horizon)[1]
    played = play(policy, tokenizer, tasks, 1, horizon=horizon, max_new_tokens=new_tokens)
    iteration = Iteration(make_algorithm("capo", "tiny", minibatch_rows=rows), policy, tokenizer)
    looks = Looks(iteration)
    batch = iteration.prepare(iteration.score(collate(played.rows)))
    iteration.learn(batch, looks)
    later = looks.parts[1:]
    return {
        "episodes": len(played.episodes),
        "success": sum(e.success for e in played.episodes) / len(played.episodes),
        "actions": len(batch),
        "tokens_an_action": float(batch.lengths.double().mean()),
        "minibatches": len(looks.parts),
        "growth": growth(later),
        "clips": {
            f"{clip:g}": {kind: by_length(later, kind, clip) for kind in KINDS} for clip in CLIPS
        },
        "checks": checks_of(looks.parts),
    }


def claim(start: Path) -> dict[str, Any]:
    """Short actions of a policy that was cloned, and long ones of random weights."""
    loaded = load_policy(start, device="cpu")
    random = build_policy(loaded.tokenizer)
    found = {
        "cloned policy": measured(
            loaded.module, loaded.tokenizer, horizon=20, new_tokens=12, rows=128
        ),
        "random weights, long actions": measured(
            random, loaded.tokenizer, horizon=3, new_tokens=128, rows=36
        ),
    }
    checks = {
        f"{name}: {told}": held
        for name, one in found.items()
        for told, held in one["checks"].items()
    }
    return {"batches": found, "checks": checks}


def _centre(z: Tensor, mask: Tensor) -> float:
    return mean_log_ratio(float(z.sum()), float(mask.sum()))


def _widened(column: Tensor, parts: Sequence[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
    width = max(part[0].shape[1] for part in parts)
    return torch.nn.functional.pad(column, (0, width - column.shape[1]))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
