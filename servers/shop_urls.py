"""The addresses of the shop's site: the original's shapes, read from the raw path and written.

    /{session}
    /search_results/{session}/{keywords}/{page}
    /item_page/{session}/{asin}/{keywords}/{page}/{options}
    /item_sub_page/{session}/{asin}/{keywords}/{page}/{sub page}/{options}
    /done/{session}/{asin}/{options}

Keywords and options are percent-encoded JSON; plain words and Python's notation are read as well.
The path is split before it is decoded, so that a slash inside a part stays inside.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import unquote_to_bytes

from agentgym_suite.servers.literals import LiteralError, parse_dict, parse_list
from agentgym_suite.servers.problems import Problem
from agentgym_suite.webshop.controls import ATTRIBUTES_PAGE, SUB_PAGES
from agentgym_suite.webshop.session import PageKind
from agentgym_suite.webshop.urls import EncodedUrls

STYLESHEET = "/static/shop.css"
API_PREFIX = "api"
RESERVED = frozenset(
    {"api", "static", "search_results", "item_page", "item_sub_page", "done"}
    | {"healthz", "readyz", "favicon.ico", "robots.txt"}
    | {"info", "search", "products", "goals"}  # questions below /api
)
MOST_PAGES = 10_000

_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.~-]{0,63}")
_ASIN = re.compile(r"[A-Za-z0-9]{1,10}")

Part = Literal["session", "keywords", "page", "product", "options", "sub page"]


@dataclass(frozen=True, slots=True)
class Address:
    """What an address names.

    Attributes:
        page: the kind of page.
        session_id: the visit.
        asin: the product, upper-case; "" if none.
        keywords: the search words.
        page_number: the page of results; 0 where there is none.
        options: group -> chosen value.
        sub_page: the sub page's name; "" if none.
    """

    page: PageKind
    session_id: str
    asin: str = ""
    keywords: tuple[str, ...] = ()
    page_number: int = 0
    options: Mapping[str, str] = field(default_factory=dict)
    sub_page: str = ""


class ShopUrls(EncodedUrls):
    """The site's own addresses, for the templates."""

    def __init__(self) -> None:
        super().__init__(base="", stylesheet=STYLESHEET)

    def write(self, address: Address) -> str:
        """The path of an address."""
        a = address
        if a.page == "index":
            return self.index(a.session_id)
        if a.page == "results":
            return self.results(a.session_id, a.keywords, a.page_number)
        if a.page == "item":
            return self.item(a.session_id, a.asin, a.keywords, a.page_number, a.options)
        if a.page == "sub page":
            return self.sub_page(
                a.session_id, a.asin, a.keywords, a.page_number, a.sub_page, a.options
            )
        return self.done(a.session_id, a.asin, a.options)


def split_path(raw_path: bytes) -> list[str]:
    """The decoded parts of a path.

    Raises:
        Problem: a part is not UTF-8.
    """
    parts = []
    for part in raw_path.partition(b"?")[0].split(b"/")[1:]:
        try:
            parts.append(unquote_to_bytes(part).decode("utf-8"))
        except UnicodeDecodeError:
            raise Problem(
                "invalid", f"{part[:80].decode('latin-1')!r} is not UTF-8; encode it so"
            ) from None
    return parts


def parse_address(parts: Sequence[str]) -> Address:
    """What the parts of a path name.

    Raises:
        Problem: ``not-found`` for a shape that the shop does not have; ``invalid``, with the part
            in ``field``, for a part that cannot be read.
    """
    name, rest = (parts[0], parts[1:]) if parts else ("", [])
    if name not in RESERVED and len(parts) == 1:
        return Address("index", _session_id(name))
    if name == "search_results" and len(rest) == 3:
        return Address(
            "results",
            _session_id(rest[0]),
            keywords=parse_keywords(rest[1]),
            page_number=_page_number(rest[2]),
        )
    if name == "item_page" and len(rest) == 5:
        return Address(
            "item",
            _session_id(rest[0]),
            asin=_asin(rest[1]),
            keywords=parse_keywords(rest[2]),
            page_number=_page_number(rest[3]),
            options=parse_options(rest[4]),
        )
    if name == "item_sub_page" and len(rest) == 6:
        return Address(
            "sub page",
            _session_id(rest[0]),
            asin=_asin(rest[1]),
            keywords=parse_keywords(rest[2]),
            page_number=_page_number(rest[3]),
            sub_page=_sub_page(rest[4]),
            options=parse_options(rest[5]),
        )
    if name == "done" and len(rest) == 3:
        return Address(
            "done", _session_id(rest[0]), asin=_asin(rest[1]), options=parse_options(rest[2])
        )
    shown = "/".join(parts)[:200]
    raise Problem("not-found", f"/{shown} is no page of this shop; begin at /")


def parse_keywords(text: str) -> tuple[str, ...]:
    """Search words: a list of strings, or one plain text.

    Raises:
        Problem: ``invalid``: a list cannot be read or has no word.
    """
    if not text.startswith("["):
        words = [text]
    else:
        try:
            words = parse_list(text)
        except LiteralError as error:
            raise _unreadable("keywords", text, str(error)) from None
    if not any(word.strip() for word in words):
        raise _unreadable("keywords", text, "there is no word")
    return tuple(word.lower() for word in words)


def parse_options(text: str) -> dict[str, str]:
    """Chosen options: a dictionary of strings.

    Raises:
        Problem: ``invalid``: it cannot be read.
    """
    try:
        return parse_dict(text)
    except LiteralError as error:
        raise _unreadable("options", text, str(error)) from None


def _session_id(text: str) -> str:
    if not _SESSION_ID.fullmatch(text) or text in RESERVED:
        raise _unreadable("session", text, "a name has letters, digits, _ . ~ -, 64 at most")
    return text


def _asin(text: str) -> str:
    if not _ASIN.fullmatch(text):
        raise _unreadable("product", text, "an ASIN has up to 10 letters and digits")
    return text.upper()


def _page_number(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else 0
    if not 1 <= number <= MOST_PAGES:
        raise _unreadable("page", text, "a page number is 1 or more")
    return number


def _sub_page(text: str) -> str:
    for name in (*SUB_PAGES, ATTRIBUTES_PAGE):
        if text.lower() == name.lower():
            return name
    raise _unreadable("sub page", text, f"choose {', '.join(SUB_PAGES)}")


def _unreadable(part: Part, text: str, reason: str) -> Problem:
    return Problem("invalid", f"the {part} {text[:80]!r} cannot be read: {reason}", field=part)
