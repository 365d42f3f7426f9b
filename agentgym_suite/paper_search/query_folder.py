"""A folder of queries on the disk: its files, and how they are written.

queries.jsonl    one query a line, splits one after another
starts.npy       uint64: where each line begins, and where the last one ends
ids.txt          the task ids, one a line
corpus.jsonl     the papers that are searched, where they were given
citations.tsv    who cites whom, where it was given
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from agentgym_suite.data import Manifest, read_manifest
from agentgym_suite.files import write_array
from agentgym_suite.paper_search.queries import PaperQuery, query_line
from agentgym_suite.tasks import count_split

QUERIES_KIND = "paper-queries"
QUERIES_VERSION = 1
CORPUS_NAME, CITATIONS_NAME = "corpus.jsonl", "citations.tsv"

SPLITS = ("train", "dev", "test", "real", "auto_train", "auto_dev", "auto_test")
"""Every split there can be, in the order of the file.

``real`` is RealScholarQuery beside AutoScholarQuery's own three splits. The embedded world's three
are like RealScholarQuery; those of its second set, like AutoScholarQuery, are ``auto_…``.
"""

QUERIES_NAME, STARTS_NAME, IDS_NAME = "queries.jsonl", "starts.npy", "ids.txt"


def read_queries_manifest(folder: Path) -> Manifest:
    """The checked manifest of such a folder.

    Raises:
        DataMissing: nothing finished is there, or something of another kind.
        DataVersion: it has another format version.
        DataDamaged: a file is absent or is not what the manifest says.
    """
    return read_manifest(
        folder,
        kind=QUERIES_KIND,
        version=QUERIES_VERSION,
        mend="`agentgym-suite data import NAME` makes it from the official files",
    )


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
    with (folder / QUERIES_NAME).open("wb") as rows, (folder / IDS_NAME).open("wb") as ids:
        for query in queries:
            count_split(counts, query.split, SPLITS)
            starts.append(starts[-1] + rows.write(query_line(query)))
            ids.write(query.task_id.encode("utf-8") + b"\n")
    write_array(folder / STARTS_NAME, np.array(starts, np.uint64))
    return counts
