"""Which papers an environment searches: those of its data, a store's folder, or a paper API's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_suite.arguments import check_path, offers, shown
from agentgym_suite.data import json_digest, made_folder
from agentgym_suite.data_home import MANIFEST_NAME
from agentgym_suite.errors import MissingExtra, RetrievalError, UsageError
from agentgym_suite.indexes.opening import is_server
from agentgym_suite.paper_search.paper_sources import (
    SPARSE,
    PaperSource,
    RemoteSource,
    StoreSource,
)
from agentgym_suite.paper_search.query_set import QuerySet

if TYPE_CHECKING:
    from agentgym_suite.indexes.paper_index import PaperIndex

DEFAULT_ENCODER = "minilm"

_PROBE = "paper"
_TOLD = ("kind", "rows", "papers", "abstracts", "citations", "encoder", "params", "engine")
_PARTS = ("store", "vectors")


def check_index(index: object) -> str | None:
    """An ``index`` argument as text: a folder or an address; None for the store of the data.

    Raises:
        UsageError: it is neither text nor a path, or no path can be like that.
    """
    if index is None:
        return None
    if isinstance(index, str | Path) and str(index).strip():
        return check_path("index", index)
    raise UsageError(f"index is {shown(index)}; give a folder, an http address, or None")


def check_papers(papers: PaperSource | None) -> PaperSource | None:
    """A ``papers`` argument: something to search, or None.

    Raises:
        UsageError: it is neither; a store or a folder is named by ``index``.
    """
    if papers is None or offers(papers, PaperSource):
        return papers
    raise UsageError(
        f"papers is {shown(papers)}; give an open PaperSource, or name a folder or an address by "
        "index="
    )


def open_source(queries: QuerySet, index: str | None, retrieval: str | None) -> PaperSource:
    """Open what is searched.

    Args:
        queries: the data; their own papers become a store at first use, in the data home.
        index: None for these; the folder of a store, or the address of a paper API.
        retrieval: ``sparse``, ``dense`` or ``hybrid``. None: for a folder with vectors, whose
            extra is installed, ``hybrid``; else ``sparse``; of an address as the server chooses.

    Raises:
        RetrievalError: the data have no papers of their own, the store has no vectors, or the
            paper API does not answer such a search.
        DataMissing: there is no store in that folder.
        MissingExtra: vectors are asked for without the packages they need.
    """
    if index is not None and is_server(index):
        from agentgym_suite.indexes.remote_papers import RemotePapers

        remote = RemotePapers(index)
        if retrieval is not None:  # a preset may take a refused search for an empty one
            try:
                remote.search_papers([_PROBE], 1, retrieval=retrieval)
            except BaseException:
                remote.close()
                raise
        return RemoteSource(remote, retrieval)
    from agentgym_suite.indexes.paper_index import PaperIndex
    from agentgym_suite.indexes.paper_store import PaperStore

    if index is None:
        opened = _own_index(queries, retrieval)
    elif retrieval == SPARSE:
        opened = PaperIndex(PaperStore.open(Path(index).expanduser()))
    else:
        folder = Path(index).expanduser()
        try:
            opened = PaperIndex.open(folder)
        except MissingExtra:
            if retrieval is not None:
                raise
            opened = PaperIndex(PaperStore.open(folder))
    try:
        return StoreSource(opened, retrieval)
    except BaseException:
        opened.close()
        raise


def told_source(source: PaperSource) -> dict[str, Any]:
    """What provenance says of a source: what decides its results, no path of this machine."""
    info = source.info()
    told = {"digest": source.digest, **_told(info)}
    for part in _PARTS:
        if isinstance(about := info.get(part), Mapping):
            told[part] = _told(about)
    return told


def encoder_of(told: Mapping[str, Any]) -> Any:
    """The encoder of what ``told_source`` gave; "" where nothing is encoded."""
    return told.get("vectors", told).get("encoder", "")


def _told(info: Mapping[str, Any]) -> dict[str, Any]:
    return {name: info[name] for name in _TOLD if name in info}


def _own_index(queries: QuerySet, retrieval: str | None) -> PaperIndex:
    """The store of the data's papers; it and the vectors that were asked for are built once.

    The vectors have a place of their own, so that without being asked for the store is searched
    by words on every machine, whatever was built there before.
    """
    from agentgym_suite.indexes.paper_index import PaperIndex
    from agentgym_suite.indexes.paper_store import PaperStore
    from agentgym_suite.indexes.paper_store_build import build_paper_store
    from agentgym_suite.indexes.paper_tables import VERSION

    if queries.corpus is None:
        raise RetrievalError(
            f"the data set {queries.dataset} has no papers of its own; name the folder of a "
            "store, or the address of a paper API, by index="
        )
    about = json_digest(["papers", VERSION, queries.corpus_digest])
    folder = made_folder("indexes", "papers", about)
    if not (folder / MANIFEST_NAME).is_file():
        build_paper_store(folder, queries.corpus, queries.citations)
    if retrieval is None or retrieval == SPARSE:
        return PaperIndex(PaperStore.open(folder))
    vectors = folder.with_name(f"{folder.name}-{DEFAULT_ENCODER}")
    if not (vectors / MANIFEST_NAME).is_file():
        from agentgym_suite.indexes.paper_vectors import build_paper_vectors

        store = PaperStore.open(folder)
        try:
            build_paper_vectors(store, vectors, encoder=DEFAULT_ENCODER)
        finally:
            store.close()
    return PaperIndex.open(folder, vectors=vectors)
