"""Where an environment searches: the store of its data, built once, a folder, or a paper API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from agentgym_suite.arguments import check_choice, offers, shown
from agentgym_suite.data import json_digest, made_folder
from agentgym_suite.data_home import MANIFEST_NAME
from agentgym_suite.errors import MissingExtra, RetrievalError, UsageError
from agentgym_suite.files import Json
from agentgym_suite.paper_search.query_set import QuerySet

if TYPE_CHECKING:
    from agentgym_suite.indexes.paper_index import PaperIndex
    from agentgym_suite.indexes.paper_store import Paper, PaperStore
    from agentgym_suite.indexes.remote_papers import RemotePapers

SPARSE = "sparse"
RETRIEVALS = (SPARSE, "dense", "hybrid")
DEFAULT_ENCODER = "minilm"

_PROBE = "paper"
_TOLD = ("kind", "rows", "papers", "abstracts", "citations", "encoder", "params", "engine")
_PARTS = ("store", "vectors")


@runtime_checkable
class PaperSource(Protocol):
    """What the environment asks for papers. ``before`` hides papers of that day and later.

    Hidden papers use up no places: the limits count those that are visible.
    """

    @property
    def digest(self) -> str:
        """Identifies what is found; "" when that is unknown."""
        ...

    @property
    def retrieval(self) -> str:
        """How it searches: ``sparse``, ``dense``, ``hybrid``; "" as a server chooses."""
        ...

    @property
    def store(self) -> PaperStore | None:
        """The store, where there is one on this machine."""
        ...

    def search_papers(
        self, queries: Sequence[str], k: int, before: int | None
    ) -> list[list[Paper]]:
        """The best papers for each query, best first."""
        ...

    def citing_papers(self, paper_id: str, limit: int, before: int | None) -> list[Paper]:
        """Papers that cite this one: newest first, then by id."""
        ...

    def referenced_papers(self, paper_id: str, limit: int, before: int | None) -> list[Paper]:
        """Papers that this one cites: newest first, then by id."""
        ...

    def find_id(self, text: str) -> str | None:
        """The id of the paper that an id names, in any spelling; None if there is none."""
        ...

    def locate(self, ids: Sequence[str]) -> dict[str, str]:
        """The paper's own id for those of these ids that are quick to look up."""
        ...

    def info(self) -> dict[str, Json]:
        """What it is: kind, papers, engine."""
        ...

    def close(self) -> None:
        """Give back files and connections; may be called twice."""
        ...


class StoreSource:
    """Papers of a store on this machine.

    Args:
        index: the store, with its vectors where there are some; ``close`` closes it.
        retrieval: how it is searched; None for the best way there is.

    Raises:
        UsageError: there is no such retrieval.
        RetrievalError: it needs vectors, and the store has none.
    """

    def __init__(self, index: PaperIndex, retrieval: str | None = None) -> None:
        self._index = index
        self.retrieval = index.retrievals[-1] if retrieval is None else retrieval
        check_choice("retrieval", self.retrieval, RETRIEVALS)
        if self.retrieval not in index.retrievals:
            raise RetrievalError(
                f"the store {index.store.folder} has no vectors, which retrieval "
                f"{self.retrieval!r} needs; repeat its `agentgym-suite index build papers` with "
                "--dense qdrant, or give retrieval='sparse'"
            )

    @property
    def digest(self) -> str:
        """Of papers and vectors; of the papers alone where only they are searched."""
        sparse = self.retrieval == SPARSE
        return self._index.store.digest if sparse else self._index.digest

    @property
    def store(self) -> PaperStore:
        """The store."""
        return self._index.store

    def search_papers(
        self, queries: Sequence[str], k: int, before: int | None
    ) -> list[list[Paper]]:
        """See ``PaperSource``."""
        found = self._index.search_batch(queries, k, retrieval=self.retrieval, before=before)
        return [[self.store.paper(identifier) for identifier in hits.ids] for hits in found]

    def citing_papers(self, paper_id: str, limit: int, before: int | None) -> list[Paper]:
        """See ``PaperSource``."""
        return self.store.papers(self.store.citing(self._row(paper_id), limit, before))

    def referenced_papers(self, paper_id: str, limit: int, before: int | None) -> list[Paper]:
        """See ``PaperSource``."""
        return self.store.papers(self.store.references(self._row(paper_id), limit, before))

    def find_id(self, text: str) -> str | None:
        """See ``PaperSource``."""
        row = self.store.find(text)
        return None if row is None else self.store.ids([row])[0]

    def locate(self, ids: Sequence[str]) -> dict[str, str]:
        """See ``PaperSource``."""
        return {each: found for each in ids if (found := self.find_id(each)) is not None}

    def info(self) -> dict[str, Json]:
        """Of papers and vectors; of the papers alone where only they are searched."""
        return self.store.info() if self.retrieval == SPARSE else self._index.info()

    def close(self) -> None:
        """Close the index."""
        self._index.close()

    def _row(self, paper_id: str) -> int:
        return self.store.paper(paper_id).rowid


class RemoteSource:
    """Papers of a paper API.

    Args:
        papers: its client; ``close`` closes it.
        retrieval: how the server shall search; None as it chooses.
    """

    store = None

    def __init__(self, papers: RemotePapers, retrieval: str | None = None) -> None:
        self._papers = papers
        self._retrieval = retrieval

    @property
    def digest(self) -> str:
        """As the client knows it."""
        return self._papers.digest

    @property
    def retrieval(self) -> str:
        """What was asked for, "" as the server chooses."""
        return self._retrieval or ""

    def search_papers(
        self, queries: Sequence[str], k: int, before: int | None
    ) -> list[list[Paper]]:
        """See ``PaperSource``."""
        return self._papers.search_papers(queries, k, retrieval=self._retrieval, before=before)

    def citing_papers(self, paper_id: str, limit: int, before: int | None) -> list[Paper]:
        """See ``PaperSource``."""
        return self._papers.citing_papers(paper_id, limit, before)

    def referenced_papers(self, paper_id: str, limit: int, before: int | None) -> list[Paper]:
        """See ``PaperSource``."""
        return self._papers.referenced_papers(paper_id, limit, before)

    def find_id(self, text: str) -> str | None:
        """See ``PaperSource``."""
        return self._papers.find_id(text)

    def locate(self, ids: Sequence[str]) -> dict[str, str]:
        """Nothing: each would be a request."""
        return {}

    def info(self) -> dict[str, Json]:
        """As the client tells it."""
        return self._papers.info()

    def close(self) -> None:
        """Close the client."""
        self._papers.close()


def check_index(index: object) -> str | None:
    """An ``index`` argument as text: a folder or an address; None for the store of the data.

    Raises:
        UsageError: it is neither text nor a path.
    """
    if index is None or (isinstance(index, str) and index.strip()):
        return index
    if isinstance(index, Path):
        return str(index)
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
    if index is not None and index.startswith(("http://", "https://")):
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
