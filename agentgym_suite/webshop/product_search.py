"""Search over the products of a store: the built BM25 index, or Lucene itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Literal, Protocol

from agentgym_suite.data import Progress, made_folder
from agentgym_suite.indexes.bm25 import BM25Index
from agentgym_suite.indexes.hits import Hits
from agentgym_suite.webshop.products import indexed_text
from agentgym_suite.webshop.store import INDEX_FOLDER, Store

SearchBackend = Literal["bm25", "lucene"]

MOST_HITS = 50


class SearchIndex(Protocol):
    """A search index over the product texts."""

    @property
    def digest(self) -> str:
        """What identifies its contents."""
        ...

    def search(self, query: str, k: int = ...) -> Hits:
        """The best ``k`` documents, best first."""
        ...


def open_search(backend: SearchBackend, store: Store, progress: Progress | None) -> SearchIndex:
    """The index over a store's products; Lucene's is built under the data home at first use.

    Raises:
        DataDamaged: the index is not what its manifest says.
        MissingExtra: Lucene is asked for and pyserini is not installed.
        RetrievalError: Lucene is asked for and no Java was found.
    """
    if backend == "bm25":
        return BM25Index.open(store.folder / INDEX_FOLDER)
    from agentgym_suite.indexes import lucene  # optional: most processes never need it

    catalogue = str(store.manifest.notes["catalogue"])
    folder = made_folder("webshop", "lucene", catalogue)
    lucene.build(folder, _documents(store), inputs={"catalogue": catalogue}, progress=progress)
    return lucene.LuceneIndex.open(folder)


def cached_search(index: SearchIndex, size: int) -> Callable[[str], tuple[str, ...]]:
    """From keywords joined by blanks to at most fifty ASINs; keeps ``size`` results."""

    def search(text: str) -> tuple[str, ...]:
        return index.search(text, MOST_HITS).ids

    return lru_cache(maxsize=size)(search)


def _documents(store: Store) -> Iterator[tuple[str, str]]:
    for product in store.products():
        yield product.asin, indexed_text(product)
