"""The command ``agentgym-suite index build KIND``: one subcommand for each kind of index."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from agentgym_suite.data import MANIFEST_NAME, Progress
from agentgym_suite.errors import UsageError
from agentgym_suite.files import named_place, partial_folder, remove_folder
from agentgym_suite.indexes import papers_cli, qdrant_cli
from agentgym_suite.indexes.opening import index_manifest

_Build = Callable[[argparse.Namespace, Progress], object]

_CORPUS = (
    "rows with id and contents, or title and text: JSON lines or one JSON list, also .gz or .xz; "
    "must stay where it is, as long as it is neither packed nor a list"
)


def register(
    actions: argparse._SubParsersAction[argparse.ArgumentParser], describe: Callable[[Path], int]
) -> None:
    """Add ``build`` and its kinds.

    Args:
        actions: the actions of ``index``.
        describe: prints what was built.
    """
    build = actions.add_parser("build", help="build an index of a corpus of passages")
    kinds = build.add_subparsers(title="kinds", metavar="KIND", required=True)

    def add(
        name: str, help_text: str, run: _Build, corpus: str = _CORPUS
    ) -> argparse.ArgumentParser:
        parser = kinds.add_parser(name, help=help_text)
        parser.add_argument(
            "--corpus", type=Path, required=name != "hybrid", metavar="FILE", help=corpus
        )
        parser.add_argument(
            "--out", type=Path, required=True, metavar="DIR", help="the new index's folder"
        )
        parser.add_argument(
            "--restart",
            action="store_true",
            help="first remove what is there, finished or not, instead of going on with it",
        )
        parser.set_defaults(run=lambda args: _run(args, run, describe))
        return parser

    bm25 = add("bm25", "words, ranked exactly as Lucene does", _build_bm25)
    bm25.add_argument(
        "--workers", type=int, default=1, metavar="N", help="processes that analyse (default: 1)"
    )
    add("lucene", "the same by Lucene itself; needs that extra", _build_lucene)
    _add_fts5_arguments(add("fts5", "words, by SQLite", _build_fts5))
    _add_dense_arguments(add("dense", "vectors, by FAISS; needs the extra retrieval", _build_dense))
    qdrant = add("qdrant", "vectors, by Qdrant; needs the extra retrieval", qdrant_cli.build)
    _add_encoder_arguments(qdrant)
    qdrant_cli.add_qdrant_arguments(qdrant)
    papers = add(
        "papers",
        "a store of papers: texts, citations, words, vectors",
        papers_cli.build,
        papers_cli.CORPUS,
    )
    papers_cli.add_papers_arguments(papers)
    _add_dense_arguments(papers)
    hybrid = add("hybrid", "fts5 and dense, fused by rank", _build_hybrid)
    hybrid.add_argument(
        "--sparse", type=Path, metavar="DIR", help="a finished fts5 or bm25 index, not --corpus"
    )
    hybrid.add_argument(
        "--dense", type=Path, metavar="DIR", help="a finished dense index, not --corpus"
    )
    hybrid.add_argument(
        "--depth", type=int, default=100, metavar="N", help="passages of each (default: 100)"
    )
    _add_fts5_arguments(hybrid)
    _add_dense_arguments(hybrid)


def _add_fts5_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--title-weight",
        type=float,
        default=2.0,
        metavar="X",
        help="how much a word of the title counts, 0 to 1000 (default: 2)",
    )
    parser.add_argument(
        "--text-weight",
        type=float,
        default=1.0,
        metavar="X",
        help="how much a word of the text counts, 0 to 1000 (default: 1)",
    )
    parser.add_argument(
        "--tokenizer",
        choices=["porter", "unicode61", "trigram"],
        default="porter",
        help="English stems (default), words as they are, or any three characters",
    )


def _add_dense_arguments(parser: argparse.ArgumentParser) -> None:
    _add_encoder_arguments(parser)
    parser.add_argument(
        "--index-type",
        default="auto",
        metavar="TYPE",
        help="of FAISS: auto (default), Flat, fp16, SQ8, HNSW32 or IVF<n>,SQ8",
    )


def _add_encoder_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--encoder",
        default="minilm",
        metavar="NAME",
        help="minilm (default), bge-small, bge-base, bge-large, bge-m3, e5-base, e5-large, or the "
        "folder of a sentence-transformers model",
    )
    parser.add_argument(
        "--batch-size",
        type=int,
        default=32,
        metavar="N",
        help="texts encoded at once (default: 32)",
    )
    parser.add_argument("--threads", type=int, metavar="N", help="default: the processors' number")
    parser.add_argument(
        "--fast", action="store_true", help="train with all threads; not the same every time"
    )


def _run(args: argparse.Namespace, build: _Build, describe: Callable[[Path], int]) -> int:
    # Imported here, so that other commands start without rich.
    from agentgym_suite.progress_bars import progress_bars

    args.out = named_place(args.out)
    if args.restart:
        _remove(args.out)
    with progress_bars() as progress:
        build(args, progress)
    return describe(args.out)


def _remove(out: Path) -> None:
    """Remove an index, or what a build left of one; nothing else."""
    if (out / MANIFEST_NAME).is_file():
        index_manifest(out)
    if partial_folder(out).is_dir() or (out / MANIFEST_NAME).is_file():
        remove_folder(out, _say)


def _build_bm25(args: argparse.Namespace, progress: Progress) -> None:
    from agentgym_suite.indexes.bm25_passages import build_bm25

    build_bm25(args.out, args.corpus, workers=args.workers, progress=progress, on_wait=_say)


def _build_lucene(args: argparse.Namespace, progress: Progress) -> None:
    from agentgym_suite.indexes.bm25_passages import build_lucene

    build_lucene(args.out, args.corpus, progress=progress, on_wait=_say)


def _build_fts5(args: argparse.Namespace, progress: Progress) -> None:
    from agentgym_suite.indexes.fts5_build import build_fts5

    build_fts5(
        args.out,
        args.corpus,
        title_weight=args.title_weight,
        text_weight=args.text_weight,
        tokenizer=args.tokenizer,
        progress=progress,
        on_wait=_say,
    )


def _build_dense(args: argparse.Namespace, progress: Progress) -> None:
    from agentgym_suite.indexes.dense_build import build_dense

    build_dense(
        args.out,
        args.corpus,
        encoder=args.encoder,
        index_type=args.index_type,
        batch_size=args.batch_size,
        threads=args.threads,
        fast=args.fast,
        progress=progress,
        on_wait=_say,
    )


def _build_hybrid(args: argparse.Namespace, progress: Progress) -> None:
    from agentgym_suite.indexes.hybrid import build_hybrid

    sparse, dense = args.sparse, args.dense
    if args.corpus is not None and sparse is None and dense is None:
        sparse = args.out.with_name(args.out.name + "-fts5")
        dense = args.out.with_name(args.out.name + "-dense")
        for out, build in ((sparse, _build_fts5), (dense, _build_dense)):
            if args.restart:
                _remove(out)
            build(argparse.Namespace(**{**vars(args), "out": out}), progress)
    elif args.corpus is not None or sparse is None or dense is None:
        raise UsageError(
            "a hybrid index is made of two: give --corpus, which builds both beside it, or give "
            "--sparse and --dense"
        )
    build_hybrid(args.out, sparse, dense, depth=args.depth, progress=progress, on_wait=_say)


def _say(sentence: str) -> None:
    sys.stderr.write(sentence + "\n")
