"""REINFORCE++: discounted returns of tokens, whitened over the whole batch; no critic, no group.

Source: arXiv 2501.03262.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.config import Preset, ReturnsConfig, setting
from agentgym_suite.trainers.policy_gradient import Credit, PolicyGradient
from agentgym_suite.trainers.returns import Scope, token_returns, token_rewards
from agentgym_suite.trainers.stats import Reducer, whiten


@dataclass(frozen=True, kw_only=True)
class ReinforcePpConfig(ReturnsConfig):
    """Settings of REINFORCE++."""

    PRESETS: ClassVar[Mapping[str, Preset]] = {
        "paper": {},
        "tiny": {
            "kl_coef": 0.01,
            "invalid_penalty": 0.02,
            "minibatch_rows": 256,
            "learning_rate": 3e-4,
        },
        "public_code": {
            "scope": "row",
            "kl_place": "reward",
            "kl_estimator": "k1",
            "kl_coef": 1e-3,
            "minibatch_unit": "rows",
        },
    }

    scope: Scope = setting("trajectory", "where the sum over tokens ends")
    kl_coef: float = setting(1e-3, "weight of the divergence to the reference policy")
    tasks: int = setting(128, "tasks of an iteration")
    rollouts: int = setting(1, "trajectories of each task")
    minibatch_rows: int = setting(128, "rows of an optimizer mini-batch")


@dataclass(frozen=True)
class ReinforcePp(PolicyGradient[ReinforcePpConfig]):
    """REINFORCE++ as an ``Algorithm``."""

    name: ClassVar[str] = "reinforce_pp"

    def credit(self, batch: StepBatch, reducer: Reducer) -> Credit:
        """Returns of tokens, whitened over all valid tokens."""
        config = self.config
        returns = token_returns(batch, token_rewards(batch, config), config.gamma, config.scope)
        return Credit(advantages=whiten(returns, batch.response_mask, reducer))
