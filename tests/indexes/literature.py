"""A small literature for the tests of paper stores, with everything odd that real ones have."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from tests.indexes.corpus_files import WORDS


def papers(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Papers of plain words, of all three precisions of date and without any."""
    draw = Random(seed)
    weights = [1 / rank for rank in range(1, len(WORDS) + 1)]
    made: list[dict[str, Any]] = []
    for number in range(count):
        year, month = draw.randint(2000, 2009), draw.randint(1, 12)
        dates = (f"{year}{month:02}{draw.randint(1, 28):02}", f"{year}-{month:02}", str(year), None)
        made.append(
            {
                "paper_id": f"P{(number * 7919) % 100_003}",
                "title": " ".join(draw.choices(WORDS, weights, k=draw.randint(1, 4))),
                "abstract": " ".join(draw.choices(WORDS, weights, k=draw.randint(0, 30))) or None,
                "published": draw.choice(dates),
                "authors": [f"Author {number % 13}"],
                "venue": f"Venue {number % 3}",
            }
        )
    return made


def citations(rows: Sequence[dict[str, Any]], count: int, seed: int = 0) -> list[tuple[str, str]]:
    """So many distinct citations, in circles too."""
    draw = Random(seed)
    ids = [row["paper_id"] for row in rows]
    pairs: dict[tuple[str, str], None] = {}
    while len(pairs) < count:
        citing, cited = draw.choice(ids), draw.choice(ids[: len(ids) // 4])
        if citing != cited:
            pairs[citing, cited] = None
    return list(pairs)


def write_papers(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    """Write papers as JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_citations(path: Path, pairs: Iterable[tuple[str, str]]) -> Path:
    """Write citations with a header."""
    path.write_text("citing\tcited\n" + "".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
    return path
