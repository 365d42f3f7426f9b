"""Sockets of the OpenEnv dialect and their places: whatever ends one frees the other."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from typing import Any

import pytest

from agentgym_suite.servers import openenv
from agentgym_suite.servers.env_specs import Served
from agentgym_suite.servers.hosting import Limits
from tests.servers.asgi_socket import Socket
from tests.servers.counting_server import Closed, Hold
from tests.servers.openenv_calls import BASE, error, serving, step, until

# ------------------------------------------------------ environments that fail


def test_a_broken_environment_is_told_without_its_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with serving() as live:
            client = await live.socket()
            await client.ask({"type": "reset"})
            failed = error(await client.ask(step("add[boom]")), "EXECUTION_ERROR")
            assert "the machine broke" not in failed
            for frame in ({"type": "reset"}, step("add[1]"), {"type": "state"}):
                assert "broken" in error(await client.ask(frame), "SESSION_ERROR")
            client.write('{"type": "close"}')
            assert (await client.end())[0] == 1000
            assert len(live.host.table) == 0
            other = await live.socket()
            assert (await other.ask({"type": "reset"}))["type"] == "observation"

    with caplog.at_level(logging.ERROR):
        asyncio.run(scenario())
    assert "the machine broke" in caplog.text


def test_a_reward_that_is_no_number_breaks_the_session() -> None:
    async def scenario() -> None:
        async with serving() as live:
            client = await live.socket()
            await client.ask({"type": "reset"})
            error(await client.ask(step("say[nan]")), "EXECUTION_ERROR")
            error(await client.ask(step("add[1]")), "SESSION_ERROR")

    asyncio.run(scenario())


@pytest.mark.parametrize("whose", ["server", "dialect"])
def test_a_hanging_step_is_given_up(whose: str) -> None:
    hold = Hold()
    limits = Limits(step_timeout_s=0.2 if whose == "server" else 60)

    async def scenario() -> None:
        answer_s = 55.0 if whose == "server" else 0.2
        async with serving(limits, longest_answer_s=answer_s, hold=hold) as live:
            client = await live.socket()
            await client.ask({"type": "reset"})
            assert "too long" in error(await client.ask(step("say[wait]")), "EXECUTION_ERROR")
            assert "broken" in error(await client.ask({"type": "reset"}), "SESSION_ERROR")
            other = await live.socket()
            await other.ask({"type": "reset"})
            assert (await other.ask(step("add[1]")))["type"] == "observation"
            hold.release.set()
            await client.leave()
            assert len(live.host.table) == 1

    asyncio.run(scenario())


# ------------------------------------------------------------ sockets and places


def test_a_socket_that_vanishes_in_a_step_gives_its_place_back() -> None:
    hold, closed = Hold(), Closed()

    async def scenario() -> None:
        async with serving(Limits(max_sessions=1), hold=hold, closed=closed) as live:
            closed.clear()
            client = await live.socket()
            await client.ask({"type": "reset"})
            client.write(json.dumps(step("say[wait]")))
            await asyncio.to_thread(hold.entered.wait, 20)
            gone = asyncio.ensure_future(client.leave())
            await asyncio.sleep(0)
            hold.release.set()
            await gone
            await until(lambda: len(live.host.table) == 0 and len(closed) == 1)
            assert (await (await live.socket()).ask({"type": "reset"}))["type"] == "observation"

    asyncio.run(scenario())


def test_a_socket_that_vanishes_while_its_session_is_made_leaves_nothing() -> None:
    async def scenario() -> None:
        async with serving(Limits(max_sessions=1)) as live:
            client = Socket(live.app, f"{BASE}/ws")
            await client.leave()
            assert len(live.host.table) == 0

    asyncio.run(scenario())


def test_a_full_server_says_so_and_closes() -> None:
    async def scenario() -> None:
        async with serving(Limits(max_sessions=2)) as live:
            first, _ = await live.socket(), await live.socket()
            await first.ask({"type": "state"})
            await until(lambda: len(live.host.table) == 2)
            third = await live.socket()
            # as the client does: the error is what it reads after its first frame
            answer = await third.ask({"type": "reset", "data": {}})
            error(answer, "CAPACITY_REACHED")
            assert (answer["data"]["active_sessions"], answer["data"]["max_sessions"]) == (2, 2)
            assert (await third.end())[0] == 1013
            await first.leave()
            fourth = await live.socket()
            assert (await fourth.ask({"type": "reset"}))["type"] == "observation"

    asyncio.run(scenario())


def test_who_is_turned_away_and_says_nothing_is_closed_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(openenv, "FAREWELL_S", 0.05)

    async def scenario() -> None:
        async with serving(Limits(max_sessions=1)) as live:
            await (await live.socket()).ask({"type": "state"})
            second = await live.socket()
            error(await second.read(), "CAPACITY_REACHED")
            code, reason = await second.end()
            assert code == 1013
            assert "1 sessions" in reason
            third = await live.socket()
            await third.leave()
            assert len(live.host.table) == 1

    asyncio.run(scenario())


def test_a_silent_socket_is_closed_when_its_lease_ends() -> None:
    async def scenario() -> None:
        async with serving(Limits(lease_s=1)) as live:
            client = await live.socket()
            await client.ask({"type": "reset"})
            for _ in range(4):
                await asyncio.sleep(0.3)
                assert (await client.ask({"type": "state"}))["type"] == "state"
            assert "ended" in error(await client.read(), "SESSION_ERROR")
            assert (await client.end())[0] == 1001
            await until(lambda: len(live.host.table) == 0)
            metrics = (await live.http("GET", "/metrics")).text
            assert 'agentgym_sessions_closed_total{reason="expired"} 1.0' in metrics

    asyncio.run(scenario())


def test_a_session_whose_lease_ended_answers_no_frame() -> None:
    async def scenario() -> None:
        async with serving() as live:
            client = await live.socket()
            await client.ask({"type": "reset"})
            (place,) = live.host.table.live()
            live.host.table.remove(place.id, "expired")
            assert "ended" in error(await client.ask(step("add[1]")), "SESSION_ERROR")
            assert (await client.end())[0] == 1001

    asyncio.run(scenario())


def test_a_draining_server_lets_players_finish_and_takes_no_others() -> None:
    async def scenario() -> None:
        async with serving() as live:
            client = await live.socket()
            await client.ask({"type": "reset"})
            live.host.drain()
            late = await live.socket()
            assert "shutting down" in error(await late.ask({"type": "reset"}), "SESSION_ERROR")
            assert (await late.end())[0] == 1013
            assert (await client.ask(step("add[1]")))["type"] == "observation"
            assert (await live.http("GET", f"{BASE}/health")).status_code == 503

    asyncio.run(scenario())


def test_the_end_of_the_server_ends_a_playing_socket() -> None:
    async def scenario() -> None:
        async with serving() as live:
            client = await live.socket()
            await client.ask({"type": "reset"})
        assert "ended" in error(await client.ask(step("add[1]")), "SESSION_ERROR")
        await client.end()

    asyncio.run(scenario())


def test_an_environment_that_cannot_be_made_is_a_factory_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(served: Served, kwargs: Any) -> Any:
        raise RuntimeError("no more memory")

    async def scenario() -> None:
        async with serving() as live:
            monkeypatch.setattr(Served, "make", fail)
            client = await live.socket()
            message = error(await client.ask({"type": "reset"}), "FACTORY_ERROR")
            assert "no more memory" not in message
            assert (await client.end())[0] == 1011
            await until(lambda: len(live.host.table) == 0)

    asyncio.run(scenario())


def test_a_making_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    hold = Hold()

    def hang(served: Served, kwargs: Any) -> Any:
        hold.release.wait(20)
        raise RuntimeError("nobody waits any more")

    async def scenario() -> None:
        async with serving(longest_answer_s=0.1) as live:
            monkeypatch.setattr(Served, "make", hang)
            client = await live.socket()
            assert "too long" in error(await client.ask({"type": "reset"}), "FACTORY_ERROR")
            assert (await client.end())[0] == 1011
            assert len(live.host.table) == 0
            hold.release.set()

    asyncio.run(scenario())


def test_a_fault_of_the_server_ends_the_session(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(answer: Any) -> str:
        raise RuntimeError("a bug")

    async def scenario() -> None:
        async with serving() as live:
            client = await live.socket()
            monkeypatch.setattr(openenv, "observation_frame", fail)
            client.write('{"type": "reset"}')
            code, reason = await client.end()
            assert code == 1011
            assert "bug" not in reason
            assert len(live.host.table) == 0

    asyncio.run(scenario())
    assert "a bug" in caplog.text


def test_an_unknown_environment_is_named() -> None:
    async def scenario() -> None:
        async with serving() as live:
            client = await live.socket("/compat/openenv/chess/ws")
            message = error(await client.ask({"type": "reset"}), "SESSION_ERROR")
            assert "'chess'" in message
            assert "servedcounting" in message
            assert (await client.end())[0] == 1011
            for path in ("health", "metadata", "schema", "state"):
                answer = await live.http("GET", f"/compat/openenv/chess/{path}")
                assert answer.status_code == 404
            assert (await live.http("POST", "/compat/openenv/chess/step")).status_code == 404

    asyncio.run(scenario())


def test_a_server_that_still_loads_asks_for_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    hold = Hold()
    make = Served.make

    def slow(served: Served, kwargs: Any) -> Any:
        hold.release.wait(20)
        return make(served, kwargs)

    monkeypatch.setattr(Served, "make", slow)

    async def scenario() -> None:
        async with serving(ready=False) as live:
            client = await live.socket()
            assert "being loaded" in error(await client.ask({"type": "reset"}), "SESSION_ERROR")
            assert (await client.end())[0] == 1013
            health = await live.http("GET", f"{BASE}/health")
            assert (health.status_code, health.json()) == (503, {"status": "unhealthy"})
            assert (await live.http("GET", f"{BASE}/schema")).status_code == 503
            hold.release.set()
            await until(lambda: live.host.status[0] == "ready")
            assert (await (await live.socket()).ask({"type": "reset"}))["type"] == "observation"

    asyncio.run(scenario())


# ------------------------------------------------------------------ who may enter


def basic(text: str) -> tuple[bytes, bytes]:
    return b"authorization", b"Basic " + base64.b64encode(text.encode())


@pytest.mark.parametrize("header", [(b"authorization", b"Bearer s3cret"), basic("any:s3cret")])
def test_the_token_opens_a_socket(header: tuple[bytes, bytes]) -> None:
    async def scenario() -> None:
        async with serving(token="s3cret") as live:
            client = await live.socket(f"{BASE}/ws", header)
            assert (await client.ask({"type": "reset"}))["type"] == "observation"

    asyncio.run(scenario())


@pytest.mark.parametrize("headers", [(), (basic("s3cret:other"),), (basic("any:"),)])
def test_without_the_token_there_is_no_socket(headers: tuple[tuple[bytes, bytes], ...]) -> None:
    async def scenario() -> None:
        async with serving(token="s3cret") as live:
            client = Socket(live.app, f"{BASE}/ws", headers)
            message = await client.next_message()
            assert (message["type"], message["status"]) == ("websocket.http.response.start", 401)
            await client.over()
            assert len(live.host.table) == 0

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("origin", "may"),
    [
        (b"http://localhost", True),
        (b"https://evil.example", False),
        (b"null", False),
        (b"http://localhost:99", False),
        (b"http://[", False),
    ],
)
def test_a_page_of_another_site_gets_no_socket(origin: bytes, may: bool) -> None:
    async def scenario() -> None:
        async with serving() as live:
            client = Socket(live.app, f"{BASE}/ws", [(b"origin", origin)])
            message = await client.next_message()
            assert message["type"] == ("websocket.accept" if may else "websocket.close")
            await client.leave()

    asyncio.run(scenario())
