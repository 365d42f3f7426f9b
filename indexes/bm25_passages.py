"""BM25 over a corpus of passages: the ids that BM25 ranks, by us or by Lucene, with their texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from agentgym_suite.data import Manifest, Progress, load_manifest
from agentgym_suite.files import Json
from agentgym_suite.indexes import bm25_build, lucene
from agentgym_suite.indexes.bm25 import BM25Index
from agentgym_suite.indexes.corpus import Corpus, corpus_inputs
from agentgym_suite.indexes.corpus_rows import prepare_corpus, read_passages
from agentgym_suite.indexes.hits import Hits
from agentgym_suite.indexes.lucene import LuceneIndex
from agentgym_suite.indexes.passages import Found, Passage, check_search, retrieve
from agentgym_suite.spaces import without_surrogates


class BM25Passages:
    """A BM25 index that was built from a corpus, opened together with it.

    Made by ``open``. Pickling keeps the folder's path only: the copy opens it again.

    Args:
        index: what ranks the ids.
        corpus: the passages.
    """

    def __init__(self, index: BM25Index | LuceneIndex, corpus: Corpus) -> None:
        self._index = index
        self._corpus = corpus

    @classmethod
    def open(cls, folder: Path | str) -> BM25Passages:
        """Open the index in ``folder``.

        Raises:
            DataMissing: no index is there.
            DataVersion: it was written in another format version.
            DataDamaged: a file is absent or has another size than its manifest says.
            RetrievalError: it was not built from a corpus, or the corpus is gone or has another
                size.
            MissingExtra: a Lucene index needs the extra ``lucene``.
        """
        folder = Path(folder)
        corpus = Corpus.of(folder, load_manifest(folder))
        engine = LuceneIndex if load_manifest(folder).kind == lucene.KIND else BM25Index
        try:
            return cls(engine.open(folder), corpus)
        except BaseException:
            corpus.close()
            raise

    def __reduce__(self) -> tuple[Callable[[Path], BM25Passages], tuple[Path]]:
        return type(self).open, (self._index.folder,)

    def __len__(self) -> int:
        return len(self._corpus)

    @property
    def digest(self) -> str:
        """``sha256:<hex>`` of the index's contents."""
        return self._index.digest

    def search(self, query: str, k: int) -> Hits:
        """The k best passages for a query; see ``RankedIndex``."""
        return self.search_batch([query], k)[0]

    def search_batch(self, queries: Sequence[str], k: int) -> list[Hits]:
        """``search`` for each query, one after another."""
        check_search(queries, k)
        return [self._ranked(without_surrogates(query), k) for query in queries]

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        """The passages of these ids; see ``RankedIndex``."""
        return self._corpus.passages(ids)

    def retrieve(self, queries: Sequence[str], k: int) -> list[list[Found]]:
        """The best passages for each query; see ``PassageIndex``."""
        return retrieve(self, queries, k)

    def info(self) -> dict[str, Json]:
        """Kind, rows, corpus, analysis or engine."""
        manifest = self._index.manifest
        about: dict[str, Json] = {"kind": manifest.kind, "rows": len(self), "digest": self.digest}
        return {**about, **manifest.inputs}

    def close(self) -> None:
        """Close the corpus, and end Lucene's process."""
        if isinstance(self._index, LuceneIndex):
            self._index.close()
        self._corpus.close()

    def _ranked(self, query: str, k: int) -> Hits:
        return self._index.search(query, k) if query.strip() else Hits((), ())


def build_bm25(
    out: Path | str,
    corpus: Path | str,
    *,
    workers: int = 1,
    progress: Progress | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Manifest:
    """Build a BM25 index of the ``contents`` of a corpus, or return the one that is there.

    Args:
        out: where the index shall be.
        corpus: its file (see ``corpus_rows.prepare_corpus``), which stays where it is.
        workers: processes that analyse.
        progress: called with ``read corpus`` and the phases of ``bm25_build.build``.
        on_wait: called once with a sentence when another process is building the folder.

    Raises:
        DataMissing: there is no such corpus.
        DataDamaged: a row of it is no passage.
        UsageError: ``workers`` is below 1.
        RetrievalError: the corpus changed meanwhile.
        DataError: the folder holds something else, or cannot be written.
        DiskFull: no space was left.
    """
    source = corpus_inputs(corpus, progress)
    return bm25_build.build(
        out,
        _documents(corpus),
        inputs={"corpus": source},
        progress=progress,
        workers=workers,
        prepare=lambda working: _prepare(corpus, working, source, progress),
        on_wait=on_wait,
    )


def build_lucene(
    out: Path | str,
    corpus: Path | str,
    *,
    progress: Progress | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Manifest:
    """Build a Lucene index of the ``contents`` of a corpus, or return the one that is there.

    Arguments and errors are those of ``build_bm25``, and:

    Raises:
        MissingExtra: pyserini is not installed.
        RetrievalError: no Java was found, or Lucene failed.
    """
    source = corpus_inputs(corpus, progress)
    return lucene.build(
        out,
        _documents(corpus),
        inputs={"corpus": source},
        progress=progress,
        prepare=lambda working: _prepare(corpus, working, source, progress),
        on_wait=on_wait,
    )


def _documents(corpus: Path | str) -> Iterable[tuple[str, str]]:
    return ((passage.id, passage.contents) for passage in read_passages(corpus))


def _prepare(
    corpus: Path | str, working: Path, source: dict[str, Json], progress: Progress | None
) -> None:
    prepare_corpus(corpus, working, progress, sha256=source["sha256"])
