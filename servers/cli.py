"""``agentgym-suite serve``: the shop as a web site, environments and indexes over HTTP."""

from __future__ import annotations

import argparse
import os
from importlib.util import find_spec
from typing import Any

from agentgym_suite.errors import DataError, MissingExtra, UsageError
from agentgym_suite.registry import ENV_IDS, ENVIRONMENTS
from agentgym_suite.servers.papers_cli import register_papers
from agentgym_suite.servers.port_family import command_of, port_range, serve_ports
from agentgym_suite.servers.retrieval_cli import register_retrieval
from agentgym_suite.servers.serve_options import (
    access_token,
    add_access,
    add_address,
    add_queue,
    check_there,
    say,
    seconds,
    thread_count,
    whole_number,
)
from agentgym_suite.servers.sessions import LONGEST_LEASE_S

DIALECTS = ("openenv", "agentgym")


def register(commands: Any) -> None:
    """Add ``serve`` and what it can serve."""
    serve = commands.add_parser("serve", help="serve the shop, environments or an index over HTTP")
    kinds = serve.add_subparsers(title="what to serve", metavar="WHAT", required=True)
    _register_webshop(kinds)
    _register_env(kinds)
    register_retrieval(kinds)
    register_papers(kinds)


def _register_webshop(kinds: Any) -> None:
    parser = kinds.add_parser(
        "webshop",
        help="the shop as a web site",
        description="The shop as a web site for people, with the same pages as JSON under /api.",
    )
    add_address(parser, port=3000)
    parser.add_argument(
        "--data", metavar="PATH", help="official files or a built store (the embedded catalogue)"
    )
    parser.add_argument(
        "--goals",
        choices=("human", "synthetic"),
        help="whose wishes (human where the data has a hundred or more)",
    )
    parser.add_argument(
        "--search", choices=("bm25", "lucene"), default="bm25", help="the index (%(default)s)"
    )
    parser.add_argument("--attrs", action="store_true", help="products have an attributes page")
    parser.add_argument(
        "--show-reward-parts", action="store_true", help="tell how a score came about"
    )
    parser.add_argument(
        "--show-goals",
        action="store_true",
        help="tell each goal, which is the answer, at /api/goals/{id}",
    )
    parser.add_argument(
        "--buy-by-get", action="store_true", help="let the original's purchase address work"
    )
    parser.add_argument(
        "--log", metavar="FILE", help="append one JSON line a page to this file (none)"
    )
    _add_limits(parser, max_sessions=10_000, lease_s=3_600)
    parser.set_defaults(run=serve_webshop)


def _register_env(kinds: Any) -> None:
    parser = kinds.add_parser(
        "env",
        help="environments for training and evaluation elsewhere",
        description="Environments over the protocol agentgym-suite/1; "
        "use them with gymnasium.make(ID, server_url=ADDRESS).",
    )
    add_address(parser, port=8100).add_argument(
        "--ports",
        type=port_range,
        metavar="A-B",
        help="a process of its own for each of these ports, instead of --port (none)",
    )
    parser.add_argument(
        "--env",
        action="append",
        choices=ENV_IDS,
        metavar="ID",
        help=f"an environment; may be repeated ({', '.join(ENV_IDS)})",
    )
    parser.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="ID=PATH",
        help="the data of an environment; may be repeated (its embedded world)",
    )
    _add_limits(parser, max_sessions=256, lease_s=600)
    parser.add_argument(
        "--step-timeout",
        type=seconds,
        default=60,
        metavar="S",
        help="longest reset or step (%(default)s)",
    )
    add_queue(parser, limit=1_024, drain_s=30)
    parser.add_argument(
        "--compat",
        type=_dialects,
        default=(),
        metavar="A[,B]",
        help=f"clients of other suites that may play too: {', '.join(DIALECTS)} (none)",
    )
    parser.add_argument(
        "--public-metrics", action="store_true", help="let /metrics be read without the token"
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="always 1, since sessions live in one process; see --ports (%(default)s)",
    )
    add_access(parser)
    parser.set_defaults(run=serve_env)


def serve_webshop(args: argparse.Namespace) -> int:
    """Run the shop's site until it is stopped."""
    from agentgym_suite.progress_bars import progress_bars
    from agentgym_suite.servers.http_server import (
        accepted_hosts,
        address_of,
        check_free,
        open_socket,
        run_server,
    )
    from agentgym_suite.servers.shop import ShopSettings, ShopSite, shop_app
    from agentgym_suite.servers.shop_log import TrajectoryLog
    from agentgym_suite.servers.shop_visits import Visits
    from agentgym_suite.webshop.catalogue import open_catalogue

    check_free(args.host, args.port)
    with progress_bars() as progress:
        catalogue = open_catalogue(
            args.data, goals=args.goals, search=args.search, progress=progress
        )
    site = ShopSite(
        Visits(
            catalogue,
            max_sessions=args.max_sessions,
            lease_s=args.lease,
            show_attrs=args.attrs,
        ),
        ShopSettings(
            show_parts=args.show_reward_parts,
            show_goals=args.show_goals,
            buy_by_get=args.buy_by_get,
        ),
        log=TrajectoryLog(args.log) if args.log else None,
        threads=args.threads,
    )
    with open_socket(args.host, args.port) as listener:
        say(
            f"The shop is open at {address_of(listener)} "
            f"({catalogue.size:,} products, {len(catalogue.goals):,} customers). Ctrl-C closes it."
        )
        run_server(
            shop_app(site, hosts=accepted_hosts(args.host)),
            listener,
            drain=site.drain,
            in_use=lambda: False,
            drain_s=0,
        )
    return 0


def serve_env(args: argparse.Namespace) -> int:
    """Run an environment server until it is stopped."""
    from agentgym_suite.servers.env_app import env_app
    from agentgym_suite.servers.env_specs import Served
    from agentgym_suite.servers.hosting import EnvHost, Limits
    from agentgym_suite.servers.http_server import (
        accepted_hosts,
        address_of,
        open_socket,
        run_server,
    )

    if args.workers != 1:
        raise UsageError(
            f"--workers is {args.workers}, but sessions live in one process; "
            "use --ports for one server per port and give clients all addresses"
        )
    token = access_token(args)
    env_ids = tuple(dict.fromkeys(args.env or ENV_IDS))
    data = _data_of(args.data, env_ids)
    for environment in ENVIRONMENTS:
        if environment.id in data:
            check_there(data[environment.id], environment.name)
    if "openenv" in args.compat and find_spec("websockets") is None:
        raise MissingExtra("server", "the dialect of OpenEnv")
    if args.ports is not None:
        return serve_ports(args.ports, args.host, command_of(args))
    served = [Served(i, {"data": data[i]} if i in data else {}) for i in env_ids]
    limits = Limits(
        max_sessions=args.max_sessions,
        lease_s=args.lease,
        step_timeout_s=args.step_timeout,
        threads=args.threads,
        queue=args.queue,
    )
    host = EnvHost(served, limits)
    with open_socket(args.host, args.port) as listener:
        say(
            f"Loading; then {', '.join(env_ids)} at {address_of(listener)}. "
            "Ctrl-C stops the server."
        )
        run_server(
            env_app(
                host,
                token=token,
                hosts=accepted_hosts(args.host),
                compat=args.compat,
                public_metrics=args.public_metrics,
            ),
            listener,
            drain=host.drain,
            in_use=lambda: len(host.table) > 0,
            drain_s=args.drain,
            useless=lambda: host.useless,
            sockets=bool(args.compat),
        )
    if host.useless:
        raise DataError(f"{host.failure}; nothing else was to be served")
    return 0


def _add_limits(parser: argparse.ArgumentParser, *, max_sessions: int, lease_s: int) -> None:
    parser.add_argument(
        "--max-sessions",
        type=whole_number,
        default=max_sessions,
        metavar="N",
        help="sessions at a time (%(default)s)",
    )
    parser.add_argument(
        "--lease",
        type=_lease,
        default=lease_s,
        metavar="S",
        help="seconds that a silent session stays (%(default)s)",
    )
    parser.add_argument(
        "--threads",
        type=thread_count,
        default=max(2, os.cpu_count() or 1),
        metavar="N",
        help="requests worked on at a time (the cores of this machine, at least 2)",
    )


def _data_of(pairs: list[str], env_ids: tuple[str, ...]) -> dict[str, str]:
    data: dict[str, str] = {}
    for pair in pairs:
        env_id, equals, path = pair.partition("=")
        if env_id not in env_ids or not equals or not path:
            raise UsageError(f"--data is {pair!r}; give ID=PATH with one of {', '.join(env_ids)}")
        if data.setdefault(env_id, path) != path:
            raise UsageError(f"--data names {data[env_id]!r} and {path!r} for {env_id}; give one")
    return data


def _dialects(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(text.split(",")))
    strange = [name for name in names if name not in DIALECTS]
    if strange:
        raise argparse.ArgumentTypeError(f"{strange[0]!r} is no dialect; use {', '.join(DIALECTS)}")
    return names


def _lease(text: str) -> float:
    value = seconds(text)
    if not 1 <= value <= LONGEST_LEASE_S:
        raise argparse.ArgumentTypeError(f"{text} is no lease; give 1 to {LONGEST_LEASE_S} seconds")
    return value
