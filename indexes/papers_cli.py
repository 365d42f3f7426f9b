"""Papers at the command line: ``index build papers``, and ``index search`` in a store of papers."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from agentgym_suite.data import MANIFEST_NAME, Progress, load_manifest
from agentgym_suite.errors import RetrievalError, UsageError
from agentgym_suite.files import partial_folder, remove_folder
from agentgym_suite.indexes.paper_dates import cutoff_day
from agentgym_suite.indexes.qdrant_cli import (
    API_KEY,
    add_qdrant_arguments,
    point_options,
    qdrant_server,
)
from agentgym_suite.indexes.qdrant_connection import TIMEOUT_S

CORPUS = (
    "papers with paper_id or arxiv_id, title, abstract and what else is known of them: JSON lines, "
    "also .gz or .xz"
)
_NO_VECTORS, _QDRANT, _FAISS = "none", "qdrant", "faiss"
_SNIPPET_CHARACTERS = 100

# The options that say how papers are encoded and vectors kept, with what they are unless given.
_OF_ENCODING: Mapping[str, object] = {
    "encoder": "minilm",
    "batch_size": 32,
    "threads": None,
    "fast": False,
}
_OF_FAISS: Mapping[str, object] = {"index_type": "auto"}
_OF_QDRANT: Mapping[str, object] = {
    "url": None,
    "collection": None,
    "timeout": TIMEOUT_S,
    "quantization": None,
    "on_disk": False,
}


def add_papers_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``index build papers`` takes beside a corpus, a folder and the encoder."""
    parser.add_argument(
        "--citations",
        type=Path,
        metavar="FILE",
        help="lines of two ids with a tab between: the first cites the second",
    )
    parser.add_argument(
        "--dense",
        choices=[_NO_VECTORS, _QDRANT, _FAISS],
        default=_NO_VECTORS,
        help="also encode every paper, into DIR-dense, for dense and hybrid search; needs the "
        "extra retrieval (default: none; the same command adds them later)",
    )
    add_qdrant_arguments(parser)


def add_search_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``index search`` takes for a store of papers."""
    parser.add_argument(
        "--retrieval",
        choices=["sparse", "dense", "hybrid"],
        help="for papers: by words, by vectors, or by both (default: both if there are vectors)",
    )
    parser.add_argument(
        "--before",
        metavar="DATE",
        help="for papers: only those of before this date, as YYYYMMDD, YYYY-MM or YYYY",
    )


def build(args: argparse.Namespace, progress: Progress) -> None:
    """Build the store that ``index build papers`` asks for, and its vectors.

    Raises:
        UsageError: an option would do nothing.
        AgentGymSuiteError: as ``build_paper_store`` and ``build_paper_vectors`` say.
    """
    from agentgym_suite.indexes.paper_store import PaperStore
    from agentgym_suite.indexes.paper_store_build import build_paper_store
    from agentgym_suite.indexes.paper_vectors import build_paper_vectors, vectors_folder

    _refuse_ignored(args)
    with_vectors = args.dense != _NO_VECTORS
    server = qdrant_server(args) if args.dense == _QDRANT else None
    if args.restart:
        _remove_vectors(vectors_folder(args.out))
    build_paper_store(args.out, args.corpus, args.citations, progress=progress, on_wait=_say)
    if not with_vectors:
        return
    store = PaperStore.open(args.out)
    try:
        build_paper_vectors(
            store,
            engine=args.dense,
            encoder=args.encoder,
            server=server,
            collection=args.collection,
            options=point_options(args),
            index_type=args.index_type,
            batch_size=args.batch_size,
            threads=args.threads,
            fast=args.fast,
            progress=progress,
            on_wait=_say,
        )
    finally:
        store.close()


def search_lines(folder: Path, args: argparse.Namespace) -> list[str]:
    """What ``index search`` prints of a store of papers; nothing when nothing was found.

    Raises:
        UsageError: the date or ``k`` is wrong.
        RetrievalError: there are no vectors for such a search, or a part cannot be used.
        DataError: the store is not as it was built.
    """
    from agentgym_suite.indexes.paper_index import PaperIndex

    before = cutoff_day(args.before)
    index = PaperIndex.open(folder, api_key=os.environ.get(API_KEY))
    try:
        hits = index.search(args.query, args.k, retrieval=args.retrieval, before=before)
        papers = [index.store.paper(identifier) for identifier in hits.ids]
    finally:
        index.close()
    lines = []
    for rank, (paper, score) in enumerate(zip(papers, hits.scores, strict=True), start=1):
        date = paper.published or paper.year or "undated"
        lines.append(f"{rank:>4}  {score:10.6f}  {paper.paper_id}  {date}  {_shown(paper.title)}")
        if paper.abstract:
            lines.append(f"      {_shown(paper.abstract)}")
    return lines


def finished_vectors(store: Path) -> Path | None:
    """The folder of the vectors beside a store, if there are some."""
    from agentgym_suite.indexes.paper_vectors import vectors_folder

    folder = vectors_folder(store)
    return folder if (folder / MANIFEST_NAME).is_file() else None


def _refuse_ignored(args: argparse.Namespace) -> None:
    """Refuse an option that such a build has no use for.

    Raises:
        UsageError: naming it, and what it belongs to.
    """
    if args.dense == _NO_VECTORS:
        needed = "--dense qdrant or --dense faiss"
        unused: Mapping[str, object] = {**_OF_ENCODING, **_OF_FAISS, **_OF_QDRANT}
    elif args.dense == _FAISS:
        needed, unused = "--dense qdrant", _OF_QDRANT
    else:
        needed, unused = "--dense faiss", _OF_FAISS
    for name, default in unused.items():
        if getattr(args, name) != default:
            option = "--" + name.replace("_", "-")
            raise UsageError(f"{option} does nothing without {needed}; add that, or leave it out")


def _remove_vectors(folder: Path) -> None:
    """Remove the vectors of a store, or what a build left of them; nothing else."""
    from agentgym_suite.indexes.paper_vectors import KINDS

    finished = (folder / MANIFEST_NAME).is_file()
    if finished and load_manifest(folder).kind not in KINDS:
        raise RetrievalError(
            f"{folder} holds a {load_manifest(folder).kind}, not vectors; move it away first"
        )
    if finished or partial_folder(folder).is_dir():
        remove_folder(folder, _say)


def _say(sentence: str) -> None:
    sys.stderr.write(sentence + "\n")


def _shown(text: str) -> str:
    """The beginning of a text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= _SNIPPET_CHARACTERS else line[: _SNIPPET_CHARACTERS - 1] + "…"
