"""The session table: who may use which session, for how long, and what became of the others.

It knows nothing of HTTP or of environments: a session holds any value, and the table's ``close``
says how to let go of it. The environment server, the shop and the foreign dialects share it.

Every method may be called from any thread. Values are closed by whoever takes them out of the
table (``expire``, ``remove``, ``drain``), so that slow closing never happens under its lock.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

T = TypeVar("T")

ID_BYTES = 16
LONGEST_LEASE_S = 86_400
TOMBSTONES = 10_000
TOMBSTONE_S = 86_400.0

Reason = Literal["deleted", "expired", "broken", "shutdown"]


class TableFull(Exception):
    """Every place is taken; live sessions are never given up for a new one."""

    def __init__(self, limit: int, retry_after_s: float) -> None:
        super().__init__(f"all {limit} sessions are in use")
        self.limit = limit
        self.retry_after_s = retry_after_s


class NoSession(Exception):
    """This id was never given out, or too long ago to be remembered."""


class SessionEnded(Exception):
    """This session existed and is over; ``reason`` says how."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(f"the session is {reason}")
        self.reason = reason


@dataclass(eq=False, slots=True)
class Session(Generic[T]):
    """One client's place in the table.

    Attributes:
        id: 128 random bits, URL-safe; whoever knows it owns the session.
        value: what the session holds.
        lease_s: seconds without a call after which the session ends.
        created: monotonic seconds.
        expires: monotonic seconds; moved on by every call.
        lock: held while the value is in use, so that a session does one thing at a time.
    """

    id: str
    value: T
    lease_s: float
    created: float
    expires: float
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def short_id(self) -> str:
        """The form that may be logged or shown to others."""
        return f"{self.id[:6]}…"


class SessionTable(Generic[T]):
    """Sessions with leases, a maximum, and a memory of the ended ones.

    Args:
        limit: most live sessions at a time.
        lease_s: lease of a session that asks for none, in seconds.
        clock: monotonic seconds (tests pass their own).
        on_end: told the reason of every ended session (for metrics).
        new_id: makes an id that cannot be guessed.
    """

    def __init__(
        self,
        *,
        limit: int,
        lease_s: float,
        clock: Callable[[], float] = time.monotonic,
        on_end: Callable[[Session[T], Reason], None] | None = None,
        new_id: Callable[[], str] = lambda: secrets.token_urlsafe(ID_BYTES),
    ) -> None:
        self.limit = limit
        self.lease_s = lease_s
        self._clock = clock
        self._on_end = on_end
        self._new_id = new_id
        self._live: dict[str, Session[T]] = {}
        self._ended: OrderedDict[str, tuple[Reason, float]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._live)

    def live(self) -> list[Session[T]]:
        """The sessions of this moment, oldest first."""
        with self._lock:
            return list(self._live.values())

    def add(self, value: T, lease_s: float | None = None) -> Session[T]:
        """A new session.

        Raises:
            TableFull: ``limit`` sessions are live.
        """
        with self._lock:
            return self._add(self._new_id(), value, self.lease_s if lease_s is None else lease_s)

    def open(self, session_id: str, make: Callable[[], T]) -> Session[T]:
        """The live session of a name that the client chose, made now if there is none.

        For values that need no closing: an expired one is replaced where it stands.

        Raises:
            TableFull: it would be made and ``limit`` sessions are live.
        """
        with self._lock:
            session = self._live.get(session_id)
            now = self._clock()
            if session is not None and (session.expires > now or session.lock.locked()):
                session.expires = now + session.lease_s
                return session
            if session is not None:
                del self._live[session_id]
            session = self._add(session_id, make(), self.lease_s)
            self._ended.pop(session_id, None)
            return session

    def get(self, session_id: str) -> Session[T]:
        """The live session of this id, its lease renewed.

        Raises:
            NoSession: the id is unknown.
            SessionEnded: the session is over.
        """
        with self._lock:
            session = self._live.get(session_id)
            if session is not None:
                now = self._clock()
                # one whose lease ran out is over even before the reaper comes by
                if session.expires > now or session.lock.locked():
                    session.expires = now + session.lease_s
                    return session
                raise SessionEnded("expired")
            self._forget_old()
            if session_id in self._ended:
                raise SessionEnded(self._ended[session_id][0])
            raise NoSession(session_id)

    def renew(self, session: Session[T], lease_s: float | None = None) -> None:
        """Start the lease of a session anew, from now on with another length if given."""
        with self._lock:
            if lease_s is not None:
                session.lease_s = lease_s
            session.expires = self._clock() + session.lease_s

    def expires_in(self, session: Session[T]) -> float:
        """Seconds that are left of a session's lease."""
        return session.expires - self._clock()

    def age(self, session: Session[T]) -> float:
        """Seconds since the session was made."""
        return self._clock() - session.created

    def remove(self, session_id: str, reason: Reason = "deleted") -> Session[T] | None:
        """Take a session out, for the caller to close; None if it had ended before.

        Raises:
            NoSession: the id is unknown.
        """
        with self._lock:
            session = self._live.pop(session_id, None)
            if session is None:
                self._forget_old()
                if session_id not in self._ended:
                    raise NoSession(session_id)
                return None
            self._bury(session, reason)
        self._report(session, reason)
        return session

    def expire(self) -> list[Session[T]]:
        """Take out every session whose lease ran out, for the caller to close."""
        now = self._clock()
        with self._lock:
            # a session at work is in use, however long its client has been silent
            over = [s for s in self._live.values() if s.expires <= now and not s.lock.locked()]
            for session in over:
                del self._live[session.id]
                self._bury(session, "expired")
            self._forget_old()
        for session in over:
            self._report(session, "expired")
        return over

    def drain(self) -> list[Session[T]]:
        """Take out every session, for the caller to close: the server stops."""
        with self._lock:
            over = list(self._live.values())
            self._live.clear()
            for session in over:
                self._bury(session, "shutdown")
        for session in over:
            self._report(session, "shutdown")
        return over

    def _add(self, session_id: str, value: T, lease_s: float) -> Session[T]:
        now = self._clock()
        if len(self._live) >= self.limit:
            soonest = min(session.expires for session in self._live.values())
            raise TableFull(self.limit, max(1.0, min(soonest - now, 60.0)))
        session = Session(session_id, value, lease_s, now, now + lease_s)
        self._live[session_id] = session
        return session

    def _bury(self, session: Session[T], reason: Reason) -> None:
        self._ended[session.id] = (reason, self._clock())
        if len(self._ended) > TOMBSTONES:
            self._ended.popitem(last=False)

    def _forget_old(self) -> None:
        oldest_kept = self._clock() - TOMBSTONE_S
        while self._ended:
            session_id, (_, ended) = next(iter(self._ended.items()))
            if ended > oldest_kept:
                return
            del self._ended[session_id]

    def _report(self, session: Session[T], reason: Reason) -> None:
        if self._on_end is not None:
            self._on_end(session, reason)
