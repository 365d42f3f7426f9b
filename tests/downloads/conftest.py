"""A local server that misbehaves in every way the publishers' servers do."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from agentgym_suite.downloads import Patience, fetch

BODY = json.dumps([random.Random(3).random() for _ in range(20_000)]).encode()
PAGE = b"<!DOCTYPE html><html><head><title>Quota exceeded</title></head><body>no</body></html>"


class Asked:
    """One request as the server saw it."""

    def __init__(self, path: str, start: int | None, if_range: str | None) -> None:
        self.path = path
        self.start = start
        self.if_range = if_range


class Handler(BaseHTTPRequestHandler):
    """Hands each request to the script of the test; counts and remembers them."""

    server: Server

    def do_GET(self) -> None:
        found = self.headers.get("Range")
        start = int(found.removeprefix("bytes=").rstrip("-")) if found else None
        asked = Asked(self.path, start, self.headers.get("If-Range"))
        assert self.headers.get("Accept-Encoding") == "identity"
        self.server.asked.append(asked)
        self.close_connection = True
        self.server.script(self, asked, len(self.server.asked))

    def send(
        self,
        status: int,
        body: bytes = b"",
        *,
        length: int | None = None,
        **headers: str,
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def serve(self, asked: Asked, body: bytes = BODY, *, cut: int | None = None) -> None:
        """Answer as a good server does, breaking off after `cut` bytes."""
        if asked.start is None or asked.if_range not in (None, '"v1"'):
            self.send(200, body[:cut], length=len(body), ETag='"v1"')
        else:
            rest = body[asked.start :]
            span = f"bytes {asked.start}-{len(body) - 1}/{len(body)}"
            self.send(206, rest[:cut], length=len(rest), ETag='"v1"', Content_Range=span)

    def log_message(self, format: str, *args: object) -> None:
        pass


Script = Callable[[Handler, Asked, int], None]


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[Asked] = []
        self.script: Script = lambda handler, asked, number: handler.serve(asked)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/items.json"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


class Waits:
    """Stands in for sleeping and remembers how long and why."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.said: list[str] = []

    def get(self, server: Server, target: Path, patience: Patience | None = None) -> Path:
        return fetch(
            server.url,
            target,
            by_hand="download it in a browser from PAGE",
            patience=patience or Patience(failures=4, progress_bytes=100_000),
            on_wait=self.said.append,
            sleep=self.seconds.append,
        )


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "downloads" / "items.json"


def only(target: Path) -> bool:
    """Whether the finished file is all that is left, beside its lock."""
    names = {path.name for path in target.parent.iterdir()}
    return names - {target.name + ".lock"} == {target.name} and target.read_bytes() == BODY
