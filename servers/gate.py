"""What every request passes before a route sees it: an id, the Host check, and the token.

A plain ASGI wrapper: it reads no body and holds no response back.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
import re
import secrets
from collections.abc import Collection, Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from agentgym_suite.servers.problems import Problem, Respond, problem_response

REQUEST_ID_HEADER = "X-Request-Id"
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")

_SOUND_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_log = logging.getLogger(__name__)


class Gate:
    """Guards an application.

    Args:
        app: what is behind it.
        token: what ``Authorization: Bearer`` must carry; None for no check.
        hosts: names that a ``Host`` header may have; empty for any. A page of a foreign site that
            resolves its own name to this machine is kept out so.
        public_paths: paths that need no token.
        headers: headers of every answer.
        key_header: a header that may carry the token instead; empty for none.
        basic_prefix: below it the password of ``Authorization: Basic`` may be the token, for
            clients that can set nothing but an address; empty for nowhere.
        respond: makes the answer to a request that may not pass.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str | None = None,
        hosts: Sequence[str] = (),
        public_paths: Collection[str] = (),
        headers: Sequence[tuple[str, str]] = (),
        key_header: str = "",
        basic_prefix: str = "",
        respond: Respond = problem_response,
    ) -> None:
        self._app = app
        self._token = None if token is None else token.encode("utf-8")
        self._hosts = frozenset(hosts)
        self._public_paths = frozenset(public_paths)
        self._headers = tuple(headers)
        self._key_header = key_header
        self._basic_prefix = basic_prefix
        self._respond = respond

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] == "websocket":
            await self._pass_socket(scope, receive, send)
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request_id = headers.get(REQUEST_ID_HEADER, "")
        if not _SOUND_ID.fullmatch(request_id):
            request_id = secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        finished = False

        async def send_with_headers(message: Message) -> None:
            nonlocal finished
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                answer[REQUEST_ID_HEADER] = request_id
                for name, value in self._headers:
                    answer.setdefault(name, value)
            elif message["type"] == "http.response.body":
                finished = not message.get("more_body", False)
            await send(message)

        try:
            self._check(scope, headers)
            await self._app(scope, receive, send_with_headers)
        except Problem as problem:
            await self._respond(problem, request_id)(scope, receive, send_with_headers)
        except Exception:
            # the application answered before it raised; what it raised is for the log
            _log.exception("request %s failed", request_id)
            if not finished:
                raise

    async def _pass_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._check(scope, Headers(scope=scope))
        except Problem as problem:
            socket = WebSocket(scope, receive, send)
            if "websocket.http.response" in scope.get("extensions", {}):
                await socket.send_denial_response(self._respond(problem, secrets.token_hex(8)))
            else:
                await socket.close()
            return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope, headers: Headers) -> None:
        if self._hosts and _host_name(headers.get("host", "")) not in self._hosts:
            raise Problem(
                "forbidden-host",
                f"this server is not {headers.get('host', '')[:80]!r}; "
                f"address it as {' or '.join(sorted(self._hosts))}",
            )
        if self._token is None or scope["path"] in self._public_paths:
            return
        given = self._given_token(scope["path"], headers)
        if not hmac.compare_digest(given, self._token):
            ways = ["Authorization: Bearer", *filter(None, [self._key_header])]
            raise Problem(
                "unauthorized",
                f"the token is missing or wrong; send {' or '.join(ways)} with the server's token, "
                "or give it as token= in Python",
                headers={"WWW-Authenticate": 'Bearer realm="agentgym-suite"'},
            )

    def _given_token(self, path: str, headers: Headers) -> bytes:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "basic" and self._basic_prefix and path.startswith(self._basic_prefix):
            return _password(given)
        if scheme.lower() != "bearer":
            given = headers.get(self._key_header, "") if self._key_header else ""
        # header values are read as Latin-1, so this gives the bytes that were sent
        return given.strip().encode("latin-1")


def _password(credentials: str) -> bytes:
    try:
        decoded = base64.b64decode(credentials.strip(), validate=True)
    except (binascii.Error, ValueError):
        return b""
    return decoded.partition(b":")[2]


def _host_name(host: str) -> str:
    name = host.lower()
    if name.startswith("["):
        return name[: name.find("]") + 1]
    return name.partition(":")[0]
