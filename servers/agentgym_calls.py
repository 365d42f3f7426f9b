"""A call of AgentGym's clients as a route: what it takes, what it answers, how it is refused.

These clients take any status but 200 for a failure, and some post again at once unless it is 503.
So whatever passes by waiting is a 503, and a refusal is FastAPI's ``{"detail": …}``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentgym_suite.servers.bodies import Field, check_object, read_object
from agentgym_suite.servers.problems import (
    JSON_TYPE,
    Problem,
    answer_error,
    detail_response,
    encode_json,
)

LONGEST_NUMBER = 16  # digits in a query: those of 2**53
PASSING = frozenset({"full", "busy"})

ID = Field((int,), "an id that /create gave", required=True)
ACTION = Field((str,), "the action's text", required=True)


@dataclass(frozen=True, slots=True)
class Call:
    """One address of a dialect.

    Attributes:
        method: GET or POST.
        path: behind the environment's prefix.
        answer: from the checked members of query or body to a JSON value.
        fields: the members.
    """

    method: str
    path: str
    answer: Callable[[dict[str, Any]], Awaitable[Any]]
    fields: Mapping[str, Field] = field(default_factory=dict)

    def route(self, prefix: str) -> Route:
        """The route below a prefix."""

        async def handle(request: Request) -> Response:
            try:
                value = await self.answer(await self._given(request))
            except Problem as problem:
                return await answer_error(request, problem, _refusal)
            return Response(encode_json(value), media_type=JSON_TYPE)

        return Route(prefix + self.path, handle, methods=[self.method])

    async def _given(self, request: Request) -> dict[str, Any]:
        if self.method == "POST":
            return await read_object(request, self.fields, doubles=True)
        given = {name: _number(request.query_params[name]) for name in request.query_params}
        return check_object(given, self.fields)


def _number(text: str) -> int | str:
    whole = text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER
    return int(text) if whole else text


def _refusal(problem: Problem, request_id: str) -> Response:
    if problem.slug in PASSING:
        problem.status = 503
    return detail_response(problem, request_id)
