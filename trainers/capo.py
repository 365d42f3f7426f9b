"""CAPO: an action is what the environment sees, so it has one advantage and one ratio.

Source: arXiv 2604.18401 v5 (v1-v4 were called StepPO).

1. GAE over the steps of a trajectory, with V at the last prompt token of each step.
2. The critic learns raw advantage + V; the policy's advantages are whitened over steps.
3. log w = μ̂(1 - √L) + Σz/√L for an action of L tokens, μ̂ the mean log-ratio of the mini-batch.
4. The clipped surrogate is averaged over actions, with a very narrow clip.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from agentgym_suite.trainers.algorithm import Needs, PolicyOutputs, Sums
from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.config import CriticConfig, Preset, setting
from agentgym_suite.trainers.critic import explained_variance
from agentgym_suite.trainers.length_metrics import length_metrics
from agentgym_suite.trainers.losses import Aggregation
from agentgym_suite.trainers.policy_gradient import Credit, PolicyGradient
from agentgym_suite.trainers.ratios import RatioKind, mean_log_ratio
from agentgym_suite.trainers.returns import (
    required,
    row_rewards,
    step_gae,
    token_gae,
    token_means,
    token_rewards,
)
from agentgym_suite.trainers.stats import Reducer, whiten


@dataclass(frozen=True, kw_only=True)
class CapoConfig(CriticConfig):
    """Settings of CAPO; defaults are the paper's."""

    PRESETS: ClassVar[Mapping[str, Preset]] = {
        "paper": {},
        "tiny": {
            "gamma": 0.95,
            "lam": 0.95,
            "clip_low": 0.05,
            "clip_high": 0.05,
            "kl_coef": 0.01,
            "invalid_penalty": 0.02,
            "minibatch_rows": 256,
            "learning_rate": 3e-4,
            "critic_learning_rate": 1e-3,
        },
        "public_code": {
            "gamma": 1.0,
            "ratio": "mean",
            "clip_low": 3e-4,
            "clip_high": 4e-4,
            "dual_clip": 10.0,
            "aggregation": "seq-mean-token-mean",
            "minibatch_unit": "rows",
        },
    }

    credit: Literal["action_gae", "token_gae"] = setting(
        "action_gae", "what one step of GAE is: an action, or (the ablation) a token"
    )
    adv_whiten: Literal["steps", "none"] = setting(
        "steps",
        "whiten advantages over steps as the code does, over tokens where credit and ratio are of "
        "tokens; the paper does not mention it",
    )
    gamma: float = setting(0.99, "discount of a step")
    ratio: RatioKind = setting("action_aware", "how token log-ratios make an importance ratio")
    clip_low: float = setting(1e-3, "the ratio is clipped at 1 - clip_low")
    clip_high: float = setting(1e-3, "the ratio is clipped at 1 + clip_high")
    aggregation: Aggregation = setting("action-mean", "how losses make one number")
    kl_coef: float = setting(1e-3, "weight of the divergence to the reference policy")
    tasks: int = setting(128, "tasks of an iteration")
    rollouts: int = setting(1, "trajectories of each task")
    minibatch_rows: int = setting(128, "rows of an optimizer mini-batch")


@dataclass(frozen=True)
class Capo(PolicyGradient[CapoConfig]):
    """CAPO as an ``Algorithm``."""

    name: ClassVar[str] = "capo"

    @property
    def needs(self) -> Needs:
        """A boundary critic; a token critic in the ablation of credit."""
        by_token = self.config.credit == "token_gae"
        return replace(super().needs, critic="token" if by_token else "boundary")

    def credit(self, batch: StepBatch, reducer: Reducer) -> Credit:
        """GAE, whitened for the policy and raw for the critic."""
        config, mask = self.config, batch.response_mask
        if config.credit == "action_gae":
            raw = step_gae(batch, row_rewards(batch, config), config.gamma, config.lam)
            old, counted = required(batch, "v_old").double(), ~batch.is_pad
            trained = batch.is_action
        else:
            raw = token_gae(batch, token_rewards(batch, config), config.gamma, config.lam)
            old, counted = required(batch, "token_values").double(), mask
            trained = mask
        targets = raw + old
        advantages = raw
        if config.credit == "token_gae" and self.one_ratio_an_action:
            advantages, trained = token_means(raw, mask), batch.is_action
        if config.adv_whiten == "steps":
            advantages = whiten(advantages, trained, reducer)
        explained = explained_variance(old[counted], targets[counted], reducer)
        return Credit(
            advantages=advantages,
            values=targets,
            metrics={"value/explained_variance": explained},
        )

    def extra_metrics(
        self, micro: StepBatch, outputs: PolicyOutputs, sums: Sums
    ) -> dict[str, float]:
        """How ratios behave by length of the action; around 0 where no centre was measured."""
        config = self.config
        ratio = self.ratio(micro, outputs, sums)
        return length_metrics(
            self.z(micro, outputs),
            micro.response_mask,
            ratio,
            self.advantages(micro).to(ratio.dtype),
            mu=mean_log_ratio(sums.log_ratio, sums.tokens),
            low=config.clip_low,
            high=config.clip_high,
            actions=sums.actions,
        )
