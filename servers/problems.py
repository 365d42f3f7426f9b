"""Errors as clients see them: RFC 9457 documents with one sentence of detail.

Never a traceback, a path or an internal message: those go to the log, under the request id that
the document carries.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentgym_suite.errors import AgentGymSuiteError

TYPE_PREFIX = "urn:agentgym-suite:error:"
JSON_TYPE = "application/json"
PROBLEM_TYPE = "application/problem+json"

# slug -> (status, title)
PROBLEMS: Mapping[str, tuple[int, str]] = {
    "bad-json": (400, "The body is not a JSON object"),
    "unauthorized": (401, "A valid token is needed"),
    "no-env": (404, "No such environment"),
    "no-session": (404, "No such session"),
    "not-found": (404, "No such address"),
    "method": (405, "Method not allowed"),
    "busy": (409, "The session is at work"),
    "broken": (409, "The session is broken"),
    "not-reset": (409, "The session has no episode yet"),
    "episode-over": (409, "The episode is over"),
    "step-index": (409, "Not the next step"),
    "action-mismatch": (409, "This step was another action"),
    "key-mismatch": (409, "This key belonged to another request"),
    "lease-expired": (410, "The session has ended"),
    "too-slow": (408, "The body came too slowly"),
    "too-large": (413, "Too large"),
    "media-type": (415, "Not a form that this server reads"),
    "forbidden-host": (421, "Not a host of this server"),
    "invalid": (422, "A field is wrong"),
    "forbidden-kwarg": (422, "Not settable by a client"),
    "no-task": (422, "No such task"),
    "full": (429, "All sessions are in use"),
    "env-error": (500, "The environment failed"),
    "loading": (503, "The environments are being loaded"),
    "overloaded": (503, "Too much waiting work"),
    "index-failed": (503, "The index failed"),
    "draining": (503, "The server is shutting down"),
    "step-timeout": (504, "The environment took too long"),
    "search-timeout": (504, "The search took too long"),
}

# with what raised them, which clients never see
LOGGED = frozenset({"env-error", "index-failed"})
LOGGED_BRIEFLY = frozenset({"step-timeout", "search-timeout"})  # their traceback says nothing

_log = logging.getLogger(__name__)


class Problem(AgentGymSuiteError):
    """An answer that is an error.

    Args:
        slug: one of ``PROBLEMS``.
        detail: one sentence: what, the value, what to do.
        retry_after_s: seconds after which another try makes sense.
        headers: further headers of the answer.
        fields: further members of the document.
    """

    def __init__(
        self,
        slug: str,
        detail: str,
        *,
        retry_after_s: float | None = None,
        headers: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> None:
        super().__init__(detail)
        self.slug = slug
        self.detail = detail
        self.status, self.title = PROBLEMS[slug]
        self.fields = fields
        self.headers = dict(headers or {})
        if retry_after_s is not None:
            self.headers["Retry-After"] = str(max(1, math.ceil(retry_after_s)))


Respond = Callable[[Problem, str], Response]
"""Makes the HTTP answer of a problem, of the request with this id."""


def problem_response(problem: Problem, request_id: str) -> Response:
    """The HTTP answer of a problem."""
    document = {
        "type": TYPE_PREFIX + problem.slug,
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail.encode("utf-8", "replace").decode("utf-8"),
        "request_id": request_id,
        **problem.fields,
    }
    return Response(
        encode_json(document), problem.status, headers=problem.headers, media_type=PROBLEM_TYPE
    )


def detail_response(problem: Problem, request_id: str) -> Response:
    """The same for clients that read nothing but ``detail``; the id is in the header."""
    detail = problem.detail.encode("utf-8", "replace").decode("utf-8")
    return Response(
        encode_json({"detail": detail}),
        problem.status,
        headers=problem.headers,
        media_type=JSON_TYPE,
    )


def explain(request: Request, error: Exception) -> Problem:
    """Any exception of a handler or of the router as a problem."""
    # Of the scope, because request.url would read the client's Host header; on one line.
    path = " ".join(request.scope["path"][:200].split())
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException) and error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "another")
        return Problem(
            "method",
            f"{request.method} is no method of {path}; use {allowed}",
            headers=error.headers,
        )
    if isinstance(error, HTTPException):
        return Problem(
            "not-found",
            f"{path} is no address of this server; it has {', '.join(_addresses(request))}",
        )
    return Problem("env-error", "the server failed; its log has the reason under this request's id")


def _addresses(request: Request) -> list[str]:
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    return [r.path for r in routes if "GET" in (r.methods or ()) and "{" not in r.path]


async def answer_error(
    request: Request, error: Exception, respond: Respond = problem_response
) -> Response:
    """The exception handler of applications whose errors are problems."""
    problem = explain(request, error)
    if problem.slug in LOGGED_BRIEFLY:
        _log.warning("request %s: %s", request.state.request_id, problem.detail)
    if problem.slug in LOGGED:
        _log.error("request %s: %s", request.state.request_id, problem.detail, exc_info=error)
    return respond(problem, request.state.request_id)


def encode_json(value: Any) -> bytes:
    """Compact UTF-8 JSON.

    Raises:
        ValueError: a number is not finite, or UTF-8 cannot carry a text.
        TypeError: JSON has no form for a value.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8")
