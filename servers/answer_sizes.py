"""How large answers may be: one of them, and all that are on their way to clients together.

A process that runs out of memory answers nobody, so a server says no before. What is counted are
characters of passages, since the bytes are known only when they are there already.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agentgym_suite.indexes.passages import Found

MOST_CHARACTERS = 64 << 20  # of one answer
MOST_CHARACTERS_TOGETHER = 256 << 20
COUNTED_FROM = 1 << 16  # smaller answers are many and weigh nothing
PIECE_BYTES = 1 << 18
PIECE_TIMEOUT_S = 60.0

_log = logging.getLogger(__name__)


class AnswerTooLarge(Exception):
    """The passages found hold more than one answer may.

    Args:
        queries: how many had been searched for by then.
        characters: what their passages hold.
    """

    def __init__(self, queries: int, characters: int) -> None:
        super().__init__(f"{characters:,} characters for {queries:,} queries")
        self.queries = queries
        self.characters = characters


class NoRoom(Exception):
    """The answers on their way leave no room for another."""


def answer_size(results: Sequence[Sequence[Found]]) -> int:
    """Characters of the passages as they are sent: title and text alone, and both as contents."""
    return sum(2 * (len(f.passage.title) + len(f.passage.text)) for found in results for f in found)


class AnswerRoom:
    """The characters of all answers that are on their way; used from the event loop only.

    Args:
        limit: most of them together.
    """

    def __init__(self, limit: int = MOST_CHARACTERS_TOGETHER) -> None:
        self.limit = limit
        self.taken = 0

    def take(self, size: int) -> None:
        """Take room, to be given back once; an answer that is alone always gets it.

        Raises:
            NoRoom: others have taken too much.
        """
        if self.taken and self.taken + size > self.limit:
            raise NoRoom(f"{self.taken:,} characters are on their way")
        self.taken += size

    def give_back(self, size: int) -> None:
        """Give room back."""
        self.taken -= size


class LargeAnswer(Response):
    """A body sent in pieces, each when the client took the one before; told when it is over.

    A client that stops reading loses its connection.

    Args:
        body: all of it.
        media_type: its type.
        sent: called once, however the sending ends.
    """

    def __init__(self, body: bytes, media_type: str, sent: Callable[[], None]) -> None:
        super().__init__(body, media_type=media_type)
        self._sent = sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        start = {"type": "http.response.start", "status": self.status_code}
        try:
            await send({**start, "headers": self.raw_headers})
            for first in range(0, len(self.body), PIECE_BYTES):
                piece = self.body[first : first + PIECE_BYTES]
                async with asyncio.timeout(PIECE_TIMEOUT_S):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            async with asyncio.timeout(PIECE_TIMEOUT_S):
                await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            _log.warning("a client took no more of its answer for %g s", PIECE_TIMEOUT_S)
        finally:
            self._sent()
