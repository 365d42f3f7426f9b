"""GSPO: GRPO's advantage with one ratio a sequence, the geometric mean of its tokens'.

Source: arXiv 2507.18071. A sequence is one step's response; ``gspo_scope=trajectory`` reads it as
the whole trajectory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.algorithm import Sums
from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.config import GroupConfig, Preset, setting
from agentgym_suite.trainers.group_relative import GroupRelative
from agentgym_suite.trainers.losses import Aggregation
from agentgym_suite.trainers.policy_gradient import Credit
from agentgym_suite.trainers.ratios import RatioKind
from agentgym_suite.trainers.stats import Reducer


@dataclass(frozen=True, kw_only=True)
class GspoConfig(GroupConfig):
    """Settings of GSPO."""

    PRESETS: ClassVar[Mapping[str, Preset]] = {
        "paper": {},
        "tiny": {
            "clip_low": 0.05,
            "clip_high": 0.05,
            "kl_coef": 0.01,
            "learning_rate": 3e-4,
        },
        "public_code": {"dual_clip": 10.0},
    }

    gspo_scope: Literal["row", "trajectory"] = setting("row", "what a sequence is")
    ratio: RatioKind = setting("mean", "how token log-ratios make an importance ratio")
    clip_low: float = setting(3e-4, "the ratio is clipped at 1 - clip_low")
    clip_high: float = setting(4e-4, "the ratio is clipped at 1 + clip_high")
    aggregation: Aggregation = setting("seq-mean-token-mean", "how losses make one number")
    kl_coef: float = setting(1e-3, "weight of the divergence to the reference policy")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gspo_scope == "trajectory" and self.ratio != "trajectory":
            raise UsageError(
                f"gspo_scope 'trajectory' has its own ratio, not {self.ratio!r}; "
                "set ratio='trajectory' too"
            )


@dataclass(frozen=True)
class Gspo(GroupRelative[GspoConfig]):
    """GSPO as an ``Algorithm``."""

    name: ClassVar[str] = "gspo"

    def credit(self, batch: StepBatch, reducer: Reducer) -> Credit:
        """(S - mean) / (std + 1e-6) of the group."""
        return Credit(advantages=self.outcome(batch, reducer))

    def policy_term(self, micro: StepBatch, ratio: Tensor, sums: Sums) -> Tensor:
        """Mean over rows, or over trajectories of which a row is its share of tokens."""
        if self.config.gspo_scope == "row":
            return super().policy_term(micro, ratio, sums)
        surrogate = self.surrogate(micro, ratio).squeeze(1)
        known = [sums.by_trajectory.get(row.trajectory_id, (0.0, 0.0)) for row in micro.rows]
        tokens = torch.tensor([max(count, 1.0) for _, count in known]).to(surrogate)
        shares = micro.lengths.to(surrogate.dtype) / tokens
        return -(surrogate * shares).sum() / max(len(sums.by_trajectory), 1)
