"""TASPO: GRPO whose outcome advantage is spread over turns by privileged information.

Source: "Reconciling Process Supervision with Outcome-Based Credit in Agentic Policy Optimization".

1. A = (R - mean)/(std + 1e-6) inside the group, the same for all turns.
2. The frozen policy scores each executed action with and without the privileged text; the shift,
   centred and squashed, makes weights of mean one (``credit``).
3. Ã = A·w; token ratios, clip, dual clip; mean over tokens, then turns, then trajectories.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from agentgym_suite.trainers.algorithm import Needs
from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.config import (
    ABOVE_ZERO,
    NormalisedGroupConfig,
    Preset,
    PrivilegedConfig,
    setting,
)
from agentgym_suite.trainers.credit import (
    Allocation,
    CreditSettings,
    action_shifts,
    token_weights,
    turn_weights,
)
from agentgym_suite.trainers.group_relative import GroupNormalised
from agentgym_suite.trainers.losses import Aggregation
from agentgym_suite.trainers.policy_gradient import Credit
from agentgym_suite.trainers.returns import over_tokens
from agentgym_suite.trainers.stats import Reducer


@dataclass(frozen=True, kw_only=True)
class TaspoConfig(NormalisedGroupConfig, PrivilegedConfig):
    """Settings of TASPO; defaults are the paper's."""

    PRESETS: ClassVar[Mapping[str, Preset]] = {
        "paper": {},
        "tiny": {
            "kl_coef": 0.01,
            "entropy_coef": 0.0,
            "learning_rate": 3e-4,
            "invalid_penalty": 0.02,
            "invalid_penalty_place": "advantage",
        },
        "public_code": {
            "clip": None,
            "strict_all_turns": True,
            "align_sees_outcome": True,
            "minibatch_unit": "rows",
        },
    }

    clip: float | None = setting(2.0, "c_delta, bound of a token's shift; null leaves it unbounded")
    tau: float = setting(0.5, "temperature of the squashing")
    weight_range: float = setting(0.4, "eps_w: weights lie in 1 +- this")
    min_shift: float = setting(0.0, "centred turn scores smaller than this count as 0")
    strict_all_turns: bool = setting(False, "weigh nothing unless every turn is scorable")
    allocation: Allocation = setting("action", "what a weight belongs to")
    align_sees_outcome: bool = setting(False, "tell the alignment which targets succeeded")
    dual_clip: float = setting(3.0, "bound c > 1 of the loss of negative advantages; 0 is off")
    aggregation: Aggregation = setting("traj-nested", "how token losses make one number")
    kl_coef: float = setting(0.01, "weight of the divergence to the reference policy")
    entropy_coef: float = setting(1e-3, "weight of the entropy bonus")

    def _bounds(self) -> dict[str, tuple[float, float]]:
        return {**super()._bounds(), "tau": ABOVE_ZERO, "weight_range": (0.0, 1.0 - 1e-12)}


@dataclass(frozen=True)
class Taspo(GroupNormalised[TaspoConfig]):
    """TASPO as an ``Algorithm``."""

    name: ClassVar[str] = "taspo"

    @property
    def needs(self) -> Needs:
        """Groups, and a second scoring pass with the privileged text."""
        config = self.config
        return replace(
            super().needs,
            teacher="none" if config.pi_source == "none" else "privileged",
            # a divergence in the reward tells apart what earned the same
            teacher_of_uniform_groups=config.kl_coef > 0 and config.kl_place == "reward",
        )

    def credit(self, batch: StepBatch, reducer: Reducer) -> Credit:
        """The group's advantage times the turns' weights."""
        outcome = self.outcome(batch, reducer)
        weights, metrics = self._weights(batch, outcome, reducer)
        advantages = over_tokens(outcome, batch.response_mask) * weights
        flips = reducer.sum((advantages * outcome.unsqueeze(1) < 0).sum().double().reshape(1))
        return Credit(advantages=advantages, metrics={**metrics, "credit/sign_flips": float(flips)})

    def _weights(
        self, batch: StepBatch, outcome: Tensor, reducer: Reducer
    ) -> tuple[Tensor, dict[str, float]]:
        """Weight of every token, ``[N, R]``, and the numbers to log."""
        config = self.config
        settings = CreditSettings(
            shift_clip=config.clip,
            temperature=config.tau,
            weight_range=config.weight_range,
            min_shift=config.min_shift,
            strict_all_turns=config.strict_all_turns,
        )
        told = any(row.pi_text for row in batch.rows) and self.needs.teacher != "none"
        shifts: Sequence[Sequence[float] | None] = (
            action_shifts(batch) if told else [None] * len(batch)
        )
        weights = torch.ones(batch.response_mask.shape, dtype=torch.float64)
        reasons: Counter[str] = Counter()
        spread: list[tuple[float, ...]] = []
        for chain in batch.trajectories():
            lines = [shifts[number] for number in chain]
            advantage = float(outcome[chain[0]])
            if not (told and batch.rows[chain[0]].pi_text):
                reason = "no_privileged_text"
            elif config.allocation == "action":
                credited = turn_weights(advantage, lines, settings)
                reason = credited.fallback
                if not reason:
                    spread.append(credited.weights)
                for number, weight in zip(chain, credited.weights, strict=True):
                    weights[number] = weight
            else:
                single, reason = token_weights(advantage, lines, settings)
                action = batch.action_mask & batch.response_mask
                for number, line in zip(chain, single, strict=True):
                    if line is not None:
                        weights[number][action[number]] = torch.tensor(line, dtype=torch.float64)
                if not reason:
                    spread.append(tuple(w for line in single if line is not None for w in line))
            reasons[reason] += 1
        return weights, _logged(reasons, spread, reducer)


def _logged(
    reasons: Counter[str], weights: Sequence[tuple[float, ...]], reducer: Reducer
) -> dict[str, float]:
    """Coverage, fallbacks and the weights' spread over the trajectories of all ranks."""
    counted: Counter[str] = Counter()
    for reason, count in reducer.gather(tuple(reasons.items())):
        counted[reason] += count
    total = max(sum(counted.values()), 1)
    gathered = reducer.gather(tuple(weights))
    flat = [weight for line in gathered for weight in line] or [1.0]
    mean = sum(flat) / len(flat)
    fallbacks = ("no_privileged_text", "zero_advantage", "too_few_scorable")
    return {
        "credit/coverage": 1.0 - counted["no_privileged_text"] / total,
        "credit/active": counted[""] / total,
        **{f"credit/{reason}": float(counted[reason]) for reason in fallbacks},
        "credit/weight_mean": mean,
        "credit/weight_std": (sum((w - mean) ** 2 for w in flat) / len(flat)) ** 0.5,
        "credit/weight_min": min(flat),
        "credit/weight_max": max(flat),
        "credit/mean_error": max((abs(sum(w) / len(w) - 1.0) for w in gathered), default=0.0),
    }
