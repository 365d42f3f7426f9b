"""HTTP requests to a server that may be busy or away for a moment."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import httpx

from agentgym_suite.errors import RetrievalError, UsageError
from agentgym_suite.files import Json
from agentgym_suite.indexes.thread_counts import ProcessLock

TIMEOUT_S = 60.0
MOST_RETRIES = 3
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 8.0
RETRIED_STATUS = (429, 500, 502, 503, 504)

_SHOWN_CHARACTERS = 200


class RetryingClient:
    """Sends requests and repeats them; threads and forked processes may share it.

    A request is repeated three times when the server cannot be reached, is too slow, or answers
    with a status that says so: after 0.5 s, then twice as long each time, or after what
    ``Retry-After`` asks for.

    Args:
        server: how errors name what is asked, such as "the selector's server".
        token: bearer token, for a server that asks for one.
        headers: further headers of every request.
        timeout_s: longest wait for one answer.
        retried: statuses after which a request is repeated.
        longest_pause_s: between two tries.
        transport: how requests travel; None for the network.
        sleep: waits before a request is repeated.

    Raises:
        UsageError: the timeout is not above 0.
    """

    def __init__(
        self,
        server: str,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
        retried: Collection[int] = RETRIED_STATUS,
        longest_pause_s: float = LONGEST_PAUSE_S,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not timeout_s > 0:
            raise UsageError(f"timeout_s is {timeout_s}; give a positive number of seconds")
        self._server = server
        self._token = token
        self._headers = dict(headers or {})
        self._timeout_s = timeout_s
        self._retried = frozenset(retried)
        self._longest_pause_s = longest_pause_s
        self._transport = transport
        self._sleep = sleep
        self._client: tuple[int, httpx.Client] | None = None
        self._lock = ProcessLock()

    def send(self, method: str, url: str, body: Json = None) -> httpx.Response:
        """The answer to one request, whatever its status, unless it says to come again.

        Raises:
            RetrievalError: no answer came in all tries, or the address cannot be asked.
        """
        # Written here: httpx would leave non-ASCII as it is, and the same body must come each time.
        content = None if body is None else json.dumps(body).encode("ascii")
        headers = dict(self._headers)
        if content is not None:
            headers["Content-Type"] = "application/json"
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        pause = FIRST_PAUSE_S
        asked = 0.0
        reason = ""
        for attempt in range(MOST_RETRIES + 1):
            if attempt:
                self._sleep(min(max(pause, asked), self._longest_pause_s))
                pause, asked = 2 * pause, 0.0
            try:
                answer = self._http().request(method, url, content=content, headers=headers)
            except httpx.TransportError as error:
                reason = f"{type(error).__name__}: {error}"
                continue
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise RetrievalError(
                    f"{url} cannot be asked ({type(error).__name__}: {error}); check the address"
                ) from error
            if answer.status_code not in self._retried:
                return answer
            reason = f"status {answer.status_code}{_said(answer)}"
            after = answer.headers.get("Retry-After", "")
            asked = float(after) if after.isascii() and after.isdecimal() else 0.0
        raise RetrievalError(
            f"{url} gave no answer in {MOST_RETRIES + 1} tries ({reason}); see that "
            f"{self._server} runs and that the address is right"
        )

    def post_json(self, url: str, body: Json) -> Any:
        """What the server answers to a JSON body, as JSON.

        Raises:
            RetrievalError: no answer came, or none with status 200 that is JSON.
        """
        answer = self.send("POST", url, body)
        if answer.status_code != 200:
            raise RetrievalError(
                f"{url} refused the request with status {answer.status_code}{_said(answer)}; see "
                f"that it is the address of {self._server}"
            )
        try:
            return answer.json()
        except (ValueError, RecursionError) as error:
            raise RetrievalError(
                f"{url} gave an answer that is no JSON ({error}); see that it is the address of "
                f"{self._server}"
            ) from error

    def object_at(self, url: str) -> dict[str, Any]:
        """The JSON object that the server has at an address; {} where it has none.

        Raises:
            RetrievalError: the server cannot be reached.
        """
        answer = self.send("GET", url)
        if answer.status_code != 200:
            return {}
        try:
            value = answer.json()
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    def close(self) -> None:
        """Close the connections; the next request opens others."""
        with self._lock:
            opened, self._client = self._client, None
        if opened is not None and opened[0] == os.getpid():
            opened[1].close()

    def _http(self) -> httpx.Client:
        """This process's client: connections may not cross a fork."""
        with self._lock:
            opened = self._client
            if opened is None or opened[0] != os.getpid():
                client = httpx.Client(transport=self._transport, timeout=self._timeout_s)
                opened = self._client = os.getpid(), client
        return opened[1]


def check_url(what: str, url: object) -> httpx.URL:
    """The address of a server, parsed.

    Args:
        what: how the sentence names it, such as "the index address".
        url: ``http(s)://host[:port][/path]``.

    Raises:
        UsageError: it is no such address.
    """
    try:
        parts = httpx.URL(url)  # type: ignore[arg-type]
    except (httpx.InvalidURL, TypeError) as error:
        raise UsageError(f"{what} is {url!r} ({error}); give http://host:port") from error
    if parts.scheme not in ("http", "https") or not parts.host:
        raise UsageError(f"{what} is {url!r}; give http://host:port")
    return parts


def _said(answer: httpx.Response) -> str:
    text = " ".join(answer.text.split())[:_SHOWN_CHARACTERS]
    return f" and said {text!r}" if text else ""
