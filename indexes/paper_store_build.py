"""Building a store of papers out of a corpus and its citations, published by ``data.publish``.

Everything grows in one database (``paper_growing``), which is copied without its gaps into the
store; the postings arrays are made of the copy. A build that was killed goes on where it stopped
and gives the same files as one that was not.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np

from agentgym_suite.data import Contents, Manifest, Progress, publish
from agentgym_suite.errors import DataDamaged, RetrievalError
from agentgym_suite.files import TEMPORARY_PREFIX, Json, sha256_file, write_array
from agentgym_suite.indexes import postings
from agentgym_suite.indexes.paper_growing import Growing
from agentgym_suite.indexes.paper_rows import read_citations, read_papers
from agentgym_suite.indexes.paper_tables import DATABASE, DAYS, KIND, TEXTS, VERSION
from agentgym_suite.indexes.postings_build import build_postings
from agentgym_suite.indexes.unfinished import note_stage

_GROWING = "growing.sqlite"
_COUNTS = ("papers", "abstracts", "citations")


def build_paper_store(
    out: Path | str,
    corpus: Path | str,
    citations: Path | str | None = None,
    *,
    progress: Progress | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Manifest:
    """Build a store of papers, or return the one that is there.

    Of several rows with one id the first counts; rows of one arXiv id under several ids are
    several papers, of which it names that with the smallest. Citations whose paper is not in the
    corpus, those given twice and those of a paper by itself are left out; cycles stay. The
    manifest's notes count them all. The store needs neither file any more.

    Args:
        out: where the store shall be.
        corpus: the papers, as ``paper_rows.read_papers`` reads them.
        citations: who cites whom, as ``paper_rows.read_citations`` reads it; None for nobody.
        progress: called with the phases ``read papers``, ``number papers``, ``read citations``,
            ``link citations``, ``place papers``, ``index``, ``merge``, ``postings`` and those of
            ``publish``.
        on_wait: called once with a sentence when another process is building the folder.

    Raises:
        DataMissing: there is no such file.
        DataDamaged: a row is no paper, a line no citation, or no paper is there.
        RetrievalError: this SQLite has no FTS5, or a file changed meanwhile.
        DataError: the folder holds something else, or cannot be written.
        DiskFull: no space was left.
    """
    sources = [Path(path) for path in (corpus, citations) if path is not None]
    before = [_version(path) for path in sources]
    digests: list[Json] = [sha256_file(path, progress) for path in sources]

    def write(working: Path) -> Contents:
        def say(phase: str, done: int, total: int | None) -> None:
            note_stage(working, phase, done, total)
            if progress is not None:
                progress(phase, done, total)

        if not (working / DATABASE).is_file():
            _grow(working, Path(corpus), citations, say)
            if before != [_version(path) for path in sources]:
                for name in (DATABASE, _GROWING):
                    (working / name).unlink()
                raise RetrievalError(
                    f"{' or '.join(map(str, sources))} changed while it was read; build again"
                )
        (working / _GROWING).unlink(missing_ok=True)
        notes = _describe(working)
        if notes["papers"] >= postings.ROWS_WORTH_IT:
            build_postings(working / postings.FOLDER, working / DATABASE, TEXTS, say)
        note_stage(working, None)
        counts = {name: notes.pop(name) for name in _COUNTS}
        return Contents(counts, {**notes, "sqlite": sqlite3.sqlite_version})

    return publish(
        out,
        kind=KIND,
        version=VERSION,
        inputs={
            "corpus_sha256": digests[0],
            "citations_sha256": digests[1] if citations is not None else None,
            "title_weight": TEXTS.weights[0],
            "abstract_weight": TEXTS.weights[1],
            "tokenizer": TEXTS.tokenizer,
        },
        write=write,
        progress=progress,
        on_wait=on_wait,
    )


def _grow(working: Path, corpus: Path, citations: Path | str | None, progress: Progress) -> None:
    with closing(Growing(working / _GROWING, progress)) as growing:
        edges = iter(()) if citations is None else read_citations(citations)
        growing.grow(read_papers(corpus), edges)
        if growing.papers == 0:
            raise DataDamaged(f"{corpus} holds no paper; give a file of papers, one a line")
        copied = working / (TEMPORARY_PREFIX + DATABASE)
        copied.unlink(missing_ok=True)
        growing.copy_to(copied)
    copied.replace(working / DATABASE)


def _describe(working: Path) -> dict[str, int]:
    """Write the array of days; what the build counted."""
    address = f"{(working / DATABASE).absolute().as_uri()}?mode=ro&immutable=1"
    with closing(sqlite3.connect(address, uri=True)) as connection:
        days = connection.execute("SELECT day FROM papers ORDER BY rowid")
        write_array(working / DAYS, np.fromiter((day for (day,) in days), np.int32))
        return dict(connection.execute("SELECT name, value FROM meta ORDER BY name").fetchall())


def _version(path: Path) -> tuple[int, int] | None:
    """What changes when a file is written; None when it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
