"""Vectors, queries and a corpus to measure retrieval with, and the encoder that looks them up.

The vectors lie in clusters of decaying spread, turned by a random rotation, as those of texts do;
or they are given. The text of row n begins with "Passage n", query n is "query n": an encoder that
reads the number gives both sides of a comparison the same vectors at no cost.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.data import Json

WORDS_PER_PASSAGE = 100  # as in the wiki-18 corpus
_CHUNK = 20_000
_SYLLABLES = ("ban", "dor", "fel", "gus", "ka", "lo", "mi", "nu", "re", "tis")


def write_vectors(
    folder: Path, *, rows: int, dim: int, queries: int, given: Path | None, seed: int = 0
) -> None:
    """Fill a folder with ``vectors.npy``, ``queries.npy`` and ``corpus.jsonl``.

    Args:
        folder: where to.
        rows: passages.
        dim: numbers in a vector.
        queries: how many of them.
        given: a .npy file of unit vectors to use instead; rows and dim are then its own.
        seed: of everything.
    """
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    if given is not None:
        vectors = np.ascontiguousarray(np.load(given), np.float32)
    else:
        vectors = clustered(random, rows, dim)
    np.save(folder / "vectors.npy", vectors)
    near = vectors[random.integers(0, len(vectors), queries)]
    noise = random.standard_normal(near.shape, np.float32) / np.sqrt(near.shape[1])
    np.save(folder / "queries.npy", unit(near + 0.5 * noise))
    write_corpus(folder / "corpus.jsonl", len(vectors), random)


def clustered(random: np.random.Generator, rows: int, dim: int) -> NDArray[np.float32]:
    """Unit vectors around one centre for every hundred of them."""
    spread = (1.0 + np.arange(dim, dtype=np.float32)) ** -0.5
    rotation = np.linalg.qr(random.standard_normal((dim, dim)))[0].astype(np.float32)
    centres = random.standard_normal((max(1, rows // 100), dim), np.float32)
    vectors = np.empty((rows, dim), np.float32)
    for start in range(0, rows, _CHUNK):
        stop = min(rows, start + _CHUNK)
        chosen = centres[random.integers(0, len(centres), stop - start)]
        raw = chosen + 0.7 * random.standard_normal((stop - start, dim), np.float32)
        vectors[start:stop] = unit((raw * spread) @ rotation)
    return vectors


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The same directions with length 1."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / lengths).astype(np.float32)


def write_corpus(path: Path, rows: int, random: np.random.Generator) -> None:
    """Passages of a hundred words; the title of row n is "Passage n"."""
    words = np.array([a + b for a in _SYLLABLES for b in _SYLLABLES])
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, rows, _CHUNK):
            count = min(_CHUNK, rows - start)
            drawn = words[random.integers(0, len(words), (count, WORDS_PER_PASSAGE))]
            for row, texts in enumerate(drawn, start=start):
                contents = f'"Passage {row}"\n{" ".join(texts)}.'
                file.write(json.dumps({"id": str(row), "contents": contents}) + "\n")


class LookupEncoder:
    """The encoder of a folder's vectors: reads the number in a text.

    Args:
        folder: what ``write_vectors`` filled.
    """

    def __init__(self, folder: Path) -> None:
        self._passages = np.load(folder / "vectors.npy", mmap_mode="r")
        self._queries = np.load(folder / "queries.npy")
        self._digest = hashlib.sha256(self._queries.tobytes()).hexdigest()

    @property
    def name(self) -> str:
        """Says what it is."""
        return "lookup"

    @property
    def dim(self) -> int:
        """Numbers in a vector."""
        return int(self._queries.shape[1])

    def identity(self) -> dict[str, Json]:
        """Told apart by its queries."""
        return {
            "name": self.name,
            "dim": self.dim,
            "weights_sha256": self._digest,
            "pooling": "none",
            "query_prefix": "",
            "passage_prefix": "",
            "max_length": 0,
            "normalize": True,
        }

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of "query n"; of the first query for what has no number."""
        numbers = [text.rsplit(" ", 1)[-1] for text in texts]
        return self._queries[[int(number) if number.isdigit() else 0 for number in numbers]]

    def encode_passages(
        self, texts: Sequence[str], on_done: Callable[[int], None] | None = None
    ) -> NDArray[np.float32]:
        """The vectors of "Passage n …"."""
        found = self._passages[[int(text.split(" ", 2)[1]) for text in texts]]
        if on_done is not None:
            on_done(len(texts))
        return np.ascontiguousarray(found)
