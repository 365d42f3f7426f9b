"""An ASGI application behind a synchronous httpx transport, without a port."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from starlette.types import ASGIApp, Message


class LoopTransport(httpx.BaseTransport):
    """Sends every request to an application that runs in an event loop of its own."""

    def __init__(self, app: ASGIApp, loop: asyncio.AbstractEventLoop) -> None:
        self._inner = httpx.ASGITransport(app=app)
        self._loop = loop
        self.lose_answers = 0
        self.requests: list[str] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> LoopTransport:
        return self  # gymnasium copies an environment's arguments deeply

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(f"{request.method} {request.url.path}")
        answer = asyncio.run_coroutine_threadsafe(self._send(request), self._loop).result(60)
        if self.lose_answers > 0:
            self.lose_answers -= 1
            raise httpx.ReadError("the answer was lost", request=request)
        return answer

    async def _send(self, request: httpx.Request) -> httpx.Response:
        inner = httpx.Request(
            request.method, request.url, headers=request.headers, content=request.content
        )
        response = await self._inner.handle_async_request(inner)
        body = await response.aread()
        return httpx.Response(response.status_code, headers=response.headers, content=body)


@contextmanager
def running(app: ASGIApp) -> Iterator[LoopTransport]:
    """The application, started and stopped as a server would."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    lifespan = Lifespan(app)
    try:
        asyncio.run_coroutine_threadsafe(lifespan.start(), loop).result(30)
        yield LoopTransport(app, loop)
    finally:
        asyncio.run_coroutine_threadsafe(lifespan.stop(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class Lifespan:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._to_app: asyncio.Queue[Message] = asyncio.Queue()
        self._from_app: asyncio.Queue[Message] = asyncio.Queue()
        self._task: asyncio.Task[Any] | None = None

    async def _run(self) -> None:
        await self._app({"type": "lifespan", "state": {}}, self._to_app.get, self._from_app.put)

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run())
        await self._to_app.put({"type": "lifespan.startup"})
        assert (await self._from_app.get())["type"] == "lifespan.startup.complete"

    async def stop(self) -> None:
        await self._to_app.put({"type": "lifespan.shutdown"})
        assert (await self._from_app.get())["type"] == "lifespan.shutdown.complete"
        assert self._task is not None
        await self._task
