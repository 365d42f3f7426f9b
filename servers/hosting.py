"""Environments behind sessions: opening, using one at a time, ending, and stopping the server.

Environment code runs in the worker pool and nowhere else. This module knows no route and no
request, so that every dialect plays through it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from agentgym_suite.arguments import shown_json
from agentgym_suite.errors import AgentGymSuiteError, UsageError
from agentgym_suite.servers.bodies import invalid
from agentgym_suite.servers.env_figures import EnvFigures
from agentgym_suite.servers.env_sessions import EnvSession, RunningWork, Work
from agentgym_suite.servers.env_specs import HORIZON_KWARG, Served, env_info
from agentgym_suite.servers.problems import Problem
from agentgym_suite.servers.sessions import (
    NoSession,
    Session,
    SessionEnded,
    SessionTable,
    TableFull,
)
from agentgym_suite.servers.workers import JobTimeout, PoolOverloaded, WorkerPool

EnvPlace = Session[EnvSession]
LONGEST_REAPER_PAUSE_S = 5.0
NO_HORIZON = -1  # gymnasium's word for "no TimeLimit"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server allows.

    Attributes:
        max_sessions: live sessions at a time.
        lease_s: lease of a session that asks for none.
        step_timeout_s: longest reset or step.
        threads: environments at work at a time.
        queue: requests waiting for a thread.
    """

    max_sessions: int = 256
    lease_s: float = 600.0
    step_timeout_s: float = 60.0
    threads: int = 2
    queue: int = 1_024


class EnvHost:
    """The environments of one server process.

    Args:
        served: which ids, with the server's arguments.
        limits: what is allowed.

    Raises:
        UsageError: an id is served twice, or none is.
    """

    def __init__(self, served: Sequence[Served], limits: Limits) -> None:
        self.served = {entry.env_id: entry for entry in served}
        if not served or len(self.served) != len(served):
            raise UsageError(f"{[s.env_id for s in served]} are to be served; name each id once")
        self.limits = limits
        self.figures = EnvFigures(tuple(self.served))
        self.table: SessionTable[EnvSession] = SessionTable(
            limit=limits.max_sessions,
            lease_s=limits.lease_s,
            on_end=lambda place, reason: self.figures.closed(place.value, reason),
        )
        self.pool = WorkerPool(limits.threads, limits.queue)
        self.figures.watch(self.table, self.pool)
        self.infos: dict[str, dict[str, Any]] = {}
        self.draining = False
        self.failure = ""
        self.loading = True  # until every environment was tried
        self._started = time.monotonic()
        self._background: set[asyncio.Task[Any]] = set()

    @property
    def uptime_s(self) -> float:
        """Seconds since the server was made."""
        return time.monotonic() - self._started

    @property
    def status(self) -> tuple[str, str]:
        """Whether sessions can be opened: "ready", "starting", "failed" or "draining", and why."""
        if self.draining:
            return "draining", "the server is shutting down"
        if self.failure:
            return "failed", self.failure
        if len(self.infos) < len(self.served):
            missing = [env_id for env_id in self.served if env_id not in self.infos]
            return "starting", f"{', '.join(missing)} is being loaded"
        return "ready", ""

    @property
    def useless(self) -> bool:
        """Whether every environment was tried and none can be played."""
        return not self.loading and not self.infos

    # -------------------------------------------------------------------- life of the server

    async def start(self) -> None:
        """Begin to load every environment's data, and to watch over leases."""
        self._spawn(self._load())
        self._spawn(self._reap())

    async def stop(self) -> None:
        """Close every session and let the threads go."""
        self.draining = True
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await asyncio.gather(*(self._close(place) for place in self.table.drain()))
        self.pool.close()

    def drain(self) -> None:
        """Open no more sessions; the running ones go on."""
        self.draining = True

    async def _load(self) -> None:
        for env_id, served in self.served.items():
            try:
                self.infos[env_id] = await self.pool.run(partial(_describe, served))
            except Exception as error:
                # a server that cannot play must say so at /readyz, with the reason in its log
                self.failure = f"{env_id} could not be loaded; see the server's log"
                known = isinstance(error, AgentGymSuiteError)
                _log.error("%s could not be loaded: %s", env_id, error, exc_info=not known)
        self.loading = False

    async def _reap(self) -> None:
        pause = min(LONGEST_REAPER_PAUSE_S, max(0.05, self.limits.lease_s / 4))
        while True:
            await asyncio.sleep(pause)
            for place in self.table.expire():
                _log.info("session %s expired", place.short_id)
                self._spawn(self._close(place))

    # ------------------------------------------------------------------------------ sessions

    async def open(
        self, env_id: str, kwargs: Mapping[str, Any], lease_s: float | None
    ) -> tuple[EnvPlace, dict[str, Any]]:
        """A new session and the spec of its environment.

        Raises:
            Problem: ``no-env``, ``forbidden-kwarg``, ``invalid``, ``draining``, ``full``, …
        """
        if self.draining:
            raise Problem("draining", "the server is shutting down; try another", retry_after_s=30)
        info = self._info(env_id)
        for name, value in kwargs.items():
            if name not in info["remote_kwargs"]:
                raise Problem(
                    "forbidden-kwarg",
                    f"{name[:80]} cannot be set by a client; "
                    f"{env_id} takes {', '.join(info['remote_kwargs'])}",
                    field=f"env_kwargs.{name[:80]}",
                )
            if not _is_plain(value):
                raise invalid(
                    f"env_kwargs.{name}",
                    "is no plain value; give text, number or flag, or a list of these",
                )
        horizon = kwargs.get(HORIZON_KWARG, 1)
        if isinstance(horizon, bool) or not isinstance(horizon, int) or not _is_horizon(horizon):
            raise invalid(
                f"env_kwargs.{HORIZON_KWARG}",
                f"is {shown_json(horizon)}; give 1 or more steps",
            )
        try:
            place = self.table.add(EnvSession(self.served[env_id], kwargs), lease_s)
        except TableFull as full:
            raise Problem(
                "full",
                f"all {full.limit} sessions are in use; delete one or try later",
                retry_after_s=full.retry_after_s,
            ) from None
        try:
            spec = await self.use(place, ("make",), place.value.make)
        except BaseException:
            if self.table.remove(place.id, "broken") is not None:
                self._spawn(self._close(place))
            raise
        self.figures.opened()
        return place, spec

    def find(self, session_id: str) -> EnvPlace:
        """The live session of an id; the call renews its lease.

        Raises:
            Problem: ``no-session``, ``lease-expired`` or ``broken``.
        """
        try:
            place = self.table.get(session_id)
        except NoSession:
            raise Problem(
                "no-session",
                f"the session {session_id[:6]}… does not exist; make a new one",
                session_id=session_id[:64],
            ) from None
        except SessionEnded as ended:
            raise Problem(
                "lease-expired",
                f"the session {session_id[:6]}… is {ended.reason}; make a new one",
                session_id=session_id,
                reason=ended.reason,
            ) from None
        _check_whole(place)
        return place

    def end(self, session_id: str) -> None:
        """End a session; nothing happens if it had ended before.

        Raises:
            Problem: ``no-session`` for an id that was never given out.
        """
        try:
            place = self.table.remove(session_id)
        except NoSession:
            raise Problem(
                "no-session", f"the session {session_id[:6]}… does not exist; nothing was deleted"
            ) from None
        if place is not None:
            self._spawn(self._close(place))

    async def use(
        self, place: EnvPlace, fingerprint: tuple[Any, ...], work: Callable[[], Any]
    ) -> Any:
        """The answer of ``use_or_repeat`` to a request whose answers are not kept."""
        answer, _ = await self.use_or_repeat(place, fingerprint, work, lambda: None)
        return answer

    async def use_or_repeat(
        self,
        place: EnvPlace,
        fingerprint: tuple[Any, ...],
        work: Callable[[], Any],
        stored: Callable[[], bytes | None],
    ) -> tuple[Any, bool]:
        """Run environment work of a session, one at a time.

        Args:
            place: the session.
            fingerprint: what the request asks for; the same request again waits for the answer.
            work: the work, called in a thread.
            stored: the answer kept from before, looked up when the session is free.

        Returns:
            The answer, and whether it was given to an earlier request.

        Raises:
            Problem: ``busy``, ``broken``, ``overloaded``, ``step-timeout`` or ``env-error``.
        """
        value = place.value
        _check_whole(place)
        if not place.lock.acquire(blocking=False):
            running = value.running
            if running is not None and running.fingerprint == fingerprint:
                return await asyncio.shield(running.answer), True
            raise Problem(
                "busy",
                "another request of this session is running; wait for its answer",
                retry_after_s=1,
                session_id=place.id,
            )
        try:
            kept = stored()
        except BaseException:
            place.lock.release()
            raise
        if kept is not None:
            place.lock.release()
            return kept, True
        answer = self._spawn(self._work(place, work))
        value.running = RunningWork(fingerprint, answer)
        # shielded: a client that goes away must not leave a step half told
        return await asyncio.shield(answer), False

    async def _work(self, place: EnvPlace, work: Callable[[], Any]) -> Any:
        value = place.value
        done = value.work = Work()
        try:
            return await self.pool.run(partial(value.run, work), self.limits.step_timeout_s)
        except JobTimeout:
            done.outcome, done.seconds = "timeout", self.limits.step_timeout_s
            value.broken = "a call took too long"
            raise Problem(
                "step-timeout",
                f"{value.env_id} took more than {self.limits.step_timeout_s:g} s; "
                "the session is broken, delete it",
                session_id=place.id,
            ) from None
        except PoolOverloaded:
            raise Problem(
                "overloaded", "too many requests are waiting; try again", retry_after_s=1
            ) from None
        except Problem:
            done.kind = ""  # refused: nothing was played
            raise
        except Exception as error:
            value.broken = "its environment failed"
            raise Problem(
                "env-error",
                f"{value.env_id} failed; the server's log has the reason under this request's id",
                session_id=place.id,
            ) from error
        finally:
            self.figures.worked(value.env_id, done)
            value.running = None
            place.lock.release()
            self.table.renew(place)

    def _info(self, env_id: str) -> dict[str, Any]:
        if env_id not in self.served:
            raise Problem(
                "no-env", f"{env_id[:80]!r} is not served here; use {', '.join(self.served)}"
            )
        if env_id not in self.infos:
            if self.loading:
                raise Problem("loading", f"{env_id} is being loaded; try again", retry_after_s=1)
            raise Problem("overloaded", f"{env_id} could not be loaded; see /readyz")
        return self.infos[env_id]

    async def _close(self, place: EnvPlace) -> None:
        running = place.value.running
        if running is not None:
            await asyncio.wait([running.answer])
        try:
            await self.pool.run(place.value.close, self.limits.step_timeout_s)
        except (JobTimeout, PoolOverloaded) as error:
            _log.error("session %s was not closed: %s", place.short_id, error)
        except Exception:
            _log.exception("session %s: closing failed", place.short_id)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled():
            task.exception()  # read, so that an answer nobody awaited is not reported as lost


def _check_whole(place: EnvPlace) -> None:
    if place.value.broken:
        raise Problem(
            "broken",
            f"the session is broken: {place.value.broken}; delete it and make a new one",
            session_id=place.id,
        )


def _is_plain(value: Any) -> bool:
    """What a client may give for an argument: nothing that holds more than one floor."""
    members = value if isinstance(value, list) else [value]
    return all(isinstance(member, str | int | float | None) for member in members)


def _is_horizon(steps: int) -> bool:
    return steps == NO_HORIZON or 1 <= steps < 1 << 31


def _describe(served: Served) -> dict[str, Any]:
    env = served.make({})
    try:
        _, info = env.reset(seed=0)
        return env_info(served.env_id, env, json.loads(info["provenance"]))
    finally:
        env.close()
