"""The vectors of a corpus in files of 50,000 rows: what is encoded once is not encoded again.

Encoding takes nearly all of the time of a build (35 to 70 ms of CPU a passage, measured with the
smallest encoder on shared cores), so every shard is written whole as soon as it is encoded. It
depends on its rows and the encoder alone; a killed build goes on with the next one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.errors import RetrievalError
from agentgym_suite.files import TEMPORARY_PREFIX, Progress, make_folder, sync_folder, write_array
from agentgym_suite.indexes.corpus import Corpus
from agentgym_suite.indexes.encoders import Encoder
from agentgym_suite.indexes.passages import Passage
from agentgym_suite.indexes.unfinished import note_stage

FOLDER = "shards"
SHARD_ROWS = 50_000


def embedded_text(passage: Passage) -> str:
    """What the encoder sees of a passage: title, blank, text."""
    return f"{passage.title} {passage.text}".strip()


def encode_shards(
    working: Path,
    corpus: Corpus,
    encoder: Encoder,
    *,
    shard_rows: int = SHARD_ROWS,
    progress: Progress | None = None,
) -> list[Path]:
    """Encode what is not encoded yet.

    Args:
        working: the folder of the build; the shards lie in ``working/shards``.
        corpus: the passages.
        encoder: of the passages.
        shard_rows: rows of a shard; another number begins anew.
        progress: called with the phase ``encode``, after every text.

    Returns:
        The files, each a float32 array [rows, dim]; end to end they are the rows of the corpus.

    Raises:
        RetrievalError: the encoder gave another shape, or a number that is not finite.
    """
    folder = working / FOLDER
    make_folder(folder)
    total = len(corpus)
    paths = []
    for first in range(0, total, shard_rows):
        span = range(first, min(first + shard_rows, total))
        path = folder / f"{span.start:09}-{span.stop:09}.npy"
        if not path.is_file():
            texts = [embedded_text(passage) for passage in corpus.rows(span)]
            vectors = encoder.encode_passages(texts, _count_from(span.start, total, progress))
            _check_vectors(vectors, (len(span), encoder.dim), encoder.name)
            _write_whole(path, np.asarray(vectors, np.float32))
        note_stage(working, "encode", span.stop, total)
        if progress is not None:
            progress("encode", span.stop, total)
        paths.append(path)
    return paths


def _count_from(done: int, total: int, progress: Progress | None) -> Callable[[int], None]:
    def on_done(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress("encode", done, total)

    return on_done


def _check_vectors(vectors: NDArray[np.float32], shape: tuple[int, int], encoder: str) -> None:
    if vectors.shape != shape:
        raise RetrievalError(
            f"encoder {encoder} gave vectors of the shape {vectors.shape} instead of {shape}; its "
            "encode_passages must give one row for each text"
        )
    if not np.isfinite(vectors).all():
        raise RetrievalError(
            f"encoder {encoder} gave a number that is not finite; check its weights"
        )


def _write_whole(path: Path, vectors: NDArray[np.float32]) -> None:
    temporary = path.with_name(TEMPORARY_PREFIX + path.name)
    write_array(temporary, vectors)
    move_into_place(temporary, path)


def move_into_place(temporary: Path, path: Path) -> None:
    """Bring a file that was written under another name to the disk, and rename it."""
    with temporary.open("rb") as stream:
        os.fsync(stream.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)
