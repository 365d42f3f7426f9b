"""The application of an environment server: the protocol, what surrounds it, and who may enter."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from agentgym_suite.servers.agentgym import agentgym_routes
from agentgym_suite.servers.env_page import PAGE_PATHS, page_routes
from agentgym_suite.servers.gate import Gate
from agentgym_suite.servers.hosting import EnvHost
from agentgym_suite.servers.http_metrics import HttpMetrics
from agentgym_suite.servers.openenv import openenv_routes
from agentgym_suite.servers.problems import Problem, answer_error
from agentgym_suite.servers.protocol import EnvProtocol

PUBLIC_PATHS = ("/healthz", "/readyz")
METRICS_PATH = "/metrics"
COMPAT_PREFIX = "/compat/"
# name -> its routes, given the environments and whether a token guards them
DIALECTS: Mapping[str, Callable[[EnvHost, bool], list[BaseRoute]]] = {
    "openenv": lambda host, guarded: openenv_routes(host),
    "agentgym": lambda host, guarded: agentgym_routes(host, guarded=guarded),
}


def env_app(
    host: EnvHost,
    *,
    token: str | None = None,
    hosts: Sequence[str] = (),
    compat: Sequence[str] = (),
    public_metrics: bool = False,
    more_routes: Sequence[BaseRoute] = (),
) -> ASGIApp:
    """The application of an environment server.

    Args:
        host: the environments.
        token: the bearer token; None for a server that trusts whoever reaches it.
        hosts: accepted ``Host`` names; empty for any.
        compat: dialects beside the protocol, names of ``DIALECTS``.
        public_metrics: whether ``/metrics`` needs no token.
        more_routes: what else is to be served.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await host.start()
        try:
            yield
        finally:
            await host.stop()

    guarded = token is not None
    dialects = [route for name in compat for route in DIALECTS[name](host, guarded)]
    # the page last: routes are tried in order, and steps are what comes most
    routes = [*EnvProtocol(host).routes, *dialects, *more_routes, *page_routes()]
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers=dict.fromkeys((Problem, HTTPException, Exception), answer_error),
    )
    app.router.redirect_slashes = False
    public = (*PUBLIC_PATHS, *PAGE_PATHS, *([METRICS_PATH] if public_metrics else []))
    gate = Gate(
        app,
        token=token,
        hosts=hosts,
        public_paths=public,
        basic_prefix=COMPAT_PREFIX,
    )
    return HttpMetrics(gate, host.figures.registry, routes)
