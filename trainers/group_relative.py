"""What algorithms that compare rollouts of one task share: whole groups, GRPO's normalisation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from torch import Tensor

from agentgym_suite.trainers.advantages import EpisodeStatistics, group_advantages
from agentgym_suite.trainers.algorithm import Needs
from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.config import GroupConfig, NormalisedGroupConfig
from agentgym_suite.trainers.policy_gradient import PolicyGradient
from agentgym_suite.trainers.returns import row_rewards
from agentgym_suite.trainers.stats import Reducer

Config = TypeVar("Config", bound=GroupConfig)
Normalised = TypeVar("Normalised", bound=NormalisedGroupConfig)


@dataclass(frozen=True)
class GroupRelative(PolicyGradient[Config]):
    """An algorithm whose batch is made of whole groups."""

    @property
    def needs(self) -> Needs:
        """Groups, drawn again where the settings say so."""
        config = self.config
        rounds = config.filter_rounds if config.filter_groups else 0
        return replace(super().needs, group=True, resample_uniform_groups=rounds)


@dataclass(frozen=True)
class GroupNormalised(GroupRelative[Normalised]):
    """An algorithm whose scores are normalised inside their group."""

    def outcome(
        self, batch: StepBatch, reducer: Reducer, statistics: EpisodeStatistics = "trajectories"
    ) -> Tensor:
        """GRPO's advantage of each row's trajectory, float64 ``[N]``."""
        config = self.config
        return group_advantages(
            batch,
            row_rewards(batch, config),
            reducer,
            divide=config.norm_by_std,
            spread=config.group_std,
            eps=config.group_eps,
            statistics=statistics,
        )
