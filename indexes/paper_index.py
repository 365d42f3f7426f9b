"""Searching papers by words, by vectors, or by both, with the date filter before the fusion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agentgym_suite.data import MANIFEST_NAME, json_digest
from agentgym_suite.errors import RetrievalError, UsageError
from agentgym_suite.files import Json, partial_folder
from agentgym_suite.indexes.encoders import Encoder
from agentgym_suite.indexes.fusion import RRF_K, fuse
from agentgym_suite.indexes.hits import Hits
from agentgym_suite.indexes.paper_store import PaperStore
from agentgym_suite.indexes.paper_vectors import (
    PaperVectors,
    open_paper_vectors,
    vectors_folder,
)
from agentgym_suite.indexes.passages import Found, Passage, check_search, retrieve
from agentgym_suite.indexes.qdrant import QdrantIndex
from agentgym_suite.indexes.qdrant_connection import TIMEOUT_S, QdrantServer

SPARSE, DENSE, HYBRID = "sparse", "dense", "hybrid"
RETRIEVALS = (SPARSE, DENSE, HYBRID)
KIND = "paper-index"
DEPTH = 100
"""How many papers each side gives to the fusion, at least."""

Keep = Callable[[str], bool]
"""Whether the paper of an id may be found."""

_Search = Callable[[Sequence[str], int], list[Hits]]
_WIDER = 4


@dataclass(frozen=True, slots=True)
class _Filter:
    """What a paper must be to be found; see ``PaperIndex.search``."""

    before: int | None
    since: int | None
    keep: Keep | None


@dataclass(frozen=True, slots=True)
class PaperPage:
    """A stretch of a result list.

    Attributes:
        hits: the papers asked for.
        total: how many were ranked; the list may go on when ``more`` says so.
        more: whether there may be papers behind this page.
    """

    hits: Hits
    total: int
    more: bool


class PaperIndex:
    """A store of papers and its vectors, searched as one; threads and processes may share it.

    Made from open parts, or from the store's folder by ``open``. ``close`` closes both.

    Args:
        store: the papers, searched by words.
        vectors: of the same papers; None for a store that is searched by words alone.

    Raises:
        RetrievalError: there is another number of vectors than of papers.
    """

    def __init__(self, store: PaperStore, vectors: PaperVectors | None = None) -> None:
        if vectors is not None and len(vectors) != len(store):
            raise RetrievalError(
                f"there are {len(vectors)} vectors for the {len(store)} papers of {store.folder}; "
                "build them again for this store"
            )
        self.store = store
        self.vectors = vectors

    @classmethod
    def open(
        cls,
        folder: Path | str,
        *,
        vectors: Path | str | None = None,
        encoder: Encoder | str | Path | None = None,
        server: QdrantServer | None = None,
        api_key: str | None = None,
        timeout_s: int = TIMEOUT_S,
        exact: bool = False,
        threads: int | None = None,
    ) -> PaperIndex:
        """Open a store, and its vectors where there are some.

        Args:
            folder: of the store.
            vectors: their folder; None for the one beside the store, if it is there.
            encoder: of the queries; None for the one that the vectors were made with.
            server: of Qdrant, when the points are no longer where the manifest says.
            api_key: for a server that asks for one.
            timeout_s: longest wait for one answer of a server, whole seconds.
            exact: look at every vector instead of walking the graph (Qdrant).
            threads: of the processor, None for what the libraries choose.

        Raises:
            DataMissing: there is no such store, or its vectors are not finished.
            DataVersion: one of the two was written in another format version.
            DataDamaged: one of the two is not as it was built.
            RetrievalError: the vectors are of another store or encoder, or a server gives no
                usable answer.
            MissingExtra: there are vectors, and the extra ``retrieval`` is not installed.
        """
        store = PaperStore.open(folder)
        try:
            place = vectors_folder(Path(folder)) if vectors is None else Path(vectors)
            begun = (place / MANIFEST_NAME).is_file() or partial_folder(place).is_dir()
            if vectors is None and not begun:
                return cls(store)
            opened = open_paper_vectors(
                place,
                store,
                encoder,
                server=server,
                api_key=api_key,
                timeout_s=timeout_s,
                exact=exact,
                threads=threads,
            )
            return cls(store, opened)
        except BaseException:
            store.close()
            raise

    def __reduce__(self) -> tuple[type[PaperIndex], tuple[PaperStore, PaperVectors | None]]:
        return type(self), (self.store, self.vectors)

    def __len__(self) -> int:
        return len(self.store)

    @property
    def retrievals(self) -> tuple[str, ...]:
        """The ways of searching that there are: ``sparse``, and with vectors all three."""
        return RETRIEVALS if self.vectors is not None else (SPARSE,)

    @property
    def digest(self) -> str:
        """``sha256:<hex>`` of the papers, the vectors and how they are fused."""
        vectors = None if self.vectors is None else self.vectors.digest
        return json_digest([KIND, self.store.digest, vectors, DEPTH, RRF_K])

    def search(
        self,
        query: str,
        k: int,
        *,
        retrieval: str | None = None,
        before: int | None = None,
        since: int | None = None,
        keep: Keep | None = None,
    ) -> Hits:
        """The ids of the k best papers for a query; nothing for a blank one.

        Args:
            query: text.
            k: at most so many.
            retrieval: ``sparse``, ``dense`` or ``hybrid``, whose scores are sums of
                ``1 / (60 + rank)``; None for the last of ``retrievals``.
            before: only papers with a smaller day; see ``paper_dates.cutoff_day``.
            since: only papers with at least this day.
            keep: a further filter; each side goes on until it has enough that pass.

        Raises:
            UsageError: ``k`` is below 1, the query is not text, or there is no such retrieval.
            RetrievalError: there are no vectors, or a part cannot be used; never an empty list
                or one half of a hybrid search instead.
        """
        return self.search_batch(
            [query], k, retrieval=retrieval, before=before, since=since, keep=keep
        )[0]

    def search_batch(
        self,
        queries: Sequence[str],
        k: int,
        *,
        retrieval: str | None = None,
        before: int | None = None,
        since: int | None = None,
        keep: Keep | None = None,
    ) -> list[Hits]:
        """``search`` for each query; their vectors are made and searched in one batch."""
        check_search(queries, k)
        ranked, _ = self._ranked(queries, k, retrieval, _Filter(before, since, keep))
        return [Hits(hits.ids[:k], hits.scores[:k]) for hits in ranked]

    def page(
        self,
        query: str,
        *,
        offset: int = 0,
        limit: int = 10,
        retrieval: str | None = None,
        before: int | None = None,
        since: int | None = None,
        keep: Keep | None = None,
    ) -> PaperPage:
        """A stretch of the result list of a query; see ``search``.

        Args:
            query: text.
            offset: how many papers to leave out.
            limit: at most so many.
            retrieval: as for ``search``.
            before: as for ``search``.
            since: as for ``search``.
            keep: as for ``search``.

        Raises:
            UsageError: as for ``search``, or the offset is below 0.
            RetrievalError: as for ``search``.
        """
        check_search([query], limit)
        if offset < 0:
            raise UsageError(f"offset is {offset}; give 0 or more")
        end = offset + limit
        (hits,), full = self._ranked([query], end, retrieval, _Filter(before, since, keep))
        shown = Hits(hits.ids[offset:end], hits.scores[offset:end])
        return PaperPage(shown, len(hits), len(hits) > end or full)

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        """Title and abstract of the papers of these ids; see ``RankedIndex``."""
        papers = map(self.store.paper, ids)
        return [Passage(paper.paper_id, paper.title, paper.abstract) for paper in papers]

    def retrieve(self, queries: Sequence[str], k: int) -> list[list[Found]]:
        """The best papers for each query, as passages; see ``PassageIndex``."""
        return retrieve(self, queries, k)

    def info(self) -> dict[str, Json]:
        """Kind, papers, depth, and what store and vectors say of themselves."""
        return {
            "kind": KIND,
            "rows": len(self),
            "digest": self.digest,
            "retrievals": list(self.retrievals),
            "depth": DEPTH,
            "rrf_k": RRF_K,
            "store": self.store.info(),
            "vectors": None if self.vectors is None else self.vectors.info(),
        }

    def close(self) -> None:
        """Close store and vectors; may be called twice."""
        self.store.close()
        if self.vectors is not None:
            self.vectors.close()

    def _ranked(
        self,
        queries: Sequence[str],
        end: int,
        retrieval: str | None,
        chosen: _Filter,
    ) -> tuple[list[Hits], bool]:
        """One list a query, of at least ``end`` papers if there are; whether one is cut off."""
        retrieval = self.retrievals[-1] if retrieval is None else retrieval
        if retrieval not in RETRIEVALS:
            raise UsageError(f"retrieval is {retrieval!r}; give {', '.join(RETRIEVALS)}")
        # The same depth for all three, so that a total means the same.
        depth = min(max(DEPTH, end), len(self))
        sides: list[list[Hits]] = []
        if retrieval != DENSE:

            def by_words(some: Sequence[str], k: int) -> list[Hits]:
                return [
                    self.store.search_sparse(one, k, chosen.before, since=chosen.since)
                    for one in some
                ]

            sides.append(self._kept(by_words, queries, depth, chosen.keep, 1.0))
        if retrieval != SPARSE:
            sides.append(self._by_vectors(queries, depth, chosen))
        full = any(len(hits) >= depth for side in sides for hits in side) and depth < len(self)
        if len(sides) == 1:
            return sides[0], full
        return [fuse(pair, 2 * depth) for pair in zip(*sides, strict=True)], full

    def _by_vectors(
        self,
        queries: Sequence[str],
        depth: int,
        chosen: _Filter,
    ) -> list[Hits]:
        vectors, before, since, keep = self.vectors, chosen.before, chosen.since, chosen.keep
        if vectors is None:
            raise RetrievalError(
                f"the store {self.store.folder} has no vectors, which dense and hybrid search "
                "need; repeat its `agentgym-suite index build papers` with --dense qdrant, or "
                "search it with retrieval sparse"
            )
        if isinstance(vectors, QdrantIndex):

            def pushed_down(some: Sequence[str], k: int) -> list[Hits]:
                return vectors.search_batch(some, k, before, since=since)

            return self._kept(pushed_down, queries, depth, keep, 1.0)
        if before is None and since is None:
            return self._kept(vectors.search_batch, queries, depth, keep, 1.0)
        # FAISS knows no dates: more are fetched, in the share of the papers that are visible.
        days = self.store.days
        visible = np.ones(len(days), np.bool_)
        if before is not None:
            visible &= days < before
        if since is not None:
            visible &= days >= since
        share = float(visible.mean())
        if not share:
            return [Hits((), ()) for _ in queries]

        def dated(identifier: str) -> bool:
            rowid = self.store.find(identifier)
            return (
                rowid is not None
                and bool(visible[rowid - 1])
                and (keep is None or keep(identifier))
            )

        return self._kept(vectors.search_batch, queries, depth, dated, share)

    def _kept(
        self,
        search: _Search,
        queries: Sequence[str],
        depth: int,
        keep: Keep | None,
        share: float,
    ) -> list[Hits]:
        """The best ``depth`` papers that pass: the search goes deeper until there are so many."""
        if keep is None:
            return search(queries, depth)
        everything = len(self)
        found: list[Any] = [None] * len(queries)
        asked = min(int(2 * depth / share), everything)
        pending = list(range(len(queries)))
        while pending:
            lists = search([queries[place] for place in pending], asked)
            again = []
            for place, hits in zip(pending, lists, strict=True):
                pairs = [hit for hit in zip(hits.ids, hits.scores, strict=True) if keep(hit[0])]
                if len(pairs) < depth and len(hits) == asked < everything:
                    again.append(place)
                best = pairs[:depth]
                found[place] = Hits(tuple(one for one, _ in best), tuple(two for _, two in best))
            pending = again
            asked = min(_WIDER * asked, everything)
        return found
