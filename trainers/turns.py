"""``TurnEngine``: the replies of all running episodes, sampled together in a fixed order.

It waits until every running episode has asked, and hands the engine their prompts in the order of
their seeds. What is computed beside what is then the same in every run, and so are the bits: a
training that was killed goes on exactly as if it had not been. For environments that answer
faster than the model thinks; slow ones are served better by continuous batching.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agentgym_suite.engines.tokens import Generated, Sampling, TokenEngine


class Replies(Protocol):
    """Whom a player asks for its replies."""

    async def reply(self, episode: int, prompt: Sequence[int], seed: int) -> Generated:
        """The reply to an episode's next prompt."""
        ...

    def leave(self, episode: int) -> None:
        """The episode asks no more; called from any thread."""
        ...


@dataclass(frozen=True, slots=True)
class _Asked:
    prompt: tuple[int, ...]
    seed: int
    answer: asyncio.Future[Generated] = field(compare=False)


class TurnEngine:
    """One engine for the episodes of one collection.

    Args:
        engine: samples a list of prompts.
        sampling: how.
        seeds: of all episodes that will ask; each names one, until it leaves.
        patience_s: an episode that has neither asked nor left for so long is not waited for.
    """

    def __init__(
        self,
        engine: TokenEngine,
        sampling: Sampling,
        seeds: Sequence[int],
        *,
        patience_s: float = 30.0,
    ) -> None:
        self._engine = engine
        self._sampling = sampling
        self._running = set(seeds)
        self._asked: dict[int, _Asked] = {}
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._late: asyncio.TimerHandle | None = None

    async def reply(self, episode: int, prompt: Sequence[int], seed: int) -> Generated:
        """The reply to an episode's next prompt.

        Args:
            episode: its seed.
            prompt: token ids.
            seed: of this reply.

        Raises:
            AgentGymSuiteError: what the engine says of this turn.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Generated] = loop.create_future()
        with self._lock:
            self._loop = loop
            self._running.add(episode)
            self._asked[episode] = _Asked(tuple(prompt), seed, answer)
        self._answer_when_complete()
        return await answer

    def leave(self, episode: int) -> None:
        """The episode asks no more; called from any thread."""
        with self._lock:
            self._running.discard(episode)
            loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._answer_when_complete)

    def _answer_when_complete(self) -> None:
        with self._lock:
            waited_for = self._running - self._asked.keys()
            asked = bool(self._asked)
        if self._late is not None:
            self._late.cancel()
            self._late = None
        if asked and not waited_for:
            self._answer()
        elif asked:
            loop = asyncio.get_running_loop()
            self._late = loop.call_later(self._patience_s, self._answer)

    def _answer(self) -> None:
        """Sample for all who asked; who did not is waited for again when it asks."""
        with self._lock:
            asked, self._asked = dict(sorted(self._asked.items())), {}
            self._running &= asked.keys()
        waiting = [one for one in asked.values() if not one.answer.done()]
        if not waiting:
            return
        try:
            replies = self._engine.generate(
                [one.prompt for one in waiting], self._sampling, [one.seed for one in waiting]
            )
        except Exception as error:  # belongs to those who asked
            for one in waiting:
                one.answer.set_exception(error)
            return
        for one, reply in zip(waiting, replies, strict=True):
            one.answer.set_result(reply)
