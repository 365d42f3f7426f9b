"""The vectors of the papers of a store: an index of their texts beside it, by Qdrant or FAISS.

The index takes its passages from the store, in the order of the row ids, and keeps them in its
own folder. The name of the file they came in says which store that was.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

from agentgym_suite.data import MANIFEST_NAME, Manifest, Progress, load_manifest
from agentgym_suite.errors import DataMissing, RetrievalError, UsageError
from agentgym_suite.files import TEMPORARY_PREFIX, make_folder, partial_folder
from agentgym_suite.indexes import dense, qdrant
from agentgym_suite.indexes.dense import DenseIndex
from agentgym_suite.indexes.encoders import Encoder
from agentgym_suite.indexes.paper_store import PaperStore
from agentgym_suite.indexes.qdrant import QdrantIndex
from agentgym_suite.indexes.qdrant_connection import TIMEOUT_S, QdrantServer
from agentgym_suite.indexes.qdrant_points import PointOptions
from agentgym_suite.indexes.vector_shards import SHARD_ROWS, move_into_place

QDRANT, FAISS = "qdrant", "faiss"
ENGINES = (QDRANT, FAISS)
KINDS = (qdrant.KIND, dense.KIND)
"""What manifests call the indexes of the two engines."""

PaperVectors = QdrantIndex | DenseIndex


def vectors_folder(store: Path) -> Path:
    """Where the vectors of a store are looked for: beside it, ``NAME-dense``."""
    return store.with_name(store.name + "-dense")


def build_paper_vectors(
    store: PaperStore,
    out: Path | str | None = None,
    *,
    engine: str = QDRANT,
    encoder: Encoder | str | Path = "minilm",
    server: QdrantServer | None = None,
    collection: str | None = None,
    options: PointOptions | None = None,
    index_type: str = "auto",
    batch_size: int = 32,
    threads: int | None = None,
    fast: bool = False,
    shard_rows: int = SHARD_ROWS,
    progress: Progress | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Manifest:
    """Encode title and abstract of every paper and index the vectors, or return what is there.

    Args:
        store: whose papers.
        out: where the index shall be; None for beside the store.
        engine: ``qdrant``, which filters by date while it searches, or ``faiss``.
        encoder: as ``open_encoder`` takes it, or an encoder itself.
        server: of Qdrant; None for the engine in this process.
        collection: its name on the server; None for one made of all inputs.
        options: how Qdrant stores the points.
        index_type: of FAISS, as ``build_dense`` takes it.
        batch_size: texts encoded at once by an encoder that is given by name.
        threads: of the processor, None for what the libraries choose.
        fast: build graphs on all threads; two such builds may differ.
        shard_rows: rows encoded between two writes.
        progress: called with the phases ``collect papers`` and those of the two builders.
        on_wait: called once with a sentence when another process is building the folder.

    Raises:
        UsageError: an option is wrong.
        MissingExtra: the extra ``retrieval`` is not installed.
        RetrievalError: the encoder gave no finite vector, or the engine no usable answer.
        DataError: the folder holds something else, or cannot be written.
        DiskFull: no space was left; finished shards are kept.
    """
    if engine not in ENGINES:
        raise UsageError(f"the engine of the vectors is {engine!r}; give {' or '.join(ENGINES)}")
    out = vectors_folder(store.folder) if out is None else Path(out)
    passages = out.absolute().with_name(_passages_name(store))
    make_folder(passages.parent)
    _write_passages(store, passages, progress)
    if engine == FAISS:
        from agentgym_suite.indexes.dense_build import build_dense

        manifest = build_dense(
            out,
            passages,
            encoder=encoder,
            index_type=index_type,
            batch_size=batch_size,
            threads=threads,
            fast=fast,
            shard_rows=shard_rows,
            progress=progress,
            on_wait=on_wait,
        )
    else:
        from agentgym_suite.indexes.qdrant_build import build_qdrant

        manifest = build_qdrant(
            out,
            passages,
            encoder=encoder,
            days=store.days.tolist(),
            server=server,
            collection=collection,
            options=options,
            batch_size=batch_size,
            threads=threads,
            fast=fast,
            shard_rows=shard_rows,
            progress=progress,
            on_wait=on_wait,
        )
    # The index holds them unpacked; a build that was killed writes them anew, byte for byte.
    passages.unlink(missing_ok=True)
    return manifest


def open_paper_vectors(
    folder: Path,
    store: PaperStore,
    encoder: Encoder | str | Path | None = None,
    *,
    server: QdrantServer | None = None,
    api_key: str | None = None,
    timeout_s: int = TIMEOUT_S,
    exact: bool = False,
    threads: int | None = None,
) -> PaperVectors:
    """Open the vectors of a store.

    Args:
        folder: where ``build_paper_vectors`` put them.
        store: whose papers they must be.
        encoder: of the queries; None for the one that the manifest names.
        server: of Qdrant, when the points are no longer where the manifest says.
        api_key: for a server that asks for one.
        timeout_s: longest wait for one answer of a server, whole seconds.
        exact: look at every point instead of walking the graph (Qdrant).
        threads: of the processor, None for what the libraries choose.

    Raises:
        DataMissing: none are there; the sentence says whether a build was begun.
        RetrievalError: they are of another store or another encoder, or the server gives no
            usable answer.
        MissingExtra: the extra ``retrieval`` is not installed.
    """
    if not (folder / MANIFEST_NAME).is_file():
        begun = partial_folder(folder).is_dir()
        raise DataMissing(
            f"the vectors {folder} are not finished; repeat the `agentgym-suite index build "
            "papers` that began them, it goes on where it stopped"
            if begun
            else f"no vectors at {folder}; build them with `agentgym-suite index build papers "
            "--dense qdrant`"
        )
    manifest = load_manifest(folder)
    _check_store(folder, manifest, store)
    if manifest.kind == dense.KIND:
        return DenseIndex.open(folder, encoder, threads=threads)
    return QdrantIndex.open(
        folder,
        encoder,
        server=server,
        api_key=api_key,
        timeout_s=timeout_s,
        exact=exact,
        threads=threads,
    )


def _check_store(folder: Path, manifest: Manifest, store: PaperStore) -> None:
    if manifest.kind not in KINDS:
        raise RetrievalError(
            f"{folder} holds a {manifest.kind}, not the vectors of papers; name the folder that "
            "`agentgym-suite index build papers --dense qdrant` made"
        )
    corpus = manifest.inputs.get("corpus")
    path = corpus.get("path") if isinstance(corpus, dict) else None
    found, wanted = os.path.basename(str(path)), _passages_name(store)
    rows = manifest.counts.get("rows")
    if found != wanted or rows != len(store):
        raise RetrievalError(
            f"{folder} holds the vectors of {found} ({rows} rows), the store {store.folder} has "
            f"{wanted} ({len(store)} papers); build them again for this store"
        )


def _passages_name(store: PaperStore) -> str:
    return f"papers-{store.digest.removeprefix('sha256:')[:16]}.jsonl.gz"


def _write_passages(store: PaperStore, path: Path, progress: Progress | None) -> None:
    """Write every paper as a passage; the same bytes for the same store."""
    temporary = path.with_name(TEMPORARY_PREFIX + path.name)
    with (
        temporary.open("wb") as raw,
        gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0) as packed,
    ):
        for done, paper in enumerate(store.iterate(), start=1):
            row = {"id": paper.paper_id, "title": paper.title, "text": paper.abstract}
            packed.write(json.dumps(row).encode("ascii") + b"\n")
            if progress is not None and (done % 1000 == 0 or done == len(store)):
                progress("collect papers", done, len(store))
    move_into_place(temporary, path)
