"""The embedded ALFWorld households: invented rooms and tasks in the official files."""

from __future__ import annotations

from agentgym_suite.alfworld.generator.making import DEFAULT_SEED, GENERATOR_VERSION
from agentgym_suite.alfworld.generator.rules import WORDINGS
from agentgym_suite.alfworld.generator.writing import (
    EMBEDDED_GAMES,
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
