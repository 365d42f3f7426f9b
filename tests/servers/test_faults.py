"""Clients and wires that misbehave, each over a real socket: what one does harms nobody else."""

from __future__ import annotations

import json
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import gymnasium as gym
import httpx
import pytest

from agentgym_suite import remote_client
from agentgym_suite.errors import StepTimeout
from agentgym_suite.remote import make_remote
from agentgym_suite.servers.env_app import env_app
from agentgym_suite.servers.env_specs import Served
from agentgym_suite.servers.hosting import EnvHost, Limits
from agentgym_suite.servers.http_server import DrainingServer, open_socket, server_config
from tests.servers.counting_server import ENV_ID, Hold
from tests.servers.protocol_calls import create, reset, slug, step, wait_until

EPISODES = 200
ACTIONS = ("add[1]", "add[2]", "add[3]", "say[你好 😀]", "nonsense")


@contextmanager
def listening(
    limits: Limits | None = None, **kwargs: Any
) -> Iterator[tuple[EnvHost, httpx.Client]]:
    """A server of the counting game on a port, and a client of it."""
    host = EnvHost([Served(ENV_ID, kwargs)], limits or Limits())
    config = server_config(env_app(host))
    server = DrainingServer(config, drain=host.drain, in_use=lambda: False, drain_s=1)
    with open_socket("127.0.0.1", 0) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            wait_until(lambda: host.status[0] == "ready")
            with httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
                yield host, client
        finally:
            server.should_exit = True
            thread.join()


def played(client: httpx.Client) -> int:
    """Steps that environments of the server made, whatever was answered."""
    lines = client.get("/metrics").text.splitlines()
    return sum(int(float(line.split()[-1])) for line in lines if "agentgym_steps_total{" in line)


def request_bytes(path: str, body: dict[str, Any], **headers: str) -> bytes:
    content = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(content)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + content


def connect(client: httpx.Client) -> socket.socket:
    return socket.create_connection((client.base_url.host, client.base_url.port or 0), timeout=20)


def cut(connection: socket.socket) -> None:
    """Close so that the other side is told of a reset, not of an end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


# ------------------------------------------------------------------------ clients that vanish


@pytest.mark.parametrize("ending", ["closed", "cut"])
@pytest.mark.parametrize("sent", ["a part of the head", "the head", "a part of the body"])
def test_a_client_that_vanishes_in_its_request_changes_nothing(sent: str, ending: str) -> None:
    with listening() as (host, client):
        session = create(client)
        reset(client, session, task_id=9)
        whole = request_bytes(
            f"{session}/step", {"episode": 1, "step_index": 0, "action": "add[1]"}
        )
        head = whole.index(b"\r\n\r\n") + 4
        lengths = {"a part of the head": 30, "the head": head, "a part of the body": len(whole) - 3}
        for _ in range(20):
            connection = connect(client)
            connection.sendall(whole[: lengths[sent]])
            cut(connection) if ending == "cut" else connection.close()
        answer = step(client, session, 1, 0, "add[1]")
        assert (answer.status_code, answer.json()["step_index"]) == (200, 1)
        assert "Agentgym-Replayed" not in answer.headers
        assert (len(host.table), played(client)) == (1, 1)


@pytest.mark.parametrize("ending", ["closed", "cut"])
def test_a_client_that_vanishes_before_its_answer_can_ask_again(ending: str) -> None:
    hold = Hold()
    with listening(hold=hold) as (_, client):
        session = create(client)
        reset(client, session, task_id=9)
        body = {"episode": 1, "step_index": 0, "action": "say[wait]"}
        connection = connect(client)
        connection.sendall(request_bytes(f"{session}/step", body))
        assert hold.entered.wait(10)  # the environment is at it
        cut(connection) if ending == "cut" else connection.close()
        with ThreadPoolExecutor(1) as pool:
            again = pool.submit(client.post, f"{session}/step", json=body)
            time.sleep(0.05)
            hold.release.set()
            answer = again.result()
        assert (answer.status_code, answer.json()["observation"]) == (200, "wait")
        assert answer.headers["Agentgym-Replayed"] == "1"
        assert played(client) == 1


def test_a_client_that_vanishes_within_its_answer_can_ask_again() -> None:
    with listening() as (_, client):
        session = create(client)
        reset(client, session, task_id=9)
        action = f"say[{'x' * 900_000}]"  # the answer fills every buffer on its way
        body = {"episode": 1, "step_index": 0, "action": action}
        connection = connect(client)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.sendall(request_bytes(f"{session}/step", body))
        assert connection.recv(200).startswith(b"HTTP/1.1 200")
        cut(connection)
        answer = client.post(f"{session}/step", json=body)
        assert answer.headers["Agentgym-Replayed"] == "1"
        assert answer.json()["step_index"] == played(client) == 1


def test_sessions_of_clients_that_vanish_expire() -> None:
    with listening(Limits(max_sessions=5, lease_s=1)) as (host, client):
        for _ in range(5):
            connection = connect(client)
            connection.sendall(request_bytes("/v1/sessions", {"env_id": ENV_ID}))
            connection.recv(100)
            cut(connection)
        assert slug(client.post("/v1/sessions", json={"env_id": ENV_ID})) == "full"
        wait_until(lambda: len(host.table) == 0)
        create(client)


# --------------------------------------------------------------------------------- slow bodies


def test_a_slow_body_holds_nobody_up() -> None:
    with listening() as (_, client):
        session = create(client)
        reset(client, session, task_id=9)
        path = f"{session}/step"
        whole = request_bytes(path, {"episode": 1, "step_index": 0, "action": "add[1]"})
        slow = connect(client)
        slow.sendall(whole[:-20])
        # neither others nor its own session wait for the rest
        assert create(client)
        assert step(client, session, 1, 0, "add[1]").status_code == 200
        for byte in whole[-20:]:
            slow.sendall(bytes([byte]))
            time.sleep(0.005)
        told = slow.recv(65_536)
        assert told.startswith(b"HTTP/1.1 200") and b"agentgym-replayed: 1" in told.lower()
        slow.close()
        assert played(client) == 1


def test_many_bodies_that_never_end_hold_nobody_up() -> None:
    with listening(Limits(threads=1)) as (_, client):
        session = create(client)
        reset(client, session, task_id=9)
        whole = request_bytes(
            f"{session}/step", {"episode": 1, "step_index": 0, "action": "add[1]"}
        )
        stuck = [connect(client) for _ in range(100)]
        for connection in stuck:
            connection.sendall(whole[:-1])
        assert step(client, session, 1, 0, "add[1]").status_code == 200
        for connection in stuck:
            connection.close()


def test_a_body_beyond_the_limit_is_refused_before_it_is_sent() -> None:
    with listening() as (_, client):
        session = create(client)
        answer = client.post(f"{session}/step", content=b" " * (3 << 20))
        assert (answer.status_code, slug(answer)) == (413, "too-large")
        connection = connect(client)
        head = f"POST {session}/step HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9{'0' * 15}"
        connection.sendall(f"{head}\r\n\r\n".encode())
        assert connection.recv(65_536).startswith(b"HTTP/1.1 413")
        connection.close()
        reset(client, session)


# --------------------------------------------------- requests that come twice, late or at once


def test_duplicated_and_reordered_requests_play_every_step_once() -> None:
    local = gym.make(ENV_ID)
    dice = random.Random(5)
    steps = 0
    with listening() as (_, client), ThreadPoolExecutor(4) as pool:
        session = create(client)
        for episode in range(1, 31):
            seed = dice.randrange(1_000)
            expected, _ = local.reset(seed=seed)
            assert reset(client, session, seed=seed)["observation"] == expected
            sent: list[tuple[int, int, str]] = []
            over = False
            while not over:
                action = dice.choice(ACTIONS)
                sent.append((episode, len(sent), action))
                # the wire brings the newest one twice, in any order with up to two old ones
                batch = [sent[-1], sent[-1], *dice.sample(sent, min(2, len(sent)))]
                batch.append((episode - 1, sent[-1][1], action))
                dice.shuffle(batch)
                answers = list(pool.map(lambda one: step(client, session, *one), batch))
                observation, reward, terminated, truncated, info = local.step(action)
                for one, answer in zip(batch, answers, strict=True):
                    if answer.status_code != 200:
                        assert slug(answer) in ("step-index", "busy")
                    elif one == sent[-1]:
                        document = answer.json()
                        assert document["observation"] == observation
                        assert document["info"] == json.loads(json.dumps(info))
                steps += 1
                over = terminated or truncated
                state = client.get(f"{session}/state").json()
                assert (state["episode"], state["step_index"]) == (episode, len(sent))
                assert (state["state_hash"], state["running"]) == (info["state_hash"], not over)
        assert played(client) == steps


class LossyWire:
    """A proxy that does not bring every second answer back: the connection is cut instead.

    Args:
        target: host and port of the server.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.lost = 0
        self._answers = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._target) as server, suppress(OSError):
            while request := _message(client):
                server.sendall(request)
                answer = _message(server)
                self._answers += 1
                if self._answers % 2:
                    self.lost += 1
                    client.sendall(answer[: self.lost % len(answer)])  # some of it arrives
                    return
                client.sendall(answer)


def _message(connection: socket.socket) -> bytes:
    """One HTTP message with a declared length; nothing at the end of the connection."""
    told = b""
    while b"\r\n\r\n" not in told:
        if not (part := connection.recv(65_536)):
            return b""
        told += part
    head, _, body = told.partition(b"\r\n\r\n")
    lengths = [
        int(line.split(b":")[1])
        for line in head.lower().split(b"\r\n")
        if line.startswith(b"content-length:")
    ]
    while len(body) < sum(lengths):
        body += connection.recv(65_536)
    return head + b"\r\n\r\n" + body


def test_200_episodes_with_every_second_answer_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_client, "FIRST_PAUSE_S", 0.001)
    local = gym.make(ENV_ID)
    dice = random.Random(11)
    steps = 0
    with listening() as (host, client):
        wire = LossyWire((client.base_url.host, client.base_url.port or 0))
        env = make_remote(ENV_ID, wire.url)
        for seed in range(EPISODES):
            assert env.reset(seed=seed) == local.reset(seed=seed)
            while True:
                action = dice.choice(ACTIONS)
                # the horizon is gym.make's, the server's environment has it too
                expected = local.step(action)
                assert env.step(action) == expected
                steps += 1
                if expected[2] or expected[3]:
                    break
        assert wire.lost > steps  # every answer once, and some of resets
        assert played(client) == steps
        (place,) = host.table.live()
        assert place.value.episode == EPISODES
        env.close()
        wait_until(lambda: len(host.table) == 0)
        wire.close()


# ------------------------------------------------------------------------- a step that hangs


def test_a_hanging_step_is_given_up_and_the_others_play_on() -> None:
    hold = Hold()
    with listening(Limits(step_timeout_s=0.5, threads=2), hold=hold) as (host, client):
        url = str(client.base_url)
        stuck, other = make_remote(ENV_ID, url), make_remote(ENV_ID, url)
        local = gym.make(ENV_ID)
        stuck.reset(seed=1)
        for _ in range(3):  # more than there are threads
            stuck.reset(seed=1)
            hold.entered.clear()
            with ThreadPoolExecutor(1) as pool:
                hanging = pool.submit(stuck.step, "say[wait]")
                assert hold.entered.wait(10)
                assert other.reset(seed=2) == local.reset(seed=2)
                assert other.step("add[1]") == local.step("add[1]")
                with pytest.raises(StepTimeout, match="more than 0.5 s"):
                    hanging.result(20)
        assert host.pool.lost_threads == 3
        assert "agentgym_threads_lost_total 3.0" in client.get("/metrics").text
        hold.release.set()
        stuck.close()
        other.close()
        wait_until(lambda: len(host.table) == 0)  # the broken ones are deleted as well
