"""The bodies of chat endpoints' answers, read with a bound: no server fills the memory.

Answers are asked for without a content coding and refused with one, since a coded body of some
kilobytes unfolds to gigabytes before anything can be counted.
"""

from __future__ import annotations

import httpx

MOST_ANSWER_BYTES = 8 << 20
UNCODED = {"Accept-Encoding": "identity"}
"""The header that asks for a body without a coding."""


class AnswerUnreadable(ValueError):
    """A body that is not read to its end; its text says why, in words of our own."""


async def bounded_body(answer: httpx.Response) -> bytes:
    """The body of a streamed answer.

    Raises:
        AnswerUnreadable: it is too large, or coded.
    """
    refuse_coded(answer)
    received = bytearray()
    async for part in answer.aiter_bytes():
        take_part(received, part)
    return bytes(received)


def refuse_coded(answer: httpx.Response) -> None:
    """Refuse a body with a content coding, before any of it is read.

    Raises:
        AnswerUnreadable: it has one.
    """
    coding = answer.headers.get("Content-Encoding", "").strip().lower()
    if coding not in ("", "identity"):
        raise AnswerUnreadable("its answer is compressed, which was not asked for")


def take_part(received: bytearray, part: bytes) -> None:
    """Add a part of a body to what is there.

    Raises:
        AnswerUnreadable: the body is too large.
    """
    received += part
    if len(received) > MOST_ANSWER_BYTES:
        raise AnswerUnreadable(f"its answer is larger than {MOST_ANSWER_BYTES >> 20} MB")
