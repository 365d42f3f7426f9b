"""From documents to postings, a batch at a time, in this process or in several.

The batches come out in the order of the documents whatever the number of processes, and no
more of them are in memory at a time than there are processes.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.errors import RetrievalError
from agentgym_suite.indexes.analyzer import Analyzer

_BATCH_DOCUMENTS = 2_048
_CACHE_SIZE = 1 << 20
"""A build meets the whole vocabulary: about 150 MB at a million words."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The postings of some documents: each document's terms, ascending, with their counts.

    Attributes:
        vocabulary: the terms of the batch; ``terms`` holds positions in it.
        terms: int32, one a posting, document after document.
        frequencies: int32, how often the posting's document has the term.
        distinct: int64, postings of each document.
        lengths: int64, tokens of each document.
    """

    vocabulary: list[str]
    terms: NDArray[np.int32]
    frequencies: NDArray[np.int32]
    distinct: NDArray[np.int64]
    lengths: NDArray[np.int64]


def inverted(
    documents: Iterable[tuple[str, str]], workers: int
) -> Iterator[tuple[list[str], Batch]]:
    """The ids of each batch of (id, text) documents, with their postings.

    Raises:
        RetrievalError: one of several processes ended early.
    """
    if workers == 1:
        analyzer = Analyzer(_CACHE_SIZE)
        for ids, texts in _batches(documents):
            yield ids, invert(texts, analyzer)
        return
    lines: list[Connection] = []
    processes: list[BaseProcess] = []
    try:
        yield from _in_turn(documents, min(workers, os.cpu_count() or 1), lines, processes)
    finally:
        for line in lines:
            line.close()
        for process in processes:
            process.join()


def invert(texts: Sequence[str], analyzer: Analyzer) -> Batch:
    """Analyse texts and count each document's terms."""
    numbers: dict[str, int] = {}
    tokens: list[int] = []
    lengths = []
    for text in texts:
        terms = analyzer(text)
        tokens += [numbers.setdefault(term, len(numbers)) for term in terms]
        lengths.append(len(terms))
    document = np.repeat(np.arange(len(texts), dtype=np.int64), lengths)
    keys, frequencies = np.unique(document << 32 | np.array(tokens, np.int64), return_counts=True)
    return Batch(
        vocabulary=list(numbers),
        terms=(keys & 0xFFFFFFFF).astype(np.int32),
        frequencies=frequencies.astype(np.int32),
        distinct=np.bincount(keys >> 32, minlength=len(texts)).astype(np.int64),
        lengths=np.array(lengths, np.int64),
    )


def _batches(documents: Iterable[tuple[str, str]]) -> Iterator[tuple[list[str], list[str]]]:
    stream = iter(documents)
    while batch := list(islice(stream, _BATCH_DOCUMENTS)):
        yield [identifier for identifier, _ in batch], [text for _, text in batch]


def _in_turn(
    documents: Iterable[tuple[str, str]],
    workers: int,
    lines: list[Connection],
    processes: list[BaseProcess],
) -> Iterator[tuple[list[str], Batch]]:
    """Give the batches to the processes in turn, and take the results in the same order.

    Each process has one batch at a time, so no pipe is ever written from both ends at once. A
    process starts when there is a batch for it.
    """
    waiting: deque[tuple[list[str], Connection]] = deque()
    try:
        for number, (ids, texts) in enumerate(_batches(documents)):
            if len(lines) < workers:
                _start(lines, processes)
            line = lines[number % workers]
            # The line whose turn it is holds the oldest batch that was given.
            done = _oldest(waiting) if len(waiting) == workers else None
            line.send(texts)
            waiting.append((ids, line))
            if done is not None:
                yield done
        while waiting:
            yield _oldest(waiting)
    except (EOFError, OSError) as error:
        raise RetrievalError(
            "a process that analyses documents ended early; build again with fewer workers"
        ) from error


def _start(lines: list[Connection], processes: list[BaseProcess]) -> None:
    # Spawned: a fork would copy the locks of whatever threads the caller runs.
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there,), daemon=True)
    process.start()
    there.close()
    lines.append(here)
    processes.append(process)


def _oldest(waiting: deque[tuple[list[str], Connection]]) -> tuple[list[str], Batch]:
    ids, line = waiting.popleft()
    batch: Batch = line.recv()
    return ids, batch


def _serve(line: Connection) -> None:
    """What an analysing process does until its pipe is closed."""
    analyzer = Analyzer(_CACHE_SIZE)
    while True:
        try:
            texts = line.recv()
        except EOFError:
            return
        line.send(invert(texts, analyzer))
