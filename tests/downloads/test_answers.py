"""What a server answers instead of the file, and what is made of it."""

from __future__ import annotations

import zipfile
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from agentgym_suite import downloads
from agentgym_suite.downloads import Patience, fetch
from agentgym_suite.errors import DataMissing, DiskFull, DownloadError
from tests.downloads.conftest import BODY, PAGE, Asked, Handler, Server, Waits, only


def test_a_good_server(server: Server, target: Path) -> None:
    calls: list[tuple[str, int, int | None]] = []
    path = fetch(server.url, target, progress=lambda *call: calls.append(call))
    assert path == target
    assert only(target)
    assert calls[-1] == ("download items.json", len(BODY), len(BODY))
    fetch(server.url, target)
    assert len(server.asked) == 1


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
    waits: list[float] = []
    with pytest.raises(DownloadError, match="the connection broke.*3 failures in a row"):
        fetch(url, target, sleep=waits.append)
    assert len(waits) == 2 and sum(waits) < 5


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


def test_file_addresses(tmp_path: Path, target: Path) -> None:
    source = tmp_path / "a mirror" / "items.json"
    source.parent.mkdir()
    source.write_bytes(BODY)
    assert fetch(source.as_uri(), target) == target
    assert only(target)
    with pytest.raises(DataMissing, match="names no file"):
        fetch((tmp_path / "none").as_uri(), tmp_path / "x")
