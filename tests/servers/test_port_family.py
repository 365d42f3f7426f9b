from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from agentgym_suite.errors import UsageError
from agentgym_suite.servers import port_family
from agentgym_suite.servers.cli import register
from agentgym_suite.servers.port_family import command_of, port_range, serve_ports

# says its process at /readyz; dies of "die", at SIGTERM ends with the code of the file "code"
CHILD = """
import os, pathlib, signal, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

here = pathlib.Path(sys.argv[1])
port = int(sys.argv[2].removeprefix("--port="))
with (here / f"starts-{port}").open("a") as file:
    file.write(f"{os.getpid()} {os.environ.get('FAMILY_TOKEN')}\\n")
if (here / f"die-{port}").exists():
    sys.exit(3)

def end(number, frame):
    code = here / f"code-{port}"
    os._exit(int(code.read_text()) if code.exists() else 0)

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(os.getpid()).encode())
    def log_message(self, *words):
        pass

signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGINT, lambda *_: os._exit(7))
HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""

PARENT = """
import sys
from agentgym_suite.servers import port_family
port_family.FIRST_PAUSE_S = 0.05
ports = [int(port) for port in sys.argv[3:]]
command = [sys.executable, sys.argv[1], sys.argv[2]]
sys.exit(port_family.serve_ports(ports, "127.0.0.1", [], command))
"""


def free_ports(count: int) -> list[int]:
    with contextmanager(sockets)(count) as opened:
        return [opened_socket.getsockname()[1] for opened_socket in opened]


def sockets(count: int) -> Iterator[list[socket.socket]]:
    opened = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    yield opened
    for one in opened:
        one.close()


class Family:
    """A parent process over small servers that tell their process ids."""

    def __init__(self, folder: Path, ports: list[int], process: subprocess.Popen[str]) -> None:
        self.folder = folder
        self.ports = ports
        self.process = process

    def pid(self, port: int) -> int | None:
        with suppress(httpx.TransportError):
            return int(httpx.get(f"http://127.0.0.1:{port}", trust_env=False).text)
        return None

    def starts(self, port: int) -> list[str]:
        file = self.folder / f"starts-{port}"
        return file.read_text().splitlines() if file.exists() else []

    def hear(self, words: str) -> str:
        assert self.process.stderr is not None
        return next(line for line in self.process.stderr if words in line)


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Callable[[int], Family]]:
    (tmp_path / "child.py").write_text(textwrap.dedent(CHILD))
    started: list[Family] = []

    def start(count: int) -> Family:
        ports = free_ports(count)
        words = [str(tmp_path / "child.py"), str(tmp_path), *map(str, ports)]
        process = subprocess.Popen(
            [sys.executable, "-c", PARENT, *words],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "FAMILY_TOKEN": "inherited"},
        )
        started.append(Family(tmp_path, ports, process))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.communicate()
        for port in one.ports:
            for line in one.starts(port):
                with suppress(ProcessLookupError):
                    os.kill(int(line.split()[0]), signal.SIGKILL)


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_every_port_has_its_process_and_all_end_with_the_parent(
    family: Callable[[int], Family],
) -> None:
    run = family(3)
    ready = run.hear("All are ready")
    assert all(f"http://127.0.0.1:{port}" in ready for port in run.ports)
    pids = {run.pid(port) for port in run.ports}
    assert len(pids) == 3 and None not in pids
    assert all("inherited" in run.starts(port)[0] for port in run.ports)
    run.process.send_signal(signal.SIGTERM)
    assert run.process.wait(20) == 0
    assert all(run.pid(port) is None for port in run.ports)


def test_a_dead_child_is_started_again_and_the_others_stay(
    family: Callable[[int], Family],
) -> None:
    run = family(2)
    run.hear("All are ready")
    first, second = run.ports
    victim, other = run.pid(first), run.pid(second)
    assert victim is not None
    os.kill(victim, signal.SIGKILL)
    told = run.hear("ended with code")
    assert f"port {first} ended with code 137" in told
    wait_until(lambda: run.pid(first) not in (victim, None))
    assert run.pid(second) == other
    run.process.send_signal(signal.SIGTERM)
    assert run.process.wait(20) == 0  # how it once died is over


def test_whoever_dies_at_once_is_waited_for_longer_each_time(
    family: Callable[[int], Family], tmp_path: Path
) -> None:
    run = family(1)
    (port,) = run.ports
    (tmp_path / f"die-{port}").touch()
    pauses = [run.hear("ended with code 3").rpartition(" in ")[2].strip() for _ in range(4)]
    assert pauses == ["0.05 s.", "0.1 s.", "0.2 s.", "0.4 s."]
    (tmp_path / f"die-{port}").unlink()
    run.hear("All are ready")
    run.process.send_signal(signal.SIGTERM)
    assert run.process.wait(20) == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 5), (signal.SIGINT, 7)])
def test_signals_are_passed_on_and_the_worst_code_is_the_parents(
    family: Callable[[int], Family], tmp_path: Path, number: int, code: int
) -> None:
    run = family(3)
    run.hear("All are ready")
    (tmp_path / f"code-{run.ports[1]}").write_text("5")
    run.process.send_signal(number)
    assert run.process.wait(20) == code


def test_a_closed_terminal_ends_them_gently(family: Callable[[int], Family]) -> None:
    run = family(2)
    run.hear("All are ready")
    run.process.send_signal(signal.SIGHUP)
    assert run.process.wait(20) == 0
    assert all(run.pid(port) is None for port in run.ports)


def test_a_taken_port_is_said_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*words: object, **more: object) -> None:
        raise AssertionError("something was started")

    monkeypatch.setattr(port_family.subprocess, "Popen", start)
    free, taken = free_ports(2)
    with (
        socket.create_server(("127.0.0.1", taken)),
        pytest.raises(UsageError, match=f"port {taken} cannot be opened"),
    ):
        serve_ports([free, taken], "127.0.0.1", [])


@pytest.mark.parametrize(
    "text",
    ["8100", "8107-8100", "0-5", "65530-65536", "a-b", "-5", "1-", "1-2-3", "1000-2000", "８-９"],
)
def test_bad_ranges_are_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        port_range(text)
    assert "give" in str(refused.value) and "\n" not in str(refused.value)


def test_ranges() -> None:
    assert list(port_range("8100-8103")) == [8100, 8101, 8102, 8103]
    assert list(port_range("8100-8100")) == [8100]


def test_the_command_of_a_child_says_what_the_parents_said(tmp_path: Path) -> None:
    commands = argparse.ArgumentParser()
    register(commands.add_subparsers())
    said = ["--env", "WebShop-v0", "--env", "ALFWorld-v0", "--data", "WebShop-v0=-x y", "--lease"]
    said += ["7", "--drain", "0.5", "--host", "::1", "--token-file", str(tmp_path / "token")]
    args = commands.parse_args(["serve", "env", *said, "--port", "8100"])
    words = command_of(args)
    assert not any("port" in word for word in words)
    again = commands.parse_args(["serve", "env", *words, "--port", "8100"])
    assert vars(again) == vars(args)
    bare = commands.parse_args(["serve", "env", "--insecure"])
    assert vars(commands.parse_args(["serve", "env", *command_of(bare)])) == vars(bare)
