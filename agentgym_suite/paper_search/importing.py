"""``data import``, ``generate`` and ``verify`` of paper queries: what the commands call."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from agentgym_suite.chosen_data import GivenPath
from agentgym_suite.data import (
    Manifest,
    Progress,
    load_manifest,
    read_manifest,
    verify_folder,
)
from agentgym_suite.errors import DataMissing, UsageError
from agentgym_suite.files import list_in, table_in
from agentgym_suite.paper_search.choosing import plan_import
from agentgym_suite.paper_search.generated_files import (
    GENERATED_KIND,
    GENERATED_VERSION,
    publish_generated,
)
from agentgym_suite.paper_search.generator import DEFAULT_PAPERS, DEFAULT_SEED
from agentgym_suite.paper_search.import_plan import publish_queries
from agentgym_suite.paper_search.query_folder import QUERIES_KIND, read_queries_manifest

_LEFT_OUT: Mapping[str, str] = MappingProxyType(
    {
        "repeated": "repeated queries left out",
        "repeated_papers": "repeated papers left out",
        "papers_with_the_arxiv_id_of_another": "papers with the arXiv id of another one",
    }
)
_GIVEN_SPLITS = ("train", "dev", "test", "real")


def add_import_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``data import`` for ``pasa`` and ``litsearch``."""
    add = parser.add_argument
    add(
        "paths",
        nargs="*",
        type=Path,
        metavar="PATH",
        help="files, folders or zip archives; format and split are told by their rows and names",
    )
    add("--folder", type=Path, metavar="DIR", help="the folder as the hub delivers it")
    for split in _GIVEN_SPLITS:
        words = "files of RealScholarQuery" if split == "real" else f"files of the {split} split"
        add(f"--{split}", nargs="+", type=Path, metavar="FILE", help=words)
    add("--corpus", type=Path, metavar="FILE", help="the papers to search, JSON lines")
    add("--citations", type=Path, metavar="FILE", help="who cites whom, lines of citing TAB cited")
    add("--skip-bad", action="store_true", help="leave bad rows out, count and list them")
    add("--out", type=Path, metavar="DIR", help="where the queries shall be")


def run_import(
    args: argparse.Namespace,
    progress: Progress | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Path:
    """Bring official queries, and papers where given, into the data home; return the folder.

    Raises:
        DataMissing: a file is not there, or holds nothing that is known.
        DataDamaged: a file is damaged, or a row is bad and ``--skip-bad`` is not given.
        DataError: something else is in that place already.
        DiskFull: no space was left.
        UsageError: an option is missing.
        MissingExtra: a parquet file without the package that reads it.
    """
    if args.out is None:
        raise UsageError("the queries need a place; add --out DIR")
    given = [GivenPath(path) for path in args.paths]
    given += [GivenPath(args.folder)] if args.folder is not None else []
    for split in _GIVEN_SPLITS:
        given += [GivenPath(path, split) for path in getattr(args, split) or ()]
    if not given:
        raise UsageError("say where the queries are; give files, or --train FILE --test FILE")
    plan = plan_import(given, corpus=args.corpus, citations=args.citations, skip_bad=args.skip_bad)
    if not plan.files:
        raise DataMissing("the given files hold papers and no queries; give queries too")
    publish_queries(args.out, plan, progress, on_wait)
    return Path(args.out)


def add_generate_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``data generate`` for paper queries."""
    add = parser.add_argument
    add(
        "--papers",
        type=int,
        default=DEFAULT_PAPERS,
        metavar="N",
        help=f"how many papers (default: {DEFAULT_PAPERS:,})",
    )
    add(
        "--seed",
        type=int,
        default=DEFAULT_SEED,
        metavar="S",
        help="which literature (default: the embedded one's)",
    )
    add("--out", type=Path, required=True, metavar="DIR", help="where the files shall be")


def run_generate(
    args: argparse.Namespace,
    progress: Progress | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Path:
    """Write a generated literature in PaSa's format; return its folder.

    Raises:
        DataError: something else is in that place already, or the papers are too few.
        DiskFull: no space was left.
        UsageError: there would be no paper.
    """
    publish_generated(
        args.out, papers=args.papers, seed=args.seed, progress=progress, on_wait=on_wait
    )
    return Path(args.out)


def describe(path: Path) -> list[str]:
    """For people to read: queries and ids of each split, and what was left out.

    Raises:
        DataMissing: nothing finished is there.
    """
    manifest = load_manifest(path)
    notes = manifest.notes
    lines = []
    for split, value in table_in(notes.get("gold")).items():
        gold = table_in(value)
        lines.append(
            f"{split}: {gold.get('queries'):,} queries, {gold.get('given'):,} relevant papers "
            f"given, {gold.get('kept'):,} after versions ({gold.get('versioned'):,}) and repeats "
            f"were removed; {gold.get('not_arxiv'):,} without an arXiv id, "
            f"{gold.get('missing'):,} without any"
        )
    if manifest.counts.get("papers"):
        lines.append(
            f"papers: {manifest.counts['papers']:,}, citations: "
            f"{manifest.counts.get('citations', 0):,}"
        )
    for note, words in _LEFT_OUT.items():
        if notes.get(note):
            lines.append(f"{words}: {notes[note]:,}")
    if notes.get("skipped"):
        lines.append(f"bad rows left out: {notes['skipped']:,}")
        lines += [f"  {each}" for each in list_in(notes.get("bad_rows"))]
    return lines


def verify(path: Path, progress: Progress | None = None) -> Manifest:
    """Recompute every digest of imported queries or of a generated literature.

    Raises:
        DataMissing: nothing finished is there.
        DataVersion: it has another format version.
        DataDamaged: a file is absent, or differs from the manifest or is not in it.
    """
    kind = load_manifest(path).kind
    if kind == QUERIES_KIND:
        read_queries_manifest(path)
    elif kind == GENERATED_KIND:
        read_manifest(path, kind=GENERATED_KIND, version=GENERATED_VERSION)
    return verify_folder(path, progress)
