"""GiGPO: GRPO's advantage plus a comparison of steps that started from the same state.

Source: arXiv 2505.10978. A = A_E + ω·A_S: scores inside the group, and returns-to-go inside each
cluster of rows with the same observation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from agentgym_suite.trainers.advantages import EpisodeStatistics, state_advantages
from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.config import (
    VERL_AGENT,
    NormalisedGroupConfig,
    Preset,
    ReturnsConfig,
    setting,
)
from agentgym_suite.trainers.group_relative import GroupNormalised
from agentgym_suite.trainers.policy_gradient import Credit
from agentgym_suite.trainers.returns import row_rewards, step_returns
from agentgym_suite.trainers.stats import Reducer


@dataclass(frozen=True, kw_only=True)
class GigpoConfig(NormalisedGroupConfig, ReturnsConfig):
    """Settings of GiGPO; ``norm_by_std`` omits both divisions when off (its mode "mean")."""

    PRESETS: ClassVar[Mapping[str, Preset]] = {
        "paper": {},
        "tiny": {
            "kl_coef": 0.01,
            "learning_rate": 3e-4,
            "invalid_penalty": 0.02,
            "invalid_penalty_place": "advantage",
        },
        "public_code": {**VERL_AGENT, "episode_stat": "rows"},
    }

    step_weight: float = setting(1.0, "omega, weight of the step term")
    episode_stat: EpisodeStatistics = setting(
        "trajectories", "what the group's mean and deviation are taken over"
    )
    similarity: float = setting(
        0.0, "least difflib ratio of observations that are one state; 0 asks equality"
    )
    gamma: float = setting(0.95, "discount of a step")
    dual_clip: float = setting(3.0, "bound c > 1 of the loss of negative advantages; 0 is off")
    kl_coef: float = setting(1e-3, "weight of the divergence to the reference policy")

    def _bounds(self) -> dict[str, tuple[float, float]]:
        return {**super()._bounds(), "similarity": (0.0, 1.0)}


@dataclass(frozen=True)
class Gigpo(GroupNormalised[GigpoConfig]):
    """GiGPO as an ``Algorithm``."""

    name: ClassVar[str] = "gigpo"

    def credit(self, batch: StepBatch, reducer: Reducer) -> Credit:
        """The episode's advantage and the state's."""
        config = self.config
        episode = self.outcome(batch, reducer, config.episode_stat)
        returns = step_returns(batch, row_rewards(batch, config), config.gamma)
        state = state_advantages(
            batch,
            returns,
            reducer,
            divide=config.norm_by_std,
            similarity=config.similarity or None,
            eps=config.group_eps,
        )
        return Credit(advantages=episode + config.step_weight * state)
