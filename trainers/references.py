"""The reference policy, whose divergence from the trained one costs: the weights of the start."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from agentgym_suite.trainers.lora import adapter_off, has_adapter
from agentgym_suite.trainers.models import frozen_copy
from agentgym_suite.trainers.ranks import Ranks

Reference = Callable[[], AbstractContextManager[Any]]
"""Opens the reference for a pass over an iteration's rows."""


def make_reference(policy: Any, ranks: Ranks) -> Reference:
    """The policy as it is now: a frozen copy, or the policy itself with its adapter off."""
    if has_adapter(policy):
        return partial(adapter_off, policy)
    return partial(nullcontext, ranks.placed(frozen_copy(policy)))
