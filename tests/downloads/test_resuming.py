"""Downloads that break off, are killed, or meet another version of the file on their return."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agentgym_suite.downloads import Patience, fetch
from agentgym_suite.errors import DownloadError
from tests.downloads.conftest import BODY, PAGE, Asked, Handler, Server, Waits, only


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


def send_chunked(handler: Handler, body: bytes, *, whole: bool, **headers: str) -> None:
    """Answer without a length, breaking off before the last chunk unless `whole`."""
    handler.protocol_version = "HTTP/1.1"
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(b"%x\r\n%s\r\n" % (len(body), body))
    if whole:
        handler.wfile.write(b"0\r\n\r\n")


def test_a_chunked_first_answer_resumes_by_ranges(
    server: Server, target: Path, waits: Waits
) -> None:
    totals = []

    def script(handler: Handler, asked: Asked, number: int) -> None:
        if number == 1:
            send_chunked(handler, BODY[:50_000], whole=False, ETag='"v1"')
        else:
            record = target.with_name("items.json.part.json")
            totals.append(json.loads(record.read_text())["total"])
            handler.serve(asked, cut=None if number == 3 else 1000)

    server.script = script
    waits.get(server, target)
    assert only(target)
    assert [asked.start for asked in server.asked] == [None, 50_000, 51_000]
    assert totals == [None, len(BODY)]


def test_a_chunked_answer_that_nothing_identifies_starts_over(
    server: Server, target: Path, waits: Waits
) -> None:
    server.script = lambda handler, asked, number: send_chunked(
        handler, BODY[: 50_000 * number], whole=50_000 * number >= len(BODY)
    )
    waits.get(server, target, Patience(failures=20))
    assert only(target)
    assert {asked.start for asked in server.asked} == {None}


def test_everything_arrived_before_a_chunked_answer_broke(
    server: Server, target: Path, waits: Waits
) -> None:
    def script(handler: Handler, asked: Asked, number: int) -> None:
        if number == 1:
            send_chunked(handler, BODY, whole=False, ETag='"v1"')
        else:
            handler.send(416, Content_Range=f"bytes */{len(BODY)}")

    server.script = script
    waits.get(server, target)
    assert only(target)
    assert [asked.start for asked in server.asked] == [None, len(BODY)]
