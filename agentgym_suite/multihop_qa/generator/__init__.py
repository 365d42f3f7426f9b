"""The embedded encyclopedia: invented entities, their pages, and questions over several of them.

The makers are imported when they are used: a world that was made before needs none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from agentgym_suite.multihop_qa.generator.identity import (
    DEFAULT_SEED,
    GENERATOR_VERSION,
    QUESTION_COUNTS,
    SIZES,
)

if TYPE_CHECKING:
    from agentgym_suite.multihop_qa.generator.writing import generate

__all__ = ["DEFAULT_SEED", "GENERATOR_VERSION", "QUESTION_COUNTS", "SIZES", "generate"]


def __getattr__(name: str) -> Any:
    if name != "generate":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.writing").generate
