"""RLOO: the score of a trajectory less the mean of the other trajectories of its group.

Source: arXiv 2402.14740.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from agentgym_suite.trainers.advantages import leave_one_out_advantages
from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.config import VERL_AGENT, GroupConfig, Preset, setting
from agentgym_suite.trainers.group_relative import GroupRelative
from agentgym_suite.trainers.policy_gradient import Credit
from agentgym_suite.trainers.returns import row_rewards
from agentgym_suite.trainers.stats import Reducer


@dataclass(frozen=True, kw_only=True)
class RlooConfig(GroupConfig):
    """Settings of RLOO."""

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

    kl_coef: float = setting(1e-3, "weight of the divergence to the reference policy")


@dataclass(frozen=True)
class Rloo(GroupRelative[RlooConfig]):
    """RLOO as an ``Algorithm``."""

    name: ClassVar[str] = "rloo"

    def credit(self, batch: StepBatch, reducer: Reducer) -> Credit:
        """n/(n-1)·(S - mean); a group of one gives 0."""
        rewards = row_rewards(batch, self.config)
        return Credit(advantages=leave_one_out_advantages(batch, rewards, reducer))
