"""``agentgym-suite serve retrieval``: an index over HTTP for the trainers that search."""

from __future__ import annotations

import argparse
import os
from typing import Any

from agentgym_suite.servers.serve_options import (
    access_token,
    add_address,
    add_search_limits,
    run_search_server,
    say,
    thread_count,
    whole_number,
)


def register_retrieval(kinds: Any) -> None:
    """Add ``retrieval`` to what can be served."""
    parser = kinds.add_parser(
        "retrieval",
        help="a retrieval index for Search-R1, verl, SkyRL, verl-agent, gem and rLLM clients",
        description="Passages for queries at POST /retrieve, in the shapes that the clients of "
        "Search-R1, verl, SkyRL, verl-agent and gem send; rLLM's server address is that of this "
        "server with /rllm. Those clients send no token: on an open address they need --insecure.",
    )
    parser.add_argument(
        "--index",
        required=True,
        metavar="DIR",
        help="a built index, or the address of another retrieval server (required)",
    )
    add_address(parser, port=8000)
    parser.add_argument(
        "--topk",
        type=whole_number,
        default=3,
        metavar="K",
        help="passages for a query whose request names no number (%(default)s)",
    )
    parser.add_argument(
        "--threads",
        type=thread_count,
        metavar="N",
        help="searches at a time (1 for dense and hybrid indexes, whose searches use all cores "
        "and answer several requests together; the cores of this machine for others)",
    )
    parser.add_argument(
        "--batch-window-ms",
        type=_milliseconds,
        default=0.0,
        metavar="MS",
        help="how long a request to a dense or hybrid index waits for others to be searched with; "
        "0 takes those that wait anyway (%(default)s)",
    )
    add_search_limits(parser, timeout="longest search")
    parser.set_defaults(run=serve_retrieval)


def serve_retrieval(args: argparse.Namespace) -> int:
    """Run a retrieval server until it is stopped."""
    from contextlib import closing

    from agentgym_suite.indexes.opening import open_index
    from agentgym_suite.servers.http_server import address_of, check_free, open_socket
    from agentgym_suite.servers.retrieval import retrieval_app
    from agentgym_suite.servers.retrieval_service import (
        BATCHING_KINDS,
        RetrievalService,
        RetrievalSettings,
    )

    token = access_token(args)
    check_free(args.host, args.port)
    with closing(open_index(args.index)) as index, open_socket(args.host, args.port) as listener:
        own_threads = index.info().get("kind") in BATCHING_KINDS
        settings = RetrievalSettings(
            topk=args.topk,
            threads=args.threads or (1 if own_threads else os.cpu_count() or 1),
            queue=args.queue,
            search_timeout_s=args.search_timeout,
            batch_window_s=args.batch_window_ms / 1_000,
        )
        service = RetrievalService(index, settings)
        say(
            f"{args.index} ({service.kind}, {service.corpus.rows:,} passages) "
            f"at {address_of(listener)}/retrieve. Ctrl-C stops the server."
        )
        run_search_server(retrieval_app, service, listener, args, token)
    return 0


def _milliseconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; give 0 to 1000 milliseconds")
    return value
