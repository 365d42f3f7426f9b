"""From official files to a finished folder of queries: what is read, as what, in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agentgym_suite.data import Contents, Json, Manifest, Progress, publish, sha256_file
from agentgym_suite.errors import DataMissing
from agentgym_suite.official_rows import BadRows, iter_rows
from agentgym_suite.paper_search.paper_files import write_citations, write_papers
from agentgym_suite.paper_search.queries import PaperQuery
from agentgym_suite.paper_search.query_files import FORMATS, ReadQuery
from agentgym_suite.paper_search.query_folder import (
    CITATIONS_NAME,
    CORPUS_NAME,
    QUERIES_KIND,
    QUERIES_VERSION,
    SPLITS,
    write_queries,
)
from agentgym_suite.source_texts import SourceText

_ROWS_A_REPORT = 500


@dataclass(frozen=True, slots=True)
class QueryFile:
    """One file of queries.

    Attributes:
        text: the file.
        form: its format, a key of ``FORMATS``.
        split: one of ``SPLITS``.
        source: what to call the data set, "" for the one that is published in this format.
    """

    text: SourceText
    form: str
    split: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """Everything that a folder of queries is made from.

    Attributes:
        files: the queries, in the order in which they were given.
        corpus: files of papers; may be empty.
        citations: who cites whom; may be None.
        skip_bad: leave bad rows out instead of stopping at the first.
        digests: SHA-256 of files that is known already.
    """

    files: tuple[QueryFile, ...]
    corpus: tuple[SourceText, ...] = ()
    citations: SourceText | None = None
    skip_bad: bool = False
    digests: Mapping[Path, str] = field(default_factory=dict)

    def inputs(self, progress: Progress | None = None) -> dict[str, Json]:
        """What the contents are a function of: the digests of the files and the choices."""
        known = dict(self.digests)

        def told(text: SourceText) -> str:
            if text.path not in known:
                known[text.path] = sha256_file(text.path, progress)
            digest = known[text.path]
            return f"{digest}/{text.member}" if text.member else digest

        return {
            "files": [
                {
                    "sha256": told(one.text),
                    "form": one.form,
                    "split": one.split,
                    "source": one.source or FORMATS[one.form].source,
                }
                for one in self.files
            ],
            "corpus": [told(text) for text in self.corpus],
            "citations": None if self.citations is None else told(self.citations),
            "skip_bad": self.skip_bad,
        }


def publish_queries(
    out: Path,
    plan: ImportPlan,
    progress: Progress | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Manifest:
    """Make the folder of a plan, or return it untouched when it is there already.

    Raises:
        DataMissing: a file is not there, or holds no query.
        DataDamaged: a file is damaged, or a row is bad and not to be skipped.
        DataError: something else is in that place already.
        DiskFull: no space was left.
        MissingExtra: a parquet file without the package that reads it.
    """
    return publish(
        out,
        kind=QUERIES_KIND,
        version=QUERIES_VERSION,
        inputs=plan.inputs(progress),
        write=lambda partial: _write(partial, plan, progress),
        progress=progress,
        on_wait=on_wait,
    )


def _write(partial: Path, plan: ImportPlan, progress: Progress | None) -> Contents:
    bad = BadRows(plan.skip_bad)
    reading = _Reading(bad, progress)
    counts = write_queries(partial, reading.queries(plan.files))
    if not counts:
        names = ", ".join(str(one.text) for one in plan.files)
        raise DataMissing(f"{names} holds no query; give another file")
    notes: dict[str, Json] = {
        "dataset": ",".join(reading.sources),
        "gold": {split: dict(table) for split, table in reading.gold.items()},
        "repeated": reading.repeated,
    }
    if plan.corpus:
        written = write_papers(
            partial / CORPUS_NAME, partial / CITATIONS_NAME, plan.corpus, bad, progress
        )
        counts["papers"] = written.papers
        counts["citations"] = written.citations
        notes["repeated_papers"] = written.repeated
        notes["papers_with_the_arxiv_id_of_another"] = written.shared
    if plan.citations is not None:
        counts["citations"] = write_citations(partial / CITATIONS_NAME, plan.citations)
    notes["skipped"] = bad.count
    notes["bad_rows"] = list(bad.listed)
    return Contents(counts, notes)


@dataclass(slots=True)
class _Reading:
    """What is noticed while queries are read."""

    bad: BadRows
    progress: Progress | None
    sources: dict[str, None] = field(default_factory=dict)
    gold: dict[str, Counter[str]] = field(default_factory=dict)
    repeated: int = 0
    _seen: dict[str, PaperQuery] = field(default_factory=dict)

    def queries(self, files: Sequence[QueryFile]) -> Iterator[PaperQuery]:
        """The queries of the files, split by split."""
        for split in SPLITS:
            for one in files:
                if one.split == split:
                    yield from self._file(one)

    def _file(self, one: QueryFile) -> Iterator[PaperQuery]:
        form = FORMATS[one.form]
        for number, (line, row) in enumerate(iter_rows(one.text, self.bad)):
            try:
                if not form.recognises(row):
                    raise ValueError(f"it is no row of {form.name} like those before it")
                read = form.read(row, one.split, number)
                query = replace(read.query, source=one.source or form.source)
                is_new = self._is_new(query)
            except ValueError as error:
                self.bad.add(one.text, line, error)
                continue
            if is_new:
                self._count(query, read)
                yield query

    def _is_new(self, query: PaperQuery) -> bool:
        """Whether the id is new; the same query again is left out, another one is an error."""
        known = self._seen.setdefault(query.task_id, query)
        if known is query:
            return True
        if known != query:
            raise ValueError(f"the id {query.id!r} comes twice, with different queries")
        self.repeated += 1
        return False

    def _count(self, query: PaperQuery, read: ReadQuery) -> None:
        self.sources[query.source] = None
        self.gold.setdefault(query.split, Counter()).update(
            {
                "queries": 1,
                "given": read.gold.given,
                "kept": len(read.gold.ids),
                "versioned": read.gold.versioned,
                "not_arxiv": read.gold.foreign,
                "missing": query.gold_missing,
            }
        )
        if self.progress is not None and len(self._seen) % _ROWS_A_REPORT == 0:
            self.progress("read queries", len(self._seen), None)
