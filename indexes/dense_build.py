"""Building a dense index: encode the corpus in shards that survive a kill, then assemble them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.data import (
    Contents,
    Json,
    Manifest,
    Progress,
    publish,
)
from agentgym_suite.errors import AgentGymSuiteError, UsageError
from agentgym_suite.files import (
    TEMPORARY_PREFIX,
    partial_folder,
    write_json_atomic,
)
from agentgym_suite.indexes.corpus import Corpus, corpus_inputs, prepare_corpus
from agentgym_suite.indexes.corpus_rows import load_facts, read_passages
from agentgym_suite.indexes.dense import KIND, MEASURES, VECTORS, VERSION
from agentgym_suite.indexes.dense_kinds import (
    DenseKind,
    check_rows,
    load_faiss,
    new_index,
    parse_kind,
    threads_of_faiss,
    training_places,
    write_index,
)
from agentgym_suite.indexes.dense_plan import machine_memory, recommend
from agentgym_suite.indexes.dense_scan import Floats
from agentgym_suite.indexes.encoders import Encoder, SentenceEncoder, open_encoder
from agentgym_suite.indexes.thread_counts import ProcessThreads
from agentgym_suite.indexes.unfinished import note_stage
from agentgym_suite.indexes.vector_shards import (
    FOLDER,
    SHARD_ROWS,
    encode_shards,
    move_into_place,
)

AUTO = "auto"

_ADDED_AT_ONCE = 1 << 14
_ENGINES = ("faiss-cpu", "torch", "transformers", "sentence-transformers")


def build_dense(
    out: Path | str,
    corpus: Path | str,
    *,
    encoder: Encoder | str | Path = "minilm",
    index_type: str = AUTO,
    batch_size: int = 32,
    threads: int | None = None,
    fast: bool = False,
    ram_bytes: int | None = None,
    shard_rows: int = SHARD_ROWS,
    progress: Progress | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Manifest:
    """Build a dense index of a corpus, or return the one that is there.

    Args:
        out: where the index shall be.
        corpus: its file (see ``corpus_rows.prepare_corpus``), which stays where it is.
        encoder: as ``open_encoder`` takes it, or an encoder itself.
        index_type: ``Flat``, ``fp16``, ``SQ8``, ``HNSW32``, ``IVF<n>,SQ8``, or ``auto`` for what
            ``recommend`` says.
        batch_size: texts encoded at once by an encoder that is given by name; changes no vector.
        threads: of the processor, None for what the libraries choose.
        fast: let HNSW and IVF grow on all threads; two such builds may differ.
        ram_bytes: what ``auto`` plans for; None for the memory of this machine.
        shard_rows: rows encoded between two writes.
        progress: called with the phases ``read corpus``, ``encode``, ``train``, ``assemble`` and
            those of ``publish``.
        on_wait: called once with a sentence when another process is building the folder.

    Raises:
        UsageError: an option is wrong, or the corpus has fewer rows than an IVF lists.
        MissingExtra: the extra ``retrieval`` is not installed.
        DataMissing: there is no such corpus.
        DataDamaged: a row of it is no passage.
        RetrievalError: the corpus changed meanwhile, or the encoder gave no finite vector.
        DataError: the folder holds something else, or cannot be written.
        DiskFull: no space was left; finished shards are kept.
    """
    if shard_rows < 1:
        raise UsageError(f"shard_rows is {shard_rows}; give at least 1")
    out = Path(out)
    kind = None if index_type == AUTO else parse_kind(index_type)
    load_faiss()
    if isinstance(encoder, str | Path):
        encoder = open_encoder(encoder, threads=threads, batch_size=batch_size)
    source = corpus_inputs(corpus, progress)
    reason = "asked for by name"
    if kind is None:
        count = _count_rows(out, corpus, source["sha256"], progress)
        plan = recommend(count, encoder.dim, ram_bytes or machine_memory())
        kind, reason = parse_kind(plan.index_type), plan.reason
    builder = _Builder(encoder, kind, ProcessThreads(threads), fast, shard_rows, progress)

    def write(working: Path) -> Contents:
        facts = prepare_corpus(corpus, working, progress, sha256=source["sha256"])
        check_rows(builder.kind, facts.rows)  # before the hours that the encoder takes
        with closing(Corpus(corpus, working)) as rows:
            builder.write(working, rows)
        notes: dict[str, Json] = {
            "shape": facts.shape,
            "index_type_reason": reason,
            "encoder_address": encoder.address if isinstance(encoder, SentenceEncoder) else None,
            "engines": _engines(),
        }
        return Contents({"rows": facts.rows, "dim": builder.dim}, notes)

    return publish(
        out,
        kind=KIND,
        version=VERSION,
        inputs={
            "corpus": source,
            "encoder": encoder.identity(),
            "index_type": kind.name,
            "metric": "ip",
            "params": {**kind.parameters(), **({"fast": True} if fast else {})},
        },
        write=write,
        progress=progress,
        on_wait=on_wait,
    )


class _Builder:
    """One build: what is written into the working folder."""

    def __init__(
        self,
        encoder: Encoder,
        kind: DenseKind,
        threads: ProcessThreads,
        fast: bool,
        shard_rows: int,
        progress: Progress | None,
    ) -> None:
        self.dim = encoder.dim
        self._encoder = encoder
        self.kind = kind
        self._threads = threads
        self._fast = fast
        self._shard_rows = shard_rows
        self._progress = progress

    def write(self, working: Path, corpus: Corpus) -> None:
        """Encode what is not encoded yet, and write the index."""
        self._threads.apply()
        if not (working / VECTORS).is_file():
            shards = encode_shards(
                working,
                corpus,
                self._encoder,
                shard_rows=self._shard_rows,
                progress=self._progress,
            )
            self._assemble(shards, working)
        # Nothing needs them any more, and `publish` would take them for parts of the index.
        shutil.rmtree(working / FOLDER, ignore_errors=True)
        note_stage(working, None)

    def _assemble(self, paths: list[Path], working: Path) -> None:
        shards = [np.load(path, mmap_mode="r") for path in paths]
        total = sum(map(len, shards))
        index = new_index(self.kind, self.dim)
        places = training_places(self.kind, total)
        largest = 0.0
        with threads_of_faiss(None if self._fast else 1):
            if len(places):
                self._report("train", 0, len(places))
                index.train(_rows_of(shards, places))
                self._report("train", len(places), len(places))
            # In pieces that no shard's size shifts: a graph grows by what comes at once.
            for start in range(0, total, _ADDED_AT_ONCE):
                places = np.arange(start, min(start + _ADDED_AT_ONCE, total))
                vectors = _rows_of(shards, places)
                index.add(vectors)
                norms = np.linalg.norm(vectors.astype(np.float64), axis=1)
                largest = max(largest, float(norms.max()))
                self._report("assemble", start + len(vectors), total)
        write_json_atomic(working / MEASURES, {"largest_norm": largest})
        temporary = working / (TEMPORARY_PREFIX + VECTORS)
        write_index(index, temporary)
        move_into_place(temporary, working / VECTORS)

    def _report(self, phase: str, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(phase, done, total)


def _rows_of(shards: list[Floats], places: NDArray[np.int64]) -> Floats:
    """These rows, ascending, of shards that lie end to end."""
    ends = np.cumsum([len(shard) for shard in shards])
    parts = []
    for shard, end in zip(shards, ends, strict=True):
        inside = places[(places >= end - len(shard)) & (places < end)]
        parts.append(shard[inside - (end - len(shard))])
    return np.ascontiguousarray(np.concatenate(parts))


def _count_rows(out: Path, corpus: Path | str, sha256: Json, progress: Progress | None) -> int:
    """How many rows a corpus has: as an earlier build noted it, else by reading it."""
    for folder in (out, partial_folder(out)):
        with suppress(AgentGymSuiteError):
            facts = load_facts(folder)
            if facts.sha256 == sha256:
                return facts.rows
    rows = 0
    for _ in read_passages(corpus):
        rows += 1
        if progress is not None and rows % 1000 == 0:
            progress("count rows", rows, None)
    return rows


def _engines() -> dict[str, Json]:
    found: dict[str, Json] = {}
    for name in _ENGINES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
