"""An analyzer behind an OpenAI-compatible chat endpoint: tries again, and asks nothing twice.

The key goes into one header and nowhere else: errors name host and path of the address and never
repeat what a server said, since servers repeat keys.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn

import httpx

from agentgym_suite.answer_bounds import (
    UNCODED,
    AnswerUnreadable,
    refuse_coded,
    take_part,
)
from agentgym_suite.errors import AnalyzerError, UsageError
from agentgym_suite.files import Json, json_digest, make_folder, write_json_atomic
from agentgym_suite.spaces import without_surrogates
from agentgym_suite.trainers.analyzer import AnalyzerReply
from agentgym_suite.trainers.analyzer_prompts import AnalyzerRequest
from agentgym_suite.trainers.analyzer_replies import parse_reply_object

CACHE_VERSION = 1
TIMEOUT_S = 120.0
MOST_TOKENS = 4096
PAUSES_S = (1.0, 5.0, 15.0)
"""Seconds before the first, second and third retry."""

REASONING_OFF: Mapping[str, Mapping[str, Json]] = {
    "thinking": {"thinking": {"type": "disabled"}},
    "chat_template": {"chat_template_kwargs": {"enable_thinking": False}},
    "effort": {"reasoning_effort": "none"},
    "unsaid": {},
}
"""How an endpoint is told not to reason: GLM's and DeepSeek's way, vLLM's, OpenAI's, not at all."""

_ROUTE = "/chat/completions"
_TRIED_AGAIN = frozenset({408, 409, 425, 429})
_NOT_A_COMPLETION = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    RecursionError,
)
_THOUGHT_START, _THOUGHT_END = "<think>", "</think>"


class ChatAnalyzer:
    """Asks a frozen language model, at temperature 0 and without reasoning.

    A request is tried again when no usable JSON object came back, whatever the reason, except
    where the endpoint refused it (a status from 400 on that no waiting mends).

    Args:
        url: ``http(s)://host[:port]/v1``, with or without ``/chat/completions``.
        model: the model's name.
        api_key: bearer key, for an endpoint that asks for one.
        reasoning_off: a name of ``REASONING_OFF``.
        extra: further fields of every request body; part of what the cache goes by.
        max_tokens: longest reply, in tokens.
        timeout_s: longest wait for one whole answer, in seconds.
        retries: 0 to 3.
        cache: folder of earlier answers; None keeps none.
        transport: how requests travel; None for the network.
        sleep: waits between tries.

    Raises:
        UsageError: an argument is wrong.
        DataError: the cache's folder cannot be written.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        api_key: str | None = None,
        reasoning_off: str = "thinking",
        extra: Mapping[str, Json] | None = None,
        max_tokens: int = MOST_TOKENS,
        timeout_s: float = TIMEOUT_S,
        retries: int = 1,
        cache: Path | str | None = None,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if reasoning_off not in REASONING_OFF:
            known = ", ".join(REASONING_OFF)
            raise UsageError(f"reasoning_off {reasoning_off!r} does not exist; use {known}")
        if not 0 <= retries <= len(PAUSES_S):
            raise UsageError(f"retries is {retries}; give 0 to {len(PAUSES_S)}")
        if not timeout_s > 0 or max_tokens < 1:
            raise UsageError(
                f"timeout_s is {timeout_s} and max_tokens {max_tokens}; give numbers above 0"
            )
        self._url = _endpoint(url)
        self._place = f"{self._url.scheme}://{self._url.netloc.decode()}{self._url.path}"
        self._model = model
        self._decoding: Mapping[str, Json] = {
            "temperature": 0,
            "max_tokens": max_tokens,
            **REASONING_OFF[reasoning_off],
            **(extra or {}),
        }
        self._timeout_s = timeout_s
        self._pauses = PAUSES_S[:retries]
        self._cache = None if cache is None else Path(cache)
        if self._cache is not None:
            make_folder(self._cache)
        self._sleep = sleep
        self._http = httpx.Client(
            transport=transport, timeout=timeout_s, headers=_authorization(api_key)
        )

    @property
    def label(self) -> str:
        """The model's name."""
        return self._model

    def reply(self, request: AnalyzerRequest) -> AnalyzerReply:
        """The model's answer, from the cache if it was asked before.

        Raises:
            AnalyzerError: no usable answer came in all tries: ``connection``, ``timeout``,
                ``http_status``, ``malformed_answer``, or a category of ``parse_reply_object``.
        """
        body: dict[str, Json] = {
            "model": self._model,
            "messages": [
                {"role": "system", "content": request.instructions},
                {"role": "user", "content": request.content},
            ],
            **self._decoding,
        }
        digest = json_digest([CACHE_VERSION, body])
        known = self._known(digest)
        if known is not None:
            return known
        reply = self._tried(body)
        self._keep(digest, reply)
        return reply

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _tried(self, body: Mapping[str, Json]) -> AnalyzerReply:
        for pause in (*self._pauses, None):
            try:
                reply = self._asked(body)
                _check_usable(reply)
                return reply
            except _Refused:
                raise
            except AnalyzerError:
                if pause is None:
                    raise
                self._sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _asked(self, body: Mapping[str, Json]) -> AnalyzerReply:
        """The answer to one request that was sent once."""
        # Written here: httpx would leave non-ASCII as it is, and the same body must come each time.
        content = json.dumps(body).encode("ascii")
        deadline = time.monotonic() + self._timeout_s
        received = bytearray()
        headers = {"Content-Type": "application/json", **UNCODED}
        try:
            with self._http.stream("POST", self._url, content=content, headers=headers) as answer:
                if answer.status_code != 200:
                    self._refuse(answer.status_code)
                refuse_coded(answer)
                for part in answer.iter_bytes():
                    take_part(received, part)
                    if time.monotonic() > deadline:
                        raise httpx.ReadTimeout("")
        except AnswerUnreadable as error:
            raise AnalyzerError(
                "malformed_answer", f"{self._place}: {error}; see that it is a chat endpoint"
            ) from error
        except httpx.TimeoutException as error:
            raise AnalyzerError(
                "timeout", f"{self._place} gave no answer within {self._timeout_s} s"
            ) from error
        except httpx.HTTPError as error:
            raise AnalyzerError(
                "connection",
                f"{self._place} cannot be asked ({type(error).__name__}); see that it runs",
            ) from error
        try:
            return _read_answer(json.loads(bytes(received)))
        except _NOT_A_COMPLETION as error:
            raise AnalyzerError(
                "malformed_answer",
                f"{self._place} sent no chat completion ({type(error).__name__}); see that it is "
                "a chat endpoint",
            ) from error

    def _refuse(self, status: int) -> NoReturn:
        message = f"{self._place} answered with status {status}; check address, model and key"
        if status in _TRIED_AGAIN or status >= 500:
            raise AnalyzerError("http_status", message)
        raise _Refused("http_status", message)

    def _known(self, digest: str) -> AnalyzerReply | None:
        """An earlier answer; a file that cannot be read, or is another's, is none."""
        if self._cache is None:
            return None
        try:
            row = json.loads(self._cache_file(digest).read_text(encoding="utf-8"))
            if row["request_digest"] != digest:
                return None
            reply = replace(AnalyzerReply(**row["reply"]), cached=True)
            _check_usable(reply)
        except (OSError, AnalyzerError, *_NOT_A_COMPLETION):
            return None
        return reply

    def _keep(self, digest: str, reply: AnalyzerReply) -> None:
        if self._cache is not None:
            row: dict[str, Json] = {"request_digest": digest, "reply": asdict(reply)}
            write_json_atomic(self._cache_file(digest), row)

    def _cache_file(self, digest: str) -> Path:
        assert self._cache is not None
        return self._cache / f"{digest.removeprefix('sha256:')}.json"


class _Refused(AnalyzerError):
    """A request that would be refused again."""


def _check_usable(reply: AnalyzerReply) -> None:
    parse_reply_object(reply.content, reasoning=reply.reasoning, cut_off=reply.cut_off)


def _read_answer(answer: Any) -> AnalyzerReply:
    """A chat completion; one of ``_NOT_A_COMPLETION`` is raised if it is none."""
    choice = answer["choices"][0]
    message = choice["message"]
    content = _text(message.get("content"))
    reasoning = _text(message.get("reasoning_content") or message.get("reasoning"))
    opened = content.lstrip()
    if opened.startswith(_THOUGHT_START):  # a server that does not part the two
        thought, _, content = opened.removeprefix(_THOUGHT_START).partition(_THOUGHT_END)
        reasoning += thought
    usage = answer.get("usage") or {}
    return AnalyzerReply(
        content,
        reasoning,
        choice.get("finish_reason") == "length",
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")),
    )


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):  # a message in parts
        return "".join(_text(part["text"]) for part in value if part.get("type") == "text")
    if not isinstance(value, str):
        raise ValueError("a text is none")
    return without_surrogates(value)


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _endpoint(url: str) -> httpx.URL:
    try:
        parts = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise UsageError(
            "the analyzer's address cannot be read; give http://host:port/v1"
        ) from error
    if parts.scheme not in ("http", "https") or not parts.host or parts.userinfo:
        raise UsageError(
            "the analyzer's address is not http(s)://host[:port]/v1 without a user; give the key "
            "as api_key"
        )
    path = parts.path.rstrip("/")
    return parts.copy_with(path=path if path.endswith(_ROUTE) else path + _ROUTE)


def _authorization(api_key: str | None) -> dict[str, str]:
    if api_key is None:
        return {}
    if not api_key or not api_key.isascii() or not api_key.isprintable() or " " in api_key:
        raise UsageError(
            "the analyzer's key has characters that no key has; check where it is from"
        )
    return {"Authorization": f"Bearer {api_key}"}
