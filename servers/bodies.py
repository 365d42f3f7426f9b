"""Request bodies and queries: read within a limit, then checked field by field."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from agentgym_suite.arguments import json_kind, shown_json
from agentgym_suite.servers.problems import Problem

MAX_BODY_BYTES = 2 << 20
BODY_TIMEOUT_S = 30.0
DEEPEST_NESTING = 32
LONGEST_NUMBER = 12  # digits in a query


@dataclass(frozen=True, slots=True)
class Field:
    """One member of a request's JSON object.

    Attributes:
        types: what its value may be.
        words: the same for people.
        required: whether it must be there.
        minimum: least number.
        maximum: greatest number.
    """

    types: tuple[type, ...]
    words: str
    required: bool = False
    minimum: float | None = None
    maximum: float | None = None

    def accepts(self, value: Any) -> bool:
        """Whether a value is of the right type, and in range if it is a number."""
        if isinstance(value, bool) and bool not in self.types:
            return False
        if not isinstance(value, self.types):
            return False
        if not isinstance(value, int | float):
            return True
        return (self.minimum is None or value >= self.minimum) and (
            self.maximum is None or value <= self.maximum
        )


async def read_body(
    request: Request, limit: int = MAX_BODY_BYTES, timeout_s: float = BODY_TIMEOUT_S
) -> bytes:
    """The whole body.

    Args:
        request: the request, its body unread.
        limit: most bytes.
        timeout_s: most seconds until its last byte.

    Raises:
        Problem: ``too-large`` as soon as that is known; ``too-slow``; ``bad-json`` for a body that
            ends early.
    """
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(timeout_s):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise _too_large(limit)
                chunks.append(chunk)
    except TimeoutError:
        raise Problem(
            "too-slow",
            f"the body took more than {timeout_s:g} s; send it faster",
            headers={"Connection": "close"},
        ) from None
    except ClientDisconnect:
        raise Problem("bad-json", "the connection ended within the body; send it whole") from None
    return b"".join(chunks)


def read_query(request: Request, fields: Mapping[str, Field]) -> dict[str, Any]:
    """What stands behind the question mark, each known, there once, and a number where it is one.

    Raises:
        Problem: ``invalid`` naming the field.
    """
    given: dict[str, Any] = {}
    for name, text in request.query_params.multi_items():
        if name in given:
            raise invalid(name[:80], "is given twice; give it once")
        whole = text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER
        given[name] = int(text) if whole else text
    return check_object(given, fields)


async def read_object(
    request: Request, fields: Mapping[str, Field], *, doubles: bool = False
) -> dict[str, Any]:
    """The body as a JSON object with known members of the right types.

    An absent body is an empty object; a member that is null counts as absent.

    Args:
        request: the request, its body unread.
        fields: the members there are.
        doubles: as ``parse_object`` takes it.

    Raises:
        Problem: ``bad-json``, ``too-large``, or ``invalid`` naming the field.
    """
    return check_object(parse_object(await read_body(request), doubles=doubles), fields)


def parse_object(body: bytes, *, doubles: bool = False) -> dict[str, Any]:
    """A JSON object from bytes.

    Args:
        body: its UTF-8.
        doubles: whether an object may name a member twice, of which the last counts.

    Raises:
        Problem: ``bad-json``, also for numbers and nestings that no answer could repeat;
            ``invalid`` for text that UTF-8 cannot carry, and for a member that is there twice.
    """
    if not body.strip():
        return {}
    try:
        value = json.loads(
            body.decode("utf-8-sig"),
            parse_constant=_refuse_constant,
            parse_float=_finite,
            object_pairs_hook=None if doubles else _without_doubles,
        )
    except (ValueError, RecursionError) as error:
        raise Problem(
            "bad-json", f"the body is not JSON ({type(error).__name__}); send a JSON object"
        ) from None
    if not isinstance(value, dict):
        raise Problem("bad-json", f"the body is a JSON {json_kind(value)}; send a JSON object")
    _check_values(value)
    return value


def check_object(value: dict[str, Any], fields: Mapping[str, Field]) -> dict[str, Any]:
    """The members that are not null, each known and of its type.

    Raises:
        Problem: ``invalid``, with the name of the field in ``field``.
    """
    for name in value:
        if name not in fields:
            raise invalid(name[:80], f"is not a field here; use {', '.join(fields) or 'none'}")
    given = {name: member for name, member in value.items() if member is not None}
    for name, field in fields.items():
        if name not in given:
            if field.required:
                raise invalid(name, f"is missing; give {field.words}")
            continue
        member = given[name]
        if not field.accepts(member):
            raise invalid(name, f"is {shown_json(member)}; give {field.words}")
    return given


def parse_form(body: bytes) -> dict[str, str]:
    """The members of a form sent as ``application/x-www-form-urlencoded``; the first one wins.

    Raises:
        Problem: ``invalid``: there are more than 100.
    """
    try:
        pairs = parse_qsl(
            body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=100
        )
    except ValueError:
        raise Problem("invalid", "the form has more than 100 fields; send fewer") from None
    form: dict[str, str] = {}
    for name, value in pairs:
        form.setdefault(name, value)
    return form


def invalid(field: str, rest: str) -> Problem:
    """The problem of one wrong field."""
    return Problem("invalid", f"{field} {rest}", field=field)


def _too_large(limit: int) -> Problem:
    return Problem("too-large", f"the body has more than {limit:,} bytes; send less")


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, member in pairs:
        if name in members:
            sound = name[:80].encode("utf-8", "replace").decode("utf-8")
            raise invalid(sound, "is given twice; give it once")
        members[name] = member
    return members


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits[:80]} is too large")
    return number


def _check_values(value: Any, field: str = "", depth: int = 1) -> None:
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise invalid(
                field or "a text", "has a lone surrogate; send text that UTF-8 can carry"
            ) from None
    elif isinstance(value, dict | list) and depth > DEEPEST_NESTING:
        raise Problem(
            "bad-json", f"the body is nested more than {DEEPEST_NESTING} deep; send it flatter"
        )
    elif isinstance(value, dict):
        for name, member in value.items():
            _check_values(name, "a field name")
            _check_values(member, name[:80], depth + 1)
    elif isinstance(value, list):
        for member in value:
            _check_values(member, field, depth + 1)
