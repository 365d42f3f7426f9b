from __future__ import annotations

import threading

import pytest

from agentgym_suite.servers.sessions import (
    TOMBSTONE_S,
    TOMBSTONES,
    NoSession,
    Reason,
    Session,
    SessionEnded,
    SessionTable,
    TableFull,
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def table(clock: Clock, limit: int = 3, lease_s: float = 10.0) -> SessionTable[str]:
    return SessionTable(limit=limit, lease_s=lease_s, clock=clock)


def test_ids_have_128_bits_and_differ() -> None:
    sessions: SessionTable[int] = SessionTable(limit=2_000, lease_s=1)
    ids = {sessions.add(i).id for i in range(2_000)}
    assert len(ids) == 2_000
    assert all(len(session_id) == 22 for session_id in ids)


def test_a_full_table_refuses_and_keeps_the_live_ones() -> None:
    clock = Clock()
    sessions = table(clock, limit=2)
    first = sessions.add("a")
    sessions.add("b")
    with pytest.raises(TableFull) as full:
        sessions.add("c")
    assert full.value.retry_after_s == 10
    assert sessions.get(first.id).value == "a"
    sessions.remove(first.id)
    sessions.add("c")


def test_every_call_renews_the_lease() -> None:
    clock = Clock()
    sessions = table(clock)
    place = sessions.add("a")
    for _ in range(5):
        clock.now += 9
        sessions.get(place.id)
    assert sessions.expires_in(place) == 10
    sessions.renew(place, 100)
    assert sessions.expires_in(place) == 100
    assert sessions.age(place) == 45


def test_an_expired_session_is_told_from_an_unknown_one() -> None:
    clock = Clock()
    sessions = table(clock)
    place = sessions.add("a")
    clock.now = 10
    with pytest.raises(SessionEnded) as ended:  # before any reaper
        sessions.get(place.id)
    assert ended.value.reason == "expired"
    assert [session.value for session in sessions.expire()] == ["a"]
    with pytest.raises(SessionEnded):
        sessions.get(place.id)
    with pytest.raises(NoSession):
        sessions.get("never")
    assert sessions.remove(place.id) is None
    with pytest.raises(NoSession):
        sessions.remove("never")


def test_a_session_at_work_does_not_expire() -> None:
    clock = Clock()
    sessions = table(clock)
    place = sessions.add("a")
    with place.lock:
        clock.now = 1_000
        assert sessions.expire() == []
        assert sessions.get(place.id) is place


def test_tombstones_end_with_a_day_or_their_number() -> None:
    clock = Clock()
    sessions: SessionTable[int] = SessionTable(limit=1, lease_s=1, clock=clock)
    first = sessions.add(0)
    sessions.remove(first.id)
    with pytest.raises(SessionEnded) as ended:
        sessions.get(first.id)
    assert ended.value.reason == "deleted"
    for i in range(TOMBSTONES):
        sessions.remove(sessions.add(i).id)
    with pytest.raises(NoSession):
        sessions.get(first.id)
    last = sessions.add(1)
    sessions.remove(last.id)
    clock.now += TOMBSTONE_S
    with pytest.raises(NoSession):
        sessions.get(last.id)


def test_reasons_are_reported_once() -> None:
    told: list[tuple[str, Reason]] = []

    def on_end(session: Session[str], reason: Reason) -> None:
        told.append((session.value, reason))

    clock = Clock()
    sessions: SessionTable[str] = SessionTable(limit=9, lease_s=5, clock=clock, on_end=on_end)
    sessions.remove(sessions.add("a").id)
    sessions.remove(sessions.add("b").id, "broken")
    sessions.add("c")
    clock.now = 5
    sessions.expire()
    sessions.add("d")
    assert [session.value for session in sessions.drain()] == ["d"]
    assert told == [("a", "deleted"), ("b", "broken"), ("c", "expired"), ("d", "shutdown")]
    assert len(sessions) == 0


def test_sessions_under_chosen_names_are_made_once() -> None:
    clock = Clock()
    sessions = table(clock)
    place = sessions.open("abc", lambda: "first")
    assert sessions.open("abc", lambda: "second") is place
    clock.now = 10
    again = sessions.open("abc", lambda: "third")  # over, and begun anew under its name
    assert again is not place
    assert sessions.get("abc").value == "third"


def test_many_threads_never_pass_the_limit() -> None:
    sessions: SessionTable[int] = SessionTable(limit=50, lease_s=60)
    refused = []

    def visit() -> None:
        for i in range(200):
            try:
                place = sessions.add(i)
            except TableFull:
                refused.append(1)
                continue
            assert len(sessions) <= 50
            if i % 3:
                sessions.remove(place.id)

    threads = [threading.Thread(target=visit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sessions) == 50
    assert refused
