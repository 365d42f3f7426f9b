from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import agentgym_suite  # noqa: F401
from agentgym_suite.cli import main
from agentgym_suite.errors import UsageError
from agentgym_suite.registry import ENV_IDS
from agentgym_suite.remote import make_remote
from agentgym_suite.servers.cli import register
from agentgym_suite.servers.http_server import open_socket


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["serve", *arguments]) == 2
    text = capsys.readouterr().err
    assert text.startswith("agentgym-suite: ") and text.count("\n") == 1
    return text


def test_a_taken_port_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "in use" in complaint(capsys, "webshop", "--port", port)
        assert "--port" in complaint(capsys, "env", "--port", port)


def test_an_open_address_needs_a_token(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AGENTGYM_SUITE_TOKEN", raising=False)
    assert "--insecure" in complaint(capsys, "env", "--host", "0.0.0.0")
    empty = tmp_path / "token"
    empty.write_text("\n")
    assert "is empty" in complaint(capsys, "env", "--token-file", str(empty))
    assert "cannot be read" in complaint(capsys, "env", "--token-file", str(tmp_path / "none"))


def test_several_workers_are_refused_with_the_way_to_scale(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "per port" in complaint(capsys, "env", "--workers", "2")
    assert "ID=PATH" in complaint(capsys, "env", "--data", "Chess-v0=/x")
    assert "localhosts" in complaint(capsys, "webshop", "--host", "localhosts.invalid")


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        *(("env", ["--data", f"{env_id}=/no/where"]) for env_id in ENV_IDS),
        ("env", ["--data", "WebShop-v0=/no/where", "--ports", "8100-8101"]),
        ("webshop", ["--data", "/no/where"]),
        ("retrieval", ["--index", "/no/where"]),
        ("papers", ["--store", "/no/where"]),
    ],
)
def test_data_that_are_nowhere_end_a_server_before_it_listens(
    kind: str,
    arguments: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    home: Path,
) -> None:
    listening: list[socket.socket] = []

    def open_and_tell(host: str, port: int) -> socket.socket:
        listening.append(open_socket(host, port))
        return listening[-1]

    monkeypatch.setenv("AGENTGYM_SUITE_HOME", str(home))
    monkeypatch.setattr("agentgym_suite.servers.http_server.open_socket", open_and_tell)
    if "--ports" not in arguments:
        arguments = [*arguments, "--port", "0"]
    assert "/no/where" in complaint(capsys, kind, *arguments)
    # a port may have been tried, and was let go before the data were looked for
    assert [each.fileno() for each in listening] == [-1] * len(listening)


def test_a_server_whose_only_data_are_none_ends_too(home: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "agentgym_suite", "serve", "env", "--port", "0"]
    chosen = ["--env", "ALFWorld-v0", "--data", f"ALFWorld-v0={tmp_path}"]
    environment = {**os.environ, "AGENTGYM_SUITE_HOME": str(home)}
    ended = subprocess.run(
        [*command, *chosen], env=environment, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 2
    assert "holds no game" in ended.stderr and "nothing else was to be served" in ended.stderr


def test_options_that_contradict_each_other_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for ports in (["--port", "8100", "--ports", "8100-8101"], ["--ports", "1-2", "--port", "0"]):
        with pytest.raises(SystemExit) as stopped:
            main(["serve", "env", *ports])
        assert stopped.value.code == 2
        assert "not allowed with argument --port" in capsys.readouterr().err
    twice = [f"--data=WebShop-v0={tmp_path}", "--data=WebShop-v0=/other"]
    assert "give one" in complaint(capsys, "env", *twice)


@pytest.mark.parametrize(
    "arguments", [["--port", "70000"], ["--lease", "0"], ["--max-sessions", "0"]]
)
def test_numbers_out_of_range_are_usage_errors(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["serve", "env", *arguments])
    assert stopped.value.code == 2


@pytest.mark.parametrize(
    ("option", "value"),
    [("--port", "x"), ("--threads", "2.5"), ("--threads", "99999"), ("--lease", "long")],
)
def test_what_is_no_number_is_said_in_plain_words(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "env", option, value])
    words = capsys.readouterr().err
    assert repr(value) in words and "invalid _" not in words


@pytest.mark.parametrize("kind", ["webshop", "env", "retrieval", "papers"])
def test_help_tells_every_default(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    commands = argparse.ArgumentParser().add_subparsers()
    register(commands)
    (kinds,) = (
        action
        for action in commands.choices["serve"]._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    for action in kinds.choices[kind]._actions:
        if action.option_strings and action.nargs != 0:
            assert "(" in (action.help or ""), action.option_strings


def test_the_shop_shows_how_far_it_is_built(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, int, int | None]] = []

    @contextmanager
    def bars() -> Iterator[Any]:
        yield lambda *call: told.append(call)

    def build(data: object, *, progress: Any, **arguments: Any) -> None:
        progress("products", 1, 2)
        raise UsageError("that is enough")

    monkeypatch.setattr("agentgym_suite.progress_bars.progress_bars", bars)
    monkeypatch.setattr("agentgym_suite.webshop.catalogue.open_catalogue", build)
    assert "enough" in complaint(capsys, "webshop", "--port", "0")
    assert told == [("products", 1, 2)]


@contextmanager
def served(home: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "agentgym_suite", "serve", *arguments, "--port", "0"]
    environment = {**os.environ, "AGENTGYM_SUITE_HOME": str(home)}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stderr is not None
        said = next(line for line in process.stderr if "http://" in line)  # bars may come first
        address = next(word for word in said.split() if word.startswith("http://")).rstrip(".")
        yield process, address
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def wait_until_ready(address: str) -> None:
    deadline = time.monotonic() + 120
    while httpx.get(f"{address}/readyz", trust_env=False).status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_shop_prints_its_address_and_stops_on_sigterm(home: Path) -> None:
    with served(home, "webshop") as (process, address):
        page = httpx.get(address, follow_redirects=True, trust_env=False)
        assert page.status_code == 200
        assert "instruction" in page.text.lower()
        # longer than what an HTTP server commonly takes for an address
        words = "a" * 20_000
        deep = httpx.get(f"{address}/search_results/nobody/{words}/1", trust_env=False)
        assert (deep.status_code, "has not begun here" in deep.text) == (404, True)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_an_env_server_drains(home: Path) -> None:
    with served(home, "env", "--env", "WebShop-v0") as (process, address):
        wait_until_ready(address)
        env = make_remote("WebShop-v0", address)
        env.reset(seed=1)
        process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 20
        while httpx.get(f"{address}/readyz", trust_env=False).status_code == 200:
            assert time.monotonic() < deadline
        env.step("search[shirt]")  # the running session goes on
        assert process.poll() is None
        env.close()
        assert process.wait(20) == 0


def test_a_second_signal_ends_at_once(home: Path) -> None:
    with served(home, "env", "--drain", "600") as (process, address):
        wait_until_ready(address)
        env = make_remote("WebShop-v0", address)
        env.reset(seed=1)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        env.close()
