"""Opening whatever an address names: the folder of an index of any kind, or a retrieval server."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from agentgym_suite.data import MANIFEST_NAME, Manifest, load_manifest
from agentgym_suite.errors import DataMissing, DataVersion, RetrievalError
from agentgym_suite.indexes.passages import PassageIndex
from agentgym_suite.indexes.unfinished import explain_unfinished

# The kind in a manifest -> the module that holds its VERSION, and ``module:Class`` that opens it.
KINDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "bm25-index": ("bm25_files", "bm25_passages:BM25Passages"),
        "lucene-index": ("lucene", "bm25_passages:BM25Passages"),
        "fts5-index": ("fts5", "fts5:FTS5Index"),
        "dense-index": ("dense", "dense:DenseIndex"),
        "hybrid-index": ("hybrid", "hybrid:HybridIndex"),
        "qdrant-index": ("qdrant", "qdrant:QdrantIndex"),
        "paper-store": ("paper_tables", "paper_index:PaperIndex"),
    }
)

_HERE = "agentgym_suite.indexes."


def open_index(address: str | Path) -> PassageIndex:
    """Open the index at an address.

    Args:
        address: the folder of an index of any kind, or ``http(s)://…`` of a retrieval server.

    Raises:
        DataMissing: no finished index is there; the sentence says how far a build got.
        DataVersion: it was written in another format version.
        DataDamaged: the folder is not as it was built.
        RetrievalError: it holds something else, or its corpus is gone or changed.
        MissingExtra: opening that kind needs an extra that is not installed.
    """
    text = str(address)
    if is_server(text):
        from agentgym_suite.indexes.remote import RemoteIndex  # here: httpx is slow to import

        return RemoteIndex(text)
    folder = Path(os.path.expanduser(text))
    kind = index_manifest(folder).kind
    module, _, name = KINDS[kind][1].partition(":")
    opener: Any = getattr(importlib.import_module(_HERE + module), name)
    return cast(PassageIndex, opener.open(folder))


def is_server(address: str) -> bool:
    """Whether an address is one of a retrieval server, not a folder."""
    return address.lower().startswith(("http://", "https://"))


def index_manifest(folder: Path) -> Manifest:
    """The manifest of an index of any kind, without a look at its files.

    Raises:
        DataMissing: no finished index is there; the sentence says how far a build got.
        DataVersion: it was written in another format version.
        RetrievalError: the folder holds something else.
    """
    if not (folder / MANIFEST_NAME).is_file():
        raise DataMissing(
            explain_unfinished(folder)
            or f"no index at {folder}; build one with `agentgym-suite index build fts5 "
            f"--corpus FILE --out {folder}`"
        )
    manifest = load_manifest(folder)
    if manifest.kind not in KINDS:
        raise RetrievalError(f"{folder} holds a {manifest.kind}, which is no index")
    wanted: int = importlib.import_module(_HERE + KINDS[manifest.kind][0]).VERSION
    if manifest.version != wanted:
        raise DataVersion(
            f"{folder} has format version {manifest.version} of {manifest.kind}, this version of "
            f"the suite reads {wanted}; remove that folder and build it again"
        )
    return manifest
