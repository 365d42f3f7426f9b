"""Searching passages by their words with SQLite FTS5: nothing to install, right for 10 million."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from agentgym_suite.data import Manifest, read_manifest
from agentgym_suite.files import Json, explain_damage
from agentgym_suite.indexes import postings
from agentgym_suite.indexes.corpus import Corpus
from agentgym_suite.indexes.digests import ranking_digest
from agentgym_suite.indexes.fts5_connections import Connections, connect_read_only
from agentgym_suite.indexes.fts5_search import FTS5Search
from agentgym_suite.indexes.fts5_table import FTS5Table
from agentgym_suite.indexes.hits import Hits
from agentgym_suite.indexes.passages import Found, Passage, check_search, retrieve

KIND = "fts5-index"
VERSION = 1
MEND = "build it with `agentgym-suite index build fts5`"
DATABASE = "index.sqlite"


class FTS5Index:
    """A built index, opened for searching; threads and forked processes may share it.

    Made by ``open``. Pickling keeps the folder's path only: the copy opens it again.

    Args:
        folder: where the index lies.
        manifest: its manifest, checked.

    Raises:
        RetrievalError: the corpus is gone or has another size.
        DataDamaged: the folder is not as it was built.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self._corpus = Corpus.of(folder, manifest)
        with explain_damage(folder):
            table = passage_table(
                float(_number(manifest.inputs["title_weight"])),
                float(_number(manifest.inputs["text_weight"])),
                str(manifest.inputs["tokenizer"]),
            )
            arrays = folder / postings.FOLDER
            self._postings = postings.Postings(arrays) if arrays.is_dir() else None
        connections = Connections(lambda: connect_read_only(folder / DATABASE))
        self._search = FTS5Search(table, connections, len(self._corpus), self._postings)

    @classmethod
    def open(cls, folder: Path | str) -> FTS5Index:
        """Open the index in ``folder``.

        Raises:
            DataMissing: no index is there.
            DataVersion: it was written in another format version.
            DataDamaged: a file is absent or has another size than its manifest says.
            RetrievalError: the corpus is gone or has another size.
        """
        folder = Path(folder)
        return cls(folder, read_manifest(folder, kind=KIND, version=VERSION, mend=MEND))

    def __reduce__(self) -> tuple[Callable[[Path], FTS5Index], tuple[Path]]:
        return type(self).open, (self.folder,)

    def __len__(self) -> int:
        return len(self._corpus)

    @property
    def digest(self) -> str:
        """``sha256:<hex>`` of the corpus's contents and of what decides the scores."""
        return ranking_digest(self.manifest, self._corpus.facts.sha256)

    def search(self, query: str, k: int) -> Hits:
        """The k best passages for a query; see ``RankedIndex``."""
        return self.search_batch([query], k)[0]

    def search_batch(self, queries: Sequence[str], k: int) -> list[Hits]:
        """``search`` for each query, one after another: FTS5 gains nothing from batches."""
        check_search(queries, k)
        return [self._ranked(query, k) for query in queries]

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        """The passages of these ids; see ``RankedIndex``."""
        return self._corpus.passages(ids)

    def retrieve(self, queries: Sequence[str], k: int) -> list[list[Found]]:
        """The best passages for each query; see ``PassageIndex``."""
        return retrieve(self, queries, k)

    def info(self) -> dict[str, Json]:
        """Kind, rows, corpus, weights, tokenizer, engine."""
        return {
            "kind": KIND,
            "rows": len(self),
            "digest": self.digest,
            "corpus_sha256": self._corpus.facts.sha256,
            **self.manifest.inputs,
            "postings_arrays": self._postings is not None,
            "engine": f"SQLite {sqlite3.sqlite_version} FTS5",
        }

    def close(self) -> None:
        """Close the corpus and every connection that is not searching; the rest follow."""
        self._search.close()
        self._corpus.close()

    def _ranked(self, query: str, k: int) -> Hits:
        with explain_damage(self.folder):
            best = self._search.best(query, k)
            # Rows of the table are numbered by the order of the ids: ties come in that order.
            rows = [int(self._corpus.id_order[rowid - 1]) for rowid, _ in best]
            ids = tuple(map(self._corpus.id, rows))
        return Hits(ids, tuple(score for _, score in best))


def passage_table(title_weight: float, text_weight: float, tokenizer: str) -> FTS5Table:
    """The full-text table of an index of passages; their texts lie in the corpus file."""
    return FTS5Table(
        "passages", ("title", "text"), (title_weight, text_weight), tokenizer=tokenizer
    )


def _number(value: Json) -> int | float:
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return value
