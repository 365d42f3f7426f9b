from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.requests import Request

from agentgym_suite.servers.bodies import DEEPEST_NESTING, parse_object, read_body
from agentgym_suite.servers.problems import Problem


def refused(body: bytes) -> Problem:
    with pytest.raises(Problem) as caught:
        parse_object(body)
    return caught.value


@pytest.mark.parametrize("number", [b"1e999", b"-1e999", b"NaN", b"Infinity", b"9" * 5_000])
def test_a_number_that_no_answer_could_repeat_is_refused(number: bytes) -> None:
    assert refused(b'{"options": {"a": [' + number + b"]}}").slug == "bad-json"


@pytest.mark.parametrize("depth", [DEEPEST_NESTING, 500, 900, 100_000])
def test_deep_nesting_is_refused(depth: int) -> None:
    assert refused(b'{"a": ' + b"[" * depth + b"]" * depth + b"}").slug == "bad-json"


def test_the_deepest_nesting_and_large_numbers_are_read() -> None:
    depth = DEEPEST_NESTING - 1
    assert parse_object(b'{"a": ' + b"[" * depth + b"]" * depth + b"}")
    assert parse_object(b'{"a": 1e308, "b": -0.5}') == {"a": 1e308, "b": -0.5}


def test_a_surrogate_is_named_by_its_field() -> None:
    assert refused(b'{"options": {"a": ["\\udc00"]}}').fields["field"] == "a"
    assert refused(b'{"\\ud800": 1}').slug == "invalid"
    assert parse_object(b'{"a": "\\ud83d\\ude00"}') == {"a": "\N{GRINNING FACE}"}


def test_a_body_that_never_ends_is_given_up() -> None:
    async def trickle() -> dict[str, Any]:
        await asyncio.sleep(0.005)
        return {"type": "http.request", "body": b"a", "more_body": True}

    scope = {"type": "http", "method": "POST", "path": "/", "headers": []}
    with pytest.raises(Problem) as caught:
        asyncio.run(read_body(Request(scope, trickle), timeout_s=0.1))
    assert (caught.value.slug, caught.value.status) == ("too-slow", 408)
    # what may still come is not read, so the connection has no further use
    assert caught.value.headers["Connection"] == "close"


def test_a_byte_order_mark_is_no_part_of_the_json() -> None:
    assert parse_object(b'\xef\xbb\xbf{"seed": 3}') == {"seed": 3}
