"""The facts a generated game starts with, read from its problem by hand."""

from __future__ import annotations

import re
from collections import defaultdict

from agentgym_suite.alfworld.generator.making import MadeGame

Pairs = set[tuple[str, str]]


def facts_of(game: MadeGame) -> dict[str, Pairs]:
    """Predicate -> (first, second argument); the second is "" where there is none."""
    init = game.problem[game.problem.index("(:init") : game.problem.index("(:goal")]
    facts: dict[str, Pairs] = defaultdict(set)
    for predicate, first, second in re.findall(r"^    \((\w+) (\w+) ?(\w*)\)$", init, re.M):
        facts[predicate].add((first, second))
    return facts
