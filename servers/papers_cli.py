"""``agentgym-suite serve papers``: a store of papers over HTTP for the agents that search it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from agentgym_suite.servers.serve_options import (
    access_token,
    add_address,
    add_search_limits,
    run_search_server,
    say,
    thread_count,
)


def register_papers(kinds: Any) -> None:
    """Add ``papers`` to what can be served."""
    parser = kinds.add_parser(
        "papers",
        help="a store of papers for StepPO, PaperScout and Lewen clients",
        description="Papers for questions, one by one, and along their citations, at the addresses "
        "of Lewen's API (GET /paper/search and others). The token may come as X-API-Key.",
    )
    parser.add_argument(
        "--store",
        required=True,
        type=Path,
        metavar="DIR",
        help="a store of `agentgym-suite index build papers` (required)",
    )
    parser.add_argument(
        "--vectors",
        type=Path,
        metavar="DIR",
        help="its vectors, for dense and hybrid searches (DIR-dense beside the store, if there)",
    )
    add_address(parser, port=4000)
    parser.add_argument(
        "--threads",
        type=thread_count,
        default=os.cpu_count() or 1,
        metavar="N",
        help="requests worked on at a time (the cores of this machine)",
    )
    add_search_limits(parser, timeout="longest work on a request")
    parser.set_defaults(run=serve_papers)


def serve_papers(args: argparse.Namespace) -> int:
    """Run a paper server until it is stopped."""
    from contextlib import closing

    from agentgym_suite.indexes.paper_index import PaperIndex
    from agentgym_suite.indexes.qdrant_cli import API_KEY
    from agentgym_suite.servers.http_server import address_of, check_free, open_socket
    from agentgym_suite.servers.paper_service import PaperService, PaperSettings
    from agentgym_suite.servers.papers import papers_app

    token = access_token(args)
    settings = PaperSettings(
        threads=args.threads, queue=args.queue, search_timeout_s=args.search_timeout
    )
    # requests side by side must not ask for more cores than there are
    own_threads = max(1, (os.cpu_count() or 1) // args.threads)
    check_free(args.host, args.port)
    opened = PaperIndex.open(
        args.store,
        vectors=args.vectors,
        api_key=os.environ.get(API_KEY),
        threads=own_threads,
    )
    with closing(opened) as index, open_socket(args.host, args.port) as listener:
        service = PaperService(index, settings)
        say(
            f"{args.store} ({len(index):,} papers, {', '.join(index.retrievals)}) "
            f"at {address_of(listener)} (/paper/search). Ctrl-C stops the server."
        )
        run_search_server(papers_app, service, listener, args, token)
    return 0
