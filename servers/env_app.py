"""The application of an environment server: the protocol, what surrounds it, and who may enter."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from agentgym_suite.servers.gate import Gate
from agentgym_suite.servers.hosting import EnvHost
from agentgym_suite.servers.problems import Problem, answer_error
from agentgym_suite.servers.protocol import EnvProtocol

PUBLIC_PATHS = ("/healthz", "/readyz")
COMPAT_PREFIX = "/compat/"


def env_app(
    host: EnvHost,
    *,
    token: str | None = None,
    hosts: Sequence[str] = (),
    more_routes: Sequence[BaseRoute] = (),
) -> ASGIApp:
    """The application of an environment server.

    Args:
        host: the environments.
        token: the bearer token; None for a server that trusts whoever reaches it.
        hosts: accepted ``Host`` names; empty for any.
        more_routes: pages and dialects beside the protocol.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await host.start()
        try:
            yield
        finally:
            await host.stop()

    app = Starlette(
        routes=[*EnvProtocol(host).routes, *more_routes],
        lifespan=lifespan,
        exception_handlers=dict.fromkeys((Problem, HTTPException, Exception), answer_error),
    )
    app.router.redirect_slashes = False
    return Gate(
        app, token=token, hosts=hosts, public_paths=PUBLIC_PATHS, basic_prefix=COMPAT_PREFIX
    )
