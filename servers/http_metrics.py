"""Counts and times of HTTP requests, as Prometheus reads them.

The registry is the application's own: a second application in one process has its own figures.
Labels are route templates, never what a client wrote.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
)
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECONDS_BUCKETS = (
    0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0,
)  # fmt: skip
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER = "other"


class HttpMetrics:
    """Measures an application; outermost, so that refused requests count too.

    Args:
        app: what is measured.
        registry: where the figures go.
        routes: the routes, in the order in which they are tried; each has a label of its own.
    """

    def __init__(
        self, app: ASGIApp, registry: CollectorRegistry, routes: Sequence[BaseRoute]
    ) -> None:
        self._app = app
        self._routes = tuple(route for route in routes if isinstance(route, Route | Mount))
        self._requests = Counter(
            "agentgym_http_requests_total",
            "HTTP requests answered",
            ("route", "method", "status"),
            registry=registry,
        )
        self._seconds = Histogram(
            "agentgym_http_request_seconds",
            "From the head of a request to the end of its answer",
            ("route",),
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500  # of an application that raises before it answers

        async def send_and_look(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        began = time.perf_counter()
        try:
            await self._app(scope, receive, send_and_look)
        finally:
            route = self._label(scope["path"])
            method = scope["method"] if scope["method"] in _METHODS else _OTHER
            self._requests.labels(route, method, str(status)).inc()
            self._seconds.labels(route).observe(time.perf_counter() - began)

    def _label(self, path: str) -> str:
        matching = (route.path for route in self._routes if route.path_regex.match(path))
        return next(matching, _OTHER)


def metrics_response(registry: CollectorRegistry) -> Response:
    """The page that Prometheus reads."""
    return Response(generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
