"""The command itself on a port: what its limits answer, and how it dies."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import gymnasium as gym
import httpx
import pytest

import agentgym_suite  # noqa: F401
from agentgym_suite.errors import ServerUnreachable, SessionLost
from agentgym_suite.remote import RemoteEnv, make_remote
from tests.servers.protocol_calls import slug
from tests.servers.test_cli import served, wait_until_ready
from tests.servers.test_port_family import free_ports

ENV_ID = "WebShop-v0"
SESSIONS = 64
DRAIN_S = 2


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@contextmanager
def serving(home: Path, port: int, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command at a port of our choice."""
    command = [sys.executable, "-m", "agentgym_suite", "serve", "env", "--env", ENV_ID]
    process = subprocess.Popen(
        [*command, "--port", str(port), *arguments],
        stderr=subprocess.DEVNULL,
        env={**os.environ, "AGENTGYM_SUITE_HOME": str(home)},
    )
    try:
        wait_until_listening(port)
        wait_until_ready(f"http://127.0.0.1:{port}")
        yield process
    finally:
        process.kill()
        process.wait()


def wait_until_listening(port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False)
        except httpx.TransportError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return


def files(folder: Path) -> dict[str, int]:
    return {str(p): p.stat().st_size for p in folder.rglob("*") if p.is_file()}


def play(env: gym.Env[str, str] | RemoteEnv, seed: int) -> list[Any]:
    told: list[Any] = [env.reset(seed=seed)]
    told += [env.step(action) for action in ("search[red shirt]", "click[next >]", "nonsense")]
    return told


def test_a_killed_server_is_told_and_its_successor_is_played(home: Path) -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    local = gym.make(ENV_ID)
    env = make_remote(ENV_ID, url, timeout_s=1)
    idle = make_remote(ENV_ID, url)
    with serving(home, port) as process:
        assert play(env, 1) == play(local, 1)
        idle.reset(seed=5)
        before = files(home)
        process.send_signal(signal.SIGKILL)
        process.wait(20)
        with pytest.raises(ServerUnreachable, match="see that it runs"):
            env.step("click[back to search]")
        with pytest.raises(ServerUnreachable, match="see that it runs"):
            env.reset(seed=1)
    assert files(home) == before  # nothing half written, nothing to repair
    with serving(home, port):
        with pytest.raises(SessionLost, match="does not exist; make a new one"):
            env.step("click[back to search]")
        assert play(env, 2) == play(local, 2)
        assert play(idle, 3) == play(local, 3)  # without a step in between, not even an error
        env.close()
        idle.close()


def test_sigterm_with_64_running_sessions_ends_in_the_drain_time(home: Path) -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    with serving(home, port, "--drain", str(DRAIN_S)) as process:
        envs = [make_remote(ENV_ID, url, timeout_s=5) for _ in range(SESSIONS)]
        local = [gym.make(ENV_ID) for _ in envs]
        with ThreadPoolExecutor(8) as pool:
            seeds = range(SESSIONS)
            told = list(pool.map(lambda env, seed: env.reset(seed=seed), envs, seeds))
            assert told == [env.reset(seed=seed) for env, seed in zip(local, seeds, strict=True)]
            process.send_signal(signal.SIGTERM)
            while httpx.get(f"{url}/readyz", trust_env=False).status_code == 200:
                time.sleep(0.01)
            answer = httpx.post(f"{url}/v1/sessions", json={"env_id": ENV_ID}, trust_env=False)
            assert (answer.status_code, slug(answer)) == (503, "draining")
            action = "search[red shirt]"
            # whoever plays goes on meanwhile
            steps = list(pool.map(lambda env: env.step(action), envs[:16]))
            assert steps == [env.step(action) for env in local[:16]]
            # nobody ends a session, so that only the time can end the server
            assert process.wait(DRAIN_S + 10) == 0
            list(pool.map(lambda env: env.close(), envs))


def test_the_limits_over_a_port(home: Path) -> None:
    token = home / "token"
    token.write_text("sesame\n")
    limits = ["--max-sessions", "2", "--lease", "1", "--token-file", str(token)]
    with served(home, "env", "--env", ENV_ID, *limits) as (_, url):
        wait_until_ready(url)
        assert slug(httpx.get(f"{url}/v1/info", trust_env=False)) == "unauthorized"
        bearer = {"Authorization": "Bearer sesame"}
        with httpx.Client(base_url=url, headers=bearer, trust_env=False) as client:
            made = [client.post("/v1/sessions", json={"env_id": ENV_ID}) for _ in range(3)]
            assert [answer.status_code for answer in made] == [201, 201, 429]
            session = made[0].headers["Location"]
            large = client.post(f"{session}/step", content=b" " * (3 << 20))
            unknown = client.get("/v1/sessions/unknown/state")
            foreign = client.get("/healthz", headers={"Host": "evil.example"})
            answers = (made[2], large, unknown, foreign)
            assert [answer.status_code for answer in answers] == [429, 413, 404, 421]
            slugs = ["full", "too-large", "no-session", "forbidden-host"]
            assert [slug(answer) for answer in answers] == slugs
            deadline = time.monotonic() + 20
            while client.get("/v1/sessions").json()["sessions"]:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            expired = client.get(f"{session}/state")
            assert (expired.status_code, slug(expired)) == (410, "lease-expired")


def test_a_family_of_ports_is_played_as_one(home: Path) -> None:
    first = neighbours()
    command = [sys.executable, "-m", "agentgym_suite", "serve", "env", "--env", ENV_ID]
    process = subprocess.Popen(
        [*command, "--ports", f"{first}-{first + 1}"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "AGENTGYM_SUITE_HOME": str(home)},
    )
    assert process.stderr is not None
    try:
        said = next(line for line in process.stderr if "All are ready" in line)
        urls = [word for word in said.split() if word.startswith("http://")]
        assert len(urls) == 2
        local = gym.make(ENV_ID)
        envs = [make_remote(ENV_ID, urls) for _ in range(40)]
        for env in envs:
            assert play(env, 1) == play(local, 1)
        counts = [sessions(url) for url in urls]
        assert sum(counts) == 40 and min(counts) > 0  # but once in 2**39
        for env in envs:
            env.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


def neighbours() -> int:
    """The first of two free ports that follow each other."""
    for port in free_ports(20):
        with suppress(OSError), socket.create_server(("127.0.0.1", port + 1)):
            return port
    raise AssertionError("no two free ports follow each other")


def sessions(url: str) -> int:
    return len(httpx.get(f"{url}/v1/sessions", trust_env=False).json()["sessions"])
