"""Sessions made under a key: a repeated request gets the one that was made, not another."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agentgym_suite.servers.problems import Problem

KEPT_S = 600.0
MOST_KEPT = 10_000

Created = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class _Creation:
    request: str
    answer: asyncio.Future[Created]
    made: float


class Creations:
    """The keys of the last ten minutes and what was made under them.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[str, _Creation] = {}

    async def once(
        self, key: str, request: str, make: Callable[[], Awaitable[Created]]
    ) -> tuple[Created, bool]:
        """What ``make`` gives, called once per key; and whether that was before.

        Args:
            key: the request's key; "" always makes.
            request: canonical text of the request.
            make: opens the session; a failure is not kept.

        Raises:
            Problem: ``key-mismatch``: the key belonged to another request.
        """
        if not key:
            return await make(), False
        self._forget_old()
        known = self._kept.get(key)
        if known is not None:
            if known.request != request:
                raise Problem(
                    "key-mismatch",
                    f"the key {key[:80]!r} belonged to another request; use a new key",
                )
            return await asyncio.shield(known.answer), True
        answer = asyncio.ensure_future(make())
        self._kept[key] = _Creation(request, answer, self._clock())
        answer.add_done_callback(lambda done: self._forget_failed(key, done))
        # shielded: the client's retry must find what its lost request made
        return await asyncio.shield(answer), False

    def _forget_failed(self, key: str, answer: asyncio.Future[Created]) -> None:
        if answer.cancelled() or answer.exception() is not None:
            self._kept.pop(key, None)

    def _forget_old(self) -> None:
        oldest_kept = self._clock() - KEPT_S
        while self._kept:
            key, creation = next(iter(self._kept.items()))
            if creation.made > oldest_kept and len(self._kept) < MOST_KEPT:
                return
            del self._kept[key]
