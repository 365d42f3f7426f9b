"""The OpenEnv dialect on a real port: openenv-core's own client, and sockets it never opens so."""

from __future__ import annotations

import importlib
import importlib.util
import json
import signal
import socket
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
import httpx
import pytest

import agentgym_suite  # noqa: F401  registers the environments
from agentgym_suite.env import MAX_ACTION_CHARACTERS, TextEnv
from tests.servers.protocol_calls import wait_until
from tests.servers.test_cli import served, wait_until_ready

if importlib.util.find_spec("websockets") is None:
    pytest.skip("websockets is not installed: no sockets to serve", allow_module_level=True)

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

TOKEN = "tok-en_0123456789"
ENV_IDS = ("WebShop-v0", "MultiHopQA-v0")
PATH = "compat/openenv/webshop"


@pytest.fixture(scope="module")
def address(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Host and port of a server of two environments that asks for a token."""
    token = tmp_path_factory.mktemp("token") / "token"
    token.write_text(TOKEN, encoding="utf-8")
    options = [word for env_id in ENV_IDS for word in ("--env", env_id)]
    options += ["--compat", "openenv", "--token-file", str(token)]
    with served(home, "env", *options) as (_, base):
        wait_until_ready(base)
        yield base.removeprefix("http://")


@pytest.fixture(scope="module")
def openenv() -> ModuleType:
    """openenv-core; the tests that take it are skipped where it is not installed."""
    if importlib.util.find_spec("openenv") is None:
        pytest.skip("openenv-core is not installed; make parity-openenv plays its client")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("openenv.core")


def client_of(openenv: ModuleType, address: str, env_id: str, login: str = f"any:{TOKEN}@") -> Any:
    name = env_id.lower().removesuffix("-v0")
    return openenv.GenericEnvClient(
        base_url=f"http://{login}{address}/compat/openenv/{name}"
    ).sync()


# ------------------------------------------------------------- the client as it is


@pytest.mark.parametrize("env_id", ENV_IDS)
def test_the_client_plays_to_the_end_as_the_local_environment(
    openenv: ModuleType, address: str, env_id: str
) -> None:
    local = gym.make(env_id)
    inner = local.unwrapped
    assert isinstance(inner, TextEnv)
    with client_of(openenv, address, env_id) as client:
        heard = client.reset(seed=5, episode_id="mine")
        text, info = local.reset(seed=5)
        assert (heard.observation["text"], heard.reward, heard.done) == (text, None, False)
        assert heard.observation["info"] == json.loads(json.dumps(info))
        policy = inner.policy("oracle")
        done = False
        while not done:
            action = policy(heard.observation["text"], heard.observation["info"])
            heard = client.step({"text": action})
            text, reward, terminated, truncated, info = local.step(action)
            done = terminated or truncated
            assert heard.observation == {
                "text": text,
                "terminated": terminated,
                "truncated": truncated,
                "info": json.loads(json.dumps(info)),
            }
            assert (heard.reward, heard.done) == (reward, done)
        assert client.state() == {
            "episode_id": "mine",
            "step_count": info["step"],
            "task_id": info["task_id"],
            "state_hash": info["state_hash"],
        }
        with pytest.raises(RuntimeError, match=r"reset first.*EXECUTION_ERROR"):
            client.step({"text": "search[red shirt]"})


def test_two_clients_do_not_meet(openenv: ModuleType, address: str) -> None:
    clients = [client_of(openenv, address, "WebShop-v0") for _ in range(2)]
    local = gym.make("WebShop-v0")
    texts = [[local.reset(seed=seed)[0], local.step("search[red]")[0]] for seed in (1, 2)]
    assert texts[0] != texts[1]
    try:
        heard = [[client.reset(seed=s).observation] for s, client in enumerate(clients, 1)]
        for client, seen in zip(clients, heard, strict=True):
            seen.append(client.step({"text": "search[red]"}).observation)
        assert [[o["text"] for o in seen] for seen in heard] == texts
    finally:
        for client in clients:
            client.close()


def test_a_wrong_argument_is_told(openenv: ModuleType, address: str) -> None:
    with client_of(openenv, address, "WebShop-v0") as client:
        with pytest.raises(RuntimeError, match=r"level is not a field.*VALIDATION_ERROR"):
            client.reset(level=3)
        assert client.reset().done is False


def test_the_client_needs_the_token(openenv: ModuleType, address: str) -> None:
    with pytest.raises(ConnectionError, match="401"):
        client_of(openenv, address, "WebShop-v0", login="").connect()


def test_a_full_server_is_told_to_the_client(openenv: ModuleType, home: Path) -> None:
    options = ("--env", "WebShop-v0", "--compat", "openenv", "--max-sessions", "1")
    with served(home, "env", *options) as (_, base):
        wait_until_ready(base)
        place = base.removeprefix("http://")
        with client_of(openenv, place, "WebShop-v0", login="") as first:
            first.reset()
            second = client_of(openenv, place, "WebShop-v0", login="")
            with pytest.raises(RuntimeError, match="CAPACITY_REACHED"):
                second.reset()
            second.close()


# ------------------------------------------------------------------ other sockets


def opened(address: str, login: str = f"any:{TOKEN}@") -> connect:
    return connect(f"ws://{login}{address}/{PATH}/ws", proxy=None, max_size=100 << 20)


def ask(client: ClientConnection, frame: dict[str, Any]) -> dict[str, Any]:
    client.send(json.dumps(frame))
    return dict(json.loads(client.recv(timeout=30)))


def sessions(address: str) -> int:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    answer = httpx.get(f"http://{address}/v1/sessions", headers=headers, trust_env=False)
    return len(answer.json()["sessions"])


def wait_for_sessions(address: str, count: int) -> None:
    wait_until(lambda: sessions(address) == count)


def test_a_cut_connection_gives_its_session_back(address: str) -> None:
    wait_for_sessions(address, 0)
    with opened(address) as client:
        assert ask(client, {"type": "reset"})["type"] == "observation"
        assert sessions(address) == 1
        client.socket.shutdown(socket.SHUT_RDWR)
        wait_for_sessions(address, 0)


def test_a_frame_of_too_many_bytes_ends_the_socket(address: str) -> None:
    with opened(address) as client:
        ask(client, {"type": "reset"})
        longest = {"type": "step", "data": {"text": "e" * MAX_ACTION_CHARACTERS}}
        assert ask(client, longest)["type"] == "observation"
        with pytest.raises(ConnectionClosed):
            client.send("x" * (3 << 20))  # compressed to a few bytes on the way
            client.recv(timeout=30)
        assert client.close_code == 1009
    wait_for_sessions(address, 0)


def test_text_that_is_no_utf8_ends_the_socket(address: str) -> None:
    with opened(address) as client:
        client.send(b"\xff\xfe", text=True)
        with pytest.raises(ConnectionClosed):
            client.recv(timeout=30)
        assert client.close_code == 1007
    wait_for_sessions(address, 0)


@pytest.mark.parametrize("login", ["", "any:wrong@", f"{TOKEN}:@"])
def test_without_the_token_the_handshake_is_refused(address: str, login: str) -> None:
    with pytest.raises(InvalidStatus) as refused, opened(address, login):
        pass
    assert refused.value.response.status_code == 401


def test_a_socket_for_another_host_is_refused(address: str) -> None:
    port = address.rpartition(":")[2]
    url = f"ws://any:{TOKEN}@evil.example:{port}/{PATH}/ws"
    raw = socket.create_connection(("127.0.0.1", int(port)))
    with pytest.raises(InvalidStatus) as refused, connect(url, sock=raw, proxy=None):
        pass
    assert refused.value.response.status_code == 421


def test_the_end_of_the_server_closes_sockets(home: Path) -> None:
    options = ("--env", "WebShop-v0", "--compat", "openenv", "--drain", "0.2")
    with served(home, "env", *options) as (process, base):
        wait_until_ready(base)
        with opened(base.removeprefix("http://"), login="") as client:
            ask(client, {"type": "reset"})
            process.send_signal(signal.SIGTERM)
            with pytest.raises(ConnectionClosed):
                client.recv(timeout=30)
            assert client.close_code == 1012
        assert process.wait(30) == 0
