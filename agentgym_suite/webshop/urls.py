"""The addresses of the shop's pages.

Two spellings: the original's (nothing escaped, options in Python notation on some pages), which
parity needs, and ours (percent-encoded JSON), which survives slashes, quotes and any script.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Protocol
from urllib.parse import quote

ORIGIN = "http://127.0.0.1:3000"


class UrlScheme(Protocol):
    """How the pages of one session are addressed.

    The web site passes its own scheme to the templates, so that one set of pages serves both.
    """

    @property
    def stylesheet(self) -> str:
        """Address of the style sheet; ``""`` for none."""
        ...

    def index(self, session_id: str) -> str:
        """The page with the search field; searches are posted to it."""
        ...

    def results(self, session_id: str, keywords: Sequence[str], page: int) -> str:
        """One page of results."""
        ...

    def item(
        self,
        session_id: str,
        asin: str,
        keywords: Sequence[str],
        page: int,
        options: Mapping[str, str],
    ) -> str:
        """A product with the options chosen so far; further choices are posted to it."""
        ...

    def sub_page(
        self,
        session_id: str,
        asin: str,
        keywords: Sequence[str],
        page: int,
        name: str,
        options: Mapping[str, str],
    ) -> str:
        """A product's description, features, reviews or attributes."""
        ...

    def done(self, session_id: str, asin: str, options: Mapping[str, str]) -> str:
        """The purchase; buying is posted to it."""
        ...


class EncodedUrls:
    """Addresses with percent-encoded JSON.

    Args:
        base: what stands before each path, without a final slash.
        stylesheet: address of the style sheet; ``""`` for none.
    """

    def __init__(self, base: str = ORIGIN, stylesheet: str = "") -> None:
        self.base = base
        self.stylesheet = stylesheet

    def index(self, session_id: str) -> str:
        """See ``UrlScheme.index``."""
        return self._path(session_id)

    def results(self, session_id: str, keywords: Sequence[str], page: int) -> str:
        """See ``UrlScheme.results``."""
        return self._path("search_results", session_id, _json(list(keywords)), str(page))

    def item(
        self,
        session_id: str,
        asin: str,
        keywords: Sequence[str],
        page: int,
        options: Mapping[str, str],
    ) -> str:
        """See ``UrlScheme.item``."""
        words = _json(list(keywords))
        return self._path("item_page", session_id, asin, words, str(page), _json(dict(options)))

    def sub_page(
        self,
        session_id: str,
        asin: str,
        keywords: Sequence[str],
        page: int,
        name: str,
        options: Mapping[str, str],
    ) -> str:
        """See ``UrlScheme.sub_page``."""
        words, chosen = _json(list(keywords)), _json(dict(options))
        return self._path("item_sub_page", session_id, asin, words, str(page), name, chosen)

    def done(self, session_id: str, asin: str, options: Mapping[str, str]) -> str:
        """See ``UrlScheme.done``."""
        return self._path("done", session_id, asin, _json(dict(options)))

    def _path(self, *parts: str) -> str:
        return "/".join((self.base, *(quote(part, safe="") for part in parts)))


class OriginalUrls:
    """The original's addresses, to the letter; meant to be read, not to be followed."""

    stylesheet = ""

    def index(self, session_id: str) -> str:
        """See ``UrlScheme.index``."""
        return f"{ORIGIN}/{session_id}"

    def results(self, session_id: str, keywords: Sequence[str], page: int) -> str:
        """See ``UrlScheme.results``."""
        return f"{ORIGIN}/search_results/{session_id}/{'+'.join(keywords)}/{page}"

    def item(
        self,
        session_id: str,
        asin: str,
        keywords: Sequence[str],
        page: int,
        options: Mapping[str, str],
    ) -> str:
        """See ``UrlScheme.item``."""
        words = "+".join(keywords)
        return f"{ORIGIN}/item_page/{session_id}/{asin}/{words}/{page}/{json.dumps(dict(options))}"

    def sub_page(
        self,
        session_id: str,
        asin: str,
        keywords: Sequence[str],
        page: int,
        name: str,
        options: Mapping[str, str],
    ) -> str:
        """See ``UrlScheme.sub_page``."""
        words = "+".join(keywords)
        place = f"{session_id}/{asin}/{words}/{page}/{name}/{dict(options)}"
        return f"{ORIGIN}/item_sub_page/{place}"

    def done(self, session_id: str, asin: str, options: Mapping[str, str]) -> str:
        """See ``UrlScheme.done``."""
        return f"{ORIGIN}/done/{session_id}/{asin}/{dict(options)}"


def _json(value: list[str] | dict[str, str]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
