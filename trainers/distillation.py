"""``Distillation``: the student learns from a teacher on what the student itself sampled.

Over the whole vocabulary the divergence is differentiated directly; it is an expectation already,
and weighs no token against another engine. On sampled tokens its gradient is a policy gradient with
the advantage log π_T - log π_θ, a constant: differentiating the sampled difference itself has an
expected gradient of 0. Behind an iteration's first optimizer step samples are of older weights, so
each weighs by its clipped ratio, as in PPO (ours: the equation knows one step).
Source: on-policy distillation, arXiv 2306.13649.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import torch
from torch import Tensor

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.algorithm import Needs, PolicyOutputs, Sums
from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.config import AlgorithmConfig, setting
from agentgym_suite.trainers.losses import (
    Divergence,
    clipped_surrogate,
    distillation_advantages,
)
from agentgym_suite.trainers.policy_gradient import (
    Credit,
    PolicyGradient,
    Term,
    scored_tokens,
)
from agentgym_suite.trainers.ratios import clip_active
from agentgym_suite.trainers.returns import required
from agentgym_suite.trainers.stats import Reducer

_NOT_READ: Mapping[str, tuple[str, ...]] = {
    "full": ("ratio", "clip_low", "clip_high", "dual_clip", "mismatch_cap"),
    "sampled": ("divergence",),
}
"""Settings that say nothing for an objective."""


@dataclass(frozen=True, kw_only=True)
class DistillationConfig(AlgorithmConfig):
    """Settings of distillation; the mean goes over tokens that the teacher scored."""

    objective: Literal["full", "sampled"] = setting(
        "full", "differentiate over the whole vocabulary, or a policy gradient on samples"
    )
    divergence: Divergence = setting(
        "reverse_kl", "between student and teacher, for objective 'full'"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        unread = dict.fromkeys(
            ("reward_scale", "invalid_penalty", "aggregation"),
            "and distillation uses no rewards and has one mean, over the tokens that the teacher "
            "scored",
        )
        unread |= dict.fromkeys(
            _NOT_READ[self.objective], f"which objective {self.objective!r} does not read"
        )
        for name, why in unread.items():
            value, default = getattr(self, name), getattr(type(self), name)
            if value != default:
                raise UsageError(f"{name} is {value!r}, {why}; leave it at {default!r}")
        if self.kl_coef and self.kl_place == "reward":
            raise UsageError(
                "kl_place is 'reward', and distillation uses no rewards; set it to 'loss', or "
                "kl_coef to 0"
            )


Config = TypeVar("Config", bound=DistillationConfig)


@dataclass(frozen=True)
class Distillation(PolicyGradient[Config]):
    """A loss towards the teacher in the place of the policy's; rewards are not used."""

    teacher: Literal["privileged", "model"] = "privileged"

    @property
    def needs(self) -> Needs:
        """A teacher, and its whole distribution for objective 'full'."""
        config = self.config
        wanted = config.divergence if config.objective == "full" else "none"
        return replace(super().needs, teacher=self.teacher, divergence=wanted)

    def credit(self, batch: StepBatch, reducer: Reducer) -> Credit:
        """No advantage: the teacher is the only signal."""
        scored = reducer.sum(scored_tokens(batch).sum().double().reshape(1))
        total = reducer.sum(batch.response_mask.sum().double().reshape(1))
        return Credit(
            advantages=torch.zeros(len(batch), dtype=torch.float64),
            metrics={"teacher/coverage": float(scored / total.clamp(min=1.0))},
        )

    def terms(
        self, micro: StepBatch, outputs: PolicyOutputs, sums: Sums, ratio: Tensor
    ) -> dict[str, Term]:
        """Distillation in the place of the policy's term."""
        terms = super().terms(micro, outputs, sums, ratio)
        del terms["policy"]
        scored = scored_tokens(micro)
        if self.config.objective == "full":
            if outputs.divergence is None:
                raise UsageError(f"{self.name} needs outputs with divergence; give the teacher's")
            losses = outputs.divergence
        else:
            teacher = required(micro, "teacher_logprobs")
            advantages = distillation_advantages(outputs.logprobs, teacher, scored)
            low, high = self.config.clip_low, self.config.clip_high
            raised = clipped_surrogate(ratio, advantages, low, high, self.config.dual_clip)
            losses = -self._weighted(raised, micro)
        total = losses.masked_fill(~scored, 0.0).sum() / max(sums.teacher_tokens, 1.0)
        return {"distillation": Term(1.0, total), **terms}

    def extra_metrics(
        self, micro: StepBatch, outputs: PolicyOutputs, sums: Sums
    ) -> dict[str, float]:
        """The share of sampled tokens whose clip is active, by the teacher's advantages."""
        if self.config.objective == "full" or micro.teacher_logprobs is None:
            return {}
        ratio, scored = self.ratio(micro, outputs, sums), scored_tokens(micro)
        advantages = distillation_advantages(outputs.logprobs, micro.teacher_logprobs, scored)
        active = clip_active(ratio, advantages, self.config.clip_low, self.config.clip_high)
        return {"clip/active": float((active & scored).sum()) / max(sums.tokens, 1.0)}
