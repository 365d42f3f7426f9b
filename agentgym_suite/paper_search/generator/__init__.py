"""The embedded literature: invented papers that cite each other, and queries over them.

The makers are imported when they are used: a world that was made before needs none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from agentgym_suite.paper_search.generator.identity import (
    BROAD_SET,
    DEFAULT_PAPERS,
    DEFAULT_SEED,
    GENERATOR_VERSION,
    NARROW_SET,
    QUERY_COUNTS,
)

if TYPE_CHECKING:
    from agentgym_suite.paper_search.generator.writing import generate

__all__ = [
    "BROAD_SET",
    "DEFAULT_PAPERS",
    "DEFAULT_SEED",
    "GENERATOR_VERSION",
    "NARROW_SET",
    "QUERY_COUNTS",
    "generate",
]


def __getattr__(name: str) -> Any:
    if name != "generate":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.writing").generate
