"""The options of ``agentgym-suite index build`` that say how and where Qdrant keeps vectors."""

from __future__ import annotations

import argparse
import os
import sys

from agentgym_suite.data import Progress
from agentgym_suite.errors import UsageError
from agentgym_suite.indexes.qdrant_connection import TIMEOUT_S, QdrantServer
from agentgym_suite.indexes.qdrant_points import INT8, PointOptions

API_KEY = "QDRANT_API_KEY"


def add_qdrant_arguments(parser: argparse.ArgumentParser) -> None:
    """Add them to the parser of a kind of index."""
    parser.add_argument(
        "--url",
        metavar="URL",
        help="of a Qdrant server that shall hold the points (default: the engine in this process, "
        f"the points in the index's folder); its key is read from {API_KEY}",
    )
    parser.add_argument(
        "--collection",
        metavar="NAME",
        help="on that server (default: a name made of all that decides its contents)",
    )
    parser.add_argument(
        "--timeout",
        type=int,
        default=TIMEOUT_S,
        metavar="S",
        help=f"seconds for each answer of the server (default: {TIMEOUT_S})",
    )
    parser.add_argument(
        "--quantization",
        choices=[INT8],
        help="keep a byte a number in the memory too, and rescore with the vectors",
    )
    parser.add_argument(
        "--on-disk", action="store_true", help="leave the vectors on the disk when searching"
    )


def qdrant_server(args: argparse.Namespace) -> QdrantServer | None:
    """The server that the options name; None for the engine in this process.

    Raises:
        UsageError: the address or the timeout is wrong, or one of what belongs to a server is
            given without one.
    """
    if args.url is None:
        if args.collection is not None:
            raise UsageError(f"--collection {args.collection} is on no server; give its --url")
        if args.timeout != TIMEOUT_S:
            raise UsageError(f"--timeout {args.timeout} is for no server; give its --url")
        return None
    if args.timeout < 1:
        raise UsageError(f"--timeout is {args.timeout}; give whole seconds, at least 1")
    return QdrantServer(args.url, api_key=os.environ.get(API_KEY), timeout_s=args.timeout)


def point_options(args: argparse.Namespace) -> PointOptions:
    """How the options say the points shall be stored."""
    return PointOptions(quantization=args.quantization, on_disk=args.on_disk)


def build(args: argparse.Namespace, progress: Progress) -> None:
    """Build the index that ``index build qdrant`` asks for."""
    from agentgym_suite.indexes.qdrant_build import build_qdrant

    build_qdrant(
        args.out,
        args.corpus,
        encoder=args.encoder,
        server=qdrant_server(args),
        collection=args.collection,
        options=point_options(args),
        batch_size=args.batch_size,
        threads=args.threads,
        fast=args.fast,
        progress=progress,
        on_wait=_say,
    )


def _say(sentence: str) -> None:
    sys.stderr.write(sentence + "\n")
