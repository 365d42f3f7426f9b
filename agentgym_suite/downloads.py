"""Fetching one file from an address that may misbehave.

What has arrived lies in ``<name>.part`` until it is whole, so that a killed or broken transfer
goes on by byte ranges where it stopped; ``<name>.part.json`` beside it remembers of which version
of the file those bytes are. Busy servers are asked again after the time they name, broken
connections after a growing, jittered pause, both a bounded number of times. A page that
comes instead of the file is recognised and explained.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import chain
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit
from urllib.request import url2pathname

import httpx

from agentgym_suite.download_pages import confirmed_address, looks_like_page, page_title
from agentgym_suite.errors import DataMissing, DiskFull, DownloadError
from agentgym_suite.files import (
    Json,
    Progress,
    explain_full_disk,
    free_bytes,
    make_folder,
    only_writer,
    sync_folder,
    write_json_atomic,
)
from agentgym_suite.versions import suite_version

# A machine without a network would otherwise take a minute to say so.
_FAILURES_UNREACHED = 2
_BUSY = {408, 425, 429, 500, 502, 503, 504}
_LONGEST_PAGE_BYTES = 1 << 20
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")
_NO_MORE = re.compile(r"bytes \*/(\d+)")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a transfer keeps trying.

    Attributes:
        failures: failures in a row, without ``progress_bytes`` of progress, before giving up.
        progress_bytes: how many new bytes make a failure not count.
        first_wait_s: about the pause after the first failure; it doubles each time.
        longest_wait_s: the longest pause of our own choosing.
        longest_retry_after_s: the longest pause that a server may ask for.
        read_timeout_s: how long a silent connection is waited for.
    """

    failures: int = 6
    progress_bytes: int = 1 << 20
    first_wait_s: float = 1.0
    longest_wait_s: float = 60.0
    longest_retry_after_s: float = 600.0
    read_timeout_s: float = 60.0


def fetch(
    url: str,
    target: Path | str,
    *,
    by_hand: str = "download it in a browser",
    reserve_bytes: int = 0,
    progress: Progress | None = None,
    on_wait: Callable[[str], None] | None = None,
    patience: Patience | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Path:
    """Fetch ``url`` to ``target``, or return it at once when it is there already.

    Args:
        url: an ``http://``, ``https://`` or ``file:///`` address.
        target: the finished file; it appears whole or not at all.
        by_hand: what a person can do instead, said when the address does not deliver.
        reserve_bytes: free space that must remain for what is done with the file next.
        progress: called with the bytes that have arrived, of all bytes when known.
        on_wait: called with a sentence before each pause.
        patience: how long to keep trying; default ``Patience()``.
        sleep: waits so many seconds; tests replace it.

    Returns:
        The absolute path of the file.

    Raises:
        DownloadError: the address did not deliver the file; what arrived is kept.
        DataMissing: a ``file:///`` address names no file.
        DiskFull: the file does not fit on the disk.
    """
    target = Path(target).absolute()
    if target.is_file():
        return target
    with explain_full_disk(target):
        make_folder(target.parent)
        with only_writer(target, on_wait):
            if target.is_file():
                return target
            if urlsplit(url).scheme == "file":
                return _copy(url, target, reserve_bytes, progress)
            transfer = _Transfer(url, target, by_hand, reserve_bytes, progress)
            return transfer.run(patience or Patience(), on_wait or _say_nothing, sleep)


class _TryAgain(Exception):
    """An attempt failed in a way that may pass; carries the pause the server asked for."""

    def __init__(self, reason: str, wait_s: float | None = None, unreached: bool = False) -> None:
        super().__init__(reason)
        self.wait_s = wait_s
        self.unreached = unreached


class _Transfer:
    """One file on its way: the bytes that arrived, and of which version of it they are."""

    def __init__(
        self,
        url: str,
        target: Path,
        by_hand: str,
        reserve_bytes: int,
        progress: Progress | None,
    ) -> None:
        self._asked_url = url
        self._url = url
        self._target = target
        self._by_hand = by_hand
        self._reserve_bytes = reserve_bytes
        self._progress = progress
        self._part = target.with_name(target.name + ".part")
        self._record = target.with_name(target.name + ".part.json")
        self._validator: str | None = None
        self._total: int | None = None
        self._recall()

    def run(
        self, patience: Patience, on_wait: Callable[[str], None], sleep: Callable[[float], None]
    ) -> Path:
        """Attempt until the file is whole or patience is at its end."""
        jitter = random.Random()
        failures = 0
        mark = self._have()
        timeout = httpx.Timeout(patience.read_timeout_s, connect=15.0)
        # Encoded bodies have no byte ranges of the file itself.
        headers = {"User-Agent": f"agentgym-suite/{suite_version()}", "Accept-Encoding": "identity"}
        with httpx.Client(follow_redirects=True, timeout=timeout, headers=headers) as client:
            while True:
                try:
                    self._attempt(client)
                    return self._finish()
                except _TryAgain as failure:
                    if self._have() >= mark + patience.progress_bytes:
                        failures, mark = 0, self._have()
                    failures += 1
                    asked = failure.wait_s
                    most = patience.failures
                    if failure.unreached and not self._have():
                        most = min(most, _FAILURES_UNREACHED)
                    if failures > most:
                        self._give_up(f"{failure}, {failures} failures in a row")
                    if asked is not None and asked > patience.longest_retry_after_s:
                        self._give_up(f"{failure} and asks to wait {asked:.0f} s")
                    pause = min(
                        patience.longest_wait_s, patience.first_wait_s * 2 ** (failures - 1)
                    )
                    wait_s = pause * jitter.uniform(0.5, 1.0) + (asked or 0.0)
                    on_wait(
                        f"{self._target.name}: {failure}; trying again in {wait_s:.0f} s "
                        f"({failures} of {most})"
                    )
                    sleep(wait_s)

    def _attempt(self, client: httpx.Client) -> None:
        """One request, and what it brings; returns when the body came to its end."""
        have = self._have()
        if have and have == self._total:
            return  # an earlier run was killed between the last byte and the last name
        try:
            with client.stream("GET", self._url, headers=self._range_headers(have)) as response:
                start = self._start(response, have)
                body = response.iter_raw()
                first = next(body, b"")
                is_page = looks_like_page(response.headers.get("Content-Type", ""), first)
                if not (is_page and start == 0 and self._target.suffix not in (".html", ".htm")):
                    self._receive(response, start, chain([first], body))
                    return
                page = _text(chain([first], body))
            self._url = self._address_behind(page)
        except (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.TooManyRedirects) as error:
            self._give_up(str(error) or type(error).__name__)
        except httpx.TransportError as error:
            what = str(error) or type(error).__name__
            unreached = isinstance(error, httpx.ConnectError)
            raise _TryAgain(f"the connection broke ({what})", unreached=unreached) from error
        self._attempt(client)

    def _range_headers(self, have: int) -> dict[str, str]:
        # Without a validator and without a length nothing would tell another version of the file.
        if not have or (self._validator is None and self._total is None):
            return {}
        headers = {"Range": f"bytes={have}-"}
        if self._validator:
            headers["If-Range"] = self._validator
        return headers

    def _is_total(self, text: str) -> bool:
        """Whether an answer's total fits what is known; the first one told is taken over."""
        if self._total is None and text.isdecimal():
            self._total = int(text)
            self._write_record()
        return text in ("*", str(self._total))

    def _start(self, response: httpx.Response, have: int) -> int:
        """The byte of the file at which the body of an answer begins."""
        status = response.status_code
        if status == 200:
            return 0
        if status == 206:
            found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
            if found and int(found[1]) == have and self._is_total(found[2]):
                return have
            self._discard()
            raise _TryAgain("the server answered with another range than asked for")
        if status == 416:
            # Only reached when the file on the server is not longer than what arrived before.
            found = _NO_MORE.fullmatch(response.headers.get("Content-Range", ""))
            if found and int(found[1]) == have and self._is_total(found[1]):
                raise _TryAgain("everything had arrived already")
            self._discard()
            raise _TryAgain("the file on the server has changed")
        reason = f"the server answered {status} {response.reason_phrase}".rstrip()
        if status in _BUSY:
            raise _TryAgain(reason, _retry_after(response.headers.get("Retry-After", "")))
        self._give_up(reason)

    def _receive(self, response: httpx.Response, start: int, body: Iterable[bytes]) -> None:
        if response.headers.get("Content-Encoding", "identity") != "identity":
            self._give_up("the server packs the file although it was asked not to")
        if start == 0:
            self._part.unlink(missing_ok=True)
            length = response.headers.get("Content-Length", "")
            self._remember(response, int(length) if length.isdecimal() else None)
        self._check_room(start)
        phase = f"download {self._target.name}"
        with self._part.open("ab") as stream:
            for block in body:
                stream.write(block)
                start += len(block)
                if self._progress is not None:
                    self._progress(phase, start, self._total)

    def _address_behind(self, page: str) -> str:
        """The address that a page asks to confirm; gives up on any other page."""
        behind = confirmed_address(page, self._url)
        if behind is None or self._url != self._asked_url:
            title = page_title(page)
            self._give_up(
                f"a web page{f' titled {title!r}' if title else ''} came instead of the file, "
                "often a used-up quota or a sign-in"
            )
        return behind

    def _finish(self) -> Path:
        have = self._have()
        if self._total is not None and have != self._total:
            if have > self._total:
                self._discard()
            raise _TryAgain(f"{have} bytes came where {self._total} were announced")
        if not _looks_whole(self._part, self._target.suffix):
            self._discard()
            self._give_up(
                f"what came ({have} bytes) is no whole {self._target.suffix} file, the announced "
                "length was wrong"
            )
        with self._part.open("rb") as stream:
            os.fsync(stream.fileno())
        os.replace(self._part, self._target)
        self._record.unlink(missing_ok=True)
        sync_folder(self._target.parent)
        return self._target

    def _check_room(self, start: int) -> None:
        needed = self._reserve_bytes + max(0, (self._total or 0) - start)
        free = free_bytes(self._target.parent)
        if needed > free:
            raise DiskFull(
                f"{self._target} needs {needed / 1e6:,.1f} MB where {free / 1e6:,.1f} MB are free; "
                "make room or set AGENTGYM_SUITE_HOME to another disk"
            )

    def _have(self) -> int:
        return self._part.stat().st_size if self._part.is_file() else 0

    def _recall(self) -> None:
        """Take up what an earlier run left, when it is of the same address."""
        try:
            record = json.loads(self._record.read_text("utf-8"))
            same = record["url"] == self._asked_url
            self._validator, self._total = record["validator"], record["total"]
        except (OSError, ValueError, KeyError, TypeError):
            same = False
        if not same:
            self._discard()

    def _remember(self, response: httpx.Response, total: int | None) -> None:
        etag = response.headers.get("ETag", "")
        # A weak tag does not promise equal bytes, so it cannot guard a range.
        strong = etag if etag and not etag.startswith("W/") else None
        self._validator = strong or response.headers.get("Last-Modified")
        self._total = total
        self._write_record()

    def _write_record(self) -> None:
        record: Json = {"url": self._asked_url, "validator": self._validator, "total": self._total}
        write_json_atomic(self._record, record)

    def _discard(self) -> None:
        self._part.unlink(missing_ok=True)
        self._record.unlink(missing_ok=True)
        self._validator = self._total = None

    def _give_up(self, reason: str) -> NoReturn:
        kept = f", {self._have():,} bytes are kept" if self._have() else ""
        raise DownloadError(
            f"{self._asked_url} did not deliver {self._target.name} ({reason}{kept}); run the same "
            f"command again later, or {self._by_hand}"
        )


def _copy(url: str, target: Path, reserve_bytes: int, progress: Progress | None) -> Path:
    source = Path(url2pathname(urlsplit(url).path))
    if not source.is_file():
        raise DataMissing(f"{url} names no file on this machine; correct the address")
    total = source.stat().st_size
    if total + reserve_bytes > free_bytes(target.parent):
        raise DiskFull(f"{target} needs {total / 1e6:,.1f} MB, not so much is free; make room")
    part = target.with_name(target.name + ".part")
    with source.open("rb") as reader, part.open("wb") as writer:
        while block := reader.read(1 << 20):
            writer.write(block)
            if progress is not None:
                progress(f"copy {target.name}", writer.tell(), total)
        writer.flush()
        os.fsync(writer.fileno())
    os.replace(part, target)
    sync_folder(target.parent)
    return target


def _looks_whole(path: Path, suffix: str) -> bool:
    """A cheap look at the end of a file, for servers that announce too small a length."""
    if suffix == ".zip":
        return zipfile.is_zipfile(path)
    if suffix == ".json":
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - 1024))
            return stream.read().rstrip().endswith((b"]", b"}"))
    return True


def _text(blocks: Iterable[bytes]) -> str:
    page = b""
    for block in blocks:
        page += block
        if len(page) > _LONGEST_PAGE_BYTES:
            break
    return page.decode("utf-8", "replace")


def _retry_after(value: str) -> float | None:
    """Seconds out of a Retry-After header: a number or a date; None when it says nothing."""
    if value.strip().isdecimal():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _say_nothing(message: str) -> None:
    """The waiting of a caller who does not want to hear of it."""
