"""What several kinds of servers take on the command line, and how their words are checked."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym_suite.errors import DataMissing, UsageError

if TYPE_CHECKING:
    from socket import socket

    from starlette.types import ASGIApp

    from agentgym_suite.servers.search_service import SearchService

MOST_THREADS = 1_024
TOKEN_VARIABLE = "AGENTGYM_SUITE_TOKEN"


def add_address(parser: argparse.ArgumentParser, *, port: int) -> argparse._MutuallyExclusiveGroup:
    """Add ``--host`` and ``--port``; what else may say the port belongs into the group returned."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    ports = parser.add_mutually_exclusive_group()
    ports.add_argument(
        "--port",
        type=port_number,
        default=port,
        help="port to listen on, 0 for a free one (%(default)s)",
    )
    return ports


def add_queue(parser: argparse.ArgumentParser, *, limit: int, drain_s: int) -> None:
    """Add ``--queue`` and ``--drain``."""
    parser.add_argument(
        "--queue",
        type=whole_number,
        default=limit,
        metavar="N",
        help="requests that may wait for a thread (%(default)s)",
    )
    parser.add_argument(
        "--drain",
        type=seconds,
        default=drain_s,
        metavar="S",
        help="seconds to finish after SIGTERM (%(default)s)",
    )


def add_access(parser: argparse.ArgumentParser) -> None:
    """Add ``--token-file`` and ``--insecure``."""
    access = parser.add_mutually_exclusive_group()
    access.add_argument(
        "--token-file", metavar="FILE", help=f"the bearer token (that of {TOKEN_VARIABLE})"
    )
    access.add_argument("--insecure", action="store_true", help="no token on an open address")


def add_search_limits(parser: argparse.ArgumentParser, *, timeout: str) -> None:
    """Add ``--search-timeout``, the queue, ``--public-metrics`` and the access.

    Args:
        parser: of a server that searches.
        timeout: what takes at most so long, in words.
    """
    parser.add_argument(
        "--search-timeout",
        type=seconds,
        default=60,
        metavar="S",
        help=f"{timeout} (%(default)s)",
    )
    add_queue(parser, limit=256, drain_s=30)
    parser.add_argument(
        "--public-metrics", action="store_true", help="let /metrics be read without the token"
    )
    add_access(parser)


def access_token(args: argparse.Namespace) -> str | None:
    """The token of a server with ``add_access``; None for one that only this machine can reach.

    Raises:
        UsageError: there is none and others can reach the address, or its file is of no use.
    """
    from agentgym_suite.servers.http_server import is_loopback

    token = _read_token(args.token_file)
    if token is None and not is_loopback(args.host) and not args.insecure:
        raise UsageError(
            f"--host {args.host} can be reached by others and there is no token; "
            f"give --token-file or {TOKEN_VARIABLE}, or --insecure"
        )
    return token


def run_search_server(
    app_of: Callable[..., ASGIApp],
    service: SearchService,
    listener: socket,
    args: argparse.Namespace,
    token: str | None,
) -> None:
    """Run a server with ``add_address`` and ``add_search_limits`` until it is stopped.

    Args:
        app_of: makes its application of the service; takes what ``search_app`` takes.
        service: what searches.
        listener: where it is reached.
        args: what stood on the command line.
        token: as ``access_token`` gave it.
    """
    from agentgym_suite.servers.http_server import accepted_hosts, run_server

    run_server(
        app_of(
            service,
            token=token,
            hosts=accepted_hosts(args.host),
            public_metrics=args.public_metrics,
        ),
        listener,
        drain=service.drain,
        in_use=lambda: service.in_use,
        drain_s=args.drain,
    )


def check_there(data: str, environment: str) -> None:
    """Refuse data that are nowhere, before a server begins to listen for nothing.

    Args:
        data: a name or a path, as an environment takes it.
        environment: its folder in the data home.

    Raises:
        DataMissing: there is neither such a data set nor such a file or folder.
        UsageError: no path can be like that.
    """
    from agentgym_suite.arguments import check_path, shown
    from agentgym_suite.data import named_data

    if named_data(data, environment) is None and not Path(check_path("data", data)).exists():
        raise DataMissing(
            f"data is {shown(data)}, neither a file or folder nor a data set here; "
            "`agentgym-suite data list` shows what there is"
        )


def say(text: str) -> None:
    """Tell the person at the terminal."""
    from agentgym_suite.console import console

    console(stderr=True, highlight=False).print(text, soft_wrap=True)


def whole_number(text: str) -> int:
    """A whole number from 1 on."""
    if not (text.isascii() and text.isdigit() and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def thread_count(text: str) -> int:
    """A number of threads that a process can have."""
    count = whole_number(text)
    if count > MOST_THREADS:
        raise argparse.ArgumentTypeError(
            f"{text[:80]!r} are too many threads; give at most {MOST_THREADS}"
        )
    return count


def port_number(text: str) -> int:
    """A TCP port."""
    if not (text.isascii() and text.isdigit() and int(text) < 1 << 16):
        raise argparse.ArgumentTypeError(f"{text!r} is no port; give 0 to 65535")
    return int(text)


def seconds(text: str) -> float:
    """A time above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def _read_token(path: str | None) -> str | None:
    if path is None:
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        return token or None
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--token-file {path} cannot be read ({error}); name another") from None
    if not token:
        raise UsageError(f"--token-file {path} is empty; put the token into it")
    return token
