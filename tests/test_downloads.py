"""Downloads from a local server that misbehaves in every way the publishers' servers do."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from agentgym_suite import downloads
from agentgym_suite.download_pages import confirmed_address, looks_like_page, page_title
from agentgym_suite.downloads import Patience, fetch
from agentgym_suite.errors import DataMissing, DiskFull, DownloadError

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


def test_a_good_server(server: Server, target: Path) -> None:
    calls: list[tuple[str, int, int | None]] = []
    path = fetch(server.url, target, progress=lambda *call: calls.append(call))
    assert path == target
    assert only(target)
    assert calls[-1] == ("download items.json", len(BODY), len(BODY))
    fetch(server.url, target)
    assert len(server.asked) == 1


def test_connections_cut_in_the_middle_resume_by_ranges(
    server: Server, target: Path, waits: Waits
) -> None:
    server.script = lambda handler, asked, number: handler.serve(asked, cut=60_000)
    waits.get(server, target)
    assert only(target)
    starts = [asked.start or 0 for asked in server.asked]
    assert starts == sorted(set(starts))
    assert len(starts) == -(-len(BODY) // 60_000)
    assert all(asked.if_range == '"v1"' for asked in server.asked[1:])
    assert len(waits.seconds) == len(starts) - 1
    assert "the connection broke" in waits.said[0]


def test_cut_again_and_again_without_progress_ends(
    server: Server, target: Path, waits: Waits
) -> None:
    server.script = lambda handler, asked, number: handler.serve(asked, cut=0)
    with pytest.raises(DownloadError, match="5 failures in a row.*in a browser from PAGE"):
        waits.get(server, target)
    assert len(server.asked) == 5
    assert waits.seconds == sorted(waits.seconds)
    for number, seconds in enumerate(waits.seconds):
        assert 0.5 * 2**number <= seconds <= 2**number


def test_a_server_that_ignores_ranges_starts_over(
    server: Server, target: Path, waits: Waits
) -> None:
    def script(handler: Handler, asked: Asked, number: int) -> None:
        handler.send(200, BODY[: 50_000 * number], length=len(BODY), ETag='"v1"')

    server.script = script
    waits.get(server, target, Patience(failures=20))
    assert only(target)
    assert server.asked[1].start == 50_000


def test_a_file_that_changed_in_between_is_not_mixed(
    server: Server, target: Path, waits: Waits
) -> None:
    def script(handler: Handler, asked: Asked, number: int) -> None:
        if number == 1:
            handler.send(200, b"[" + b"0" * 5000, length=90_000, ETag='"old"')
        else:
            handler.serve(asked)

    server.script = script
    waits.get(server, target)
    assert only(target)
    assert server.asked[1].if_range == '"old"'


def test_a_range_of_a_file_of_another_length_is_not_mixed(
    server: Server, target: Path, waits: Waits
) -> None:
    def script(handler: Handler, asked: Asked, number: int) -> None:
        if number == 1:  # no ETag, no date: only the length can tell
            handler.send(200, b"[" + b"0" * 5000, length=90_000)
        else:
            handler.serve(asked)

    server.script = script
    waits.get(server, target)
    assert only(target)
    assert [asked.start for asked in server.asked] == [None, 5001, None]


def test_another_range_than_asked_for(server: Server, target: Path, waits: Waits) -> None:
    def script(handler: Handler, asked: Asked, number: int) -> None:
        if number == 2:
            span = f"bytes 7-{len(BODY) - 1}/{len(BODY)}"
            handler.send(206, BODY[7:], Content_Range=span)
        else:
            handler.serve(asked, cut=1000 if number == 1 else None)

    server.script = script
    waits.get(server, target)
    assert only(target)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("form", ["seconds", "date"])
def test_busy_servers_are_obeyed(
    server: Server, target: Path, waits: Waits, status: int, form: str
) -> None:
    def script(handler: Handler, asked: Asked, number: int) -> None:
        moment = datetime.now(UTC) + timedelta(seconds=40)
        after = "40" if form == "seconds" else format_datetime(moment, usegmt=True)
        if number <= 2:
            handler.send(status, PAGE, Retry_After=after, Content_Type="text/html")
        else:
            handler.serve(asked)

    server.script = script
    waits.get(server, target)
    assert only(target)
    assert len(waits.seconds) == 2
    assert all(38 < seconds < 44 for seconds in waits.seconds)
    assert f"answered {status}" in waits.said[0]


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 408])
def test_busy_for_ever_ends(server: Server, target: Path, waits: Waits, status: int) -> None:
    server.script = lambda handler, asked, number: handler.send(status, Retry_After="soon")
    with pytest.raises(DownloadError, match=f"answered {status} .*5 failures"):
        waits.get(server, target)
    assert len(server.asked) == 5


def test_a_server_that_wants_a_day_is_not_waited_for(
    server: Server, target: Path, waits: Waits
) -> None:
    server.script = lambda handler, asked, number: handler.send(429, Retry_After="86400")
    with pytest.raises(DownloadError, match="asks to wait 86400 s.*again later"):
        waits.get(server, target)
    assert waits.seconds == []


@pytest.mark.parametrize("status", [401, 403, 404, 410, 204])
def test_a_refusal_is_final(server: Server, target: Path, waits: Waits, status: int) -> None:
    server.script = lambda handler, asked, number: handler.send(status)
    with pytest.raises(DownloadError, match=f"answered {status}.*in a browser from PAGE"):
        waits.get(server, target)
    assert len(server.asked) == 1


@pytest.mark.parametrize("content_type", ["text/html; charset=utf-8", "application/octet-stream"])
def test_a_page_instead_of_the_file_is_explained(
    server: Server, target: Path, waits: Waits, content_type: str
) -> None:
    server.script = lambda handler, asked, number: handler.send(
        200, PAGE, Content_Type=content_type
    )
    with pytest.raises(DownloadError) as caught:
        waits.get(server, target)
    message = str(caught.value)
    assert "a web page titled 'Quota exceeded' came instead of the file" in message
    assert "download it in a browser from PAGE" in message
    assert len(server.asked) == 1
    assert not target.exists()


def test_a_page_in_the_middle_keeps_what_arrived(
    server: Server, target: Path, waits: Waits
) -> None:
    def script(handler: Handler, asked: Asked, number: int) -> None:
        if number == 1:
            handler.serve(asked, cut=70_000)
        elif number == 2:
            handler.send(200, PAGE, Content_Type="text/html")
        else:
            handler.serve(asked)

    server.script = script
    with pytest.raises(DownloadError, match="70,000 bytes are kept"):
        waits.get(server, target)
    waits.get(server, target)
    assert only(target)
    assert server.asked[2].start == 70_000


FORM = b"""<!DOCTYPE html><html><head><title>Virus scan warning</title></head><body>
<form id="download-form" action="/download" method="get">
<input type="submit" value="Download anyway"><input type="hidden" name="id" value="A b">
<input type="hidden" name="confirm" value="t"><input type="hidden" name="uuid" value="1-2">
</form></body></html>"""
LINK = b"""<html><a href="/help">?</a><a href="/download?confirm=Xy&amp;id=A">Download</a></html>"""


@pytest.mark.parametrize(
    ("page", "path"),
    [(FORM, "/download?id=A+b&confirm=t&uuid=1-2"), (LINK, "/download?confirm=Xy&id=A")],
)
def test_the_page_that_asks_for_confirmation_is_followed_and_resumed(
    server: Server, target: Path, waits: Waits, page: bytes, path: str
) -> None:
    def script(handler: Handler, asked: Asked, number: int) -> None:
        if asked.path == "/items.json":
            handler.send(200, page, Content_Type="text/html")
        else:
            handler.serve(asked, cut=150_000)

    server.script = script
    waits.get(server, target)
    assert only(target)
    assert [asked.path for asked in server.asked][:2] == ["/items.json", path]
    assert server.asked[2].start == 150_000


def test_a_confirmation_that_leads_to_a_page_again_ends(
    server: Server, target: Path, waits: Waits
) -> None:
    server.script = lambda handler, asked, number: handler.send(200, FORM, Content_Type="text/html")
    with pytest.raises(DownloadError, match="Virus scan warning"):
        waits.get(server, target)
    assert len(server.asked) == 2


def test_a_length_announced_too_long(server: Server, target: Path, waits: Waits) -> None:
    def script(handler: Handler, asked: Asked, number: int) -> None:
        if asked.start is None:
            handler.send(200, BODY, length=len(BODY) + 500, ETag='"v1"')
        else:
            handler.send(416, Content_Range=f"bytes */{len(BODY)}")

    server.script = script
    with pytest.raises(DownloadError, match="failures in a row"):
        waits.get(server, target)
    assert not target.exists()


@pytest.mark.parametrize("name", ["items.json", "games.zip"])
def test_a_length_announced_too_short(
    server: Server, target: Path, waits: Waits, name: str, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "whole.zip", "w") as archive:
        archive.writestr("a", BODY)
    body = BODY if name == "items.json" else (tmp_path / "whole.zip").read_bytes()
    server.script = lambda handler, asked, number: handler.send(200, body, length=len(body) - 900)
    with pytest.raises(DownloadError, match=r"is no whole \.(json|zip) file"):
        waits.get(server, target.with_name(name))
    assert not target.with_name(name).exists()
    server.script = lambda handler, asked, number: handler.send(200, body)
    assert waits.get(server, target.with_name(name)).read_bytes() == body


def test_no_length_at_all(server: Server, target: Path, waits: Waits) -> None:
    def script(handler: Handler, asked: Asked, number: int) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(BODY)

    server.script = script
    waits.get(server, target)
    assert only(target)


def test_an_encoded_answer_is_refused(server: Server, target: Path, waits: Waits) -> None:
    server.script = lambda handler, asked, number: handler.send(200, BODY, Content_Encoding="gzip")
    with pytest.raises(DownloadError, match="packs the file"):
        waits.get(server, target)


def test_redirects(server: Server, target: Path, waits: Waits) -> None:
    def script(handler: Handler, asked: Asked, number: int) -> None:
        if asked.path == "/items.json":
            handler.send(302, Location="/there")
        else:
            handler.serve(asked, cut=100_000)

    server.script = script
    waits.get(server, target)
    assert only(target)
    server.script = lambda handler, asked, number: handler.send(302, Location="/items.json")
    with pytest.raises(DownloadError, match="redirect"):
        waits.get(server, target.with_name("loop.json"))


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/x", "http://", "nonsense"])
def test_addresses_that_cannot_be_asked(url: str, target: Path) -> None:
    with pytest.raises(DownloadError, match="did not deliver"):
        fetch(url, target, sleep=lambda seconds: None, patience=Patience(failures=1))


def test_nobody_listens(target: Path, server: Server) -> None:
    url = server.url
    server.server_close()
    with pytest.raises(DownloadError, match="the connection broke"):
        fetch(url, target, sleep=lambda seconds: None, patience=Patience(failures=2))


def test_a_server_that_falls_silent(server: Server, target: Path, waits: Waits) -> None:
    silent = threading.Event()

    def script(handler: Handler, asked: Asked, number: int) -> None:
        if number == 1:
            handler.send(200, BODY[:10_000], length=len(BODY), ETag='"v1"')
            handler.wfile.flush()
            silent.wait(30)
        else:
            handler.serve(asked)

    server.script = script
    try:
        waits.get(server, target, Patience(read_timeout_s=0.3))
    finally:
        silent.set()
    assert only(target)
    assert server.asked[1].start == 10_000


def test_the_disk_is_looked_at_before_the_first_byte(
    server: Server, target: Path, waits: Waits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "free_bytes", lambda place: 1000)
    with pytest.raises(DiskFull, match=r"needs 0\.4 MB where 0\.0 MB are free"):
        waits.get(server, target)
    assert not target.with_name("items.json.part").exists()
    monkeypatch.setattr(downloads, "free_bytes", lambda place: 10_000_000)
    with pytest.raises(DiskFull):
        fetch(server.url, target, reserve_bytes=20_000_000)


def test_leftovers_of_another_address_are_not_used(
    server: Server, target: Path, waits: Waits
) -> None:
    target.parent.mkdir(parents=True)
    target.with_name("items.json.part").write_bytes(b"x" * 1000)
    record = {"url": "http://elsewhere/items.json", "validator": None, "total": len(BODY)}
    target.with_name("items.json.part.json").write_text(json.dumps(record))
    waits.get(server, target)
    assert only(target)
    assert server.asked[0].start is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"url": 1}'])
def test_damaged_records_start_clean(server: Server, target: Path, waits: Waits, text: str) -> None:
    target.parent.mkdir(parents=True)
    target.with_name("items.json.part").write_bytes(b"x" * 1000)
    target.with_name("items.json.part.json").write_text(text)
    waits.get(server, target)
    assert only(target)


CHILD = """
import sys
from agentgym_suite.downloads import fetch
fetch(sys.argv[1], sys.argv[2])
"""


def test_kill_9_then_the_same_command(server: Server, target: Path, waits: Waits) -> None:
    going = threading.Event()

    def slow(handler: Handler, asked: Asked, number: int) -> None:
        start = asked.start or 0
        span = f"bytes {start}-{len(BODY) - 1}/{len(BODY)}"
        handler.send(
            206 if start else 200, length=len(BODY) - start, ETag='"v1"', Content_Range=span
        )
        try:
            for offset in range(start, len(BODY), 4000):
                handler.wfile.write(BODY[offset : offset + 4000])
                going.set()
                time.sleep(0.01)
        except OSError:
            pass

    server.script = slow
    part = target.with_name("items.json.part")
    sizes = []
    for _ in range(3):
        before = part.stat().st_size if part.exists() else 0
        child = subprocess.Popen([sys.executable, "-c", CHILD, server.url, str(target)])
        deadline = time.monotonic() + 60
        while child.poll() is None and time.monotonic() < deadline:
            if part.exists() and part.stat().st_size > before:
                break
            time.sleep(0.005)
        child.kill()
        child.wait()
        assert not target.exists()
        sizes.append(part.stat().st_size)
    assert sizes == sorted(set(sizes))
    server.script = lambda handler, asked, number: handler.serve(asked)
    waits.get(server, target)
    assert only(target)
    assert server.asked[-1].start == sizes[-1]


def test_killed_between_the_last_byte_and_the_last_name(
    server: Server, target: Path, waits: Waits
) -> None:
    target.parent.mkdir(parents=True)
    target.with_name("items.json.part").write_bytes(BODY)
    record = {"url": server.url, "validator": '"v1"', "total": len(BODY)}
    target.with_name("items.json.part.json").write_text(json.dumps(record))
    waits.get(server, target)
    assert only(target)
    assert server.asked == []


def test_two_downloads_of_one_file_at_once(server: Server, target: Path) -> None:
    paths: list[Path] = []
    threads = [
        threading.Thread(target=lambda: paths.append(fetch(server.url, target))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert paths == [target] * 4
    assert len(server.asked) == 1
    assert only(target)


def test_file_addresses(tmp_path: Path, target: Path) -> None:
    source = tmp_path / "a mirror" / "items.json"
    source.parent.mkdir()
    source.write_bytes(BODY)
    assert fetch(source.as_uri(), target) == target
    assert only(target)
    with pytest.raises(DataMissing, match="names no file"):
        fetch((tmp_path / "none").as_uri(), tmp_path / "x")


def test_pages_are_told_from_files() -> None:
    assert looks_like_page("text/HTML; charset=x", b"[]")
    assert looks_like_page("", b"\xef\xbb\xbf\n <!DocType HTML>")
    assert looks_like_page("", b"<html lang=en>")
    assert not looks_like_page("application/json", b'[{"name": "<html>"}]')
    assert not looks_like_page("", b"")
    assert page_title("<title>a\n  b</title><title></title>") == "a b"
    assert len(page_title(f"<title>{'x' * 500}</title>")) == 80
    assert confirmed_address("<form action='/x'><input name=q></form>", "http://h/") is None
    assert confirmed_address("<a href='javascript:x?confirm=1'>x</a>", "http://h/") is None
