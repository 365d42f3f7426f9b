"""A model over HTTP: what is sent, what is read, and what becomes of a server that misbehaves."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_suite.calls import ToolCall
from agentgym_suite.chat import ChatReply, ChatRequest
from agentgym_suite.decoding import Decoding
from agentgym_suite.endpoint_answers import (
    MalformedAnswer,
    error_words,
    read_completion,
    read_refused_request,
)
from agentgym_suite.endpoints import Endpoint, EndpointModel
from agentgym_suite.errors import (
    ModelError,
    ModelServerError,
    ModelTimeout,
    ModelUnreachable,
    ModelUnusable,
    RateLimited,
    UsageError,
)
from agentgym_suite.prompts import Message
from agentgym_suite.retries import RetryPolicy
from agentgym_suite.usage import Usage
from tests.chat_server import Answer, ChatServer, Script, chat_server, completion, tool_call

KEY = "sk-secret-0123456789"
REQUEST = ChatRequest((Message("user", "héllo 😀"),), Decoding(0.5, 0.9, 64), seed=7)
OK = Answer(completion("fine"))


class Clock:
    """Time that passes only while somebody waits."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.seconds += seconds

    def read(self) -> float:
        return self.seconds


def endpoint(url: str, **changes: Any) -> Endpoint:
    return Endpoint(url, "tiny", KEY, **changes)


def ask(where: Endpoint, request: ChatRequest = REQUEST, clock: Clock | None = None) -> ChatReply:
    clock = clock or Clock()

    async def call() -> ChatReply:
        async with httpx.AsyncClient(timeout=None) as client:
            model = EndpointModel(
                where,
                client,
                sleep=clock.sleep,
                clock=clock.read,
                now=lambda: datetime(2026, 1, 1, 12, tzinfo=UTC),
            )
            return await model.complete(request)

    return asyncio.run(call())


def asked(
    answers: Sequence[Answer] | Script, clock: Clock | None = None, **changes: Any
) -> tuple[ChatReply, ChatServer]:
    with chat_server(answers) as server:
        return ask(endpoint(server.url, **changes), clock=clock), server


def failure(
    answers: Sequence[Answer] | Script, clock: Clock | None = None, **changes: Any
) -> tuple[ModelError, ChatServer]:
    with chat_server(answers) as server:
        with pytest.raises(ModelError) as caught:
            ask(endpoint(server.url, **changes), clock=clock)
        return caught.value, server


# ------------------------------------------------------------------ what is sent and read


def test_a_request_holds_model_messages_decoding_and_seed() -> None:
    reply, server = asked([OK])
    assert reply == ChatReply("fine", usage=Usage(11, 3, 0))
    assert server.requests == [
        {
            "model": "tiny",
            "messages": [{"role": "user", "content": "héllo 😀"}],
            "temperature": 0.5,
            "top_p": 0.9,
            "max_tokens": 64,
            "seed": 7,
        }
    ]
    assert server.paths == ["/v1/chat/completions"]
    assert server.keys == [f"Bearer {KEY}"]


def test_without_a_key_none_is_sent() -> None:
    with chat_server([OK]) as server:
        ask(Endpoint(server.url, "tiny"))
    assert server.keys == [None]


def test_fields_of_a_server_s_own_are_sent_and_max_tokens_may_be_replaced() -> None:
    fields = {"max_tokens": None, "max_completion_tokens": 64, "guided": {"a": 1}}
    _, server = asked([OK], fields=fields)
    (request,) = server.requests
    assert "max_tokens" not in request
    assert (request["max_completion_tokens"], request["guided"]) == (64, {"a": 1})
    with pytest.raises(UsageError, match="the field seed of a request is the suite's"):
        endpoint("http://h/v1", fields={"seed": 1})


def test_tools_are_sent_and_calls_read_back() -> None:
    tool = {"type": "function", "function": {"name": "add", "parameters": {}}}
    calls = [tool_call("add", '{"n": "1"}'), tool_call("add", '{"n": 1')]
    with chat_server([Answer(completion(None, tool_calls=calls))]) as server:
        request = ChatRequest(REQUEST.messages, Decoding(), 1, (tool,))
        reply = ask(endpoint(server.url), request)
    assert server.requests[0]["tools"] == [tool]
    assert reply.tool_calls == (ToolCall("add", {"n": "1"}, "t1"), ToolCall("add", '{"n": 1', "t1"))
    assert reply.text == ""


def test_cached_tokens_are_read() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 64},
    }
    reply, _ = asked([Answer(completion("x", usage=usage))])
    assert reply.usage == Usage(100, 5, 64)


@pytest.mark.parametrize(
    "usage", [None, {}, {"prompt_tokens": -1, "completion_tokens": "5"}, {"prompt_tokens": True}]
)
def test_usage_without_sense_counts_nothing(usage: Any) -> None:
    body = {**completion("x"), "usage": usage}
    assert read_completion(json.dumps(body).encode()).usage == Usage()


def test_a_lone_surrogate_of_a_model_is_sent_back_as_a_character() -> None:
    with chat_server([OK]) as server:
        ask(endpoint(server.url), ChatRequest((Message("user", "a\ud800b"),), Decoding(), 1))
    assert server.requests[0]["messages"][0]["content"] == "a\ufffdb"


@pytest.mark.parametrize(
    ("body", "reply"),
    [
        (completion("cut", finish_reason="length"), ChatReply("cut", finish_reason="length")),
        (completion("", finish_reason="content_filter"), ChatReply("", finish_reason="refusal")),
        (completion(None, refusal="I must not"), ChatReply("I must not", finish_reason="refusal")),
        (
            completion([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),  # type: ignore[arg-type]
            ChatReply("ab"),
        ),
        (completion(None), ChatReply("")),
    ],
)
def test_how_a_reply_ended_is_told(body: Any, reply: ChatReply) -> None:
    read, _ = asked([Answer(body)])
    assert (read.text, read.finish_reason) == (reply.text, reply.finish_reason)


# ------------------------------------------------------------------ a server that misbehaves


def test_a_server_that_fails_once_is_asked_again() -> None:
    clock = Clock()
    reply, server = asked([Answer("oops", 500), OK], clock)
    assert reply.text == "fine" and len(server.requests) == 2
    assert 0.25 <= clock.pauses[0] <= 0.5


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (Answer("oops", 500), ModelServerError, "answered 500 (asked 3 times)"),
        (Answer({"error": {"message": "busy"}}, 503), ModelServerError, "503: busy (asked 3"),
        (Answer("", 408), ModelTimeout, "answered 408"),
        (Answer("", 409), ModelUnreachable, "answered 409 (asked 3"),
        (Answer("", 429), RateLimited, "answered 429 (asked 3"),
        (Answer("<html>Bad gateway</html>"), ModelUnreachable, "it is not JSON (asked 3"),
        (Answer('{"choices": [{"mess'), ModelUnreachable, "it is not JSON"),
        (Answer({"choices": []}), ModelUnreachable, "it has no choices"),
        (Answer({"choices": [{}]}), ModelUnreachable, "its first choice has no message"),
        (Answer("[1]"), ModelUnreachable, "it is no JSON object"),
        (Answer(completion("x" * 99), cut=True), ModelUnreachable, "asked 3"),
        (Answer({"error": {"message": "too large"}}, 413), ModelUnreachable, "(asked once)"),
    ],
)
def test_a_failure_that_lasts_says_what_it_was(
    answer: Answer, kind: type[ModelError], said: str
) -> None:
    error, _ = failure([answer], retries=RetryPolicy(tries=3))
    assert type(error) is kind and said in str(error) and KEY not in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize("status", [400, 402, 415, 422])
def test_a_refusal_before_any_answer_is_of_the_options_and_ends_the_run(status: int) -> None:
    refusal = Answer({"error": {"message": "bad temperature"}}, status)
    with chat_server([refusal, OK]) as server, pytest.raises(ModelUnusable) as caught:
        ask(endpoint(server.url))
    assert f"answered {status}: bad temperature; check" in str(caught.value)
    assert len(server.requests) == 1


def test_a_refusal_after_an_answer_is_of_the_prompt_and_of_that_episode_alone() -> None:
    refusal = Answer({"error": {"message": "roles must alternate"}}, 400)

    async def call(url: str) -> ChatReply:
        async with httpx.AsyncClient(timeout=None) as client:
            model = EndpointModel(endpoint(url), client)
            await model.complete(REQUEST)
            with pytest.raises(ModelUnreachable, match="roles must alternate"):
                await model.complete(REQUEST)
            return await model.complete(REQUEST)

    with chat_server([OK, refusal, OK]) as server:
        assert asyncio.run(call(server.url)).text == "fine"
    assert len(server.requests) == 3


def test_a_server_that_is_down_is_unreachable() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    clock = Clock()
    with pytest.raises(ModelUnreachable, match="asked 6 times"):
        ask(endpoint(url), clock=clock)
    assert len(clock.pauses) == 5


def test_a_server_that_is_slow_is_given_up() -> None:
    error, server = failure(
        [Answer(completion("late"), slow_s=0.5)],
        request_timeout_s=0.05,
        retries=RetryPolicy(tries=2),
    )
    assert type(error) is ModelTimeout and "within 0.05 s (asked 2 times)" in str(error)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("value", "pause"),
    [("7", 7.0), ("Thu, 01 Jan 2026 12:00:09 GMT", 9.0), ("0", None), ("soon", None), ("-3", None)],
)
def test_a_server_that_asks_to_wait_is_obeyed(value: str, pause: float | None) -> None:
    clock = Clock()
    asked([Answer("", 429, {"Retry-After": value}), OK], clock)
    (paused,) = clock.pauses
    assert paused == pause if pause is not None else 0.25 <= paused <= 0.5


def test_a_server_that_asks_for_longer_than_is_waited_is_given_up_at_once() -> None:
    clock = Clock()
    error, server = failure([Answer("", 429, {"Retry-After": "3600"})], clock)
    assert type(error) is RateLimited and not clock.pauses and len(server.requests) == 1


def test_pauses_double_up_to_a_bound_and_end_in_time() -> None:
    clock = Clock()
    policy = RetryPolicy(tries=100, first_pause_s=1.0, longest_pause_s=8.0, total_s=60.0)
    failure([Answer("", 500)], clock, retries=policy)
    assert all(p / 2 <= q <= p for p, q in zip([1, 2, 4, 8, 8], clock.pauses, strict=False))
    assert 52.0 <= clock.seconds <= 60.0


def test_jitter_is_the_request_s_own() -> None:
    pauses = []
    for seed in (1, 1, 2):
        clock = Clock()
        with chat_server([Answer("", 500), Answer("", 500), OK]) as server:
            ask(endpoint(server.url), ChatRequest(REQUEST.messages, Decoding(), seed), clock)
        pauses.append(clock.pauses)
    assert pauses[0] == pauses[1] != pauses[2]


@pytest.mark.parametrize(
    ("status", "said"), [(401, "does not take the key"), (403, "key"), (404, "no model 'tiny'")]
)
def test_a_wrong_key_or_model_ends_the_run_without_the_key(status: int, said: str) -> None:
    body = {"error": {"message": f"Incorrect API key provided: {KEY}"}}
    with (
        chat_server([Answer(body, status)]) as server,
        pytest.raises(ModelUnusable, match=said) as caught,
    ):
        ask(endpoint(server.url))
    assert KEY not in str(caught.value) and len(server.requests) == 1


def test_a_key_in_the_words_of_a_server_is_not_shown() -> None:
    error, _ = failure([Answer({"error": {"message": f"{KEY} is overloaded"}}, 500)])
    assert KEY not in str(error) and "… is overloaded" in str(error)
    assert KEY not in repr(endpoint("http://h/v1"))


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"code": "context_length_exceeded", "message": "too many"}},
        {"object": "error", "message": "This model's maximum context length is 2048 tokens."},
        {"error": {"code": 400, "type": "exceed_context_size_error", "message": "exceeds"}},
        {"error": {"message": "max_tokens=9 cannot be greater than max_model_len=4", "code": 400}},
        {"detail": "The prompt exceeds the context window of the model"},
    ],
)
def test_a_prompt_that_is_too_long_is_told(body: Any) -> None:
    reply, server = asked([Answer(body, 400)])
    assert reply.finish_reason == "context" and reply.text and len(server.requests) == 1


def test_a_prompt_that_a_filter_stops_is_a_refusal() -> None:
    body = {"error": {"code": "content_filter", "message": "not allowed"}}
    reply, _ = asked([Answer(body, 400)])
    assert reply == ChatReply("not allowed", finish_reason="refusal")


# ------------------------------------------------------------------ settings and any answer


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"url": "ftp://h"}, "no http"),
        ({"url": "h:8000"}, "no http"),
        ({"url": "http://user:word@h/v1"}, "holds a password"),
        ({"model": ""}, "no name"),
        ({"key": "two\nlines"}, "characters that no key has"),
        ({"key": "schlüssel"}, "characters that no key has"),
        ({"request_timeout_s": 0.0}, "request_timeout_s is 0.0"),
    ],
)
def test_wrong_settings_are_refused_without_the_secret(changes: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        Endpoint(**{"url": "http://h/v1", "model": "m", **changes})
    assert "word" not in str(caught.value).replace("password", "")
    assert "lines" not in str(caught.value) and "schl" not in str(caught.value)


def test_an_address_may_be_the_base_or_the_whole() -> None:
    for url in ("http://h/v1", "http://h/v1/", "http://h/v1/chat/completions"):
        assert endpoint(url).address == "http://h/v1/chat/completions"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "message", "content", "tool_calls", "function", "name", "usage", "text"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=20,
)


@settings(max_examples=500)
@given(JSON | st.fixed_dictionaries({"choices": st.lists(JSON, max_size=2), "usage": JSON}))
def test_any_answer_is_a_reply_or_malformed(value: Any) -> None:
    body = json.dumps(value).encode()
    try:
        assert isinstance(read_completion(body), ChatReply)
    except MalformedAnswer as error:
        assert str(error) and "\n" not in str(error)
    read_refused_request(400, body)
    assert "\n" not in error_words(body)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_reply_or_malformed(body: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        read_completion(body)
    assert read_refused_request(400, body) is None
