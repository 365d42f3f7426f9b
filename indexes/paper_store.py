"""A store of papers: their texts, their citations both ways, and search by words."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.data import MANIFEST_NAME, Manifest, json_digest, read_manifest
from agentgym_suite.errors import DataDamaged, DataMissing, RetrievalError, UsageError
from agentgym_suite.files import Json, explain_damage, sha256_file
from agentgym_suite.indexes import postings
from agentgym_suite.indexes.bm25_postings import mapped
from agentgym_suite.indexes.fts5_connections import Connections, connect_read_only
from agentgym_suite.indexes.hits import Hits
from agentgym_suite.indexes.paper_ids import id_keys, title_key
from agentgym_suite.indexes.paper_ranking import PaperRanking, Ranked, document_frequency
from agentgym_suite.indexes.paper_tables import (
    DATABASE,
    DAYS,
    KIND,
    TEXTS,
    VERSION,
    title_hash,
)
from agentgym_suite.indexes.passages import check_search
from agentgym_suite.indexes.query_terms import FREQUENT, TermSplitter
from agentgym_suite.indexes.unfinished import explain_unfinished
from agentgym_suite.spaces import without_surrogates

_MEND = "build it with `agentgym-suite index build papers`"
_COLUMNS = (
    "rowid, paper_id, arxiv_id, title, abstract, authors, year, published, venue, "
    "citation_count, day"
)
_ROWS_AT_ONCE = 1_000
_LATEST = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper of a store.

    Attributes:
        rowid: its number in the store, from 1, in the order of the ids.
        paper_id: its id; the bare arXiv id when it is one.
        arxiv_id: the bare arXiv id, None when none is known.
        title: may be empty.
        abstract: empty when there is none.
        authors: their names, in order.
        year: of publication, None when it is not known.
        published: ``YYYYMMDD``, ``YYYY-MM``, ``YYYY``, or empty.
        venue: where it appeared, may be empty.
        citation_count: as the corpus says, else how many papers of the store cite it.
        day: the last day that it may be of; see ``paper_dates``.
    """

    rowid: int
    paper_id: str
    arxiv_id: str | None
    title: str
    abstract: str
    authors: tuple[str, ...]
    year: int | None
    published: str
    venue: str
    citation_count: int
    day: int


class PaperStore:
    """A built store, opened for reading; threads and forked processes may share it.

    Made by ``open``. Pickling keeps the folder's path only: the copy opens it again. Papers are
    known by their row ids; ``find`` gives that of an id.

    Args:
        folder: where the store lies.
        manifest: its manifest, checked.
        prune_df: leave out words of a query that are in at least this share of the papers, as
            long as a rarer one is there: quicker, and approximate. None ranks exactly.

    Raises:
        DataDamaged: the folder is not as it was built.
        UsageError: ``prune_df`` is no share that prunes.
    """

    def __init__(self, folder: Path, manifest: Manifest, prune_df: float | None = None) -> None:
        if prune_df is not None and not 0 < prune_df < FREQUENT:
            raise UsageError(f"prune_df is {prune_df}; give a share between 0 and {FREQUENT}")
        self.folder = folder
        self.manifest = manifest
        self._prune_df = prune_df
        frequent = FREQUENT if prune_df is None else prune_df
        with explain_damage(folder):
            self.days: NDArray[np.int32] = mapped(folder / DAYS)
            arrays = folder / postings.FOLDER
            self._postings = postings.Postings(arrays, frequent) if arrays.is_dir() else None
        self._connections = Connections(lambda: connect_read_only(folder / DATABASE))
        self._splitter = TermSplitter(TEXTS.tokenizer)
        self._ranking = PaperRanking(
            self._connections, self.days, self._splitter, self._postings, frequent
        )

    @classmethod
    def open(cls, folder: Path | str, prune_df: float | None = None) -> PaperStore:
        """Open the store in ``folder``; see the class for ``prune_df``.

        Raises:
            UsageError: ``prune_df`` is no share that prunes.
            DataMissing: no finished store is there; the sentence says how far a build got.
            DataVersion: it was written in another format version.
            DataDamaged: a file is absent or has another size than its manifest says, or the days
                are others: every cut-off goes by them.
        """
        folder = Path(folder)
        if not (folder / MANIFEST_NAME).is_file() and (told := explain_unfinished(folder)):
            raise DataMissing(told)
        manifest = read_manifest(folder, kind=KIND, version=VERSION, mend=_MEND)
        with explain_damage(folder):
            if sha256_file(folder / DAYS) != manifest.files[DAYS].sha256:
                raise DataDamaged(f"{folder / DAYS} is not as it was built; build the store again")
        return cls(folder, manifest, prune_df)

    def __reduce__(
        self,
    ) -> tuple[Callable[[Path, float | None], PaperStore], tuple[Path, float | None]]:
        return type(self).open, (self.folder, self._prune_df)

    def __len__(self) -> int:
        return len(self.days)

    @property
    def digest(self) -> str:
        """``sha256:<hex>`` of what the store was built from, and of ``prune_df``."""
        return json_digest([KIND, VERSION, self.manifest.inputs, self._prune_df])

    def info(self) -> dict[str, Json]:
        """Kind, papers, abstracts, citations, digests of what it was built from, engine."""
        return {
            "kind": KIND,
            "digest": self.digest,
            **self.manifest.counts,
            **self.manifest.inputs,
            "postings_arrays": self._postings is not None,
            "prune_df": self._prune_df,
            "approximate": self._prune_df is not None,
            "engine": f"SQLite {sqlite3.sqlite_version} FTS5",
        }

    def find(self, text: object) -> int | None:
        """The row id of the paper that an id names, in any spelling; None when none is named.

        Each of ``paper_ids.id_keys`` is looked up among the ids, then among the other names.
        """
        if not isinstance(text, str):
            return None
        for key in id_keys(text):
            for statement in (
                "SELECT rowid FROM papers WHERE paper_id = ?",
                "SELECT rowid FROM aliases WHERE alias = ?",
            ):
                for (rowid,) in self._rows(statement, (without_surrogates(key),)):
                    return int(rowid)
        return None

    def find_title(self, title: str) -> int | None:
        """The row id of the paper with this title (see ``paper_ids.title_key``); None if none.

        Of several, that with the smallest id. A title without letters and digits names none.
        """
        key = title_key(title)
        if not key:
            return None
        held = self._rows(
            "SELECT papers.rowid, title FROM titles CROSS JOIN papers USING(rowid) "
            "WHERE key = ? ORDER BY papers.rowid",
            (title_hash(title),),
        )
        return next((rowid for rowid, found in held if title_key(found) == key), None)

    def paper(self, key: int | str) -> Paper:
        """A paper by its row id, or by its id in any spelling.

        Raises:
            RetrievalError: there is no such paper.
        """
        rowid = self.find(key) if isinstance(key, str) else key
        if rowid is None:
            raise RetrievalError(
                f"the store {self.folder} has no paper {key!r:.80}; give the id of one it has"
            )
        return self.papers([rowid])[0]

    def papers(self, rowids: Sequence[int]) -> list[Paper]:
        """The papers of these row ids, in order.

        Raises:
            RetrievalError: there is no such paper.
        """
        return [_paper(row) for row in self._each(_COLUMNS, rowids)]

    def ids(self, rowids: Sequence[int]) -> list[str]:
        """The ids of these row ids, in order.

        Raises:
            RetrievalError: there is no such paper.
        """
        return [row[0] for row in self._each("paper_id", rowids)]

    def iterate(self, first: int = 1, last: int | None = None) -> Iterator[Paper]:
        """Every paper from row id ``first`` to ``last``, both included, a batch at a time."""
        last = len(self) if last is None else min(last, len(self))
        statement = f"SELECT {_COLUMNS} FROM papers WHERE rowid BETWEEN ? AND ? ORDER BY rowid"
        for begin in range(first, last + 1, _ROWS_AT_ONCE):
            end = min(begin + _ROWS_AT_ONCE - 1, last)
            yield from map(_paper, self._rows(statement, (begin, end)))

    def citing(
        self, rowid: int, limit: int | None = None, before: int | None = None, *, offset: int = 0
    ) -> list[int]:
        """The row ids of papers that cite this one: newest first, then id ascending.

        A paper without a date counts as newer than any.

        Args:
            rowid: the cited paper.
            limit: at most so many; None for all.
            before: only papers with a smaller day; see ``paper_dates.cutoff_day``.
            offset: how many of them to skip.
        """
        return self._edges("cited_by", "dst", "src", rowid, limit, before, offset)

    def references(
        self, rowid: int, limit: int | None = None, before: int | None = None, *, offset: int = 0
    ) -> list[int]:
        """The row ids of papers that this one cites; order and arguments as of ``citing``."""
        return self._edges("cites", "src", "dst", rowid, limit, before, offset)

    def citing_count(self, rowid: int, before: int | None = None) -> int:
        """How many papers ``citing`` gives without a limit."""
        return self._count_edges("cited_by", "dst", rowid, before)

    def references_count(self, rowid: int, before: int | None = None) -> int:
        """How many papers ``references`` gives without a limit."""
        return self._count_edges("cites", "src", rowid, before)

    def search_sparse(
        self, query: str, k: int, before: int | None = None, *, since: int | None = None
    ) -> Hits:
        """The ids of the best papers for the words of a query: score descending, then id.

        Args:
            query: any text; its words are joined by OR.
            k: at most so many.
            before: only papers with a smaller day; see ``paper_dates.cutoff_day``.
            since: only papers with at least this day.

        Raises:
            UsageError: ``k`` is below 1, or the query is not text.
            RetrievalError: the store was closed.
            DataDamaged: the store is not as it was built.
        """
        return self._hits(self.search_rows(query, k, before, since=since))

    def search_rows(
        self, query: str, k: int, before: int | None = None, *, since: int | None = None
    ) -> Ranked:
        """``search_sparse`` as (row id, score) pairs."""
        check_search([query], k)
        with explain_damage(self.folder):
            return self._ranking.best(query, k, before, since)

    def search_within(
        self,
        query: str,
        k: int,
        budget_ms: float,
        before: int | None = None,
        *,
        since: int | None = None,
    ) -> tuple[Hits, bool]:
        """``search_sparse`` in a limited time.

        Returns:
            The hits, and whether they are truncated: the time was up, and what is known is the
            ranking by the rarest words of the query alone, or nothing.

        Raises:
            UsageError: as ``search_sparse``, or the budget is not above 0.
        """
        check_search([query], k)
        if not budget_ms > 0:
            raise UsageError(f"the time budget is {budget_ms} ms; give more than 0")
        with explain_damage(self.folder):
            found, truncated = self._ranking.within(query, k, budget_ms / 1000, before, since)
        return self._hits(found), truncated

    def stems(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """The terms of each text as the index has them, in order, repeats kept."""
        return self._splitter.terms(texts)

    def df(self, terms: Iterable[str]) -> list[int]:
        """In how many papers each term is; 0 for one that is nowhere."""
        with explain_damage(self.folder), self._connections.lend() as connection:
            return [document_frequency(connection, term) for term in terms]

    def close(self) -> None:
        """Close every connection that is not in use; the rest follow."""
        self._connections.close()
        self._splitter.close()
        if self._postings is not None:
            self._postings.close()

    def _hits(self, found: Ranked) -> Hits:
        return Hits(
            tuple(self.ids([rowid for rowid, _ in found])), tuple(score for _, score in found)
        )

    def _rows(self, statement: str, values: Sequence[Any]) -> list[Any]:
        with explain_damage(self.folder), self._connections.lend() as connection:
            return connection.execute(statement, values).fetchall()

    def _each(self, columns: str, rowids: Sequence[int]) -> list[Any]:
        statement = f"SELECT {columns} FROM papers WHERE rowid = ?"
        found = []
        with explain_damage(self.folder), self._connections.lend() as connection:
            for rowid in map(self._checked, rowids):
                row = connection.execute(statement, (rowid,)).fetchone()
                if row is None:
                    raise LookupError(f"paper {rowid} is absent")
                found.append(row)
        return found

    def _edges(
        self,
        table: str,
        here: str,
        there: str,
        rowid: int,
        limit: int | None,
        before: int | None,
        offset: int,
    ) -> list[int]:
        limit = len(self) if limit is None else min(limit, len(self))
        if limit < 0 or offset < 0:
            raise UsageError(f"limit {limit} and offset {offset} count papers; give 0 or more")
        found = self._rows(
            f"SELECT {there} FROM {table} WHERE {here} = ? AND day < ? "
            f"ORDER BY day DESC, {there} LIMIT ? OFFSET ?",
            (self._checked(rowid), _upper(before), limit, min(offset, len(self))),
        )
        return [row[0] for row in found]

    def _count_edges(self, table: str, here: str, rowid: int, before: int | None) -> int:
        statement = f"SELECT count(*) FROM {table} WHERE {here} = ? AND day < ?"
        return int(self._rows(statement, (self._checked(rowid), _upper(before)))[0][0])

    def _checked(self, rowid: int) -> int:
        if not 1 <= rowid <= len(self):
            raise RetrievalError(
                f"the store {self.folder} has no paper {rowid}; its {len(self)} papers are "
                "numbered from 1"
            )
        return rowid


def _paper(row: Sequence[Any]) -> Paper:
    rowid, paper_id, arxiv_id, title, abstract, authors, *rest = row
    names = tuple(json.loads(authors))
    return Paper(rowid, paper_id, arxiv_id, title, abstract, names, *rest)


def _upper(before: int | None) -> int:
    return _LATEST if before is None else min(before, _LATEST)
