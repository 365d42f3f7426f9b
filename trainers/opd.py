"""OPD: on-policy distillation from another, larger model of the same vocabulary.

Source: arXiv 2306.13649.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from agentgym_suite.trainers.config import Preset, setting
from agentgym_suite.trainers.distillation import Distillation, DistillationConfig


@dataclass(frozen=True, kw_only=True)
class OpdConfig(DistillationConfig):
    """Settings of OPD."""

    PRESETS: ClassVar[Mapping[str, Preset]] = {
        "paper": {},
        "tiny": {"objective": "sampled", "kl_coef": 0.01, "learning_rate": 3e-4},
        "public_code": {},
    }

    teacher_model: str = setting(
        "", "folder of the teacher's weights and tokenizer, or its name on the hub"
    )


@dataclass(frozen=True)
class Opd(Distillation[OpdConfig]):
    """OPD as an ``Algorithm``."""

    name: ClassVar[str] = "opd"
    teacher: Literal["privileged", "model"] = "model"
