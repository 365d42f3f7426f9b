"""Request bodies: read within a limit, then checked field by field."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from agentgym_suite.servers.problems import Problem

MAX_BODY_BYTES = 2 << 20


@dataclass(frozen=True, slots=True)
class Field:
    """One member of a request's JSON object.

    Attributes:
        types: what its value may be.
        words: the same for people.
        required: whether it must be there.
        check: whether a value of these types is in range.
    """

    types: tuple[type, ...]
    words: str
    required: bool = False
    check: Callable[[Any], bool] | None = None


async def read_body(request: Request, limit: int = MAX_BODY_BYTES) -> bytes:
    """The whole body.

    Raises:
        Problem: ``too-large`` as soon as that is known.
    """
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise _too_large(limit)
            chunks.append(chunk)
    except ClientDisconnect:
        raise Problem("bad-json", "the connection ended within the body; send it whole") from None
    return b"".join(chunks)


async def read_object(request: Request, fields: Mapping[str, Field]) -> dict[str, Any]:
    """The body as a JSON object with known members of the right types.

    An absent body is an empty object; a member that is null counts as absent.

    Raises:
        Problem: ``bad-json``, ``too-large``, or ``invalid`` naming the field.
    """
    return check_object(parse_object(await read_body(request)), fields)


def parse_object(body: bytes) -> dict[str, Any]:
    """A JSON object from bytes.

    Raises:
        Problem: ``bad-json``; ``invalid`` for text that UTF-8 cannot carry.
    """
    if not body.strip():
        return {}
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Problem(
            "bad-json", f"the body is not JSON ({type(error).__name__}); send a JSON object"
        ) from None
    if not isinstance(value, dict):
        raise Problem("bad-json", f"the body is a JSON {type(value).__name__}; send a JSON object")
    if b"\\u" in body:
        _refuse_surrogates(value)
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
        wrong_type = not isinstance(member, field.types) or (
            isinstance(member, bool) and bool not in field.types
        )
        if wrong_type or (field.check is not None and not field.check(member)):
            shown = repr(member) if isinstance(member, int | float | str) else type(member).__name__
            raise invalid(name, f"is {shown[:80]}; give {field.words}")
    return given


def parse_form(body: bytes) -> dict[str, str]:
    """The members of a form sent as ``application/x-www-form-urlencoded``; the first one wins.

    Raises:
        Problem: ``invalid`` if there are more than 100.
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


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _refuse_surrogates(value: Any, field: str = "") -> None:
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise invalid(
                field or "a text", "has a lone surrogate; send text that UTF-8 can carry"
            ) from None
    elif isinstance(value, dict):
        for name, member in value.items():
            _refuse_surrogates(name, "a field name")
            _refuse_surrogates(member, name)
    elif isinstance(value, list):
        for member in value:
            _refuse_surrogates(member, field)
