"""The application around the routes of a server that searches: start, stop, access, figures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from agentgym_suite.servers.gate import Gate
from agentgym_suite.servers.http_metrics import HttpMetrics, metrics_response
from agentgym_suite.servers.problems import (
    JSON_TYPE,
    Problem,
    Respond,
    answer_error,
    encode_json,
    problem_response,
)
from agentgym_suite.servers.search_service import SearchService

PUBLIC_PATHS = ("/healthz", "/readyz")
METRICS_PATH = "/metrics"

Page = Callable[[Request], Awaitable[Response]]


class SearchPages:
    """What every server that searches says of itself.

    Args:
        service: what searches.
    """

    def __init__(self, service: SearchService) -> None:
        self._service = service

    @property
    def pages(self) -> dict[str, Page]:
        """The handlers by their addresses."""
        return {
            "/healthz": self.healthz,
            "/readyz": self.readyz,
            "/stats": self.stats,
            METRICS_PATH: self.metrics,
        }

    async def healthz(self, request: Request) -> Response:
        """The process is alive."""
        return json_response({"status": "ok"})

    async def readyz(self, request: Request) -> Response:
        """Whether searches are answered, and why not."""
        status, reason = self._service.status
        page = {"status": status, "reason": reason}
        return json_response(page, 200 if status == "ready" else 503)

    async def stats(self, request: Request) -> Response:
        """What was done so far."""
        return json_response(self._service.figures.page(self._service.load))

    async def metrics(self, request: Request) -> Response:
        """The figures for Prometheus."""
        return metrics_response(self._service.figures.registry)


def search_app(
    routes: Sequence[Route],
    service: SearchService,
    *,
    token: str | None = None,
    hosts: Sequence[str] = (),
    public_metrics: bool = False,
    key_header: str = "",
    respond: Respond = problem_response,
) -> ASGIApp:
    """The application of a server that searches.

    Args:
        routes: its whole route table.
        service: what searches; closed at the end.
        token: the bearer token; None for a server that trusts whoever reaches it.
        hosts: accepted ``Host`` names; empty for any.
        public_metrics: whether ``/metrics`` needs no token.
        key_header: a header that may carry the token too; empty for none.
        respond: makes the answer that is an error.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        warm_up = asyncio.create_task(service.warm_up())
        try:
            yield
        finally:
            service.drain()
            warm_up.cancel()
            with suppress(asyncio.CancelledError):
                await warm_up
            await service.close()

    handler = partial(answer_error, respond=respond)
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers=dict.fromkeys((Problem, HTTPException, Exception), handler),
    )
    app.router.redirect_slashes = False
    gate = Gate(
        app,
        token=token,
        hosts=hosts,
        public_paths=(*PUBLIC_PATHS, METRICS_PATH) if public_metrics else PUBLIC_PATHS,
        key_header=key_header,
        respond=respond,
    )
    return HttpMetrics(gate, service.figures.registry, routes)


def json_response(value: Any, status: int = 200) -> Response:
    """A value as JSON."""
    return Response(encode_json(value), status, media_type=JSON_TYPE)
