"""The command ``agentgym-suite index``: build, search, describe and verify an index."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from agentgym_suite.data import Manifest, Progress, read_manifest, sha256_file, verify_folder
from agentgym_suite.errors import DataMissing
from agentgym_suite.indexes import bm25_files, lucene
from agentgym_suite.indexes.documents import read_documents, require_documents

_FORMATS = (
    (bm25_files.KIND, bm25_files.VERSION),
    (lucene.KIND, lucene.VERSION),
)


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``index`` and its subcommands to the parser of the suite."""
    parser = commands.add_parser("index", help="retrieval indexes: build, search, info, verify")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    build = actions.add_parser("build", help="build an index from JSON lines of documents")
    build.add_argument("kind", choices=["bm25", "lucene"], help="lucene: needs that extra")
    build.add_argument(
        "--documents",
        type=Path,
        required=True,
        metavar="FILE",
        help="JSON lines with id and contents (.jsonl, .jsonl.gz, .jsonl.xz)",
    )
    build.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the new index's folder"
    )
    build.add_argument(
        "--workers", type=int, default=1, metavar="N", help="processes that analyse (bm25)"
    )
    build.set_defaults(run=_run_build)

    search = actions.add_parser("search", help="the best documents for a query")
    search.add_argument("index", type=Path, metavar="DIR", help="a built index")
    search.add_argument("query", metavar="QUERY", help="words, as one argument")
    search.add_argument("-k", type=int, default=10, metavar="K", help="how many (default: 10)")
    search.set_defaults(run=_run_search)

    info = actions.add_parser("info", help="what an index holds and what it was built from")
    info.add_argument("index", type=Path, metavar="DIR", help="a built index")
    info.set_defaults(run=_run_info)

    verify = actions.add_parser("verify", help="recompute every digest of an index")
    verify.add_argument("index", type=Path, metavar="DIR", help="a built index")
    verify.set_defaults(run=_run_verify)


def _run_build(args: argparse.Namespace) -> int:
    # Imported here, so that other commands start without rich and multiprocessing.
    from agentgym_suite.indexes import bm25_build
    from agentgym_suite.progress_bars import progress_bars

    require_documents(args.documents)
    with progress_bars() as progress:
        inputs = {"documents_sha256": sha256_file(args.documents, progress)}
        documents = read_documents(args.documents)
        if args.kind == "bm25":
            bm25_build.build(
                args.out, documents, inputs=inputs, progress=progress, workers=args.workers
            )
        else:
            lucene.build(args.out, documents, inputs=inputs, progress=progress)
    return _run_info(argparse.Namespace(index=args.out))


def _run_search(args: argparse.Namespace) -> int:
    from agentgym_suite.indexes.bm25 import BM25Index
    from agentgym_suite.indexes.hits import reported_scores

    if _manifest(args.index).kind == lucene.KIND:
        with lucene.LuceneIndex.open(args.index) as index:
            hits = index.search(args.query, args.k)
        scores = hits.scores
    else:
        hits = BM25Index.open(args.index).search(args.query, args.k)
        scores = reported_scores(hits.scores)
    for rank, (identifier, score) in enumerate(zip(hits.ids, scores, strict=True), start=1):
        print(f"{rank:>4}  {score:10.6f}  {identifier}")
    if not hits.ids:
        print("no document has any word of the query", file=sys.stderr)
    return 0


def _run_info(args: argparse.Namespace) -> int:
    manifest = _manifest(args.index)
    size = sum(entry.size for entry in manifest.files.values())
    print(f"{manifest.kind} (format {manifest.version}) at {args.index}")
    print(f"  digest: {manifest.digest}")
    print(f"  size: {size / 1e6:,.1f} MB")
    for part in (manifest.counts, manifest.inputs, manifest.notes):
        for name, value in part.items():
            shown = f"{value:,}" if isinstance(value, int) else value
            print(f"  {name.replace('_', ' ')}: {shown}")
    return 0


def _run_verify(args: argparse.Namespace) -> int:
    from agentgym_suite.progress_bars import progress_bars

    with progress_bars() as progress:
        manifest = verify(args.index, progress)
    print(f"{args.index}: {len(manifest.files)} files as their manifest says")
    return 0


def verify(folder: Path, progress: Progress | None = None) -> Manifest:
    """Recompute every digest of an index of any kind.

    Raises:
        DataMissing: no index is there.
        DataVersion: it has another format version.
        DataDamaged: a file is absent, or differs from the manifest or is not in it.
    """
    _manifest(folder)
    return verify_folder(folder, progress)


def _manifest(folder: Path) -> Manifest:
    """The manifest of an index of any kind.

    Raises:
        DataMissing: no index is there.
    """
    for kind, version in _FORMATS:
        try:
            return read_manifest(folder, kind=kind, version=version)
        except DataMissing:
            continue
    raise DataMissing(
        f"no index at {folder}; build one with `agentgym-suite index build bm25 "
        f"--documents FILE --out {folder}`"
    )
