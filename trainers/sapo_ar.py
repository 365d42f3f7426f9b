"""SAPO: one language model is policy, V and Q; one rollout a task, no critic, no group.

Source: arXiv 2608.19842. Registered as ``sapo_ar``: ``sapo`` is another method elsewhere.

1. Two reserved ids give p = clip(Δz/τ, ±1) at the last prompt token (V) and at the last response
   token (Q); they are banned from every distribution over tokens.
2. λ-returns are the targets of V, r + γQ' those of Q; the policy's advantage is GAE's.
3. Advantages less the penalty for invalid actions are normalised over the turns of the batch.
4. Token ratios; policy, V, Q, divergence and entropy are one loss and one backward.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.algorithm import Needs, PolicyOutputs, Sums
from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.config import ABOVE_ZERO, Preset, ValueConfig, setting
from agentgym_suite.trainers.critic import explained_variance
from agentgym_suite.trainers.losses import clipped_value_loss
from agentgym_suite.trainers.policy_gradient import Credit, PolicyGradient, Term
from agentgym_suite.trainers.returns import (
    invalid_rows,
    required,
    row_rewards,
    step_gae,
    value_behind,
)
from agentgym_suite.trainers.stats import Reducer, Spread, mean_and_spread, whiten
from agentgym_suite.trainers.value_basis import (
    ReadOut,
    normalised_targets,
    read_out,
    sarsa_targets,
    saturated,
)


@dataclass(frozen=True, kw_only=True)
class SapoArConfig(ValueConfig):
    """Settings of SAPO; the paper gives no constants, these are ours."""

    PRESETS: ClassVar[Mapping[str, Preset]] = {
        "paper": {},
        "tiny": {
            "r_max": 1.0,
            "value_temperature": 1.0,
            "value_coef": 0.1,
            "q_coef": 0.05,
            "c_inv": 0.05,
            "kl_coef": 0.01,
            "entropy_coef": 0.0,
            "learning_rate": 3e-4,
        },
        "public_code": {},  # none is public
    }

    r_max: float = setting(10.0, "largest return: V and Q are this times the read-out")
    value_temperature: float = setting(4.0, "tau_v of the read-out, in logits")
    readout: ReadOut = setting("clip", "read-out of the margin; tanh is ours")
    init_value_rows: bool = setting(True, "start with equal rows of both ids, so V = Q = 0")
    value_coef: float = setting(0.5, "c_V, weight of the loss of V")
    q_coef: float = setting(0.5, "c_Q, weight of the loss of Q")
    value_clip: float = setting(0.2, "the read-out of V may move so far from its frozen self")
    q_clip: float = setting(0.2, "the same for Q")
    c_inv: float = setting(0.1, "taken off the advantage of an invalid action, not off targets")
    adv_std: Spread = setting("unbiased", "denominator of the deviation over turns")
    gamma: float = setting(0.95, "discount of a step")
    lam: float = setting(0.95, "lambda of generalised advantage estimation")
    kl_coef: float = setting(0.01, "weight of the divergence to the reference policy")
    entropy_coef: float = setting(1e-3, "weight of the entropy bonus")
    tasks: int = setting(128, "tasks of an iteration")
    rollouts: int = setting(1, "trajectories of each task")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.c_inv and self.invalid_penalty:
            raise UsageError(
                f"c_inv is {self.c_inv} and invalid_penalty {self.invalid_penalty}: an invalid "
                "action would be punished twice; set one of them to 0"
            )

    def _bounds(self) -> dict[str, tuple[float, float]]:
        return {**super()._bounds(), "r_max": ABOVE_ZERO, "value_temperature": ABOVE_ZERO}


@dataclass(frozen=True)
class SapoAr(PolicyGradient[SapoArConfig]):
    """SAPO as an ``Algorithm``."""

    name: ClassVar[str] = "sapo_ar"

    @property
    def needs(self) -> Needs:
        """The two value tokens."""
        return replace(super().needs, value_tokens=True)

    def read_out(self, margins: Tensor) -> Tensor:
        """V or Q in units of reward: R_max·p."""
        config = self.config
        return config.r_max * read_out(margins, config.value_temperature, config.readout)

    def credit(self, batch: StepBatch, reducer: Reducer) -> Credit:
        """Targets of V and Q in units of p, and advantages normalised over turns."""
        config = self.config
        rewards = row_rewards(batch, config)
        v_old, q_old = required(batch, "v_old").double(), required(batch, "q_old").double()
        raw = step_gae(batch, rewards, config.gamma, config.lam)
        y_v, y_q = raw + v_old, torch.zeros_like(raw)
        for chain in batch.trajectories():
            places = list(chain)
            steps = sarsa_targets(
                rewards[places].tolist(),
                q_old[places].tolist(),
                config.gamma,
                value_behind(batch, chain),
            )
            y_q[places] = torch.tensor(steps, dtype=torch.float64)
        punished = raw - config.c_inv * invalid_rows(batch)
        real = ~batch.is_pad
        beyond, _, _ = mean_and_spread((y_v[real].abs() > config.r_max).double(), reducer)
        size, _, _ = mean_and_spread(v_old[real].abs(), reducer)
        here = float(y_v[real].abs().max()) if real.any() else 0.0
        return Credit(
            advantages=whiten(punished, batch.is_action, reducer, spread=config.adv_std),
            values=normalised_targets(y_v, config.r_max),
            q_values=normalised_targets(y_q, config.r_max),
            metrics={
                "value/mean_abs": size,
                "value/explained_variance": explained_variance(v_old[real], y_v[real], reducer),
                "value/targets_clipped": beyond,
                "value/largest_target": max(reducer.gather([here])) / config.r_max,
            },
        )

    def terms(
        self, micro: StepBatch, outputs: PolicyOutputs, sums: Sums, ratio: Tensor
    ) -> dict[str, Term]:
        """The policy's terms, and one mean over turns for V and for Q."""
        config = self.config
        terms = super().terms(micro, outputs, sums, ratio)
        if config.value_coef:
            value = self._value_term(
                micro, outputs.v_margin, "v_old", ~micro.is_pad, sums.rows, config.value_clip
            )
            terms["v"] = Term(config.value_coef, value)
        if config.q_coef:
            value = self._value_term(
                micro, outputs.q_margin, "q_old", micro.is_action, sums.actions, config.q_clip
            )
            terms["q"] = Term(config.q_coef, value)
        return terms

    def extra_metrics(
        self, micro: StepBatch, outputs: PolicyOutputs, sums: Sums
    ) -> dict[str, float]:
        """Shares of turns whose read-out lies in its dead zone."""
        shares = {}
        for name, margin in (("sat_v", outputs.v_margin), ("sat_q", outputs.q_margin)):
            if margin is not None:
                dead = saturated(margin, self.config.value_temperature) & ~micro.is_pad
                shares[name] = float(dead.sum()) / max(sums.rows, 1.0)
        return shares

    def _value_term(
        self,
        micro: StepBatch,
        margin: Tensor | None,
        old: str,
        counted: Tensor,
        count: float,
        clip: float,
    ) -> Tensor:
        """½ mean over turns of max((p - ȳ)², (p_old + clip(p - p_old, ±ε) - ȳ)²)."""
        config, targets = self.config, micro.targets
        wanted = targets and (targets.values if old == "v_old" else targets.q_values)
        if margin is None or wanted is None:
            raise UsageError("sapo_ar needs v_margin and q_margin and their targets; give both")
        p = read_out(margin.masked_fill(~counted, 0.0), config.value_temperature, config.readout)
        p_old = required(micro, old).to(p.dtype) / config.r_max
        losses = clipped_value_loss(p, p_old, wanted, clip).masked_fill(~counted, 0.0)
        return losses.sum() / max(count, 1.0)
