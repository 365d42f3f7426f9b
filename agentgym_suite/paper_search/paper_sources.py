"""Where papers come from: a store on this machine, or a paper API; both answer alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from agentgym_suite.arguments import check_choice
from agentgym_suite.errors import RetrievalError
from agentgym_suite.files import Json

if TYPE_CHECKING:
    from agentgym_suite.indexes.paper_index import PaperIndex
    from agentgym_suite.indexes.paper_store import Paper, PaperStore
    from agentgym_suite.indexes.remote_papers import RemotePapers

# Those of ``paper_index``, which is imported only when a store is opened.
SPARSE = "sparse"
RETRIEVALS = (SPARSE, "dense", "hybrid")


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
        """What a ``StoreSource`` over the server's store would say; "" when it does not tell."""
        about = self._papers.info()
        only_words = self.retrieval == SPARSE or about.get("retrievals") == [SPARSE]
        searched = about.get("store") if only_words else about
        digest = searched.get("digest") if isinstance(searched, Mapping) else None
        return digest if isinstance(digest, str) else ""

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
