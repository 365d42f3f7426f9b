"""uvicorn's WebSockets, for clients that send faster than they are answered or leave unfinished.

uvicorn reads as much as has arrived and makes frames of it all. Here a socket's frames wait in the
kernel, which holds the client back, and a client's mistakes are answered without a traceback.
"""

from __future__ import annotations

import asyncio
import codecs
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

# some hundred of the smallest frames: what one socket may have parsed before others have their turn
BYTES_AT_ONCE = 4_096
NOT_UTF8 = 1007  # RFC 6455, section 7.4.1


class PatientSocket(WebSocketsSansIOProtocol, asyncio.BufferedProtocol):
    """One connection; takes uvicorn's arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._room = bytearray(BYTES_AT_ONCE)
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def get_buffer(self, sizehint: int) -> bytearray:
        """Where the event loop puts what it reads next, and no more than has room there."""
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        """Parse what was read."""
        self.data_received(bytes(self._room[:nbytes]))

    def handle_text(self, event: Any) -> None:
        """Take the first frame of a text."""
        self._decoder.reset()
        if self._takes(event):
            super().handle_text(event)

    def handle_cont(self, event: Any) -> None:
        """Take a further frame of a message."""
        if self.curr_msg_data_type == "bytes" or self._takes(event):
            super().handle_cont(event)

    async def send(self, message: Any) -> None:
        """Send what the application says."""
        await super().send(message)
        # uvicorn would report a handshake that was refused as one that nobody answered
        if message["type"] == "websocket.http.response.body" and not message.get("more_body"):
            self.handshake_complete = True

    def _takes(self, event: Any) -> bool:
        """Whether a part of a text is UTF-8; if not, the socket is closed."""
        if self.close_sent:
            return False
        try:
            self._decoder.decode(event.data, event.fin)
        except UnicodeDecodeError:
            self.conn.send_close(NOT_UTF8, "the text is no UTF-8; send JSON in UTF-8")
            self.handle_parser_exception()
            return False
        return True
