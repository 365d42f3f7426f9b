"""Sockets that are crowded, wrong or gone: others have their turn, and the log stays empty."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.websockets import WebSocket

from agentgym_suite.servers.http_server import DrainingServer, open_socket, server_config
from tests.servers.openenv_calls import serving
from tests.servers.protocol_calls import wait_until
from tests.servers.test_cli import wait_until_ready

if importlib.util.find_spec("websockets") is None:
    pytest.skip("websockets is not installed: no sockets to serve", allow_module_level=True)

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from agentgym_suite.servers.web_sockets import BYTES_AT_ONCE

TOKEN = "tok-en_0123456789"
PATH = "/compat/openenv/webshop/ws"
STATE = '{"type": "state"}'
TEXT, CONTINUATION, LAST = 0x1, 0x0, 0x80
SMALLEST_FRAME = 6  # bytes: two of head, four of mask


@dataclass
class Live:
    """A server of the shop that asks for a token, and what it has written to its log."""

    base: str
    log: Path

    @property
    def said(self) -> list[str]:
        return self.log.read_text(encoding="utf-8").splitlines()

    def opened(self, login: str = f"any:{TOKEN}@", path: str = PATH, **more: Any) -> connect:
        address = self.base.removeprefix("http://")
        return connect(f"ws://{login}{address}{path}", proxy=None, compression=None, **more)

    @property
    def sessions(self) -> int:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        answer = httpx.get(f"{self.base}/v1/sessions", headers=headers, trust_env=False)
        return len(answer.json()["sessions"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "token").write_text(TOKEN, encoding="utf-8")
    with open_socket("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "agentgym_suite", "serve", "env", "--env", "WebShop-v0"]
    options = ["--compat", "openenv", "--token-file", str(folder / "token"), "--port", str(port)]
    environment = {**os.environ, "AGENTGYM_SUITE_HOME": str(folder / "home")}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([*command, *options], stderr=log, env=environment)
        try:
            live = Live(f"http://127.0.0.1:{port}", folder / "log")
            wait_until(lambda: _answers(live.base))
            wait_until_ready(live.base)
            yield live
        finally:
            process.kill()
            process.wait()


def _answers(base: str) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(f"{base}/healthz", trust_env=False).status_code == 200
    return False


@pytest.fixture
def live(server: Live) -> Iterator[Live]:
    """The server; nobody is left on it and nothing was logged when a test is over."""
    before = server.said
    yield server
    wait_until(lambda: server.sessions == 0)
    assert server.said[len(before) :] == []


def frame(data: bytes, first: int = LAST | TEXT, *, mask: bool = True) -> bytes:
    """The bytes of a short frame, its mask being zeros."""
    length = len(data)
    assert length < 126
    return bytes([first, length | (0x80 if mask else 0)]) + (b"\0" * 4 if mask else b"") + data


def close_code(client: ClientConnection) -> int | None:
    with pytest.raises(ConnectionClosed):
        while True:
            client.recv(timeout=30)
    return client.close_code


# ------------------------------------------------------------------------ one among others


def test_frames_that_wait_already_let_others_have_their_turn() -> None:
    async def scenario() -> None:
        async with serving() as live:
            crowded, other = await live.socket(), await live.socket()
            await crowded.ask(STATE)
            await other.ask(STATE)
            for _ in range(500):
                crowded.write(STATE)
            await other.ask(STATE)
            assert crowded._from_app.qsize() < 10
            for _ in range(500):
                assert (await crowded.read())["type"] == "state"

    asyncio.run(scenario())


def test_frames_wait_in_the_kernel() -> None:
    over = threading.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await WebSocket(scope, receive, send).accept()
            await asyncio.to_thread(over.wait, 30)

    config = server_config(app, sockets=True)
    server = DrainingServer(config, drain=lambda: None, in_use=lambda: False, drain_s=1)
    with open_socket("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            with connect(f"ws://127.0.0.1:{port}/", proxy=None, compression=None) as client:
                client.socket.settimeout(1)
                with pytest.raises(TimeoutError):  # the client is held back
                    for _ in range(10_000):
                        client.socket.sendall(frame(b"") * 10_000)
                (protocol,) = (each for each in server.server_state.connections)
                waiting = protocol.queue.qsize()  # type: ignore[union-attr]
                assert 0 < waiting <= BYTES_AT_ONCE // SMALLEST_FRAME + 1
                over.set()
        finally:
            over.set()
            server.should_exit = True
            thread.join()


def test_whoever_vanishes_with_frames_waiting_is_answered_no_more(live: Live) -> None:
    for _ in range(3):
        with live.opened() as client:
            client.send(STATE)
            client.recv(timeout=30)
            client.socket.settimeout(0.2)
            with suppress(TimeoutError):
                client.socket.sendall(frame(STATE.encode()) * 50_000)
            # a reset instead of a farewell
            linger = struct.pack("ii", 1, 0)
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            client.socket.shutdown(socket.SHUT_RDWR)


def test_frames_in_a_row_are_answered_in_their_order(live: Live) -> None:
    with live.opened() as client:
        reset = b'{"type":"reset","data":{"seed":1}}'
        step = b'{"type":"step","data":{"text":"search[red]"}}'
        row = [reset, STATE.encode(), step, STATE.encode(), b"[]"]
        client.socket.sendall(b"".join(map(frame, row)))
        answers = [str(client.recv(timeout=30)) for _ in row]
        kinds = [answer.partition('"type":"')[2].partition('"')[0] for answer in answers]
        assert kinds == ["observation", "state", "observation", "state", "error"]
        assert ['"step_count":0' in answers[1], '"step_count":1' in answers[3]] == [True, True]


# ------------------------------------------------------------------ what a client does wrong


@pytest.mark.parametrize(
    "frames",
    [
        [frame(b"\xff\xfe")],
        [frame(b'"\xc3', TEXT), frame(b'("', LAST | CONTINUATION)],
        [frame(b'"\xe4\xbd', TEXT), frame(b"", LAST | CONTINUATION)],  # it ends in a character
        [frame(b"\xed\xa0\x80"), frame(STATE.encode())],  # a surrogate, and more behind it
    ],
)
def test_text_that_is_no_utf8_closes_with_1007(live: Live, frames: list[bytes]) -> None:
    with live.opened() as client:
        client.socket.sendall(b"".join(frames))
        assert close_code(client) == 1007


def test_a_character_in_two_frames_is_read(live: Live) -> None:
    parts = '{"type": "é你😀"}'.encode()
    with live.opened() as client:
        for cut in range(1, len(parts)):
            first, rest = frame(parts[:cut], TEXT), frame(parts[cut:], LAST | CONTINUATION)
            client.socket.sendall(first + rest)
            assert "the frame's type is 'é你😀'" in str(client.recv(timeout=30))
        # after a binary message in two frames, which holds what it likes
        client.socket.sendall(frame(b"\xff", 0x2) + frame(b"\xff", LAST | CONTINUATION))
        assert "is binary" in str(client.recv(timeout=30))


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(STATE.encode(), mask=False), 1002),
        (frame(STATE.encode(), LAST | 0x40 | TEXT), 1002),
        (frame(b"", LAST | 0x3), 1002),
        (frame(b"x", LAST | CONTINUATION), 1002),
        (b"\x81\xff" + struct.pack("!Q", 3 << 20) + b"\0" * 4, 1009),
    ],
)
def test_frames_against_the_protocol_close(live: Live, sent: bytes, code: int) -> None:
    with live.opened() as client:
        client.socket.sendall(sent)
        assert close_code(client) == code


# ------------------------------------------------------------------------ who is not let in


@pytest.mark.parametrize(
    ("login", "more", "status"),
    [
        ("", {}, 401),
        ("any:wrong@", {}, 401),
        (f"any:{TOKEN}@", {"origin": "https://evil.example"}, 403),
    ],
)
def test_a_refused_handshake_is_no_fault_of_the_server(
    live: Live, login: str, more: dict[str, Any], status: int
) -> None:
    with pytest.raises(InvalidStatus) as refused, live.opened(login, **more):
        pass
    response = refused.value.response
    assert response.status_code == status
    if status == 401:
        assert b"the token is missing or wrong" in response.body
        assert response.headers["WWW-Authenticate"].startswith("Bearer")


def test_no_socket_at_another_address(live: Live) -> None:
    with pytest.raises(InvalidStatus) as refused, live.opened(path="/compat/openenv/webshop/wss"):
        pass
    assert refused.value.response.status_code == 403


def test_a_plain_request_is_told_to_upgrade(live: Live) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    answer = httpx.get(f"{live.base}{PATH}", headers=headers, trust_env=False)
    assert (answer.status_code, answer.headers["Upgrade"]) == (426, "websocket")
    assert "is a web socket" in answer.json()["detail"]
    keyless = httpx.get(
        f"{live.base}{PATH}",
        headers={**headers, "Upgrade": "websocket", "Connection": "Upgrade"},
        trust_env=False,
    )
    assert keyless.status_code in (400, 426)
