"""ST-PPO: Turn-PPO with a correction of the bias that clipping brings in.

The correction is **our reading**: neither equation nor code of it could be read. The gradient C of
what clipping takes away, E[1{clipped}·w·Â·∇log π], is measured over the mini-batch, and the policy
gradient is scaled by 1/max(1, ‖C‖). Switched off, this is ``turn_ppo``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from agentgym_suite.trainers.algorithm import Needs, PolicyOutputs, Sums
from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.config import Preset, setting
from agentgym_suite.trainers.policy_gradient import Term
from agentgym_suite.trainers.ppo import TokenCritic
from agentgym_suite.trainers.turn_ppo import TurnPpoConfig


@dataclass(frozen=True, kw_only=True)
class StPpoConfig(TurnPpoConfig):
    """Settings of ST-PPO: Turn-PPO's and the correction."""

    PRESETS: ClassVar[Mapping[str, Preset]] = {
        **TurnPpoConfig.PRESETS,
        "tiny": {**TurnPpoConfig.PRESETS["tiny"], "clip_bias_correction": False},
    }

    clip_bias_correction: bool = setting(
        True, "scale the policy gradient by 1/max(1, |C|), C what clipping takes away"
    )


@dataclass(frozen=True)
class StPpo(TokenCritic[StPpoConfig]):
    """ST-PPO as an ``Algorithm``."""

    name: ClassVar[str] = "st_ppo"

    @property
    def one_ratio_an_action(self) -> bool:
        """False: tokens keep their own advantages, so clipping decides for each of them."""
        return False

    @property
    def needs(self) -> Needs:
        """The gradient of what clipping takes away, before the loss."""
        return replace(super().needs, clip_bias_pass=self.config.clip_bias_correction)

    def terms(
        self, micro: StepBatch, outputs: PolicyOutputs, sums: Sums, ratio: Tensor
    ) -> dict[str, Term]:
        """PPO's terms with the policy's scaled."""
        terms = super().terms(micro, outputs, sums, ratio)
        if self.config.clip_bias_correction:
            scale = 1.0 / max(1.0, sums.clip_bias_norm)
            terms["policy"] = replace(terms["policy"], weight=scale)
        return terms
