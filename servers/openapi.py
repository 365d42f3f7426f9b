"""What routes take and answer, and the OpenAPI 3.1 document that says so.

A route table is a list of ``Operation``: the router's routes and the document are made of the same
list, and a body is described by the fields that check it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentgym_suite.servers.bodies import Field, read_query
from agentgym_suite.servers.openapi_answers import PROBLEM, SCHEMAS, Schema
from agentgym_suite.servers.problems import JSON_TYPE, PROBLEM_TYPE, PROBLEMS, TYPE_PREFIX

LONGEST_KEY = 200
_JSON_TYPES = {str: "string", int: "integer", float: "number", dict: "object"}
_SECURITY = "token"

_REQUEST_HEADERS: Mapping[str, Schema] = {
    "X-Request-Id": {
        "name": "X-Request-Id",
        "in": "header",
        "description": "An id to be echoed and logged; another form is replaced.",
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"},
    },
    "Idempotency-Key": {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "The same request under the same key gets the same answer again.",
        "schema": {"type": "string", "maxLength": LONGEST_KEY},
    },
}
_ANSWER_HEADERS: Mapping[str, Schema] = {
    "X-Request-Id": {
        "description": "The request's id, sent or made.",
        "required": True,
        "schema": {"type": "string"},
    },
    "Agentgym-Replayed": {
        "description": "This answer was given before.",
        "schema": {"const": "1"},
    },
    "Location": {
        "description": "The address of what was made.",
        "required": True,
        "schema": {"type": "string"},
    },
    "Retry-After": {
        "description": "Seconds after which another try makes sense.",
        "schema": {"type": "integer", "minimum": 1},
    },
    "WWW-Authenticate": {"required": True, "schema": {"type": "string"}},
}
_HEADERS_OF_STATUS = {
    201: ("Location",),
    401: ("WWW-Authenticate",),
    409: ("Retry-After",),
    429: ("Retry-After",),
    503: ("Retry-After",),
}


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path.

    Attributes:
        method: GET, POST or DELETE.
        path: with parameters in braces.
        handler: what answers; its name and docstring are those of the operation.
        answers: the schema's name for each status of success, "" for one without a body.
        problems: what can go wrong beyond what its path, body, query and access imply.
        body: the members of the request's JSON object; None if no body is read.
        query: the parameters behind the question mark.
        repeatable: whether an answer may be one that was given before.
        keyed: whether ``Idempotency-Key`` counts.
        public: whether no token is needed.
        media_type: of the answers.
    """

    method: str
    path: str
    handler: Callable[[Request], Awaitable[Response]]
    answers: Mapping[int, str]
    problems: Sequence[str] = ()
    body: Mapping[str, Field] | None = None
    query: Mapping[str, Field] = field(default_factory=dict)
    repeatable: bool = False
    keyed: bool = False
    public: bool = False
    media_type: str = JSON_TYPE

    @property
    def route(self) -> Route:
        """The route for the router; the handler finds the query's members in ``state.query``."""

        async def handle(request: Request) -> Response:
            # whoever asks whether a server lives may add what it likes, as some proxies do
            request.state.query = {} if self.public else read_query(request, self.query)
            return await self.handler(request)

        return Route(self.path, handle, methods=[self.method])

    @property
    def all_problems(self) -> list[str]:
        """Every slug that it can answer with, in the order of their table."""
        possible = {"forbidden-host", "env-error", *self.problems}
        if not self.public:
            possible.update(("unauthorized", "invalid"))
        if "{" in self.path:
            possible.add("not-found")  # a parameter with a slash, which no route matches
        if self.body is not None:
            possible.update(("bad-json", "too-large", "too-slow"))
        return [slug for slug in PROBLEMS if slug in possible]


def openapi_document(
    operations: Sequence[Operation], *, title: str, version: str
) -> dict[str, Any]:
    """The document that describes a route table.

    Args:
        operations: the table.
        title: of the interface.
        version: of what serves it.
    """
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version},
        "paths": paths,
        "security": [{_SECURITY: []}],
        "components": {
            "schemas": {**SCHEMAS, "Problem": PROBLEM},
            "parameters": _REQUEST_HEADERS,
            "headers": _ANSWER_HEADERS,
            "securitySchemes": {
                _SECURITY: {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Needed where the server was started with a token.",
                }
            },
        },
    }


def object_schema(fields: Mapping[str, Field]) -> dict[str, Any]:
    """The JSON schema of a request's object."""
    return {
        "type": "object",
        "properties": {name: field_schema(field) for name, field in fields.items()},
        "required": [name for name, field in fields.items() if field.required],
        "additionalProperties": False,
    }


def field_schema(field: Field) -> dict[str, Any]:
    """The JSON schema of one member; null stands for an absent one."""
    types = [_JSON_TYPES[kind] for kind in field.types]
    if "number" in types:
        types = ["number"]  # which a whole number is too
    if not field.required:
        types.append("null")
    limits = {"minimum": field.minimum, "maximum": field.maximum}
    return {
        "type": types if len(types) > 1 else types[0],
        "description": field.words,
        **{name: limit for name, limit in limits.items() if limit is not None},
    }


def _operation(operation: Operation) -> dict[str, Any]:
    words = inspect.getdoc(operation.handler) or ""
    entry: dict[str, Any] = {
        "operationId": operation.handler.__name__,
        "summary": words.partition("\n")[0],
        "parameters": _parameters(operation),
        "responses": _responses(operation),
    }
    if operation.body is not None:
        entry["requestBody"] = {
            "required": any(field.required for field in operation.body.values()),
            "content": {JSON_TYPE: {"schema": object_schema(operation.body)}},
        }
    if operation.public:
        entry["security"] = []
    return entry


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", operation.path)
    ]
    in_query = [
        {
            "name": name,
            "in": "query",
            "description": field.words,
            # null has no form in a query
            "schema": {**field_schema(field), "type": _JSON_TYPES[field.types[0]]},
        }
        for name, field in operation.query.items()
    ]
    headers = ["X-Request-Id", *(["Idempotency-Key"] if operation.keyed else [])]
    return [*in_path, *in_query, *({"$ref": f"#/components/parameters/{n}"} for n in headers)]


def _responses(operation: Operation) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, name in operation.answers.items():
        marks = ["Agentgym-Replayed"] if operation.repeatable else []
        responses[str(status)] = {
            "description": HTTPStatus(status).phrase,
            "headers": _headers(status, *marks),
        }
        if name:
            schema = {"$ref": f"#/components/schemas/{name}"}
            responses[str(status)]["content"] = {operation.media_type: {"schema": schema}}
    slugs_of: dict[int, list[str]] = {}
    for slug in operation.all_problems:
        slugs_of.setdefault(PROBLEMS[slug][0], []).append(slug)
    for status, slugs in slugs_of.items():
        responses[str(status)] = {
            "description": "; ".join(f"{slug}: {PROBLEMS[slug][1]}" for slug in slugs),
            "headers": _headers(status),
            "content": {PROBLEM_TYPE: {"schema": _problem_schema(status, slugs)}},
        }
    return dict(sorted(responses.items()))


def _problem_schema(status: int, slugs: Sequence[str]) -> dict[str, Any]:
    return {
        "allOf": [
            {"$ref": "#/components/schemas/Problem"},
            {
                "properties": {
                    "type": {"enum": [TYPE_PREFIX + slug for slug in slugs]},
                    "status": {"const": status},
                }
            },
        ]
    }


def _headers(status: int, *more: str) -> dict[str, Any]:
    names = ("X-Request-Id", *_HEADERS_OF_STATUS.get(status, ()), *more)
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}
