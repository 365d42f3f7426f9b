"""DAPO: GRPO with a wider upper clip, a mean over tokens and no divergence term.

Source: arXiv 2503.14476. Its dynamic sampling (``filter_groups``) is off so that algorithms play
equally much; what it plays beyond that counts as interaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.config import NormalisedGroupConfig, Preset, setting
from agentgym_suite.trainers.group_relative import GroupNormalised
from agentgym_suite.trainers.policy_gradient import Credit
from agentgym_suite.trainers.stats import Reducer


@dataclass(frozen=True, kw_only=True)
class DapoConfig(NormalisedGroupConfig):
    """Settings of DAPO."""

    PRESETS: ClassVar[Mapping[str, Preset]] = {
        "paper": {},
        "tiny": {
            "learning_rate": 3e-4,
            "invalid_penalty": 0.02,
            "invalid_penalty_place": "advantage",
        },
        "public_code": {"filter_groups": True},
    }

    clip_high: float = setting(0.28, "the ratio is clipped at 1 + clip_high")


@dataclass(frozen=True)
class Dapo(GroupNormalised[DapoConfig]):
    """DAPO as an ``Algorithm``."""

    name: ClassVar[str] = "dapo"

    def credit(self, batch: StepBatch, reducer: Reducer) -> Credit:
        """(S - mean) / (std + 1e-6) of the group."""
        return Credit(advantages=self.outcome(batch, reducer))
