"""REINFORCE++ with the group's mean as baseline, whitened over tokens.

Source: arXiv 2501.03262, its variant with a group baseline; what CAPO's paper compares with as
"REINFORCE++".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from agentgym_suite.trainers.advantages import centred_advantages, centred_token_returns
from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.config import GroupConfig, Preset, ReturnsConfig, setting
from agentgym_suite.trainers.group_relative import GroupRelative
from agentgym_suite.trainers.policy_gradient import Credit
from agentgym_suite.trainers.returns import (
    over_tokens,
    row_rewards,
    token_returns,
    token_rewards,
)
from agentgym_suite.trainers.stats import Reducer, whiten


@dataclass(frozen=True, kw_only=True)
class ReinforcePpBaselineConfig(GroupConfig, ReturnsConfig):
    """Settings of REINFORCE++ with a group baseline."""

    PRESETS: ClassVar[Mapping[str, Preset]] = {
        "paper": {"returns": "discounted_tokens", "gamma": 0.99},
        "tiny": {
            "kl_coef": 0.01,
            "learning_rate": 3e-4,
            "minibatch_rows": 256,
            "invalid_penalty": 0.02,
            "invalid_penalty_place": "advantage",
        },
        "public_code": {"minibatch_unit": "rows"},
    }

    returns: Literal["score", "discounted_tokens"] = setting(
        "score", "what the baseline is taken from: a trajectory's score, or its tokens' returns"
    )
    gamma: float = setting(1.0, "discount of a token, for returns 'discounted_tokens'")
    kl_coef: float = setting(1e-3, "weight of the divergence to the reference policy")
    minibatch_rows: int = setting(128, "rows of an optimizer mini-batch")


@dataclass(frozen=True)
class ReinforcePpBaseline(GroupRelative[ReinforcePpBaselineConfig]):
    """REINFORCE++ with a group baseline as an ``Algorithm``."""

    name: ClassVar[str] = "reinforce_pp_baseline"

    def credit(self, batch: StepBatch, reducer: Reducer) -> Credit:
        """Score or returns less the group's mean; each trajectory counts by its tokens."""
        config, mask = self.config, batch.response_mask
        if config.returns == "score":
            centred = over_tokens(
                centred_advantages(batch, row_rewards(batch, config), reducer), mask
            )
        else:
            returns = token_returns(batch, token_rewards(batch, config), config.gamma)
            centred = centred_token_returns(batch, returns, reducer)
        return Credit(advantages=whiten(centred, mask, reducer))
