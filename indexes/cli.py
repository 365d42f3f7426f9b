"""The command ``agentgym-suite index``: search, describe and verify an index."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from agentgym_suite.data import Json, Manifest, Progress, verify_folder
from agentgym_suite.errors import UsageError
from agentgym_suite.indexes import build_cli, hybrid, papers_cli
from agentgym_suite.indexes.digests import told_digest
from agentgym_suite.indexes.opening import index_manifest, is_server, open_index

_SNIPPET_CHARACTERS = 100


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``index`` and its subcommands to the parser of the suite."""
    parser = commands.add_parser("index", help="retrieval indexes: build, search, info, verify")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    build_cli.register(actions, describe)

    search = actions.add_parser("search", help="the best passages for a query")
    search.add_argument(
        "index", metavar="INDEX", help="a built index, or http://host:port of a retrieval server"
    )
    search.add_argument("query", metavar="QUERY", help="words, as one argument")
    search.add_argument("-k", type=int, default=10, metavar="K", help="how many (default: 10)")
    papers_cli.add_search_arguments(search)
    search.set_defaults(run=_run_search)

    info = actions.add_parser("info", help="what an index holds and what it was built from")
    info.add_argument(
        "index", metavar="INDEX", help="a built index, or http://host:port of a retrieval server"
    )
    info.set_defaults(run=_run_info)

    verify = actions.add_parser("verify", help="recompute every digest of an index and its corpus")
    verify.add_argument("index", metavar="DIR", help="a built index")
    verify.set_defaults(run=_run_verify)


def describe(folder: Path) -> int:
    """Print what the index in a folder is."""
    manifest = index_manifest(folder)
    size = sum(entry.size for entry in manifest.files.values())
    print(f"{manifest.kind} (format {manifest.version}) at {folder}")
    digest = told_digest(manifest)
    # Only what is known to be the digest that an environment or a server names may be called so.
    print(f"  digest: {digest}" if digest else f"  digest of its files: {manifest.digest}")
    print(f"  size: {size / 1e6:,.1f} MB")
    for part in (manifest.counts, manifest.inputs, manifest.notes):
        _print_values(part)
    return 0


def verify(folder: Path, progress: Progress | None = None) -> Manifest:
    """Recompute every digest of an index of any kind, and that of the corpus beside it.

    Raises:
        DataMissing: no index is there.
        DataVersion: it has another format version.
        DataDamaged: a file is absent, or differs from the manifest or is not in it.
        RetrievalError: the corpus is gone or differs from what the index was built from.
    """
    # The corpus of a packed file lies in the folder; a hybrid index is checked with its parts.
    index_manifest(folder)
    manifest = verify_folder(folder, progress)
    if isinstance(manifest.inputs.get("corpus"), Mapping):
        from agentgym_suite.indexes.corpus import verify_corpus

        verify_corpus(folder, manifest, progress)
    if manifest.kind == hybrid.KIND:
        for part, _ in hybrid.parts(folder, manifest):
            verify(part, progress)
    if manifest.kind == "paper-store" and (vectors := papers_cli.finished_vectors(folder)):
        verify(vectors, progress)
    return manifest


def _run_search(args: argparse.Namespace) -> int:
    if not is_server(args.index):
        folder = Path(args.index)
        manifest = index_manifest(folder)
        if manifest.kind == "bm25-index" and "corpus" not in manifest.inputs:
            return _search_ids(folder, args.query, args.k)
        if manifest.kind == "paper-store":
            lines = papers_cli.search_lines(folder, args)
            print(*lines, sep="\n", end="\n" if lines else "")
            return _say_if_nothing(bool(lines))
    if args.retrieval or args.before:
        raise UsageError(f"{args.index} is no store of papers; leave out --retrieval and --before")
    index = open_index(args.index)
    try:
        found = index.retrieve([args.query], args.k)[0]
    finally:
        index.close()
    for rank, one in enumerate(found, start=1):
        passage = one.passage
        print(f"{rank:>4}  {one.score:10.6f}  {passage.id}  {_shown(passage.title)}")
        if passage.text:
            print(f"      {_shown(passage.text)}")
    return _say_if_nothing(bool(found))


def _search_ids(folder: Path, query: str, k: int) -> int:
    """Search an index that knows ids alone, such as the one of a shop."""
    from agentgym_suite.indexes.bm25 import BM25Index
    from agentgym_suite.indexes.hits import reported_scores

    hits = BM25Index.open(folder).search(query, k)
    shown = zip(hits.ids, reported_scores(hits.scores), strict=True)
    for rank, (identifier, score) in enumerate(shown, start=1):
        print(f"{rank:>4}  {score:10.6f}  {identifier}")
    return _say_if_nothing(bool(hits.ids))


def _say_if_nothing(found: bool) -> int:
    if not found:
        print("nothing was found: no passage has any word of the query", file=sys.stderr)
    return 0


def _run_info(args: argparse.Namespace) -> int:
    if not is_server(args.index):
        return describe(Path(args.index))
    server = open_index(args.index)
    try:
        about = dict(server.info())
    finally:
        server.close()
    print(f"{about.pop('kind')} index at {about.pop('url')}")
    _print_values(about)
    return 0


def _run_verify(args: argparse.Namespace) -> int:
    from agentgym_suite.progress_bars import progress_bars

    if is_server(args.index):
        raise UsageError(f"{args.index} is a server; verify its index where its folder is")
    with progress_bars() as progress:
        manifest = verify(Path(args.index), progress)
    print(f"{args.index}: {len(manifest.files)} files as their manifest says")
    return 0


def _print_values(part: Mapping[str, Json]) -> None:
    for name, value in _lines(part):
        shown = f"{value:,}" if isinstance(value, int) else value
        print(f"  {name.replace('_', ' ')}: {shown}")


def _lines(part: Mapping[str, Json], prefix: str = "") -> Iterator[tuple[str, Json]]:
    """The values of nested JSON objects, each with the names that lead to it."""
    for name, value in part.items():
        if isinstance(value, Mapping):
            yield from _lines(value, f"{prefix}{name} ")
        else:
            yield prefix + name, value


def _shown(text: str) -> str:
    """The beginning of a text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= _SNIPPET_CHARACTERS else line[: _SNIPPET_CHARACTERS - 1] + "…"
