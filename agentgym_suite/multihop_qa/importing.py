"""``data import``, ``generate`` and ``verify`` of question sets: what the commands call."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

from agentgym_suite.chosen_data import GivenPath
from agentgym_suite.data import (
    Contents,
    Json,
    Manifest,
    Progress,
    load_manifest,
    publish,
    sha256_file,
    verify_folder,
)
from agentgym_suite.errors import DataMissing, UsageError
from agentgym_suite.files import list_in, table_in
from agentgym_suite.multihop_qa.choosing import plan_import
from agentgym_suite.multihop_qa.corpora import PUBLISHED_DUMPS, copy_corpus
from agentgym_suite.multihop_qa.generated_files import publish_generated
from agentgym_suite.multihop_qa.import_plan import publish_questions
from agentgym_suite.multihop_qa.question_folder import (
    CORPUS_NAME,
    QUESTIONS_KIND,
    SPLITS,
    read_questions_manifest,
)
from agentgym_suite.official_rows import BadRows
from agentgym_suite.source_texts import find_texts

CORPUS_KIND = "qa-corpus"
CORPUS_VERSION = 1
WIKI_18 = "wiki-18"


def add_import_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``data import`` for the question sets and ``wiki-18``."""
    add = parser.add_argument
    add(
        "paths",
        nargs="*",
        type=Path,
        metavar="PATH",
        help="files, folders or zip archives; format, data set and split are told by their rows "
        "and names",
    )
    for split in SPLITS:
        add(f"--{split}", nargs="+", type=Path, metavar="FILE", help=f"files of the {split} split")
    for option, words in (
        ("--questions", "the archive of 2Wiki's questions"),
        ("--archive", "the archive of MuSiQue"),
        ("--sets", "the folder of FlashRAG's sets"),
        ("--parquet", "Search-R1's or veRL's parquet files"),
    ):
        add(option, type=Path, metavar="PATH", help=words)
    add("--aliases", type=Path, metavar="FILE", help="2Wiki's id_aliases, for other golds")
    add("--dataset", default="", metavar="NAME", help="the data set of rows that do not say")
    add("--full", action="store_true", help="play MuSiQue-Full, unanswerable questions too")
    add(
        "--corpus",
        "--passages",
        type=Path,
        metavar="PATH",
        help="passages to search, instead of those in the questions' contexts",
    )
    add("--no-corpus", action="store_true", help="questions only")
    add("--index", type=Path, metavar="PATH", help="the published index of wiki-18; only noted")
    add("--skip-bad", action="store_true", help="leave bad rows out, count and list them")
    add("--out", type=Path, metavar="DIR", help="where the questions shall be")


def run_import(
    args: argparse.Namespace,
    progress: Progress | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Path:
    """Bring official questions or passages into the data home; return the folder.

    Raises:
        DataMissing: a file is not there, or holds nothing that is known.
        DataDamaged: a file is damaged, or a row is bad and ``--skip-bad`` is not given.
        DataError: something else is in that place already.
        DiskFull: no space was left.
        UsageError: an option is wrong, or a file does not say which data set it is.
        MissingExtra: a parquet file without the package that reads it.
    """
    if args.out is None:
        raise UsageError("the questions need a place; add --out DIR")
    if getattr(args, "name", "") == WIKI_18:
        return _import_passages(args, progress, on_wait)
    given = [GivenPath(path) for path in args.paths]
    for split in SPLITS:
        given += [GivenPath(path, split) for path in getattr(args, split) or ()]
    for path in (args.questions, args.archive, args.parquet, args.sets):
        given += [GivenPath(path)] if path is not None else []
    if not given:
        raise UsageError("say where the questions are; give files, or --train FILE --dev FILE")
    if args.no_corpus and args.corpus is not None:
        raise UsageError("--corpus gives passages and --no-corpus wants none; give one of them")
    plan = plan_import(
        given,
        dataset=args.dataset,
        full=args.full,
        aliases=args.aliases,
        corpus=args.corpus,
        without_corpus=args.no_corpus,
        skip_bad=args.skip_bad,
    )
    if not plan.files:
        raise DataMissing("the given files hold passages and no questions; give questions too")
    publish_questions(args.out, plan, progress, on_wait)
    return Path(args.out)


def add_generate_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``data generate`` for question sets."""
    add = parser.add_argument
    add("--size", default="small", choices=("small", "medium", "large"), help="how many passages")
    add("--seed", type=int, default=0, metavar="S", help="which world (default: 0)")
    add("--out", type=Path, required=True, metavar="DIR", help="where the files shall be")


def run_generate(
    args: argparse.Namespace,
    progress: Progress | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Path:
    """Write a generated encyclopedia in the official formats; return its folder.

    Raises:
        DataError: something else is in that place already.
        DiskFull: no space was left.
    """
    publish_generated(args.out, size=args.size, seed=args.seed, progress=progress, on_wait=on_wait)
    return Path(args.out)


def describe(path: Path) -> list[str]:
    """For people to read: rows of each data set, what differs from the published, what is bad.

    Raises:
        DataMissing: nothing finished is there.
    """
    notes = load_manifest(path).notes
    lines = []
    for dataset, splits in table_in(notes.get("rows")).items():
        told = ", ".join(f"{split} {count:,}" for split, count in table_in(splits).items())
        lines.append(f"{dataset}: {told}")
    lines += [f"differs: {each}" for each in list_in(notes.get("differences"))]
    hidden = table_in(notes.get("without_answers"))
    lines += [f"without answers: {count:,} of {split}" for split, count in hidden.items()]
    if notes.get("repeated"):
        lines.append(f"repeated questions left out: {notes['repeated']:,}")
    lines += _corpus_lines(path, table_in(notes.get("corpus")))
    if notes.get("skipped"):
        lines.append(f"bad rows left out: {notes['skipped']:,}")
        lines += [f"  {each}" for each in list_in(notes.get("bad_rows"))]
    return lines


def verify(path: Path, progress: Progress | None = None) -> Manifest:
    """Recompute every digest of imported questions or passages.

    Raises:
        DataMissing: nothing finished is there.
        DataVersion: it has another format version.
        DataDamaged: a file is absent, or differs from the manifest or is not in it.
    """
    if load_manifest(path).kind == QUESTIONS_KIND:
        read_questions_manifest(path)
    return verify_folder(path, progress)


def _import_passages(
    args: argparse.Namespace,
    progress: Progress | None,
    on_wait: Callable[[str], None] | None,
) -> Path:
    places = [*args.paths, *([args.corpus] if args.corpus is not None else [])]
    if not places:
        raise UsageError("say where the passages are; give --corpus wiki-18.jsonl.gz")
    texts = [text for place in places for text in find_texts(place)]
    inputs: dict[str, Json] = {
        "files": [sha256_file(text.path, progress) for text in texts],
        "skip_bad": args.skip_bad,
    }

    def write(partial: Path) -> Contents:
        bad = BadRows(args.skip_bad)
        count = copy_corpus(partial / CORPUS_NAME, texts, bad, progress)
        if not count:
            raise DataMissing(f"{places[0]} holds no passage; give another file")
        corpus: dict[str, Json] = {
            "rule": "as given",
            "paragraphs": count,
            "published": PUBLISHED_DUMPS[WIKI_18],
        }
        notes: dict[str, Json] = {
            "corpus": corpus,
            "skipped": bad.count,
            "bad_rows": list(bad.listed),
            "published_index": "" if args.index is None else str(args.index),
        }
        return Contents({"passages": count}, notes)

    publish(
        args.out,
        kind=CORPUS_KIND,
        version=CORPUS_VERSION,
        inputs=inputs,
        write=write,
        progress=progress,
        on_wait=on_wait,
    )
    return Path(args.out)


def _corpus_lines(path: Path, corpus: Mapping[str, Json]) -> list[str]:
    if not corpus:
        return []
    manifest = load_manifest(path)
    made, published = manifest.counts["passages"], corpus.get("published")
    lines = [f"passages: {made:,} of {corpus.get('paragraphs'):,} ({corpus.get('rule')})"]
    if published and published != made:
        lines.append(f"differs: {made:,} passages, {published:,} are published")
    lines.append(f"index them: agentgym-suite index build fts5 --corpus {path / CORPUS_NAME}")
    if manifest.notes.get("published_index"):
        lines.append(f"the published index lies in {manifest.notes['published_index']}")
    return lines
