"""A small deterministic encoder, and a corpus and index made with it: no weights, no torch."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from agentgym_suite.data import Json
from agentgym_suite.indexes.encoders import OnDone

WORDS = tuple(
    "river harbour glass engine copper orchard lantern bridge winter saddle ember canal violin "  # noqa: SIM905
    "quarry meadow anchor pepper mirror falcon thimble".split()
)


class HashingEncoder:
    """The normalised sum of a random vector for each word; a word always has the same one."""

    def __init__(self, dim: int = 32, name: str = "hashing", pause: float = 0.0) -> None:
        self.name = name
        self.dim = dim
        self.pause = pause
        self.calls: list[int] = []

    def identity(self) -> dict[str, Json]:
        return {
            "name": self.name,
            "dim": self.dim,
            "weights_sha256": hashlib.sha256(self.name.encode()).hexdigest(),
            "pooling": "sum",
            "query_prefix": "",
            "passage_prefix": "",
            "max_length": 1000,
            "normalize": True,
        }

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.calls.append(len(texts))
        return np.stack([self._vector(text) for text in texts])

    def encode_passages(
        self, texts: Sequence[str], on_done: OnDone | None = None
    ) -> NDArray[np.float32]:
        self.calls.append(len(texts))
        rows = []
        for text in texts:
            time.sleep(self.pause)
            rows.append(self._vector(text))
            if on_done is not None:
                on_done(1)
        return np.stack(rows)

    def _vector(self, text: str) -> NDArray[np.float32]:
        total = np.zeros(self.dim)
        for word in text.lower().split():
            seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "little")
            total += np.random.default_rng(seed).standard_normal(self.dim)
        return np.asarray(total / (np.linalg.norm(total) or 1.0), np.float32)


def passages(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Made-up passages; every tenth repeats the one before it, under an id that sorts first."""
    dice = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for number in range(count):
        words = [WORDS[place] for place in dice.integers(0, len(WORDS), 12)]
        row = {"id": f"p{number:05}", "title": " ".join(words[:2]), "text": " ".join(words[2:])}
        if number % 10 == 9:
            row = {**rows[-1], "id": f"a{number:05}"}
        rows.append(row)
    return rows


def write_corpus(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def open_without_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an index that a ``HashingEncoder`` built be opened as one of a preset is."""
    known = "agentgym_suite.indexes.query_encoder.QueryEncoder._known_address"
    monkeypatch.setattr(known, lambda self: "hashing")
    opener = "agentgym_suite.indexes.query_encoder.open_encoder"
    monkeypatch.setattr(opener, lambda *_, **__: HashingEncoder())
