"""Searching passages by meaning with Qdrant: in this process, or as a server.

Both forms hold the same points, numbered by row, and are searched the same way. The order of a
result never depends on the engine's: more points than wanted are fetched, as many as are needed
to have all of equal score at the cut, and put into order here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.data import Manifest, read_manifest
from agentgym_suite.errors import RetrievalError, UsageError
from agentgym_suite.files import Json, explain_damage
from agentgym_suite.indexes.corpus import Corpus
from agentgym_suite.indexes.digests import QDRANT_LEFT_OUT, ranking_digest
from agentgym_suite.indexes.encoders import Encoder
from agentgym_suite.indexes.hits import Hits
from agentgym_suite.indexes.passages import Found, Passage, check_search, retrieve
from agentgym_suite.indexes.qdrant_connection import TIMEOUT_S, QdrantServer
from agentgym_suite.indexes.qdrant_embedded import EmbeddedPoints
from agentgym_suite.indexes.qdrant_points import ANY_DAY, Days, Points, PointSearch
from agentgym_suite.indexes.qdrant_server import ServerPoints
from agentgym_suite.indexes.query_encoder import QueryEncoder

KIND = "qdrant-index"
VERSION = 1
MEND = "build it with `agentgym-suite index build qdrant`"
POINTS = "points"
EMBEDDED, SERVER = "embedded", "server"
EXACT_POINTS = 10_000
"""Up to so many points are all looked at, which takes no longer than a walk through the graph."""

EF = 64
"""Candidates of a walk, at least; otherwise twice as many as points are wanted."""

_SPARE = 8


class QdrantIndex:
    """A built index, opened for searching; threads and forked processes may share it.

    Made by ``open``. Pickling keeps the folder's path and the options: the copy opens it again.

    Args:
        folder: where the index lies.
        manifest: its manifest, checked.
        encoder: of the queries; None for the one that the manifest names, opened when needed.
        server: where the points are, when not in the folder and not where the manifest says.
        api_key: for a server that asks for one.
        timeout_s: longest wait for one answer of a server.
        exact: look at every point, always.
        threads: of the encoder, None for what the libraries choose.

    Raises:
        MissingExtra: the extra ``retrieval`` is not installed.
        RetrievalError: the corpus is gone or has another size, the encoder is another one, or the
            server gives no answer or has other points.
        DataDamaged: the folder is not as it was built.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        encoder: Encoder | str | Path | None = None,
        *,
        server: QdrantServer | None = None,
        api_key: str | None = None,
        timeout_s: int = TIMEOUT_S,
        exact: bool = False,
        threads: int | None = None,
    ) -> None:
        self.folder = folder
        self.manifest = manifest
        self._options = (encoder, server, api_key, timeout_s, exact, threads)
        with explain_damage(folder):
            place = _mapping(manifest.inputs["points"])
            options = _mapping(manifest.inputs["params"])
            self.dim = manifest.counts["dim"]
            self.dated = manifest.inputs["days"] is not None
            self._rescore = options["quantization"] is not None
            form, url, collection = place["form"], place.get("url"), str(place.get("collection"))
        self._exact = exact
        self._closed = False
        self._encoder = QueryEncoder.of(folder, manifest, encoder, threads=threads)
        self._corpus = Corpus.of(folder, manifest)
        self._allowed: dict[Days, int] = {ANY_DAY: len(self._corpus)}
        self._points: Points
        try:
            if form == EMBEDDED:
                self._points = EmbeddedPoints(folder / POINTS, self.dim, len(self._corpus))
            else:
                if server is None:
                    server = QdrantServer(str(url), api_key=api_key, timeout_s=timeout_s)
                self._points = ServerPoints(server, collection, self.dim, len(self._corpus))
        except BaseException:
            self._corpus.close()
            raise

    @classmethod
    def open(
        cls,
        folder: Path | str,
        encoder: Encoder | str | Path | None = None,
        *,
        server: QdrantServer | None = None,
        api_key: str | None = None,
        timeout_s: int = TIMEOUT_S,
        exact: bool = False,
        threads: int | None = None,
    ) -> QdrantIndex:
        """Open the index in ``folder``, and the server that it names where it names one.

        Args:
            folder: where the index lies.
            encoder: of the queries, itself or as ``open_encoder`` takes it; None for the one that
                the manifest names, opened when the first text comes.
            server: where the points are now, when not where the manifest says.
            api_key: for a server that asks for one; in no manifest.
            timeout_s: longest wait for one answer of a server, whole seconds.
            exact: look at every point instead of walking the graph.
            threads: of the encoder, None for what the libraries choose.

        Raises:
            DataMissing: no index is there.
            DataVersion: it was written in another format version.
            DataDamaged: a file is absent or has another size than its manifest says.
            RetrievalError: the corpus or the server is gone or has another size, or the encoder
                is another one.
            MissingExtra: the extra ``retrieval`` is not installed.
        """
        folder = Path(folder)
        manifest = read_manifest(folder, kind=KIND, version=VERSION, mend=MEND)
        return cls(
            folder,
            manifest,
            encoder,
            server=server,
            api_key=api_key,
            timeout_s=timeout_s,
            exact=exact,
            threads=threads,
        )

    def __reduce__(self) -> tuple[Callable[..., QdrantIndex], tuple[Any, ...]]:
        return _reopen, (self.folder, *self._options)

    def __len__(self) -> int:
        return len(self._corpus)

    @property
    def digest(self) -> str:
        """``sha256:<hex>`` of the corpus's contents and of what decides the scores."""
        sha256 = self._corpus.facts.sha256
        return ranking_digest(self.manifest, sha256, self._exact, left_out=QDRANT_LEFT_OUT)

    def search(
        self, query: str, k: int, before: int | None = None, *, since: int | None = None
    ) -> Hits:
        """The k best passages for a query; see ``RankedIndex``.

        Args:
            query: text; a blank one finds nothing.
            k: at most so many.
            before: only passages of a day before this one, as YYYYMMDD; None for all.
            since: only passages of this day or later; None for all.

        Raises:
            UsageError: ``k`` is below 1, the query is no text, or the index has no days.
            RetrievalError: the engine gives no usable answer.
        """
        return self.search_batch([query], k, before, since=since)[0]

    def search_batch(
        self,
        queries: Sequence[str],
        k: int,
        before: int | None = None,
        *,
        since: int | None = None,
    ) -> list[Hits]:
        """``search`` for all queries at once, encoded as one batch."""
        check_search(queries, k)
        found = [Hits((), ()) for _ in queries]
        places = [place for place, query in enumerate(queries) if query.strip()]
        if places:
            vectors = self._encoder.vectors([queries[place] for place in places])
            best = self.search_vectors(vectors, k, before, since=since)
            for place, hits in zip(places, best, strict=True):
                found[place] = hits
        return found

    def search_vectors(
        self,
        vectors: NDArray[np.floating[Any]],
        k: int,
        before: int | None = None,
        *,
        since: int | None = None,
    ) -> list[Hits]:
        """The k best passages for each vector, by inner product.

        Args:
            vectors: [queries, dim], cast to float32.
            k: at most so many for each.
            before: only passages of a day before this one; None for all.
            since: only passages of this day or later; None for all.

        Raises:
            UsageError: ``k`` is below 1, a number is not finite, or the index has no days.
            RetrievalError: the vectors have another dimension, or the engine gives no usable
                answer.
        """
        check_search([], k)
        array = np.ascontiguousarray(vectors, np.float32)
        if array.ndim != 2 or array.shape[1] != self.dim:
            raise RetrievalError(
                f"vectors have the shape {array.shape}, the index {self.folder} has dimension "
                f"{self.dim}; give one row of {self.dim} numbers for each query"
            )
        if not np.isfinite(array).all():
            raise UsageError("a number of the query vectors is not finite; check their encoder")
        days = Days(since, before)
        if days != ANY_DAY and not self.dated:
            raise UsageError(f"index {self.folder} has no days to be searched by; leave them out")
        return self._search(array, k, days)

    def count(self, before: int | None = None, *, since: int | None = None) -> int:
        """How many passages are of these days.

        Raises:
            RetrievalError: the engine gives no usable answer.
        """
        days = Days(since, before)
        if days not in self._allowed:
            self._allowed[days] = self._points.count(days)
        return self._allowed[days]

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        """The passages of these ids; see ``RankedIndex``."""
        return self._corpus.passages(ids)

    def retrieve(self, queries: Sequence[str], k: int) -> list[list[Found]]:
        """The best passages for each query; see ``PassageIndex``."""
        return retrieve(self, queries, k)

    def info(self) -> dict[str, Json]:
        """Kind, rows, corpus, encoder, parameters, engine, and how a query is searched."""
        exact = self._exact or len(self) <= EXACT_POINTS
        return {
            "kind": KIND,
            "rows": len(self),
            "dim": self.dim,
            "digest": self.digest,
            "corpus_sha256": self._corpus.facts.sha256,
            **self.manifest.inputs,
            "engine": self._points.engine(),
            "search_path": "every point" if exact else f"graph, ef {EF}",
        }

    def close(self) -> None:
        """Give back files and connections and refuse further searches; may be called twice."""
        self._closed = True
        self._corpus.close()
        self._points.close()

    def _search(self, vectors: NDArray[np.float32], k: int, days: Days) -> list[Hits]:
        if self._closed:
            raise RetrievalError(f"index {self.folder} was closed; open it again")
        allowed = self.count(days.before, since=days.since)
        found = [Hits((), ())] * len(vectors)
        pending = list(range(len(vectors))) if allowed else []
        # Chosen here, by an exact count: the engine's own choice rests on a random sample.
        exact = self._exact or allowed <= EXACT_POINTS
        limit = min(k + _SPARE, allowed)
        while pending:
            how = PointSearch(limit, days, exact, max(EF, 2 * limit), self._rescore)
            tied = []
            for place, hits in zip(
                pending, self._points.search(vectors[pending], how), strict=True
            ):
                hits.sort(key=lambda hit: (-hit[0], hit[1]))
                if k < len(hits) == limit < allowed and hits[k - 1][0] == hits[-1][0]:
                    tied.append(place)
                best = hits[:k]
                found[place] = Hits(tuple(hit[1] for hit in best), tuple(hit[0] for hit in best))
            pending = tied
            limit = min(2 * limit, allowed)
        return found


def _mapping(value: Json) -> dict[str, Json]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{value!r} is no object")
    return dict(value)


def _reopen(
    folder: Path,
    encoder: Encoder | str | Path | None,
    server: QdrantServer | None,
    api_key: str | None,
    timeout_s: int,
    exact: bool,
    threads: int | None,
) -> QdrantIndex:
    return QdrantIndex.open(
        folder,
        encoder,
        server=server,
        api_key=api_key,
        timeout_s=timeout_s,
        exact=exact,
        threads=threads,
    )
