"""Building an FTS5 index of a corpus, published through ``data.publish``.

Rows go in by the order of their ids, a batch a transaction, into a database that is copied
without its gaps at the end. A build that was killed goes on behind its last batch, and gives
the same files as one that was not.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from agentgym_suite.data import Contents, Manifest, Progress, publish
from agentgym_suite.indexes import postings
from agentgym_suite.indexes.corpus import Corpus, corpus_inputs, prepare_corpus
from agentgym_suite.indexes.fts5 import DATABASE, KIND, VERSION, passage_table
from agentgym_suite.indexes.fts5_table import FTS5Table
from agentgym_suite.indexes.postings_build import build_postings
from agentgym_suite.indexes.unfinished import note_stage

_ROWS_AT_ONCE = 20_000
_GROWING = "growing.sqlite"
_CACHE_KIB = 64 << 10


def build_fts5(
    out: Path | str,
    corpus: Path | str,
    *,
    title_weight: float = 2.0,
    text_weight: float = 1.0,
    tokenizer: str = "porter",
    progress: Progress | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Manifest:
    """Build an FTS5 index of a corpus, or return the one that is there.

    Args:
        out: where the index shall be.
        corpus: its file (see ``corpus_rows.prepare_corpus``), which stays where it is.
        title_weight: how much a word of the title counts.
        text_weight: how much a word of the text counts.
        tokenizer: ``porter`` (English stems), ``unicode61`` (words as they are) or ``trigram``
            (any three characters in a row; for scripts without blanks between words).
        progress: called with the phases ``read corpus``, ``index``, ``merge``, ``postings`` and
            those of ``publish``.
        on_wait: called once with a sentence when another process is building the folder.

    Raises:
        DataMissing: there is no such corpus.
        DataDamaged: a row of it is no passage.
        UsageError: a weight or the tokenizer is wrong.
        RetrievalError: this SQLite has no FTS5, or the corpus changed meanwhile.
        DataError: the folder holds something else, or cannot be written.
        DiskFull: no space was left.
    """
    table = passage_table(float(title_weight), float(text_weight), tokenizer)
    source = corpus_inputs(corpus, progress)

    def write(working: Path) -> Contents:
        facts = prepare_corpus(corpus, working, progress, sha256=source["sha256"])
        if (working / _GROWING).exists() or not (working / DATABASE).exists():
            with closing(Corpus(corpus, working)) as rows:
                _fill(working, table, rows, progress)
        # A trigram query is phrases, which the arrays cannot answer, nor columns of no weight.
        if facts.rows >= postings.ROWS_WORTH_IT and tokenizer != "trigram" and all(table.weights):
            build_postings(working / postings.FOLDER, working / DATABASE, table, progress)
        return Contents(
            {"rows": facts.rows}, {"shape": facts.shape, "sqlite": sqlite3.sqlite_version}
        )

    return publish(
        out,
        kind=KIND,
        version=VERSION,
        inputs={
            "corpus": source,
            "title_weight": table.weights[0],
            "text_weight": table.weights[1],
            "tokenizer": tokenizer,
        },
        write=write,
        progress=progress,
        on_wait=on_wait,
    )


def _fill(working: Path, table: FTS5Table, corpus: Corpus, progress: Progress | None) -> None:
    growing = working / _GROWING
    with closing(_grow(growing, table)) as connection:
        done = _count(connection, table)
        total = len(corpus)
        while done < total:
            last = min(done + _ROWS_AT_ONCE, total)
            with connection:
                connection.execute("BEGIN")
                table.insert(connection, _numbered(corpus, done, last))
            done = last
            note_stage(working, "index", done, total)
            if progress is not None:
                progress("index", done, total)
        if progress is not None:
            progress("merge", 0, None)
        (working / DATABASE).unlink(missing_ok=True)
        if not _is_finished(connection):
            with connection:
                connection.execute("BEGIN")
                table.finish(connection)
                connection.execute("PRAGMA user_version = 1")
        connection.execute("VACUUM INTO ?", (str(working / DATABASE),))
    growing.unlink()
    note_stage(working, None)


def _numbered(corpus: Corpus, first: int, last: int) -> list[tuple[int | str, ...]]:
    rows: list[tuple[int | str, ...]] = []
    for rowid in range(first + 1, last + 1):
        passage = corpus.row(int(corpus.id_order[rowid - 1]))
        rows.append((rowid, passage.title, passage.text))
    return rows


def _grow(path: Path, table: FTS5Table) -> sqlite3.Connection:
    """The growing database as an earlier run left it, else an empty one."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table.name,))
            if found.fetchone() is None:
                table.create(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _count(connection: sqlite3.Connection, table: FTS5Table) -> int:
    row = connection.execute(f"SELECT max(id) FROM {table.name}_docsize").fetchone()
    return row[0] or 0


def _is_finished(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("PRAGMA user_version").fetchone()[0])
