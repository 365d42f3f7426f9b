"""PPO with a critic of tokens: the baseline that does not know what a step is.

Source: arXiv 1707.06347; GAE over sampled tokens, arXiv 1506.02438.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeVar

from agentgym_suite.trainers.algorithm import Needs
from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.config import VERL_AGENT, CriticConfig, Preset, setting
from agentgym_suite.trainers.critic import explained_variance
from agentgym_suite.trainers.policy_gradient import Credit, PolicyGradient
from agentgym_suite.trainers.returns import RowReward, Scope, required, token_gae, token_rewards
from agentgym_suite.trainers.stats import Reducer, whiten


@dataclass(frozen=True, kw_only=True)
class PpoConfig(CriticConfig):
    """Settings of PPO; defaults are those of the comparison in CAPO's paper."""

    PRESETS: ClassVar[Mapping[str, Preset]] = {
        "paper": {},
        "tiny": {
            "gamma": 0.99,
            "lam": 0.95,
            "kl_coef": 0.01,
            "invalid_penalty": 0.02,
            "minibatch_rows": 256,
            "learning_rate": 3e-4,
            "critic_learning_rate": 1e-3,
        },
        "public_code": {**VERL_AGENT, "gamma": 1.0, "scope": "row", "row_reward": "episode"},
    }

    scope: Scope = setting("trajectory", "where the recursion over tokens ends")
    row_reward: RowReward = setting(
        "step", "a step's own reward, or the whole episode's on every row"
    )
    adv_whiten: Literal["tokens", "none"] = setting("tokens", "whiten advantages over tokens")
    gamma: float = setting(0.99, "discount of a token")
    kl_coef: float = setting(1e-3, "weight of the divergence to the reference policy")
    tasks: int = setting(128, "tasks of an iteration")
    rollouts: int = setting(1, "trajectories of each task")
    minibatch_rows: int = setting(128, "rows of an optimizer mini-batch")


Config = TypeVar("Config", bound=PpoConfig)


@dataclass(frozen=True)
class TokenCritic(PolicyGradient[Config]):
    """Token GAE with a token critic; the ratio is left to the settings."""

    @property
    def needs(self) -> Needs:
        """A critic with one value before each token."""
        return replace(super().needs, critic="token")

    def credit(self, batch: StepBatch, reducer: Reducer) -> Credit:
        """GAE over tokens, whitened for the policy and raw for the critic."""
        config, mask = self.config, batch.response_mask
        rewards = token_rewards(batch, config, config.row_reward)
        raw = token_gae(batch, rewards, config.gamma, config.lam, config.scope)
        old = required(batch, "token_values").double()
        targets = (raw + old).masked_fill(~mask, 0.0)
        whitened = config.adv_whiten == "tokens"
        explained = explained_variance(old[mask], targets[mask], reducer)
        return Credit(
            advantages=whiten(raw, mask, reducer) if whitened else raw,
            values=targets,
            metrics={"value/explained_variance": explained},
        )


@dataclass(frozen=True)
class Ppo(TokenCritic[PpoConfig]):
    """PPO as an ``Algorithm``."""

    name: ClassVar[str] = "ppo"
