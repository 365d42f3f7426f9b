"""Small corpora for the tests of indexes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random

from agentgym_suite.indexes.passages import Passage

WORDS = [
    "river",
    "stone",
    "harbour",
    "lantern",
    "copper",
    "meadow",
    "violin",
    "winter",
    "glacier",
    "orchard",
    "falcon",
    "marble",
    "saddle",
    "thunder",
    "velvet",
    "canyon",
    "ember",
    "willow",
    "anchor",
    "bridge",
]


def passages(count: int, seed: int = 0) -> list[Passage]:
    """Passages of plain words, rare and frequent ones, with ids that do not sort as they come."""
    draw = Random(seed)
    weights = [1 / rank for rank in range(1, len(WORDS) + 1)]
    made = []
    for number in range(count):
        title = " ".join(draw.choices(WORDS, weights, k=draw.randint(1, 3)))
        text = " ".join(draw.choices(WORDS, weights, k=draw.randint(3, 30)))
        made.append(Passage(f"p{(number * 7919) % 100_003}", title, text))
    return made


def write_corpus(path: Path, rows: Iterable[Passage]) -> Path:
    """Write passages as JSON lines with id, title and text."""
    lines = [{"id": row.id, "title": row.title, "text": row.text} for row in rows]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path
