"""Turn-PPO: one ratio a turn, the geometric mean of its tokens', on each token's own advantage.

Source: ST-PPO (arXiv 2511.20718), its turn-level importance ratio without the correction. Another
paper of the name Turn-PPO estimates advantages of turns; that is CAPO's ``credit=action_gae``
with another ratio, reached by those settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from agentgym_suite.trainers.config import Preset, setting
from agentgym_suite.trainers.ppo import PpoConfig, TokenCritic
from agentgym_suite.trainers.ratios import RatioKind


@dataclass(frozen=True, kw_only=True)
class TurnPpoConfig(PpoConfig):
    """Settings of Turn-PPO: PPO's with the ratio of a turn."""

    PRESETS: ClassVar[Mapping[str, Preset]] = {
        **PpoConfig.PRESETS,
        "public_code": {},  # none is public
    }

    ratio: RatioKind = setting("mean", "how token log-ratios make an importance ratio")


@dataclass(frozen=True)
class TurnPpo(TokenCritic[TurnPpoConfig]):
    """Turn-PPO as an ``Algorithm``."""

    name: ClassVar[str] = "turn_ppo"

    @property
    def one_ratio_an_action(self) -> bool:
        """False: tokens keep their own advantages, so clipping decides for each of them."""
        return False
