"""The queries that an environment plays: a finished folder, opened in milliseconds.

    queries.jsonl    one query a line, splits one after another
    starts.npy       uint64: where each line begins, and where the last one ends
    ids.txt          the task ids, one a line
    corpus.jsonl     the papers that are searched, where they were given
    citations.tsv    who cites whom, where it was given

A query is parsed when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from agentgym_suite.arguments import check_data, shown
from agentgym_suite.data import Json, Manifest, Progress, read_manifest
from agentgym_suite.errors import UsageError
from agentgym_suite.files import explain_damage, write_array
from agentgym_suite.paper_search.queries import PaperQuery, query_line, read_query
from agentgym_suite.tasks import TaskSet, count_split, split_ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray

QUERIES_KIND = "paper-queries"
QUERIES_VERSION = 1
CORPUS_NAME, CITATIONS_NAME = "corpus.jsonl", "citations.tsv"

SPLITS = ("train", "dev", "test", "real", "auto_train", "auto_dev", "auto_test")
"""Every split there can be, in the order of the file.

``real`` is RealScholarQuery beside AutoScholarQuery's own three splits. The embedded world's three
are like RealScholarQuery; those of its second set, like AutoScholarQuery, are ``auto_…``.
"""

_REPORTED = ("test", "real", "dev", "auto_test", "auto_dev", "train", "auto_train")
_QUERIES, _STARTS, _IDS = "queries.jsonl", "starts.npy", "ids.txt"


class QuerySet:
    """The queries of one finished folder; read-only, safe in several threads.

    Made by ``open_query_set``. Pickles as its folder.

    Attributes:
        folder: where it is.
        dataset: what it is called; of a folder with several data sets all their names.
        digest: what identifies queries, papers and citations, ``sha256:`` + hex.
        tasks: ids ``<source>/<split>/<official id>``; the number is the place in the file.
        corpus: the papers, JSON lines; None where none were given.
        citations: ``citing<TAB>cited`` with a header; None where none were given.
        notes: what the import had to say: ids before and after normalising, rows left out.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.digest = manifest.digest
        self.notes: Mapping[str, Json] = manifest.notes
        self.corpus = folder / CORPUS_NAME if CORPUS_NAME in manifest.files else None
        self.citations = folder / CITATIONS_NAME if CITATIONS_NAME in manifest.files else None
        self._sha256 = {name: entry.sha256 for name, entry in manifest.files.items()}
        with explain_damage(folder):
            self.dataset = str(manifest.notes["dataset"])
            starts: NDArray[np.uint64] = np.load(folder / _STARTS)
            self._starts = starts
            self._rows: NDArray[np.uint8] = np.memmap(folder / _QUERIES, np.uint8, "r")
            ids = (folder / _IDS).read_text(encoding="utf-8").split("\n")[:-1]
            self.tasks = TaskSet(
                ids,
                split_ranges(manifest.counts, SPLITS),
                digest=self.digest,
                family=lambda position: self.query(position).kind,
            )

    def __len__(self) -> int:
        return len(self._starts) - 1

    @property
    def corpus_digest(self) -> str:
        """The SHA-256 of papers and citations in hex, "" where there are no papers."""
        names = (CORPUS_NAME, CITATIONS_NAME)
        return "-".join(self._sha256[name] for name in names if name in self._sha256)

    @property
    def evaluation_split(self) -> str:
        """The split that results are reported on: test, else RealScholarQuery, else dev, train."""
        return next((split for split in _REPORTED if split in self.tasks.splits), "test")

    def query(self, position: int) -> PaperQuery:
        """The query at a position, parsed when asked for.

        Raises:
            DataDamaged: its row is not what the import wrote.
        """
        number = range(len(self))[position]
        with explain_damage(self.folder):
            first, last = int(self._starts[number]), int(self._starts[number + 1])
            return read_query(self._rows[first:last].tobytes())

    def __reduce__(self) -> tuple[Callable[[Path], QuerySet], tuple[Path]]:
        return open_finished, (self.folder,)


def check_queries(queries: QuerySet | None) -> QuerySet | None:
    """A ``queries`` argument: an open set, or None.

    Raises:
        UsageError: it is neither.
    """
    if queries is None or isinstance(queries, QuerySet):
        return queries
    raise UsageError(
        f"queries is {shown(queries)}; give what open_query_set returns, or name data by data="
    )


def open_finished(folder: Path) -> QuerySet:
    """Open a folder of the kind ``paper-queries``.

    Raises:
        DataMissing: nothing finished is there, or something of another kind.
        DataVersion: it has another format version.
        DataDamaged: a file is absent or is not what the manifest says.
    """
    folder = Path(folder)
    return QuerySet(folder, read_queries_manifest(folder))


def read_queries_manifest(folder: Path) -> Manifest:
    """The manifest of such a folder; raises as ``open_finished`` does."""
    return read_manifest(
        folder,
        kind=QUERIES_KIND,
        version=QUERIES_VERSION,
        mend="`agentgym-suite data import NAME` makes it from the official files",
    )


def open_query_set(
    data: str | Path | Sequence[str | Path] | None = None, progress: Progress | None = None
) -> QuerySet:
    """Open the queries that ``data`` means.

    Args:
        data: None for the embedded literature (generated at first use); the name of a data set
            of the data home; a folder that ``data import`` or ``data generate`` made; official
            files or a folder of them, imported into the data home the first time. A file of
            papers and one of citations may be among them.
        progress: called while something is generated or imported.

    Raises:
        DataMissing: there are no such data.
        DataDamaged: a file is damaged, with its line.
        DataVersion: the folder was made by another version of the suite.
        UsageError: ``data`` is nothing of this kind.
        MissingExtra: a parquet file without the package that reads it.
    """
    # Here, because importing brings every loader, and a finished folder needs none of them.
    from agentgym_suite.paper_search.choosing import locate_queries

    return open_finished(locate_queries(check_data(data), progress))


def write_queries(folder: Path, queries: Iterable[PaperQuery]) -> dict[str, int]:
    """Write the files of a set except papers and citations.

    Args:
        folder: the working folder that ``publish`` gave.
        queries: in the order of ``SPLITS``; their task ids differ.

    Returns:
        How many queries each split has.

    Raises:
        ValueError: a split comes after one that it goes before.
    """
    counts: dict[str, int] = {}
    starts = [0]
    with (folder / _QUERIES).open("wb") as rows, (folder / _IDS).open("wb") as ids:
        for query in queries:
            count_split(counts, query.split, SPLITS)
            starts.append(starts[-1] + rows.write(query_line(query)))
            ids.write(query.task_id.encode("utf-8") + b"\n")
    write_array(folder / _STARTS, np.array(starts, np.uint64))
    return counts
