"""Endpoints that answer with too much, with what no record holds, or with the key itself."""

from __future__ import annotations

import asyncio
import gzip
import json
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentgym_suite.answer_bounds import MOST_ANSWER_BYTES
from agentgym_suite.cassettes import CASSETTE_VERSION, Cassette
from agentgym_suite.chat import ChatReply, ChatRequest
from agentgym_suite.decoding import Decoding
from agentgym_suite.endpoint_answers import error_words, read_completion, without_key
from agentgym_suite.endpoints import Endpoint, EndpointModel
from agentgym_suite.errors import (
    DataDamaged,
    ModelError,
    ModelUnreachable,
    ModelUnusable,
    UsageError,
)
from agentgym_suite.json_bounds import MOST_LEVELS, keepable
from agentgym_suite.multihop_qa.actions import CODEC
from agentgym_suite.prompts import Message
from agentgym_suite.replies import parse_reply
from agentgym_suite.retries import RetryPolicy
from agentgym_suite.usage import Usage
from tests.chat_server import Answer, chat_server, completion, tool_call

KEY = "sk-secret-0123456789"
REQUEST = ChatRequest((Message("user", "hello"),), Decoding(), seed=7)


def ask(url: str, key: str = KEY) -> ChatReply:
    async def call() -> ChatReply:
        async with httpx.AsyncClient(timeout=None) as client:
            where = Endpoint(url, "tiny", key, retries=RetryPolicy(tries=1))
            return await EndpointModel(where, client).complete(REQUEST)

    return asyncio.run(call())


def answered(answer: Answer, key: str = KEY) -> ChatReply:
    with chat_server([answer]) as server:
        return ask(server.url, key)


def refused(answer: Answer) -> str:
    with pytest.raises(ModelUnreachable) as caught:
        answered(answer)
    return str(caught.value)


@contextmanager
def raw_server(*parts: bytes, forever: bool = False) -> Iterator[str]:
    """Sends bytes to whoever asks; the last of them again and again where it is ``forever``."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            try:
                for part in parts:
                    connection.sendall(part)
                while forever:
                    connection.sendall(parts[-1])
            except OSError:
                pass  # the client has given up

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        thread.join(30)
        listener.close()


# ------------------------------------------------------------------ size


def test_an_answer_without_an_end_is_given_up_at_the_bound() -> None:
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with (
        raw_server(head, chunk, forever=True) as url,
        pytest.raises(ModelUnreachable, match="its answer is larger than 8 MB"),
    ):
        ask(url)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before  # kilobytes
    assert grown * 1024 < 8 * MOST_ANSWER_BYTES


def test_a_large_answer_within_the_bound_is_read_and_one_beyond_is_not() -> None:
    assert len(answered(Answer(completion("x" * (7 << 20)))).text) == 7 << 20
    assert "larger than 8 MB" in refused(Answer(completion("x" * MOST_ANSWER_BYTES)))


@pytest.mark.parametrize("coding", ["gzip", "gzip, gzip", "deflate", "br"])
def test_a_coded_answer_is_refused_before_it_is_unfolded(coding: str) -> None:
    body = gzip.compress(json.dumps(completion("fine")).encode())
    assert "compressed" in refused(Answer(body, headers={"Content-Encoding": coding}))


# ------------------------------------------------------------------ tool arguments


DEEP = "[" * 900 + "]" * 900


@pytest.mark.parametrize(
    "query", [DEEP, "9" * 4000, "1e999", "-1e999", str(2**63), '{"a":' * 40 + "1" + "}" * 40]
)
@pytest.mark.parametrize("as_object", [True, False])
def test_arguments_that_no_record_holds_are_a_bad_reply(query: str, as_object: bool) -> None:
    written = f'{{"query":{query}}}'
    arguments = written if as_object else json.dumps(written)
    message = f'{{"tool_calls":[{{"function":{{"name":"search","arguments":{arguments}}}}}]}}'
    reply = read_completion(f'{{"choices":[{{"message":{message}}}]}}'.encode())
    (call,) = reply.tool_calls
    assert isinstance(call.arguments, str)
    assert parse_reply("", "openai", codec=CODEC, tool_calls=reply.tool_calls).error


def test_values_of_few_levels_are_kept() -> None:
    value: Any = {"a": [1, 2.5, None, True, "x", {"b": -(2**63)}]}
    assert keepable(value) and keepable({})
    for _ in range(MOST_LEVELS - 3):
        value = [value]
    assert keepable(value) and not keepable([value])
    assert not any(map(keepable, [2**63, float("nan"), 1e300, {1: 2}, object(), b""]))


# ------------------------------------------------------------------ the key


@pytest.mark.parametrize("code", ["context_length_exceeded", "content_filter"])
def test_an_error_that_stands_for_a_reply_does_not_hold_the_key(code: str) -> None:
    error = {"message": f"stopped for the key {KEY}", "code": code}
    reply = answered(Answer({"error": error}, status=400))
    assert reply.text == "stopped for the key …"


def test_a_reply_that_repeats_the_key_is_masked() -> None:
    call = tool_call(f"search {KEY}", json.dumps({f"q{KEY}": [KEY, {"a": KEY}]}))
    wrong = tool_call("search", f"no JSON {KEY}")
    reply = answered(Answer(completion(f"search[{KEY}]", tool_calls=[call, wrong])))
    assert KEY not in json.dumps(asdict(reply))
    assert reply.text == "search[…]"
    assert reply.tool_calls[0].arguments == {"q…": ["…", {"a": "…"}]}
    refusal = answered(Answer(completion(None, refusal=f"not with {KEY}")))
    assert (refusal.text, refusal.finish_reason) == ("not with …", "refusal")


def test_a_placeholder_for_a_key_is_left_in_a_reply() -> None:
    reply = ChatReply("search[none of x]")
    assert without_key(reply, "none") is reply and without_key(reply, "") is reply


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 200 OK\r\nbad header KEY\r\n\r\n", b"HTTP/1.1 2KEY OK\r\n\r\n", b"KEY\r\n\r\n"],
)
def test_a_malformed_head_is_told_without_its_bytes(answer: bytes) -> None:
    with (
        raw_server(answer.replace(b"KEY", KEY.encode())) as url,
        pytest.raises(ModelUnreachable) as caught,
    ):
        ask(url)
    told = str(caught.value)
    assert KEY not in told and KEY[:12] not in told and "bytearray" not in told
    assert url in told


# ------------------------------------------------------------------ words and places


def test_what_no_terminal_shows_is_replaced_in_a_server_s_words() -> None:
    body = json.dumps({"error": {"message": "bad \x1b[31m\x00 field\n‮x\xa0é"}}).encode()
    assert error_words(body) == "bad �[31m� field �x é"


@pytest.mark.parametrize("port", [0, 65536, 99999])
def test_a_port_that_none_has_is_refused_before_playing(port: int) -> None:
    with pytest.raises(UsageError, match=f"port is {port}; give 1 to 65,535"):
        Endpoint(f"http://127.0.0.1:{port}/v1", "tiny")
    assert Endpoint("http://127.0.0.1:65535/v1", "tiny").address


@pytest.mark.parametrize(
    "error",
    [
        ExceptionGroup("all failed", [OSError("no route"), OSError("refused")]),
        OSError("no route"),
    ],
)
def test_connections_that_fail_together_are_unreachable(error: Exception) -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise error

    async def call() -> None:
        where = Endpoint("http://h/v1", "tiny", retries=RetryPolicy(tries=1))
        async with where.connect(httpx.MockTransport(fail)) as model:
            await model.complete(REQUEST)

    with pytest.raises(ModelError, match="no route") as caught:
        asyncio.run(call())
    assert (caught.value.kind, caught.value.origin) == ("connection", "infra")


def test_an_error_in_a_successful_answer_and_a_redirect_are_told() -> None:
    told = refused(Answer({"error": {"message": f"overloaded for {KEY}"}}))
    assert told.endswith("it has no choices; it says: overloaded for … (asked once)")
    with pytest.raises(ModelUnusable) as caught:
        answered(Answer("", 307, {"Location": "http://other/v1/chat/completions"}))
    told = str(caught.value)
    assert "answered 307; it points to http://other/v1/chat/completions" in told


def test_more_cached_tokens_than_tokens_are_no_count() -> None:
    usage = {
        "prompt_tokens": 5,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 99999},
    }
    assert answered(Answer(completion(usage=usage))).usage == Usage(5, 3, 0)


def test_a_cassette_with_two_replies_to_a_request_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"

    def line(text: str) -> str:
        reply = {"text": text, "tool_calls": [], "usage": [1, 1, 0], "finish_reason": "stop"}
        return json.dumps({"request": "sha256:77", "reply": reply}) + "\n"

    head = json.dumps({"cassette": CASSETTE_VERSION, "model": "m"}) + "\n"
    path.write_text(head + line("a") + line("a"))
    assert len(Cassette.read(path).replies) == 1
    path.write_text(head + line("a") + line("b"))
    with pytest.raises(DataDamaged, match="two replies to the request sha256:77"):
        Cassette.read(path)
