"""Building a Qdrant index: encode the corpus in shards, then write the points and their graph."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.data import Contents, Json, Manifest, Progress, json_digest, publish
from agentgym_suite.errors import UsageError
from agentgym_suite.files import write_json_atomic
from agentgym_suite.indexes.corpus import Corpus, corpus_inputs, prepare_corpus
from agentgym_suite.indexes.dense_scan import Floats
from agentgym_suite.indexes.encoders import Encoder, SentenceEncoder, open_encoder
from agentgym_suite.indexes.qdrant import EMBEDDED, EXACT_POINTS, KIND, POINTS, SERVER, VERSION
from agentgym_suite.indexes.qdrant_connection import QdrantServer
from agentgym_suite.indexes.qdrant_embedded import EmbeddedWriter, load_edge
from agentgym_suite.indexes.qdrant_points import UPSERT_POINTS, PointOptions, PointWriter
from agentgym_suite.indexes.qdrant_server import ServerWriter, check_collection
from agentgym_suite.indexes.unfinished import note_stage
from agentgym_suite.indexes.vector_shards import FOLDER, SHARD_ROWS, encode_shards

_WRITTEN = "written.json"
_ENGINES = (
    "qdrant-edge-py",
    "qdrant-client",
    "torch",
    "transformers",
    "sentence-transformers",
)


def build_qdrant(
    out: Path | str,
    corpus: Path | str,
    *,
    encoder: Encoder | str | Path = "minilm",
    days: Sequence[int] | None = None,
    server: QdrantServer | None = None,
    collection: str | None = None,
    options: PointOptions | None = None,
    batch_size: int = 32,
    threads: int | None = None,
    fast: bool = False,
    shard_rows: int = SHARD_ROWS,
    progress: Progress | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Manifest:
    """Build a Qdrant index of a corpus, or return the one that is there.

    The graph holds chance that cannot be seeded: two builds may differ in what an approximate
    search misses. One that is built gives the same list every time.

    Args:
        out: where the index shall be; with a server the folder that names its collection.
        corpus: its file (see ``corpus_rows.prepare_corpus``), which stays where it is unless it
            is packed.
        encoder: as ``open_encoder`` takes it, or an encoder itself.
        days: a day as YYYYMMDD for each row, by which a search can be narrowed.
        server: where the points shall be; None for the folder, and the engine in this process.
        collection: its name on the server; None for one made of all inputs.
        options: how the points are stored.
        batch_size: texts encoded at once by an encoder that is given by name; changes no vector.
        threads: of the encoder, None for what the libraries choose.
        fast: build the graph on all threads.
        shard_rows: rows encoded between two writes.
        progress: called with the phases ``read corpus``, ``encode``, ``write points``, ``build
            graph`` and those of ``publish``.
        on_wait: called once with a sentence when another process is building the folder.

    Raises:
        UsageError: an option is wrong, or there is not one day for each row.
        MissingExtra: the extra ``retrieval`` is not installed.
        DataMissing: there is no such corpus.
        DataDamaged: a row of it is no passage.
        RetrievalError: the corpus changed meanwhile, the encoder gave no finite vector, or the
            engine gives no usable answer.
        DataError: the folder holds something else, or cannot be written.
        DiskFull: no space was left; finished shards are kept.
    """
    if shard_rows < 1:
        raise UsageError(f"shard_rows is {shard_rows}; give at least 1")
    out = Path(out)
    options = options or PointOptions()
    if server is None:
        load_edge()
    if isinstance(encoder, str | Path):
        encoder = open_encoder(encoder, threads=threads, batch_size=batch_size)
    dated = None if days is None else np.asarray(days, np.int64)
    source = corpus_inputs(corpus, progress)
    inputs: dict[str, Json] = {
        "corpus": source,
        "encoder": encoder.identity(),
        "days": None if dated is None else hashlib.sha256(dated.tobytes()).hexdigest(),
        "metric": "ip",
        "params": {**options.to_json(), **({"fast": True} if fast else {})},
    }
    inputs["points"] = place = _place(server, collection, inputs)
    collection = str(place.get("collection"))
    building = _Building(encoder, options, dated, server, collection, fast, progress)

    def write(working: Path) -> Contents:
        facts = prepare_corpus(corpus, working, progress, sha256=source["sha256"])
        with closing(Corpus(corpus, working)) as rows:
            building.write(working, rows, shard_rows)
        address = encoder.address if isinstance(encoder, SentenceEncoder) else None
        notes: dict[str, Json] = {
            "shape": facts.shape,
            "encoder_address": address,
            "engines": _engines(),
        }
        return Contents({"rows": facts.rows, "dim": encoder.dim}, notes)

    return publish(
        out,
        kind=KIND,
        version=VERSION,
        inputs=inputs,
        write=write,
        progress=progress,
        on_wait=on_wait,
    )


@dataclass(frozen=True, slots=True)
class _Building:
    """What is written into the working folder, and onto the server."""

    encoder: Encoder
    options: PointOptions
    days: NDArray[np.int64] | None
    server: QdrantServer | None
    collection: str
    fast: bool
    progress: Progress | None

    def write(self, working: Path, corpus: Corpus, shard_rows: int) -> None:
        """Encode what is not encoded yet, and write the points."""
        total = len(corpus)
        if self.days is not None and len(self.days) != total:
            raise UsageError(
                f"days has {len(self.days)} values for {total} rows; give one for each row"
            )
        if self.server is not None:
            # before an hour of encoding
            check_collection(self.server, self.collection, self.encoder.dim, total)
        if not (working / _WRITTEN).is_file():
            shards = encode_shards(
                working, corpus, self.encoder, shard_rows=shard_rows, progress=self.progress
            )
            writer = self._writer(working, total)
            ids = map(corpus.id, range(total))
            done = 0
            for path in shards:
                vectors = np.load(path, mmap_mode="r")
                for first in range(0, len(vectors), UPSERT_POINTS):
                    some = np.asarray(vectors[first : first + UPSERT_POINTS])
                    writer.add(done, list(islice(ids, len(some))), some, self._days(done, some))
                    done += len(some)
                    self._report("write points", done, total)
                note_stage(working, "write points", done, total)
            self._report("build graph", 0, total)
            writer.finish()
            self._report("build graph", total, total)
            write_json_atomic(working / _WRITTEN, {"rows": total})
        # Nothing needs them any more, and `publish` would take them for parts of the index.
        shutil.rmtree(working / FOLDER, ignore_errors=True)
        note_stage(working, None)

    def _writer(self, working: Path, rows: int) -> PointWriter:
        dim, dated = self.encoder.dim, self.days is not None
        if self.server is None:
            return EmbeddedWriter(
                working / POINTS,
                dim,
                self.options,
                dated=dated,
                graph=rows > EXACT_POINTS,
                threads=0 if self.fast else 1,
            )
        return ServerWriter(self.server, self.collection, dim, self.options, dated=dated, rows=rows)

    def _days(self, first: int, vectors: Floats) -> list[int]:
        if self.days is None:
            return []
        days: list[int] = self.days[first : first + len(vectors)].tolist()
        return days

    def _report(self, phase: str, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(phase, done, total)


def _place(server: QdrantServer | None, collection: str | None, inputs: Json) -> dict[str, Json]:
    """Where the points are; a collection's name differs as soon as anything in it would."""
    if server is None:
        if collection is not None:
            raise UsageError(f"collection is {collection!r} without a server; give its url")
        return {"form": EMBEDDED}
    if collection is None:
        collection = "agentgym-" + json_digest(inputs).removeprefix("sha256:")[:16]
    return {"form": SERVER, "url": server.url, "collection": collection}


def _engines() -> dict[str, Json]:
    found: dict[str, Json] = {}
    for name in _ENGINES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
