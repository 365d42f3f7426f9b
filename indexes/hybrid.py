"""Words and vectors together: two indexes of one corpus, fused by the ranks they give."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from agentgym_suite.arguments import offers
from agentgym_suite.data import Contents, Manifest, Progress, publish, read_manifest
from agentgym_suite.errors import RetrievalError, UsageError
from agentgym_suite.files import Json, explain_damage
from agentgym_suite.indexes.digests import fused_digest
from agentgym_suite.indexes.fusion import RRF_K, fuse
from agentgym_suite.indexes.hits import Hits
from agentgym_suite.indexes.opening import open_index
from agentgym_suite.indexes.passages import Found, Passage, RankedIndex, check_search, retrieve

KIND = "hybrid-index"
VERSION = 1
MEND = "build it with `agentgym-suite index build hybrid`"
DEPTH = 100
"""How many passages each side gives, at least."""

_BY_WORDS = frozenset({"bm25-index", "lucene-index", "fts5-index"})
_BY_VECTORS = frozenset({"dense-index", "qdrant-index"})


class HybridIndex:
    """Two indexes of the same corpus, searched as one.

    Made from open indexes, or from a folder by ``open``. ``close`` closes both.

    Args:
        sparse: the one that ranks by words.
        dense: the one that ranks by vectors.
        depth: how many passages of each are fused, at least.

    Raises:
        UsageError: ``depth`` is below 1, or a side is of the other's kind or fused itself.
        RetrievalError: the two are of different corpora.
    """

    def __init__(self, sparse: RankedIndex, dense: RankedIndex, depth: int = DEPTH) -> None:
        if depth < 1:
            raise UsageError(f"depth is {depth}; fuse at least 1 passage of each index")
        _check_side(sparse, "sparse", "words", _BY_VECTORS)
        _check_side(dense, "dense", "vectors", _BY_WORDS)
        _check_same_corpus(sparse, dense)
        self.sparse = sparse
        self.dense = dense
        self.depth = depth

    @classmethod
    def open(cls, folder: Path | str) -> HybridIndex:
        """Open the two indexes that a folder names.

        Raises:
            DataMissing: there is no such folder, or one of the two is gone.
            DataVersion: it was written in another format version.
            RetrievalError: one of the two is not what it was, or its corpus is gone.
        """
        folder = Path(folder)
        manifest = read_manifest(folder, kind=KIND, version=VERSION, mend=MEND)
        opened: list[RankedIndex] = []
        try:
            for place, wanted in parts(folder, manifest):
                index = _open_ranked(place)
                opened.append(index)
                if index.digest != wanted:
                    raise RetrievalError(
                        f"{place} has digest {index.digest}, the hybrid index {folder} was made "
                        f"with {wanted}; make the hybrid index again"
                    )
            with explain_damage(folder):
                depth: Any = manifest.inputs["depth"]
                return cls(opened[0], opened[1], int(depth))
        except BaseException:
            for index in opened:
                index.close()
            raise

    def __reduce__(
        self,
    ) -> tuple[Callable[..., HybridIndex], tuple[RankedIndex, RankedIndex, int]]:
        return type(self), (self.sparse, self.dense, self.depth)

    def __len__(self) -> int:
        return len(self.sparse)

    @property
    def digest(self) -> str:
        """``sha256:<hex>`` of both digests and of how they are fused."""
        return fused_digest(KIND, VERSION, self.sparse.digest, self.dense.digest, self.depth)

    def search(self, query: str, k: int) -> Hits:
        """The k best passages; their scores are sums of ``1 / (60 + rank)``."""
        return self.search_batch([query], k)[0]

    def search_batch(self, queries: Sequence[str], k: int) -> list[Hits]:
        """``search`` for each query: each index is asked for all of them at once."""
        check_search(queries, k)
        depth = max(self.depth, k)
        by_words = self.sparse.search_batch(queries, depth)
        by_vectors = self.dense.search_batch(queries, depth)
        return [fuse(pair, k) for pair in zip(by_words, by_vectors, strict=True)]

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        """The passages of these ids; see ``RankedIndex``."""
        return self.sparse.passages(ids)

    def retrieve(self, queries: Sequence[str], k: int) -> list[list[Found]]:
        """The best passages for each query; see ``PassageIndex``."""
        return retrieve(self, queries, k)

    def info(self) -> dict[str, Json]:
        """Kind, rows, depth, and what both indexes say of themselves."""
        return {
            "kind": KIND,
            "rows": len(self),
            "digest": self.digest,
            "depth": self.depth,
            "rrf_k": RRF_K,
            "sparse": self.sparse.info(),
            "dense": self.dense.info(),
        }

    def close(self) -> None:
        """Close both indexes."""
        self.sparse.close()
        self.dense.close()


def parts(folder: Path, manifest: Manifest) -> list[tuple[Path, str]]:
    """Folder and digest of the two indexes that a hybrid one names: sparse, then dense.

    Raises:
        DataDamaged: the manifest does not name them.
    """
    found = []
    with explain_damage(folder):
        for side in ("sparse", "dense"):
            part: Any = manifest.inputs[side]
            place = os.path.normpath(os.path.realpath(folder) + "/" + part["path"])
            found.append((Path(place), str(part["digest"])))
    return found


def build_hybrid(
    out: Path | str,
    sparse: Path | str,
    dense: Path | str,
    *,
    depth: int = DEPTH,
    progress: Progress | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Manifest:
    """Make a folder that names two finished indexes, relative to itself.

    Args:
        out: where the folder shall be; it moves together with the two.
        sparse: the index that ranks by words.
        dense: the index that ranks by vectors.
        depth: how many passages of each are fused, at least.
        progress: called with the phases of ``publish``.
        on_wait: called once with a sentence when another process is making the folder.

    Raises:
        DataMissing: one of the two is not there.
        RetrievalError: the two are of different corpora.
        UsageError: ``depth`` is below 1, or a side is of the other's kind or fused itself.
        DataError: the folder holds something else, or cannot be written.
    """
    here = os.path.realpath(out)
    inputs: dict[str, Json] = {"depth": depth}
    sides: list[RankedIndex] = []
    try:
        for side, place in (("sparse", sparse), ("dense", dense)):
            index = _open_ranked(place)
            sides.append(index)
            path = Path(os.path.relpath(os.path.realpath(place), here)).as_posix()
            inputs[side] = {"path": path, "digest": index.digest}
        rows = len(HybridIndex(sides[0], sides[1], depth))
    finally:
        for index in sides:
            index.close()
    return publish(
        out,
        kind=KIND,
        version=VERSION,
        inputs=inputs,
        write=lambda _: Contents({"rows": rows}, {}),
        progress=progress,
        on_wait=on_wait,
    )


def _open_ranked(place: Path | str) -> RankedIndex:
    index = open_index(place)
    if not offers(index, RankedIndex):
        index.close()
        raise RetrievalError(f"{place} cannot be fused; name the folder of an index")
    return cast(RankedIndex, index)


def _check_side(index: RankedIndex, side: str, ranks_by: str, wrong: frozenset[str]) -> None:
    """Refuse a kind that is known to rank otherwise; an index of one's own may be of any kind."""
    kind = str(index.info().get("kind"))
    if kind == KIND or kind in wrong:
        raise UsageError(f"the {side} side is a {kind}; give an index that ranks by {ranks_by}")


def _check_same_corpus(sparse: RankedIndex, dense: RankedIndex) -> None:
    ours, theirs = _corpus_of(sparse), _corpus_of(dense)
    if ours != theirs:
        raise RetrievalError(
            f"the two indexes are of different corpora ({ours} by words, {theirs} by vectors); "
            "build both from one file"
        )


def _corpus_of(index: RankedIndex) -> str:
    corpus = index.info().get("corpus")
    sha256 = corpus.get("sha256") if isinstance(corpus, Mapping) else None
    return f"{len(index)} rows" + (f" of SHA-256 {sha256}" if sha256 else "")
