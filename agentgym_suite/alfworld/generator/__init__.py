"""The embedded ALFWorld households: invented rooms and tasks in the official files.

The makers are imported when they are used: a world that was made before needs none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from agentgym_suite.alfworld.generator.identity import (
    DEFAULT_SEED,
    EMBEDDED_GAMES,
    GENERATOR_VERSION,
)

if TYPE_CHECKING:
    from agentgym_suite.alfworld.generator.rules import WORDINGS
    from agentgym_suite.alfworld.generator.writing import (
        embedded_world,
        generate,
        made_games,
        split_sizes,
    )

__all__ = [
    "DEFAULT_SEED",
    "EMBEDDED_GAMES",
    "GENERATOR_VERSION",
    "WORDINGS",
    "embedded_world",
    "generate",
    "made_games",
    "split_sizes",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "rules" if name == "WORDINGS" else "writing"
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
