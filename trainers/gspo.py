"""GSPO: GRPO's advantage with one ratio a sequence, the geometric mean of its tokens'.

Source: arXiv 2507.18071. A sequence is one step's response; ``gspo_scope=trajectory`` reads it as
the whole trajectory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.algorithm import Needs, PolicyOutputs, Sums
from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.config import NormalisedGroupConfig, Preset, setting
from agentgym_suite.trainers.group_relative import GroupNormalised
from agentgym_suite.trainers.losses import Aggregation
from agentgym_suite.trainers.policy_gradient import Credit
from agentgym_suite.trainers.ratios import (
    RatioKind,
    importance_ratio,
    trajectory_log_ratio,
    trajectory_sums,
)
from agentgym_suite.trainers.stats import Reducer

_OF_TRAJECTORIES: Mapping[str, tuple[Any, str]] = {
    "ratio": ("mean", "takes one mean over the tokens of a trajectory"),
    "aggregation": ("seq-mean-token-mean", "takes one mean over trajectories"),
    "minibatch_unit": ("trajectories", "needs all rows of a trajectory in one mini-batch"),
    "mismatch_cap": (0.0, "has no weights of single tokens"),
}
"""What alone a sequence can be read with that is a trajectory, and why."""


@dataclass(frozen=True, kw_only=True)
class GspoConfig(NormalisedGroupConfig):
    """Settings of GSPO."""

    PRESETS: ClassVar[Mapping[str, Preset]] = {
        "paper": {},
        "tiny": {
            "clip_low": 0.05,
            "clip_high": 0.05,
            "kl_coef": 0.01,
            "learning_rate": 3e-4,
            "invalid_penalty": 0.02,
            "invalid_penalty_place": "advantage",
        },
        "public_code": {"dual_clip": 10.0, "minibatch_unit": "rows"},
    }

    gspo_scope: Literal["row", "trajectory"] = setting("row", "what a sequence is")
    ratio: RatioKind = setting("mean", "how token log-ratios make an importance ratio")
    clip_low: float = setting(3e-4, "the ratio is clipped at 1 - clip_low")
    clip_high: float = setting(4e-4, "the ratio is clipped at 1 + clip_high")
    aggregation: Aggregation = setting("seq-mean-token-mean", "how losses make one number")
    kl_coef: float = setting(1e-3, "weight of the divergence to the reference policy")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gspo_scope == "trajectory":
            for name, (wanted, why) in _OF_TRAJECTORIES.items():
                if (value := getattr(self, name)) != wanted:
                    raise UsageError(
                        f"{name} is {value!r}, and gspo_scope 'trajectory' {why}; set it to "
                        f"{wanted!r}"
                    )


@dataclass(frozen=True)
class Gspo(GroupNormalised[GspoConfig]):
    """GSPO as an ``Algorithm``."""

    name: ClassVar[str] = "gspo"

    def credit(self, batch: StepBatch, reducer: Reducer) -> Credit:
        """(S - mean) / (std + 1e-6) of the group."""
        return Credit(advantages=self.outcome(batch, reducer))

    @property
    def needs(self) -> Needs:
        """The trajectories' sums of log-ratios, where these are the sequences."""
        whole = self.config.gspo_scope == "trajectory"
        return replace(super().needs, log_ratio_pass=whole or super().needs.log_ratio_pass)

    def measure(self, micro: StepBatch, outputs: PolicyOutputs) -> Sums:
        """Sums of log-ratios, also of each trajectory."""
        z = self.z(micro, outputs)
        by_trajectory = trajectory_sums(z, micro.response_mask, _names(micro))
        return replace(super().measure(micro, outputs), by_trajectory=by_trajectory)

    def ratio(self, micro: StepBatch, outputs: PolicyOutputs, sums: Sums) -> Tensor:
        """One ratio a row, or the one of its trajectory."""
        if self.config.gspo_scope == "row":
            return super().ratio(micro, outputs, sums)
        z = self.z(micro, outputs)
        return importance_ratio(
            trajectory_log_ratio(z, micro.response_mask, _names(micro), sums.by_trajectory)
        )

    def policy_term(self, micro: StepBatch, ratio: Tensor, sums: Sums) -> Tensor:
        """Mean over rows, or over trajectories of which a row is its share of tokens."""
        if self.config.gspo_scope == "row":
            return super().policy_term(micro, ratio, sums)
        surrogate = self.surrogate(micro, ratio).squeeze(1)
        counts = [sums.by_trajectory.get(name, (0.0, 1.0))[1] for name in _names(micro)]
        shares = micro.lengths.to(surrogate) / torch.tensor(counts).to(surrogate)
        return -(surrogate * shares).sum() / max(len(sums.by_trajectory), 1)


def _names(micro: StepBatch) -> list[str]:
    return [row.trajectory_id for row in micro.rows]
