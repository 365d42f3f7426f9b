"""A module of a user, with an algorithm that is one of the suite's with less of everything."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.grpo import Grpo
from agentgym_suite.trainers.policy_gradient import Credit, PolicyGradient
from agentgym_suite.trainers.stats import Reducer


@dataclass(frozen=True)
class Halved(Grpo):
    """GRPO with half its advantages."""

    name: ClassVar[str] = "halved"

    def credit(self, batch: StepBatch, reducer: Reducer) -> Credit:
        """Half of GRPO's."""
        found = super().credit(batch, reducer)
        return replace(found, advantages=found.advantages / 2)


class Unsettled(PolicyGradient):  # type: ignore[type-arg]
    """Names no class of settings."""


something_else = 3
