"""Talking to environment servers: which one, how often, and its problems as typed errors."""

from __future__ import annotations

import os
import random
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import httpx

from agentgym_suite.arguments import shown
from agentgym_suite.errors import (
    AgentGymSuiteError,
    EpisodeNotRunning,
    RemoteEnvError,
    ServerFull,
    ServerUnreachable,
    SessionExpired,
    SessionLost,
    StepTimeout,
    UnknownSplit,
    UnknownTask,
    UsageError,
)

MOST_RETRIES = 5
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
LONGEST_CONNECT_S = 10.0  # whoever does not take a connection by then does not answer either
FAREWELL_S = 5.0  # a server that is gone must not hold up an exit
TYPE_PREFIX = "urn:agentgym-suite:error:"

_RETRIED_STATUS = (502, 503)
_ERRORS: Mapping[str, type[AgentGymSuiteError]] = {
    "no-task": UnknownTask,
    "no-env": UsageError,
    "invalid": UsageError,
    "forbidden-kwarg": UsageError,
    "unauthorized": UsageError,
    "too-large": UsageError,
    "bad-json": UsageError,
    "not-reset": EpisodeNotRunning,
    "episode-over": EpisodeNotRunning,
    "no-session": SessionLost,
    "lease-expired": SessionExpired,
    "step-timeout": StepTimeout,
    "full": ServerFull,
    "overloaded": ServerFull,
    "draining": ServerUnreachable,
    "loading": ServerUnreachable,
}
# after these nothing more can be done with the session
_FATAL = frozenset({"no-session", "lease-expired", "step-timeout", "env-error", "broken"})


class ServerProblem(Exception):
    """An answer that is an error, before it becomes one of the suite's exceptions."""

    def __init__(self, status: int, slug: str, detail: str, field: str, retry_after: str) -> None:
        super().__init__(detail)
        self.status = status
        self.slug = slug
        self.detail = detail
        self.field = field
        self.retry_after_s = float(retry_after) if retry_after.isdecimal() else 0.0

    @property
    def retried(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in _RETRIED_STATUS and self.slug != "draining" or self.slug == "busy"

    def exception(self) -> AgentGymSuiteError:
        """The suite's exception for it."""
        if self.slug == "invalid" and self.field == "split":
            return UnknownSplit(self.detail)
        unnamed = ServerUnreachable if self.status in _RETRIED_STATUS else RemoteEnvError
        kind = _ERRORS.get(self.slug, unnamed)
        if kind is ServerFull:
            return ServerFull(self.detail, self.retry_after_s)
        return kind(self.detail)


class ServerClient:
    """One or several servers that are as good as each other.

    Each instance asks them in an order of its own, which it draws from the system's entropy: many
    instances spread their sessions evenly in the long run, in one process or in several, and share
    no state. Who wants a session at a certain server gives that address alone. Connections are
    opened at the first request of a process, so that the object survives a fork.

    Args:
        urls: the servers' addresses.
        token: their bearer token.
        timeout_s: longest time for one request, retries included.
        lease_s: the lease asked for.
        transport: how requests travel; None for the network.

    Raises:
        UsageError: the address, timeout or lease is wrong.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        token: str | None,
        timeout_s: float,
        lease_s: float,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        for url in urls:
            if not _is_address(url):
                raise UsageError(f"server_url is {shown(url)}; give http://host:port")
        if not urls or timeout_s <= 0 or lease_s < 1:
            raise UsageError(
                f"server_url {list(urls)}, timeout_s {timeout_s}, lease_s {lease_s}; give an "
                "address, a positive timeout and a lease of at least 1 s"
            )
        self.timeout_s = timeout_s
        self.lease_s = lease_s
        self._token = None if token is None else token.encode("utf-8")
        self._transport = transport
        self._random = random.Random(secrets.randbits(64))
        self._urls = [url.rstrip("/") for url in urls]
        self._random.shuffle(self._urls)
        self._http: httpx.Client | None = None
        self._process = -1

    def get(self, path: str) -> dict[str, Any]:
        """A document that every server of the list has."""
        return self._first_answer("GET", path)[1]

    def open_session(self, env_id: str, kwargs: Mapping[str, Any]) -> SessionHandle:
        """A session with the first server that has a place.

        Raises:
            ServerFull, ServerUnreachable: none has; the word of the first that was asked.
        """
        body: dict[str, Any] = {"env_id": env_id, "lease_s": self.lease_s}
        if kwargs:
            body["env_kwargs"] = dict(kwargs)
        url, answer = self._first_answer("POST", "/v1/sessions", body, secrets.token_hex(16))
        return SessionHandle(self, f"{url}/v1/sessions/{answer['session_id']}", answer)

    def _first_answer(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, key: str = ""
    ) -> tuple[str, dict[str, Any]]:
        """The first server that does what is asked, and its answer.

        One that refuses is asked last from then on, and waited for only when all refuse.

        Raises:
            ServerFull, ServerUnreachable: none did.
        """
        deadline = time.monotonic() + self.timeout_s
        refusal: ServerFull | ServerUnreachable | None = None
        for patient in (False, True)[len(self._urls) == 1 :]:
            for url in list(self._urls):
                try:
                    answer = self.ask(method, url + path, body, key, deadline, patient=patient)
                    return url, answer
                except ServerProblem as problem:
                    error = problem.exception()
                    if not isinstance(error, ServerFull | ServerUnreachable):
                        raise error from None
                    refusal = refusal or error
                except ServerUnreachable as error:
                    refusal = refusal or error
                self._urls.remove(url)
                self._urls.append(url)
        raise refusal or ServerUnreachable("there is no server")

    def ask(
        self,
        method: str,
        url: str,
        body: Mapping[str, Any] | None,
        key: str,
        deadline: float | None = None,
        *,
        patient: bool = True,
    ) -> dict[str, Any]:
        """One request, repeated while that makes sense; its JSON answer ({} for none).

        Args:
            method: of HTTP.
            url: whole address.
            body: JSON object; None for no body.
            key: the idempotency key, "" for none.
            deadline: monotonic seconds; None is ``timeout_s`` from now.
            patient: whether to come back to a server that refuses; lost answers are asked for
                again in any case, since the server may have acted.

        Raises:
            ServerProblem: the server's problem.
            ServerUnreachable: no usable answer came in time.
        """
        if deadline is None:
            deadline = time.monotonic() + self.timeout_s
        pause = FIRST_PAUSE_S
        reason = ""
        refusal: ServerProblem | None = None
        attempt = 0
        while (left := deadline - time.monotonic()) > 0:
            attempt += 1
            asked_pause = 0.0
            try:
                return self.once(method, url, body, key, left)
            except ServerProblem as problem:
                # a server that loads its data says how long to wait, and means it
                attempt -= problem.slug == "loading"
                if not patient or not problem.retried or attempt > MOST_RETRIES:
                    raise
                refusal, asked_pause = problem, problem.retry_after_s
            except httpx.TransportError as error:
                refusal, reason = None, f"{type(error).__name__} {error}".strip()
                if not patient and isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
                    break
            wait = max(asked_pause, pause * (0.5 + self._random.random()))
            if attempt > MOST_RETRIES or time.monotonic() + wait > deadline:
                break
            time.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE_S)
        if refusal is not None:  # it answers, so that nobody need look for it
            raise refusal
        raise ServerUnreachable(
            f"{_origin(url)} gave no usable answer "
            f"({reason or 'timeout'}); see that it runs and that the address is right"
        )

    def once(
        self, method: str, url: str, body: Mapping[str, Any] | None, key: str, timeout_s: float
    ) -> dict[str, Any]:
        """One request, not repeated.

        Raises:
            ServerProblem: the server's problem.
            httpx.TransportError: there was no answer.
        """
        headers = {"Idempotency-Key": key} if key else {}
        timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, LONGEST_CONNECT_S))
        try:
            response = self._connections().request(
                method, url, json=body, headers=headers, timeout=timeout
            )
        except httpx.DecodingError as error:
            raise httpx.RemoteProtocolError(str(error), request=error.request) from None
        if response.is_success and not response.content:
            return {}
        document = _document(response)
        if response.is_success and document is not None:
            return document
        raise _problem(response, document or {})

    def _connections(self) -> httpx.Client:
        if self._http is None or self._process != os.getpid():
            bearer = [] if self._token is None else [(b"Authorization", b"Bearer " + self._token)]
            self._http = httpx.Client(
                headers=bearer,
                transport=self._transport,
                # requests go to the named server only, whatever proxies the machine has
                trust_env=False,
            )
            self._process = os.getpid()
        return self._http

    def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        http, self._http = self._http, None
        if http is not None and self._process == os.getpid() and self._transport is None:
            http.close()


class SessionHandle:
    """A session at one server, renewed by a thread until it ends.

    Args:
        client: how to reach the server.
        url: the session's address.
        created: the server's answer to its creation.
    """

    def __init__(self, client: ServerClient, url: str, created: Mapping[str, Any]) -> None:
        self.usable = True
        self.process = os.getpid()
        self.spec: Mapping[str, Any] = created["spec"]
        self._client = client
        self._url = url
        self._ended = threading.Event()
        threading.Thread(
            target=self._keep_alive,
            args=(float(created["lease_s"]) / 3,),
            name="lease renewal",
            daemon=True,
        ).start()

    def get(self, path: str) -> dict[str, Any]:
        """A document below the session's address."""
        return self._ask("GET", path, None, "")

    def post(self, path: str, body: Mapping[str, Any], key: str = "") -> dict[str, Any]:
        """The answer to a call of the session."""
        return self._ask("POST", path, body, key)

    def end(self) -> None:
        """Delete the session at the server, if it can be reached."""
        self._ended.set()
        if not self.usable or self.process != os.getpid():
            return
        self.usable = False
        with suppress(httpx.HTTPError, ServerProblem):
            self._client.once("DELETE", self._url, None, "", FAREWELL_S)

    def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None, key: str
    ) -> dict[str, Any]:
        try:
            return self._client.ask(method, f"{self._url}/{path}", body, key)
        except ServerProblem as problem:
            if problem.slug in _FATAL:
                self._ended.set()
                # a broken session still takes up a place until it is deleted
                if problem.slug not in ("no-session", "lease-expired"):
                    self.end()
                self.usable = False
            raise problem.exception() from None

    def _keep_alive(self, pause_s: float) -> None:
        while not self._ended.wait(pause_s):
            # a failure shows at the next call, which is the place for an exception
            # RuntimeError is httpx's word for a client that was closed meanwhile
            with suppress(httpx.HTTPError, ServerProblem, RuntimeError):
                self._client.once("POST", f"{self._url}/renew", {}, "", self._client.timeout_s)


def _is_address(url: str) -> bool:
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, UnicodeEncodeError):
        return False
    return parsed.scheme in ("http", "https") and bool(parsed.host)


def _origin(url: str | httpx.URL) -> httpx.URL:
    return httpx.URL(url).copy_with(path="/", query=None, userinfo=b"")


def _document(response: httpx.Response) -> dict[str, Any] | None:
    try:
        document = response.json()
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _problem(response: httpx.Response, document: Mapping[str, Any]) -> ServerProblem:
    kind = str(document.get("type", ""))
    slug = kind.removeprefix(TYPE_PREFIX) if kind.startswith(TYPE_PREFIX) else ""
    detail = str(document.get("detail", ""))
    if not slug or not detail:
        detail = (
            f"{_origin(response.url)} answered with status {response.status_code} and no word of "
            "agentgym-suite/1; is it `agentgym-suite serve env`?"
        )
    field = str(document.get("field", ""))
    retry_after = response.headers.get("Retry-After", "")
    return ServerProblem(response.status_code, slug, detail, field, retry_after)
