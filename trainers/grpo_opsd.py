"""GRPO with gated self-distillation: the outcome decides, the informed self adds a nudge.

**Our reading** of a public fork of SDAR: L = L_GRPO + λ·token-mean of g·(log π_T - log π_θ) with
the gate g = σ(β(log π_T - log π_θ)) constant; the teacher is the frozen policy with privileged
information. That mean goes over the tokens that it scored, so that a batch of which little was told
is nudged as hard.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from agentgym_suite.trainers.algorithm import Needs, PolicyOutputs, Sums
from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.config import Preset, PrivilegedConfig, ToldSource, setting
from agentgym_suite.trainers.group_relative import GroupNormalised
from agentgym_suite.trainers.grpo import GrpoConfig
from agentgym_suite.trainers.losses import gated_distillation
from agentgym_suite.trainers.policy_gradient import Credit, Term, scored_tokens
from agentgym_suite.trainers.stats import Reducer


@dataclass(frozen=True, kw_only=True)
class GrpoOpsdConfig(GrpoConfig, PrivilegedConfig):
    """Settings of GRPO with gated self-distillation."""

    distillation_coef: float = setting(0.01, "lambda, weight of the distillation term")
    gate_sharpness: float = setting(5.0, "beta of the gate")
    pi_source: ToldSource = setting("aligned", "where privileged information comes from")

    PRESETS: ClassVar[Mapping[str, Preset]] = GrpoConfig.PRESETS


@dataclass(frozen=True)
class GrpoOpsd(GroupNormalised[GrpoOpsdConfig]):
    """GRPO with gated self-distillation as an ``Algorithm``."""

    name: ClassVar[str] = "grpo_opsd"

    @property
    def needs(self) -> Needs:
        """Groups, and the frozen policy's second opinion."""
        return replace(super().needs, teacher="privileged")

    def credit(self, batch: StepBatch, reducer: Reducer) -> Credit:
        """(S - mean) / (std + 1e-6) of the group."""
        return Credit(advantages=self.outcome(batch, reducer))

    def terms(
        self, micro: StepBatch, outputs: PolicyOutputs, sums: Sums, ratio: Tensor
    ) -> dict[str, Term]:
        """GRPO's terms and the gated one, where a teacher has scored anything."""
        terms = super().terms(micro, outputs, sums, ratio)
        if micro.teacher_logprobs is not None:
            gated = gated_distillation(
                outputs.logprobs,
                micro.teacher_logprobs,
                scored_tokens(micro),
                self.config.gate_sharpness,
            )
            total = self._weighted(gated, micro).sum() / max(sums.teacher_tokens, 1.0)
            terms["distillation"] = Term(self.config.distillation_coef, total)
        return terms
