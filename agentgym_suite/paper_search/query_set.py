"""The queries that an environment plays: a finished folder, opened in milliseconds.

A query is parsed when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from agentgym_suite.arguments import check_data, shown
from agentgym_suite.data import Json, Manifest, Progress
from agentgym_suite.errors import UsageError
from agentgym_suite.files import explain_damage, load_array
from agentgym_suite.paper_search.queries import PaperQuery, read_query
from agentgym_suite.paper_search.query_folder import (
    CITATIONS_NAME,
    CORPUS_NAME,
    IDS_NAME,
    QUERIES_NAME,
    SPLITS,
    STARTS_NAME,
    read_queries_manifest,
)
from agentgym_suite.tasks import TaskSet, split_ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray

_REPORTED = ("test", "real", "dev", "auto_test", "auto_dev", "train", "auto_train")


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
            starts: NDArray[np.uint64] = load_array(folder / STARTS_NAME, mapped=False)
            self._starts = starts
            self._rows: NDArray[np.uint8] = np.memmap(folder / QUERIES_NAME, np.uint8, "r")
            ids = (folder / IDS_NAME).read_text(encoding="utf-8").split("\n")[:-1]
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
