"""The steps that turn rows and citations into the tables of a store, inside one database.

Each step is one transaction, or one for every batch of rows; the database's ``user_version``
counts the finished steps. Row ids are handed out in the order of the ids, so that whatever is
ordered by row id is ordered by id.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.files import Progress
from agentgym_suite.indexes.citation_cycles import papers_in_cycles
from agentgym_suite.indexes.paper_rows import PaperRow, bare_id
from agentgym_suite.indexes.paper_tables import SCHEMA, TEXTS, folded_id, title_hash

T = TypeVar("T")

_ROWS_AT_ONCE = 20_000
_CACHE_KIB = 256 << 10

# What is read, as it is read; ``numbered`` says which row becomes which paper.
_STAGING = """
CREATE TABLE read_papers(
    place INTEGER PRIMARY KEY, paper_id TEXT, day INTEGER, year INTEGER, citation_count INTEGER,
    arxiv_id TEXT, published TEXT, venue TEXT, authors TEXT, title TEXT, abstract TEXT);
CREATE TABLE read_aliases(alias TEXT, place INTEGER);
CREATE TABLE read_citations(place INTEGER PRIMARY KEY, citing TEXT, cited TEXT);
CREATE TABLE numbered(
    rowid INTEGER PRIMARY KEY, paper_id TEXT UNIQUE, place INTEGER UNIQUE, day INTEGER);
"""
_STAGED = ("read_papers", "read_aliases", "read_citations", "numbered", "linked")


class Growing:
    """A store's database while it grows.

    Args:
        path: its file; made when it is not there.
        progress: called with a phase, rows done and rows in all (None while unknown).

    Raises:
        RetrievalError: this SQLite has no FTS5.
    """

    def __init__(self, path: Path, progress: Progress) -> None:
        self._progress = progress
        self._connection = sqlite3.connect(path, isolation_level=None)
        try:
            self._connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            for name, function in (
                ("bare_id", bare_id),
                ("folded_id", folded_id),
                ("title_hash", title_hash),
            ):
                self._connection.create_function(name, 1, function, deterministic=True)
            self._once(1, self._create)
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        """Close the database; an unfinished transaction is undone."""
        self._connection.close()

    @property
    def papers(self) -> int:
        """How many papers there are, once they are numbered."""
        statement = "SELECT value FROM meta WHERE name = 'papers'"
        return int(self._connection.execute(statement).fetchone()[0])

    def grow(self, papers: Iterable[PaperRow], citations: Iterable[tuple[str, str]]) -> None:
        """Run every step that an earlier run did not finish.

        Args:
            papers: the corpus, from its first row on.
            citations: (citing, cited) ids in any spelling, from the first line on.
        """
        self._batches(2, "read papers", "read_papers", papers, self._add_papers)
        self._once(3, self._number)
        self._batches(4, "read citations", "read_citations", citations, self._add_citations)
        self._once(5, self._link)
        self._once(6, self._place_papers)
        self._index()
        self._once(8, self._finish)

    def copy_to(self, path: Path) -> None:
        """Write the finished database without its gaps."""
        self._connection.execute("VACUUM INTO ?", (str(path),))

    def _create(self) -> None:
        for statement in (SCHEMA + _STAGING).split(";"):
            self._connection.execute(statement)
        TEXTS.create(self._connection)

    def _add_papers(self, first: int, rows: list[PaperRow]) -> None:
        self._connection.executemany(
            "INSERT INTO read_papers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (_values(place, row) for place, row in enumerate(rows, start=first)),
        )
        self._connection.executemany(
            "INSERT INTO read_aliases VALUES (?, ?)",
            (
                (alias, place)
                for place, row in enumerate(rows, start=first)
                for alias in row.aliases
            ),
        )

    def _add_citations(self, first: int, rows: list[tuple[str, str]]) -> None:
        self._connection.executemany(
            "INSERT INTO read_citations VALUES (?, ?, ?)",
            ((place, *pair) for place, pair in enumerate(rows, start=first)),
        )

    def _number(self) -> None:
        """Number the papers by their ids, the first row of each; then collect their names."""
        run = self._connection.execute
        self._say("number papers")
        run("CREATE INDEX read_ids ON read_papers(paper_id)")
        run(
            "INSERT INTO numbered(paper_id, place, day) SELECT paper_id, place, day FROM "
            "(SELECT paper_id AS id, min(place) AS least FROM read_papers GROUP BY paper_id) "
            "CROSS JOIN read_papers ON place = least ORDER BY id"
        )
        # An arXiv id beats a name that the corpus gives, and that beats a casefolded spelling.
        run(
            "INSERT OR IGNORE INTO aliases SELECT arxiv_id, n.rowid FROM numbered AS n "
            "JOIN read_papers AS r USING(place) "
            "WHERE arxiv_id <> r.paper_id ORDER BY n.rowid"
        )
        named = "FROM read_aliases JOIN numbered USING(place)"
        run(f"INSERT OR IGNORE INTO aliases SELECT alias, rowid {named} ORDER BY rowid, alias")
        run(
            "INSERT OR IGNORE INTO aliases SELECT folded, rowid FROM "
            "(SELECT folded_id(paper_id) AS folded, paper_id AS given, rowid FROM numbered "
            f"UNION ALL SELECT folded_id(alias), alias, rowid {named}) "
            "WHERE folded NOT IN ('', given) ORDER BY rowid, folded"
        )
        self._note("papers", "SELECT count(*) FROM numbered")
        self._note("duplicate_papers", "SELECT count(*) FROM read_papers", "papers")
        self._note(
            "papers_with_the_arxiv_id_of_another",
            "SELECT count(arxiv_id) - count(DISTINCT arxiv_id) FROM numbered "
            "JOIN read_papers USING(place)",
        )
        self._note(
            "abstracts",
            "SELECT count(*) FROM numbered JOIN read_papers USING(place) WHERE abstract <> ''",
        )

    def _link(self) -> None:
        """Turn the citations into edges between papers, both ways."""
        run = self._connection.execute
        self._say("link citations")
        citing, cited = _found("citing"), _found("cited")
        run(f"CREATE TABLE linked AS SELECT {citing} AS src, {cited} AS dst FROM read_citations")
        run(
            "INSERT OR IGNORE INTO cites SELECT src, day, dst FROM linked "
            "JOIN numbered ON numbered.rowid = dst WHERE src <> dst ORDER BY src, day DESC, dst"
        )
        run(
            "INSERT INTO cited_by SELECT dst, numbered.day, src FROM cites "
            "JOIN numbered ON numbered.rowid = src ORDER BY dst, numbered.day DESC, src"
        )
        self._note("citations", "SELECT count(*) FROM cites")
        self._note("citations_read", "SELECT count(*) FROM read_citations")
        self._note(
            "citations_of_unknown_papers",
            "SELECT count(*) FROM linked WHERE src IS NULL OR dst IS NULL",
        )
        self._note("self_citations", "SELECT count(*) FROM linked WHERE src = dst")
        self._note(
            "duplicate_citations", "SELECT count(*) FROM linked WHERE src <> dst", "citations"
        )
        self._note_cycles()

    def _note_cycles(self) -> None:
        ends = self._connection.execute("SELECT src - 1, dst - 1 FROM cites")
        edges: NDArray[np.int32] = np.fromiter(chain.from_iterable(ends), np.int32).reshape(-1, 2)
        circling = papers_in_cycles(edges[:, 0], edges[:, 1], self.papers)
        self._note("papers_in_citation_cycles", f"SELECT {circling}")

    def _place_papers(self) -> None:
        self._say("place papers")
        self._connection.execute(
            "INSERT INTO papers SELECT n.rowid, n.paper_id, n.day, year, coalesce(citation_count, "
            "(SELECT count(*) FROM cited_by WHERE dst = n.rowid)), arxiv_id, published, venue, "
            "authors, title, abstract FROM numbered AS n CROSS JOIN read_papers AS r "
            "ON r.place = n.place ORDER BY n.rowid"
        )
        self._connection.execute(
            "INSERT INTO titles SELECT title_hash(title), rowid FROM papers ORDER BY 1, 2"
        )
        for name in _STAGED:
            self._connection.execute(f"DROP TABLE {name}")

    def _index(self) -> None:
        """Fill the full-text table, a batch of papers at a time."""
        if self._steps() >= 7:
            return
        (total,) = self._connection.execute("SELECT count(*) FROM papers").fetchone()
        statement = "SELECT rowid, title, abstract FROM papers WHERE rowid > ? AND rowid <= ?"
        (done,) = self._connection.execute(
            "SELECT coalesce(max(id), 0) FROM texts_docsize"
        ).fetchone()
        while done < total:
            with self._transaction():
                last = min(done + _ROWS_AT_ONCE, total)
                rows = self._connection.execute(statement, (done, last)).fetchall()
                TEXTS.insert(self._connection, rows)
            done = last
            self._progress("index", done, total)
        self._once(7, lambda: None)

    def _finish(self) -> None:
        self._say("merge")
        TEXTS.finish(self._connection)
        self._connection.execute("CREATE VIEW df AS SELECT term, df FROM texts_df")

    def _batches(
        self,
        step: int,
        phase: str,
        table: str,
        rows: Iterable[T],
        add: Callable[[int, list[T]], None],
    ) -> None:
        """Add rows a batch at a time, behind those that an earlier run added."""
        if self._steps() >= step:
            return
        (done,) = self._connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        rest = islice(rows, done, None)
        while batch := list(islice(rest, _ROWS_AT_ONCE)):
            with self._transaction():
                add(done, batch)
            done += len(batch)
            self._progress(phase, done, None)
        self._once(step, lambda: None)

    def _once(self, step: int, run: Callable[[], None]) -> None:
        if self._steps() >= step:
            return
        with self._transaction():
            run()
            self._connection.execute(f"PRAGMA user_version = {step}")

    def _steps(self) -> int:
        return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            yield

    def _note(self, name: str, count: str, less: str | None = None) -> None:
        """Write down a count, less one that was written down before."""
        minus = f" - (SELECT value FROM meta WHERE name = '{less}')" if less else ""
        self._connection.execute(f"INSERT INTO meta SELECT '{name}', ({count}){minus}")

    def _say(self, phase: str) -> None:
        self._progress(phase, 0, None)


def _values(place: int, row: PaperRow) -> tuple[Any, ...]:
    authors = json.dumps(row.authors, ensure_ascii=False)
    return (
        place,
        row.paper_id,
        row.day,
        row.year,
        row.citation_count,
        row.arxiv_id,
        row.published,
        row.venue,
        authors,
        row.title,
        row.abstract,
    )


def _found(text: str) -> str:
    """SQL for the row id that the id in a column names: as it stands, bare, or casefolded.

    As it stands comes first because it is quick; stored arXiv ids are bare, so that it never
    names another paper than the bare form does.
    """
    held = (
        f"(SELECT rowid FROM {table} WHERE {column} = {key})"
        for key in (text, f"bare_id({text})", f"folded_id({text})")
        for table, column in (("numbered", "paper_id"), ("aliases", "alias"))
    )
    return f"coalesce({', '.join(held)})"
