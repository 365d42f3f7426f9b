"""The page at ``/`` of an environment server: what is served, who plays, and a form to play.

The server hands out a few files, the same to everybody. All else the page asks for itself, over the
protocol and with the token that its reader gives it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import resources

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    # text of an environment can become markup nowhere, not even by a later mistake in the script
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # scripts and page must be of one version
}

# path -> (file of the package, media type)
_FILES = {
    "/": ("templates/env_page.html", "text/html"),
    "/static/env_page.css": ("static/env_page.css", "text/css"),
    "/static/env_play.css": ("static/env_play.css", "text/css"),
    "/static/env_page.js": ("static/env_page.js", "text/javascript"),
    "/static/env_play.js": ("static/env_play.js", "text/javascript"),
    "/static/env_calls.js": ("static/env_calls.js", "text/javascript"),
    "/static/env_elements.js": ("static/env_elements.js", "text/javascript"),
}
PAGE_PATHS: tuple[str, ...] = tuple(_FILES)
"""The addresses that need no token: they hold nothing of the server's."""


def page_routes() -> list[BaseRoute]:
    """The routes of the page, its files read once for each call."""
    folder = resources.files("agentgym_suite.servers")
    return [
        Route(path, _answering(folder.joinpath(name).read_bytes(), media_type), methods=["GET"])
        for path, (name, media_type) in _FILES.items()
    ]


def _answering(body: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return Response(body, headers=HEADERS, media_type=media_type)

    return answer
