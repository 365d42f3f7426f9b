"""A client's end of a web socket to an ASGI application, without a port."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import ASGIApp, Message

from tests.servers.in_process import Lifespan

PATIENCE_S = 20.0


@asynccontextmanager
async def started(app: ASGIApp) -> AsyncIterator[None]:
    """The application between start and stop of its server."""
    lifespan = Lifespan(app)
    await lifespan.start()
    try:
        yield
    finally:
        await lifespan.stop()


class Socket:
    """Sends frames and hears answers; ``closed`` has the code once the server has closed."""

    def __init__(
        self, app: ASGIApp, path: str, headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        self._to_app: asyncio.Queue[Message] = asyncio.Queue()
        self._from_app: asyncio.Queue[Message] = asyncio.Queue()
        self.closed: tuple[int, str] | None = None
        self.gone = False
        scope = {
            "type": "websocket",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "scheme": "ws",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(b"host", b"localhost"), *headers],
            "subprotocols": [],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
            "state": {},
            "extensions": {"websocket.http.response": {}},
        }
        self._to_app.put_nowait({"type": "websocket.connect"})
        self.task = asyncio.ensure_future(app(scope, self._to_app.get, self._take))

    async def _take(self, message: Message) -> None:
        if self.gone:
            raise OSError("the client is gone")
        await self._from_app.put(message)

    async def next_message(self) -> Message:
        async with asyncio.timeout(PATIENCE_S):
            return await self._from_app.get()

    async def opened(self) -> Socket:
        message = await self.next_message()
        assert message["type"] == "websocket.accept", message
        return self

    def write(self, text: str) -> None:
        self._to_app.put_nowait({"type": "websocket.receive", "text": text})

    def write_bytes(self, data: bytes) -> None:
        self._to_app.put_nowait({"type": "websocket.receive", "bytes": data})

    async def read(self) -> dict[str, Any]:
        """The next answer."""
        message = await self.next_message()
        assert message["type"] == "websocket.send", message
        return dict(json.loads(message["text"]))

    async def ask(self, frame: Any) -> dict[str, Any]:
        """The answer to a frame: text as it is, anything else as JSON."""
        self.write(frame if isinstance(frame, str) else json.dumps(frame))
        return await self.read()

    async def end(self) -> tuple[int, str]:
        """Code and reason with which the server closes."""
        message = await self.next_message()
        assert message["type"] == "websocket.close", message
        await self.over()
        return message["code"], message["reason"]

    async def leave(self) -> None:
        """Vanish: nothing can be sent any more."""
        self.gone = True
        self._to_app.put_nowait({"type": "websocket.disconnect", "code": 1006})
        await self.over()

    async def over(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self.task
