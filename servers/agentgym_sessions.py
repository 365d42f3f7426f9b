"""AgentGym's whole numbers over the server's sessions, and one request of a number at a time.

AgentGym's clients know neither leases nor step numbers: they post, and post again. So requests of
one number are carried out in the order they came, and none is ever taken for another's repetition.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from agentgym_suite.errors import UnknownTask
from agentgym_suite.servers.env_sessions import EnvSession, check_action
from agentgym_suite.servers.env_specs import HORIZON_KWARG, text_env
from agentgym_suite.servers.hosting import NO_HORIZON, EnvHost, EnvPlace
from agentgym_suite.servers.problems import Problem

# so that numbers stay below 2**53 for ever, which every JSON reader carries exactly
FIRST_NUMBER_BITS = 52


@dataclass(frozen=True, slots=True)
class Turn:
    """What an environment said last.

    Attributes:
        observation: its text.
        score: the task's score so far, in [0, 1]; no reward preset changes it.
        done: whether the episode is over.
        info: the environment's info.
    """

    observation: str
    score: float
    done: bool
    info: Mapping[str, Any]


@dataclass(eq=False, slots=True)
class Seat:
    """What stands behind a number.

    Attributes:
        place: the session.
        order: held by the request that is carried out; waiting ones get it in their order.
        asked: the body of the last reset.
        turn: None before the first reset.
    """

    place: EnvPlace
    order: asyncio.Lock = field(default_factory=asyncio.Lock)
    asked: Mapping[str, Any] = field(default_factory=dict)
    turn: Turn | None = None

    @property
    def heard(self) -> Turn:
        """The last turn.

        Raises:
            Problem: ``not-reset``.
        """
        if self.turn is None:
            raise Problem("not-reset", "the environment has no episode yet; post /reset first")
        return self.turn


class Seats:
    """The numbers of one server, counted from a random one; none is given out twice.

    Random, since clients go on posting after a restart: a server that counted from 0 would carry
    their steps out in the sessions of others.

    Args:
        host: the environments and their sessions.
    """

    def __init__(self, host: EnvHost) -> None:
        self._host = host
        self._seats: dict[int, Seat] = {}
        self._first = self._next = secrets.randbits(FIRST_NUMBER_BITS)

    async def open(self, env_id: str, kwargs: Mapping[str, Any]) -> int:
        """The number of a new session. Its episodes have no horizon: these clients count rounds.

        Raises:
            Problem: ``full``, ``draining``, ``loading``, …
        """
        place, _ = await self._host.open(env_id, {**kwargs, HORIZON_KWARG: NO_HORIZON}, None)
        if len(self._seats) >= self._host.table.limit:
            live = set(self._host.table.live())
            self._seats = {n: seat for n, seat in self._seats.items() if seat.place in live}
        number = self._next
        self._next += 1
        self._seats[number] = Seat(place)
        return number

    def numbers(self, env_id: str) -> list[int]:
        """The numbers of an environment's live sessions."""
        live = set(self._host.table.live())
        return [
            number
            for number, seat in self._seats.items()
            if seat.place in live and seat.place.value.env_id == env_id
        ]

    @asynccontextmanager
    async def at(self, number: int, env_id: str) -> AsyncIterator[Seat]:
        """The seat of a number when it is this request's turn; renews the lease.

        Raises:
            Problem: ``no-session`` for a number that was never given out for this environment;
                ``lease-expired`` if its session has ended; ``broken``.
        """
        seat = self._find(number, env_id)
        if seat is None:
            raise _over(number)
        async with seat.order:
            try:
                self._host.find(seat.place.id)
            except Problem as problem:
                raise _over(number) if problem.slug != "broken" else problem from None
            yield seat

    async def close(self, number: int, env_id: str) -> None:
        """End a session after the requests before; nothing happens if it had ended.

        Raises:
            Problem: ``no-session``.
        """
        seat = self._find(number, env_id)
        if seat is None:
            return
        async with seat.order:
            # pop: of two that wait to close, one may find that even the table has forgotten
            if self._seats.pop(number, None) is not None:
                self._host.end(seat.place.id)

    async def reset(
        self,
        seat: Seat,
        asked: Mapping[str, Any],
        choose: Callable[[Any], Mapping[str, Any]],
    ) -> Turn:
        """Begin an episode.

        Args:
            seat: whose.
            asked: the request's body.
            choose: from the environment to ``task_id`` and ``split``; called in a worker thread,
                may raise ``UnknownTask``.

        Raises:
            Problem: ``no-task`` and what ``host.use`` raises; the episode before goes on then.
        """
        value = seat.place.value

        def work() -> Turn:
            try:
                chosen = choose(environment_of(value))
            except UnknownTask as error:
                raise Problem("no-task", str(error)) from None
            answer = value.reset(chosen, "")
            # here, since the client may be gone when the worker is done
            seat.asked, seat.turn = asked, _turn(answer)
            return seat.turn

        turn: Turn = await self._host.use(seat.place, _unlike_any(), work)
        return turn

    async def step(self, seat: Seat, action: str) -> Turn:
        """Play an action.

        Raises:
            Problem: ``too-large``, ``not-reset``, ``episode-over`` and what ``host.use`` raises.
        """
        check_action(action)
        value = seat.place.value

        def work() -> Turn:
            seat.turn = _turn(value.step(action))
            return seat.turn

        turn: Turn
        turn, _ = await self._host.use_or_repeat(
            seat.place,
            _unlike_any(),
            work,
            lambda: value.repeated_step(value.episode, value.step_index, action),
        )
        return turn

    async def look(self, seat: Seat, work: Callable[[Any], Any]) -> Any:
        """What ``work`` reads of the environment, in a worker thread."""
        value = seat.place.value
        return await self._host.use(seat.place, _unlike_any(), lambda: work(environment_of(value)))

    def _find(self, number: int, env_id: str) -> Seat | None:
        seat = self._seats.get(number)
        given = self._first <= number < self._next
        if not given or (seat is not None and seat.place.value.env_id != env_id):
            raise Problem(
                "no-session", f"the id {number} was not given out for {env_id}; post /create"
            )
        return seat


def environment_of(value: EnvSession) -> Any:
    """*Work*: the environment inside its wrappers.

    Raises:
        Problem: ``no-session``: it was closed meanwhile.
    """
    if value.env is None:
        raise Problem("no-session", "the session was closed meanwhile; post /create")
    return text_env(value.env)


def _over(number: int) -> Problem:
    return Problem("lease-expired", f"the session of id {number} has ended; post /create")


def _unlike_any() -> tuple[Any, ...]:
    return ("agentgym", object())


def _turn(answer: bytes) -> Turn:
    told = json.loads(answer)
    info = told["info"]
    done = bool(told.get("terminated") or told.get("truncated"))
    return Turn(told["observation"], float(info["score"]), done, info)
