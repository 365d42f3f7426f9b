"""A chat model behind an OpenAI-compatible endpoint, asked over HTTP and asked again."""

from __future__ import annotations

import asyncio
import json
import math
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import httpx

from agentgym_suite.answer_bounds import UNCODED, AnswerUnreadable, bounded_body
from agentgym_suite.arguments import LONGEST_SHOWN, shown
from agentgym_suite.chat import ChatReply, ChatRequest
from agentgym_suite.endpoint_answers import (
    MalformedAnswer,
    error_words,
    one_line,
    read_completion,
    read_refused_request,
    without_key,
)
from agentgym_suite.errors import (
    ModelError,
    ModelServerError,
    ModelTimeout,
    ModelUnreachable,
    ModelUnusable,
    RateLimited,
    UsageError,
)
from agentgym_suite.json_bounds import keepable
from agentgym_suite.retries import RetryPolicy, retry_after_s
from agentgym_suite.spaces import without_surrogates

OPENAI_URL = "https://api.openai.com/v1"
DEFAULT_REQUEST_TIMEOUT_S = 120.0
_PATH = "/chat/completions"
_OWN_FIELDS = ("model", "messages", "temperature", "top_p", "seed", "tools", "stream", "n")
_MOST_CONNECTIONS = 1000


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is asked, and how.

    Attributes:
        url: the endpoint's base, such as ``http://127.0.0.1:8000/v1``.
        model: the model's name there.
        key: sent as a bearer token; "" sends none. It is never shown.
        request_timeout_s: seconds for one request.
        retries: when a request is sent again.
        fields: further fields of each request, such as a server's own; None removes
            ``max_tokens``.

    Raises:
        UsageError: a value is wrong.
    """

    url: str
    model: str
    key: str = field(default="", repr=False)
    request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S
    retries: RetryPolicy = RetryPolicy()
    fields: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        address = _address(self.url)
        if address is None:
            raise UsageError("the endpoint is no http:// or https:// address; give its base")
        if address.port is not None and not 0 < address.port < 1 << 16:
            raise UsageError(f"the endpoint's port is {address.port}; give 1 to 65,535")
        if address.userinfo:
            raise UsageError("the endpoint holds a password; give the key in a variable instead")
        if not self.model:
            raise UsageError("the endpoint's model has no name; give the one the server knows")
        if not (self.key.isascii() and self.key.isprintable()) or " " in self.key:
            raise UsageError("the key holds characters that no key has; check its variable")
        if not 0 < self.request_timeout_s < math.inf:
            raise UsageError(f"request_timeout_s is {self.request_timeout_s}; give seconds above 0")
        own = sorted(set(self.fields) & set(_OWN_FIELDS))
        if own:
            raise UsageError(f"the field {own[0]} of a request is the suite's; leave it out")
        for name, value in self.fields.items():
            if not keepable(value):
                raise UsageError(
                    f"the field {shown(name)} of a request is {shown(value)}; give a value of few "
                    "levels with finite numbers of at most 64 bits"
                )

    @property
    def address(self) -> str:
        """Where requests go."""
        base = self.url.rstrip("/")
        return base if base.endswith(_PATH) else base + _PATH

    @asynccontextmanager
    async def connect(
        self, transport: httpx.AsyncBaseTransport | None = None
    ) -> AsyncIterator[EndpointModel]:
        """The model with connections of its own; ``transport`` replaces the network."""
        limits = httpx.Limits(max_connections=_MOST_CONNECTIONS)
        async with httpx.AsyncClient(timeout=None, limits=limits, transport=transport) as client:
            yield EndpointModel(self, client)


class EndpointModel:
    """The model of an endpoint.

    Args:
        endpoint: where and how it is asked.
        client: sends the requests; closed by whoever made it.
        sleep: waits for so many seconds.
        clock: seconds since some moment.
        now: the time, for dates that a server names.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        client: httpx.AsyncClient,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._endpoint = endpoint
        self._client = client
        self._answered = False
        self._sleep = sleep
        self._clock = clock
        self._now = now

    async def complete(self, request: ChatRequest) -> ChatReply:
        """The reply; asked for again while that may help and there is time.

        Raises:
            ModelError: the last try failed, too.
            ModelUnusable: the endpoint does not take the key, the model, or any request yet.
        """
        policy = self._endpoint.retries
        body = self._body(request)
        draw = random.Random(request.seed)
        started = self._clock()
        sent = 0
        while True:
            sent += 1
            try:
                return await self._send(body)
            except _Trouble as trouble:
                pause = policy.pause_s(sent, trouble.asked_s, draw)
                late = self._clock() - started + pause > policy.total_s
                if not trouble.passing or sent >= policy.tries or late:
                    tries = "once" if sent == 1 else f"{sent} times"
                    raise trouble.kind(f"{trouble} (asked {tries})") from None
                await self._sleep(pause)

    def _body(self, request: ChatRequest) -> bytes:
        decoding = request.decoding
        body: dict[str, Any] = {
            "model": self._endpoint.model,
            "messages": [message.as_dict() for message in request.messages],
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "seed": request.seed,
        }
        if decoding.max_tokens is not None:
            body["max_tokens"] = decoding.max_tokens
        if request.tools:
            body["tools"] = list(request.tools)
        body |= self._endpoint.fields
        given = {name: value for name, value in body.items() if value is not None}
        return without_surrogates(json.dumps(given, ensure_ascii=False)).encode("utf-8")

    async def _send(self, body: bytes) -> ChatReply:
        """One try.

        Raises:
            _Trouble: it failed.
            ModelUnusable: no try can succeed.
        """
        endpoint = self._endpoint
        headers = {"Content-Type": "application/json", **UNCODED}
        if endpoint.key:
            headers["Authorization"] = f"Bearer {endpoint.key}"
        try:
            async with (
                asyncio.timeout(endpoint.request_timeout_s),
                self._client.stream(
                    "POST", endpoint.address, content=body, headers=headers
                ) as answer,
            ):
                content = await bounded_body(answer)
        except (TimeoutError, httpx.TimeoutException):
            waited = f"{endpoint.request_timeout_s:g} s"
            raise _Trouble(
                ModelTimeout, f"{endpoint.address} gave no answer within {waited}"
            ) from None
        except AnswerUnreadable as error:
            raise _Trouble(ModelUnreachable, f"{endpoint.address}: {error}") from None
        except (httpx.HTTPError, OSError, ExceptionGroup) as error:  # none, or one that broke
            told = self._told(error)
            raise _Trouble(ModelUnreachable, f"{endpoint.address}: {told}") from None
        if answer.is_success:
            try:
                reply = without_key(read_completion(content), endpoint.key)
            except MalformedAnswer as error:
                words = self._without_key(error_words(content))[: 2 * LONGEST_SHOWN]
                said = f"; it says: {words}" if words else ""
                told = f"the answer of {endpoint.address} is no chat completion: {error}{said}"
                raise _Trouble(ModelUnreachable, told) from None
            self._answered = True
            return reply
        stands_for = read_refused_request(answer.status_code, content)
        if stands_for is not None:
            return replace(stands_for, text=self._without_key(stands_for.text))
        raise self._trouble(answer, content)

    def _trouble(self, answer: httpx.Response, content: bytes) -> _Trouble | ModelUnusable:
        """What an answer that is an error means."""
        status, address = answer.status_code, self._endpoint.address
        if status in (401, 403):  # its words may repeat the key
            return ModelUnusable(f"{address} does not take the key ({status}); check its variable")
        words = self._without_key(error_words(content))
        told = f": {words[: 2 * LONGEST_SHOWN]}" if words else ""
        if answer.has_redirect_location:
            target = self._without_key(one_line(answer.headers["Location"]))
            told += f"; it points to {target[: 2 * LONGEST_SHOWN]}, give the base of that address"
        if status == 404:
            model = shown(self._endpoint.model)
            return ModelUnusable(f"{address} has no model {model} (404){told}; check both")
        asked_s = retry_after_s(answer.headers.get("Retry-After"), self._now())
        message = f"{address} answered {status}{told}"
        if status == 429:
            return _Trouble(RateLimited, message, asked_s)
        if status >= 500:
            return _Trouble(ModelServerError, message, asked_s)
        if status == 408:
            return _Trouble(ModelTimeout, message, asked_s)
        if status not in (409, 413) and not self._answered:  # none was taken: it is not the prompt
            return ModelUnusable(f"{message}; check the endpoint and the options of the model")
        return _Trouble(ModelUnreachable, message, asked_s, passing=status == 409)

    def _told(self, error: Exception) -> str:
        """A broken connection in words, without the bytes that broke it: they may be the key."""
        if isinstance(error, ExceptionGroup):  # one for each address of the host
            error = next(iter(error.exceptions))
        words, _, _ = str(error).partition(": bytearray(")
        return self._without_key(one_line(words)) or type(error).__name__

    def _without_key(self, text: str) -> str:
        """A text in which a server may have repeated the key."""
        key = self._endpoint.key
        return text.replace(key, "…") if key else text


class _Trouble(Exception):
    """Why a try failed, and whether another may succeed."""

    def __init__(
        self,
        kind: type[ModelError],
        message: str,
        asked_s: float | None = None,
        *,
        passing: bool = True,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.asked_s = asked_s
        self.passing = passing


def _address(url: str) -> httpx.URL | None:
    try:
        address = httpx.URL(url)
    except httpx.InvalidURL:
        return None
    return address if address.scheme in ("http", "https") and address.host else None
