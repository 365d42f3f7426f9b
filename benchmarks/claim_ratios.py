"""CAPO's family of ratios by length of the action, on the log-ratios of real updates.

A policy plays, CAPO learns from it mini-batch by mini-batch, and each mini-batch is looked at
before it is learned from, under the weights that the earlier ones have left: what the clip of every
ratio of the family would then do to the same actions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from iterations import MICRO_TOKENS, Iteration, household, largest_gap, play
from torch import Tensor

from agentgym_suite.engines.loading import load_policy
from agentgym_suite.trainers.batch import StepBatch, collate
from agentgym_suite.trainers.passes import scored
from agentgym_suite.trainers.ratios import (
    RatioKind,
    clip_active,
    importance_ratio,
    log_ratio,
    mean_log_ratio,
    out_of_range,
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
ON_POLICY = 1e-3  # rounding of two forwards, summed over an action
BUCKETS = 4

Parts = Sequence[tuple[Tensor, Tensor, Tensor]]
"""Log-ratios, mask and advantages of each mini-batch, ``[n, R]``."""


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


def buckets_of(parts: Parts) -> list[tuple[int, int]]:
    """First and last length of up to four buckets with about as many actions each."""
    lengths = torch.cat([mask.sum(1) for _, mask, _ in parts])
    lengths = lengths[lengths > 0].sort().values.tolist()
    starts = sorted({lengths[len(lengths) * part // BUCKETS] for part in range(BUCKETS)})
    ends = [*(start - 1 for start in starts[1:]), lengths[-1]]
    return list(zip(starts, ends, strict=True))


def by_length(parts: Parts, kind: str, clip: float) -> dict[str, dict[str, float]]:
    """Lengths of a bucket -> its actions, and the shares of them out of range and clipped."""
    name, alpha = KINDS[kind]
    lengths, outside, active = [], [], []
    for z, mask, advantages in parts:
        ratio = importance_ratio(log_ratio(z, mask, name, mu=_centre(z, mask), alpha=alpha))
        given = advantages if name == "token" else token_means(advantages, mask).unsqueeze(1)
        lengths.append(mask.sum(1))
        outside.append(_share_of_action(out_of_range(ratio, clip, clip), mask))
        active.append(_share_of_action(clip_active(ratio, given, clip, clip), mask))
    counts, beyond, clipped = (torch.cat(each) for each in (lengths, outside, active))
    found = {}
    for first, last in buckets_of(parts):
        inside = (counts >= first) & (counts <= last)
        found[f"{first}-{last}"] = {
            "actions": int(inside.sum()),
            "out_of_range": float(beyond[inside].mean()),
            "active": float(clipped[inside].mean()),
        }
    return found


def growth(parts: Parts) -> float | None:
    """The exponent b of mean (Σ(z - μ))² ~ L^b over the buckets of length; None for one bucket."""
    counts = torch.cat([mask.sum(1) for _, mask, _ in parts]).double()
    squares = torch.cat(
        [(z.sum(1) - _centre(z, mask) * mask.sum(1)) ** 2 for z, mask, _ in parts]
    ).double()
    points = []
    for first, last in buckets_of(parts):
        inside = (counts >= first) & (counts <= last)
        points.append((math.log(counts[inside].mean()), math.log(squares[inside].mean())))
    if len(points) < 2:
        return None
    x, y = (math.fsum(point[axis] for point in points) / len(points) for axis in (0, 1))
    spread = sum((a - x) ** 2 for a, _ in points)
    return sum((a - x) * (b - y) for a, b in points) / spread


def checks_of(parts: Parts) -> dict[str, bool]:
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
    policy: Any,
    tokenizer: Any,
    *,
    horizon: int,
    new_tokens: Sequence[int],
    rows: int,
    learning_rate: float,
) -> dict[str, Any]:
    """Play, learn, and tell the family by length.

    Args:
        policy: trained in place.
        tokenizer: of it.
        horizon: most steps of an episode.
        new_tokens: most tokens of an action; several are dealt to the tasks in turn.
        rows: of a mini-batch.
        learning_rate: of the policy.
    """
    tasks, kinds = household(horizon)[1], len(new_tokens)
    played = [
        play(
            policy,
            tokenizer,
            tasks[kind::kinds],
            1,
            horizon=horizon,
            max_new_tokens=most,
            iteration=kind + 1,
        )
        for kind, most in enumerate(new_tokens)
    ]
    episodes = [episode for collection in played for episode in collection.episodes]
    iteration = Iteration(
        make_algorithm("capo", "tiny", minibatch_rows=rows, learning_rate=learning_rate),
        policy,
        len(tokenizer),
    )
    looks = Looks(iteration)
    batch = collate([row for collection in played for row in collection.rows])
    batch = iteration.prepare(iteration.score(batch))
    iteration.learn(batch, looks)
    later = looks.parts[1:]
    return {
        "episodes": len(episodes),
        "success": sum(e.success for e in episodes) / len(episodes),
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
    """Short actions of a policy that was cloned, and long ones of random weights.

    Random weights take a tenth of the learning rate: at the whole of it every ratio of a long
    action leaves its range at once, whatever its kind.
    """
    loaded = load_policy(start, device="cpu")
    random = build_policy(loaded.tokenizer)
    found = {
        "cloned policy": measured(
            loaded.module,
            loaded.tokenizer,
            horizon=20,
            new_tokens=(12,),
            rows=128,
            learning_rate=3e-4,
        ),
        "random weights, long actions": measured(
            random,
            loaded.tokenizer,
            horizon=3,
            new_tokens=(2, 8, 32, 128),
            rows=36,
            learning_rate=3e-5,
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


def _widened(column: Tensor, parts: Parts) -> Tensor:
    width = max(part[0].shape[1] for part in parts)
    return torch.nn.functional.pad(column, (0, width - column.shape[1]))


def _share_of_action(chosen: Tensor, mask: Tensor) -> Tensor:
    return token_means(chosen.double().expand(mask.shape), mask)
