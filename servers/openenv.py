"""The OpenEnv dialect: one web socket is one session, for openenv-core's clients as they are.

    WS     /compat/openenv/{env}/ws              reset, step, state, close: see ``openenv_frames``
    GET    /compat/openenv/{env}/ws              426: a web socket is to be opened there
    GET    /compat/openenv/{env}/health, /metadata, /schema, /state
    POST   /compat/openenv/{env}/reset, /step    409: an episode needs the socket

``{env}`` is an environment's id in lower case without ``-v0``. A session is made when its socket
opens and ends with it, whoever closes it and why; a silent one ends when its lease does.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect

from agentgym_suite.servers.hosting import EnvHost, EnvPlace
from agentgym_suite.servers.openenv_documents import NO_STATE, metadata, schemas
from agentgym_suite.servers.openenv_frames import (
    Frame,
    FrameError,
    error_frame,
    error_of,
    observation_frame,
    read_frame,
    state_frame,
)
from agentgym_suite.servers.problems import JSON_TYPE, LOGGED, LOGGED_BRIEFLY, Problem, encode_json

PREFIX = "/compat/openenv/{env}"
LONGEST_ANSWER_S = 55.0  # the client waits 60 s for an answer
FAREWELL_S = 5.0
LONGEST_REASON_BYTES = 123  # of a close frame, by RFC 6455

NORMAL, GOING_AWAY, FAILED, TRY_LATER = 1000, 1001, 1011, 1013
_ENDED = ("no-session", "lease-expired")
_PASSING = ("full", "draining", "loading")
_UNMADE = ("env-error", "step-timeout", "overloaded", "broken")

_log = logging.getLogger(__name__)


def openenv_routes(host: EnvHost, *, longest_answer_s: float = LONGEST_ANSWER_S) -> list[BaseRoute]:
    """The routes of the dialect.

    Args:
        host: the environments and their sessions.
        longest_answer_s: after this many seconds a reset or step is given up.
    """
    return _OpenEnv(host, longest_answer_s).routes


def openenv_names(host: EnvHost) -> dict[str, str]:
    """The environments of a server: name in addresses -> environment id."""
    return {env_id.lower().removesuffix("-v0"): env_id for env_id in host.served}


class _OpenEnv:
    def __init__(self, host: EnvHost, longest_answer_s: float) -> None:
        self._host = host
        self._longest_answer_s = longest_answer_s
        self._names = openenv_names(host)

    @property
    def routes(self) -> list[BaseRoute]:
        return [
            WebSocketRoute(f"{PREFIX}/ws", self.socket),
            Route(f"{PREFIX}/ws", self.ask_for_socket, methods=["GET"]),
            Route(f"{PREFIX}/health", self.health, methods=["GET"]),
            Route(f"{PREFIX}/metadata", self.metadata, methods=["GET"]),
            Route(f"{PREFIX}/schema", self.schema, methods=["GET"]),
            Route(f"{PREFIX}/state", self.state, methods=["GET"]),
            Route(f"{PREFIX}/reset", self.refuse, methods=["POST"]),
            Route(f"{PREFIX}/step", self.refuse, methods=["POST"]),
        ]

    # -------------------------------------------------------------------------- plain HTTP

    async def health(self, request: Request) -> Response:
        """Whether a socket would get a session."""
        self._env_id(request.path_params["env"])
        healthy = self._host.status[0] == "ready"
        return _json({"status": "healthy" if healthy else "unhealthy"}, 200 if healthy else 503)

    async def metadata(self, request: Request) -> Response:
        """Name, description and version."""
        return _json(metadata(self._info(request)))

    async def schema(self, request: Request) -> Response:
        """JSON schemas of action, observation and state."""
        return _json(schemas(self._info(request)))

    async def state(self, request: Request) -> Response:
        """The state of an environment that was never reset: a request has no session."""
        self._env_id(request.path_params["env"])
        return _json(NO_STATE)

    async def refuse(self, request: Request) -> Response:
        """An episode over single requests would begin anew with each."""
        env = request.path_params["env"]
        self._env_id(env)
        address = f"{PREFIX.format(env=env)}/ws"
        return _json(
            {"detail": f"a request has no session to play in; play over the web socket {address}"},
            409,
        )

    async def ask_for_socket(self, request: Request) -> Response:
        """What a browser or a script gets that asks for the socket's address as for a page."""
        env = request.path_params["env"]
        self._env_id(env)
        base = PREFIX.format(env=env)
        return _json(
            {"detail": f"{base}/ws is a web socket and no page; give OpenEnv's client {base}"},
            426,
            {"Upgrade": "websocket", "Connection": "Upgrade"},
        )

    def _info(self, request: Request) -> dict[str, Any]:
        env_id = self._env_id(request.path_params["env"])
        if env_id not in self._host.infos:
            raise Problem("loading", f"{self._host.status[1]}; try again", retry_after_s=1)
        return self._host.infos[env_id]

    def _env_id(self, name: str) -> str:
        if name not in self._names:
            raise Problem("no-env", f"{name[:80]!r} is not served; use {', '.join(self._names)}")
        return self._names[name]

    # ----------------------------------------------------------------------- the web socket

    async def socket(self, socket: WebSocket) -> None:
        """One client, from its connection to its leave."""
        if _is_foreign_page(socket):
            await socket.close()
            return
        try:
            await socket.accept()
        except OSError:  # it has left already
            return
        with suppress(WebSocketDisconnect):
            try:
                env_id = self._env_id(socket.path_params["env"])
                async with asyncio.timeout(self._longest_answer_s):
                    place, _ = await self._host.open(env_id, {}, None)
            except TimeoutError:
                await self._turn_away(socket, Problem("step-timeout", "it took too long to open"))
            except Problem as problem:
                await self._turn_away(socket, problem)
            else:
                await _Seat(self._host, place, self._longest_answer_s).play(socket)

    async def _turn_away(self, socket: WebSocket, problem: Problem) -> None:
        code, message = error_of(problem)
        more = {}
        if problem.slug in _UNMADE:
            _note("a socket", problem)
            code = "FACTORY_ERROR"
        if problem.slug == "full":
            limit = self._host.limits.max_sessions
            more = {"active_sessions": len(self._host.table), "max_sessions": limit}
        await socket.send_text(error_frame(code, message, **more))
        # a client reads the error as the answer to its first frame, which it can send no more
        # once the socket is closed
        with suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL_S):
                await socket.receive()
        await _close(socket, TRY_LATER if problem.slug in _PASSING else FAILED, message)


class _Seat:
    """A socket with its session."""

    def __init__(self, host: EnvHost, place: EnvPlace, longest_answer_s: float) -> None:
        self._host = host
        self._place = place
        self._longest_answer_s = longest_answer_s
        self._episode_id: str | None = None
        self._task_id = ""

    async def play(self, socket: WebSocket) -> None:
        """Answer frame after frame; the session ends with the last."""
        try:
            await self._answer_all(socket)
        except WebSocketDisconnect:
            pass
        except Problem as problem:  # the session has ended
            code, message = error_of(problem)
            await socket.send_text(error_frame(code, message))
            await _close(socket, GOING_AWAY, message)
        except Exception:
            # a fault of this server: the client must hear of it, and the log has what it was
            _log.exception("session %s failed", self._place.short_id)
            await _close(socket, FAILED, "the server failed; its log has the reason")
        finally:
            # one whose lease ran out is the reaper's, which counts it as expired
            if self._host.table.expires_in(self._place) > 0:
                self._host.end(self._place.id)

    async def _answer_all(self, socket: WebSocket) -> None:
        while True:
            message = await self._next_message(socket)
            if message["type"] == "websocket.disconnect":
                return
            try:
                frame = read_frame(message)
                if frame.kind == "close":
                    await _close(socket, NORMAL, "")
                    return
                answer = await self._answer(frame)
            except FrameError as error:
                answer = error_frame(error.code, str(error))
            except Problem as problem:
                if problem.slug in _ENDED:
                    raise
                _note(f"session {self._place.short_id}", problem)
                answer = error_frame(*error_of(problem))
            await socket.send_text(answer)
            # where frames wait already, nothing above would let others have their turn
            await asyncio.sleep(0)

    async def _next_message(self, socket: WebSocket) -> Message:
        table = self._host.table
        while True:
            try:
                async with asyncio.timeout(table.expires_in(self._place)):
                    return await socket.receive()
            except TimeoutError:
                if table.expires_in(self._place) <= 0:
                    self._host.find(self._place.id)  # says that it has expired

    async def _answer(self, frame: Frame) -> str:
        place = self._host.find(self._place.id)
        value = place.value
        if frame.kind == "state":
            return state_frame(
                {
                    "episode_id": self._episode_id,
                    "step_count": value.step_index,
                    "task_id": self._task_id,
                    "state_hash": value.state_hash,
                }
            )
        if frame.kind == "step":
            return observation_frame(await self._step(frame.data["text"]))
        return observation_frame(await self._reset(frame.data))

    async def _reset(self, data: dict[str, Any]) -> dict[str, Any]:
        value = self._place.value
        request: dict[str, Any] = {n: data[n] for n in ("seed", "task_id", "split") if n in data}
        answer = await self._work(lambda: value.reset(request, ""), lambda: None)
        self._episode_id = data.get("episode_id")
        self._task_id = answer["info"]["task_id"]
        return answer

    async def _step(self, action: str) -> dict[str, Any]:
        value = self._place.value
        return await self._work(
            lambda: value.step(action),
            lambda: value.repeated_step(value.episode, value.step_index, action),
        )

    async def _work(
        self, work: Callable[[], bytes], stored: Callable[[], bytes | None]
    ) -> dict[str, Any]:
        place = self._place
        try:
            async with asyncio.timeout(self._longest_answer_s):
                body, _ = await self._host.use_or_repeat(place, ("openenv", object()), work, stored)
        except TimeoutError:
            # whether it will be played is unknown, so that nothing can be played after it
            place.value.broken = "a call took too long"
            raise Problem("step-timeout", f"{place.value.env_id} took too long") from None
        answer: dict[str, Any] = json.loads(body)
        return answer


def _is_foreign_page(socket: WebSocket) -> bool:
    """Whether a page of another site opens the socket; browsers let any page do so."""
    origin = socket.headers.get("origin")
    return origin is not None and origin.partition("://")[2] != socket.headers.get("host", "")


def _note(who: str, problem: Problem) -> None:
    if problem.slug in LOGGED_BRIEFLY:
        _log.warning("%s: %s", who, problem.detail)
    if problem.slug in LOGGED:
        _log.error("%s: %s", who, problem.detail, exc_info=problem)


async def _close(socket: WebSocket, code: int, reason: str) -> None:
    cut = reason.encode("utf-8")[:LONGEST_REASON_BYTES].decode("utf-8", "ignore")
    await socket.close(code, cut)


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encode_json(value), status, headers=headers, media_type=JSON_TYPE)
