"""GRPO: the score of a trajectory compared inside its group, the same on every token.

Source: DeepSeekMath (arXiv 2402.03300).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.config import VERL_AGENT, NormalisedGroupConfig, Preset, setting
from agentgym_suite.trainers.group_relative import GroupNormalised
from agentgym_suite.trainers.policy_gradient import Credit
from agentgym_suite.trainers.stats import Reducer


@dataclass(frozen=True, kw_only=True)
class GrpoConfig(NormalisedGroupConfig):
    """Settings of GRPO."""

    PRESETS: ClassVar[Mapping[str, Preset]] = {
        "paper": {},
        "tiny": {
            "kl_coef": 0.01,
            "learning_rate": 3e-4,
            "invalid_penalty": 0.02,
            "invalid_penalty_place": "advantage",
        },
        "public_code": VERL_AGENT,
    }

    dual_clip: float = setting(3.0, "bound c > 1 of the loss of negative advantages; 0 is off")
    kl_coef: float = setting(1e-3, "weight of the divergence to the reference policy")


@dataclass(frozen=True)
class Grpo(GroupNormalised[GrpoConfig]):
    """GRPO as an ``Algorithm``."""

    name: ClassVar[str] = "grpo"

    def credit(self, batch: StepBatch, reducer: Reducer) -> Credit:
        """(S - mean) / (std + 1e-6) of the group."""
        return Credit(advantages=self.outcome(batch, reducer))
