"""Which of several servers is played, and what becomes of an environment whose server is gone."""

from __future__ import annotations

import pickle
import socket
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations

import gymnasium as gym
import httpx
import pytest

from agentgym_suite import remote_client
from agentgym_suite.errors import (
    RemoteEnvError,
    ServerFull,
    ServerUnreachable,
    SessionExpired,
    SessionLost,
    UsageError,
)
from agentgym_suite.remote import RemoteEnv, make_remote
from agentgym_suite.remote_client import ServerClient
from agentgym_suite.servers.hosting import Limits
from tests.servers.counting_server import ENV_ID, Hold
from tests.servers.test_faults import listening


def first_asking(url: str, urls: list[str]) -> RemoteEnv:
    """An environment that asks a certain one of several servers first."""
    while True:
        env = make_remote(ENV_ID, urls)
        if env._client._urls[0] == url.rstrip("/"):
            return env


def test_instances_spread_and_a_refusing_server_comes_last() -> None:
    with listening() as (one, first), listening() as (two, second):
        urls = [str(first.base_url), str(second.base_url)]
        envs = [make_remote(ENV_ID, urls) for _ in range(40)]
        for env in envs:
            env.reset(seed=1)
        there = len(one.table)
        assert len(two.table) == 40 - there
        assert 0 < there < 40  # but once in 2**39
        one.drain()
        for env in envs:
            env.step("add[1]")  # sessions stay where they are
        late = [first_asking(urls[0], urls), first_asking(urls[1], urls)]
        for env in late:
            env.reset(seed=1)
        assert (len(one.table), len(two.table)) == (there, 40 - there + 2)
        for env in (*envs, *late):
            env.close()


def test_every_order_of_servers_is_drawn_and_keeps_each_server_once() -> None:
    urls = [f"http://host:{port}" for port in (1, 2, 3)]
    orders = {tuple(make_remote(ENV_ID, urls)._client._urls) for _ in range(400)}
    assert orders == set(permutations(urls))  # but once in 10**31


def test_clients_share_no_state() -> None:
    shared = [n for n, value in vars(ServerClient).items() if not callable(value)]
    assert [name for name in shared if not name.startswith("__")] == []


def test_a_dead_server_costs_no_waiting_while_another_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def wait(seconds: float) -> None:
        raise AssertionError(f"waited {seconds} s")

    with socket.create_server(("127.0.0.1", 0)) as unused:
        dead = f"http://127.0.0.1:{unused.getsockname()[1]}"
    with listening() as (host, client):
        monkeypatch.setattr(remote_client.time, "sleep", wait)
        urls = [dead, str(client.base_url)]
        envs = [first_asking(url, urls) for url in 2 * urls]
        for env in envs:
            env.reset(seed=1)
        monkeypatch.undo()
        assert len(host.table) == 4
        for env in envs:
            env.close()


def test_a_proxy_without_its_server_is_unreachable_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_client, "FIRST_PAUSE_S", 0.001)
    asked: list[str] = []

    def proxy(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(502, text="<h1>Bad Gateway</h1>")

    env = make_remote(ENV_ID, "http://proxy", transport=httpx.MockTransport(proxy))
    with pytest.raises(ServerUnreachable, match="status 502"):
        env.reset()
    assert asked == ["/v1/info"] * (1 + remote_client.MOST_RETRIES)


def test_full_servers_are_told_from_dead_ones() -> None:
    with listening(Limits(max_sessions=1)) as (_, one), listening(Limits(max_sessions=1)) as other:
        urls = [str(one.base_url), str(other[1].base_url)]
        envs = [make_remote(ENV_ID, urls) for _ in range(3)]
        for env in envs[:2]:
            env.reset(seed=1)
        with pytest.raises(ServerFull, match="all 1 sessions are in use; .* says: after") as full:
            envs[2].reset(seed=1)
        assert not isinstance(full.value, ServerUnreachable)
        assert full.value.retry_after_s >= 1
        carried = pickle.loads(pickle.dumps(full.value))
        assert (str(carried), carried.said, carried.retry_after_s) == (
            str(full.value), full.value.said, full.value.retry_after_s
        )  # fmt: skip
        envs[0].close()
        assert envs[2].reset(seed=1)[0]
        for env in envs:
            env.close()


@pytest.mark.parametrize("timeout_s", [0.5, 90])
def test_a_server_with_too_much_waiting_is_full_after_the_retries(
    monkeypatch: pytest.MonkeyPatch, timeout_s: float
) -> None:
    monkeypatch.setattr(remote_client, "FIRST_PAUSE_S", 0.001)
    document = {"type": "urn:agentgym-suite:error:overloaded", "detail": "too many wait; try again"}

    def busy(request: httpx.Request) -> httpx.Response:
        pause = "1" if timeout_s < 1 else "0"  # longer than there is time, or no time at all
        return httpx.Response(503, json=document, headers={"Retry-After": pause})

    transport = httpx.MockTransport(busy)
    env = make_remote(ENV_ID, "http://busy", transport=transport, timeout_s=timeout_s)
    with pytest.raises(ServerFull, match="too many wait"):
        env.reset()


def test_retry_after_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    with listening(hold=(hold := Hold())) as (_, client), ThreadPoolExecutor(1) as pool:
        env = make_remote(ENV_ID, str(client.base_url))
        env.reset(seed=1)
        step_url = f"{env._handle._url}/step"  # type: ignore[union-attr]
        body = {"episode": 1, "step_index": 0, "action": "say[wait]"}
        other = pool.submit(client.post, step_url, json=body)
        assert hold.entered.wait(10)

        def wait(seconds: float) -> None:
            pauses.append(seconds)
            hold.release.set()
            other.result(10)

        monkeypatch.setattr(remote_client.time, "sleep", wait)
        # another request runs in the session: busy first, then it is the wrong step
        with pytest.raises(RemoteEnvError, match="another action"):
            env.step("add[1]")
        monkeypatch.undo()
        assert pauses == [1.0]
        env.close()


@pytest.mark.parametrize("end", ["expired", "lost"])
def test_a_reset_replaces_a_session_that_is_gone(end: str) -> None:
    local = gym.make(ENV_ID)
    with listening() as (host, client):
        env = make_remote(ENV_ID, str(client.base_url))
        env.reset(seed=1)

        def lose() -> None:
            (place,) = host.table.live()
            host.table.remove(place.id, "expired")
            if end == "lost":
                host.table._ended.clear()

        lose()
        assert env.reset(seed=2) == local.reset(seed=2)
        lose()
        with pytest.raises(SessionExpired if end == "expired" else SessionLost):
            env.step("add[1]")
        assert env.reset(seed=3) == local.reset(seed=3)
        assert env.step("add[1]") == local.step("add[1]")
        env.close()


def test_a_reset_goes_elsewhere_when_its_server_has_died(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_client, "FIRST_PAUSE_S", 0.001)
    local = gym.make(ENV_ID)
    with listening() as (host, client):
        with listening() as (_, dying):
            urls = [str(dying.base_url), str(client.base_url)]
            envs = [first_asking(url, urls) for url in urls]
            for env in envs:
                env.reset(seed=1)
            assert len(host.table) == 1
        for env in envs:
            assert env.reset(seed=2) == local.reset(seed=2)
            assert env.step("add[1]") == local.step("add[1]")
        assert len(host.table) == 2
        for env in envs:
            env.close()


def test_digests_are_compared_when_given() -> None:
    with listening() as (_, client):
        url = str(client.base_url)
        with pytest.raises(UsageError, match="data have the digest sha256:none, not sha256:1"):
            make_remote(ENV_ID, url, data_digest="sha256:1").reset()
        env = make_remote(ENV_ID, url, data_digest="sha256:none")
        env.reset(seed=1)
        env.close()
