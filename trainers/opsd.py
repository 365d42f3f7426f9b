"""OPSD: on-policy self-distillation; the teacher is the same model with privileged information.

The teacher's weights are those that sampled, without gradient; only its prompt knows more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from agentgym_suite.trainers.algorithm import Needs
from agentgym_suite.trainers.config import Preset, PrivilegedConfig, ToldSource, setting
from agentgym_suite.trainers.distillation import Distillation, DistillationConfig


@dataclass(frozen=True, kw_only=True)
class OpsdConfig(DistillationConfig, PrivilegedConfig):
    """Settings of OPSD."""

    PRESETS: ClassVar[Mapping[str, Preset]] = {
        "paper": {},
        "tiny": {"objective": "sampled", "kl_coef": 0.01, "learning_rate": 3e-4},
        "public_code": {},
    }

    pi_source: ToldSource = setting("aligned", "where privileged information comes from")


@dataclass(frozen=True)
class Opsd(Distillation[OpsdConfig]):
    """OPSD as an ``Algorithm``."""

    name: ClassVar[str] = "opsd"

    @property
    def needs(self) -> Needs:
        """A teacher that is told something; what siblings did, unless the text is fixed."""
        return replace(super().needs, group=self.config.pi_source != "generic_skill")
