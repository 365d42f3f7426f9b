"""Web pages that come where a file was asked for.

File hosts answer with a page when a quota is used up, when a sign-in is wanted, or, for large
files, when a person should first confirm that the file was not scanned for viruses. The last
kind carries the real address; the others can only be explained.
"""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit, urlunsplit

_PAGE_BEGINNINGS = (b"<!doctype html", b"<html", b"<head", b"<!doctype html>")
_LONGEST_TITLE = 80


def looks_like_page(content_type: str, beginning: bytes) -> bool:
    """Whether an answer is an HTML page, by its declared type or its first bytes."""
    if content_type.partition(";")[0].strip().lower() in ("text/html", "application/xhtml+xml"):
        return True
    return beginning.lstrip(b"\xef\xbb\xbf \t\r\n")[:20].lower().startswith(_PAGE_BEGINNINGS)


def page_title(page: str) -> str:
    """The title of a page in one short line, "" when it has none."""
    title = " ".join(_read(page).title.split())
    return title[: _LONGEST_TITLE - 1] + "…" if len(title) > _LONGEST_TITLE else title


def confirmed_address(page: str, address: str) -> str | None:
    """The address behind a "download anyway" page, None when the page is no such thing.

    Google Drive has used two shapes: a form whose hidden fields include ``confirm``, and a
    link whose query includes it.
    """
    found = _read(page)
    for action, hidden in found.forms:
        if "confirm" in hidden:
            parts = urlsplit(urljoin(address, action))
            query = {key: values[-1] for key, values in parse_qs(parts.query).items()} | hidden
            return _web(urlunsplit(parts._replace(query=urlencode(query))))
    for link in found.links:
        if "confirm" in parse_qs(urlsplit(link).query):
            return _web(urljoin(address, link))
    return None


def _web(address: str) -> str | None:
    return address if urlsplit(address).scheme in ("http", "https") else None


class _PageReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.title = ""
        self.forms: list[tuple[str, dict[str, str]]] = []
        self.links: list[str] = []
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {key: value or "" for key, value in attrs}
        if tag == "form":
            self.forms.append((values.get("action", ""), {}))
        elif tag == "input" and self.forms and values.get("name"):
            self.forms[-1][1][values["name"]] = values.get("value", "")
        elif tag == "a" and values.get("href"):
            self.links.append(values["href"])
        self._in_title = tag == "title"

    def handle_endtag(self, tag: str) -> None:
        self._in_title = False

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data


def _read(page: str) -> _PageReader:
    reader = _PageReader()
    reader.feed(page)
    reader.close()
    return reader
