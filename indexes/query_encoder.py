"""The encoder on the query side of an index: the one it was built with, opened when needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.data import Manifest
from agentgym_suite.errors import RetrievalError
from agentgym_suite.files import Json, explain_damage
from agentgym_suite.indexes.encoders import Encoder, check_encoder, open_encoder
from agentgym_suite.indexes.match_query import LONGEST_QUERY
from agentgym_suite.indexes.query_cache import QueryCache
from agentgym_suite.indexes.thread_counts import ProcessLock

QUERIES_KEPT = 4096


class QueryEncoder:
    """Turns queries into vectors, and keeps those of the last 4,096; threads may share it.

    Args:
        index: how the index is named in errors.
        dim: numbers in a vector of the index.
        identity: of the encoder that the index was built with; None when nobody wrote it down.
        address: what ``open_encoder`` opens that one by; None when it has no address.
        given: another way to that encoder, or the encoder itself; None for the address.
        threads: of the processor, None for what the libraries choose.

    Raises:
        RetrievalError: the given encoder is not the one of the index; names both.
    """

    def __init__(
        self,
        index: str,
        dim: int,
        identity: Mapping[str, Json] | None,
        address: str | None,
        given: Encoder | str | Path | None = None,
        *,
        threads: int | None = None,
    ) -> None:
        self.given = given
        self._index = index
        self._dim = dim
        self._identity = identity
        self._address = address
        self._threads = threads
        self._cache = QueryCache(QUERIES_KEPT)
        self._lock = ProcessLock()
        self._encoder = None if given is None else self._opened(given)

    @classmethod
    def of(
        cls,
        folder: Path,
        manifest: Manifest,
        given: Encoder | str | Path | None = None,
        *,
        threads: int | None = None,
    ) -> QueryEncoder:
        """The encoder of the index in a folder, whose manifest tells what it was built with.

        Raises:
            RetrievalError: the given encoder is not the one of the index; names both.
            DataDamaged: the manifest does not tell it.
        """
        with explain_damage(folder):
            dim, identity = manifest.counts["dim"], manifest.inputs["encoder"]
            if not isinstance(identity, Mapping):
                raise TypeError(f"{identity!r} is no object")
        address = manifest.notes.get("encoder_address")
        address = address if isinstance(address, str) else None
        return cls(f"index {folder}", dim, identity, address, given, threads=threads)

    def vectors(self, queries: Sequence[str]) -> NDArray[np.float32]:
        """A [queries, dim] array; at least one query, none of them blank.

        Of a query the first 8,192 characters are looked at, as a search for words does.

        Raises:
            RetrievalError: the encoder cannot be opened, or is not the one of the index.
            MissingExtra: the extra ``retrieval`` is not installed.
        """
        return self._cache.vectors([query[:LONGEST_QUERY] for query in queries], self._encode)

    def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        encoder = self._encoder
        if encoder is None:
            with self._lock:
                encoder = self._encoder or self._opened(self._known_address())
                self._encoder = encoder
        return encoder.encode_queries(texts)

    def _known_address(self) -> str:
        if self._address is None:
            name = (self._identity or {}).get("name", "unknown")
            raise RetrievalError(
                f"{self._index} was built with the encoder {name!r}, which cannot be opened by "
                "its name; open the index with encoder=…"
            )
        return self._address

    def _opened(self, encoder: Encoder | str | Path) -> Encoder:
        if isinstance(encoder, str | Path):
            encoder = open_encoder(encoder, threads=self._threads)
        if self._identity is not None:
            check_encoder(dict(self._identity), encoder, self._index)
        elif encoder.dim != self._dim:
            raise RetrievalError(
                f"{self._index} has vectors of dimension {self._dim}, the encoder {encoder.name!r} "
                f"gives {encoder.dim}; search it with the encoder it was built with"
            )
        return encoder
