"""The papers of a paper API: our paper server, or any that answers as Lewen's does.

``GET /paper/search``, ``/paper/{id}``, ``/paper/{id}/citations`` and ``/paper/{id}/references``.
Papers that a cut-off hides are asked for the next page until enough are found: our server leaves
them out by itself, so that there its first page is enough.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import quote, urlencode

import httpx

from agentgym_suite.arguments import json_kind
from agentgym_suite.errors import RetrievalError
from agentgym_suite.files import Json
from agentgym_suite.indexes.paper_dates import paper_day, read_date, visible
from agentgym_suite.indexes.paper_ids import normalize_arxiv_id
from agentgym_suite.indexes.paper_store import Paper
from agentgym_suite.indexes.passages import check_search
from agentgym_suite.indexes.retrying_client import TIMEOUT_S, RetryingClient, check_url
from agentgym_suite.spaces import without_surrogates

FIELDS = "title,abstract,year,authors,venue,externalIds,citationCount,publicationDate"
MOST_PAPERS = 100
"""What one page may hold."""
DEEPEST = 10_000
"""How many papers of one list are looked at, at most."""
KEY_HEADER = "X-API-Key"

_RETRIED_STATUS = (502, 503, 504)
# What an address with such an id would mean is not a paper.
_OTHER_ADDRESSES = re.compile(r"\.{0,2}|search(/title)?|.*/(citations|references)", re.DOTALL)
_SHOWN_CHARACTERS = 200


class RemotePapers:
    """Searches and follows citations through a paper API; threads and processes may share it.

    Pickling keeps the address, the token and the timeout.

    Args:
        base_url: ``http(s)://host:port``, what stands before ``/paper``.
        token: the server's token or API key, sent as ``X-API-Key``.
        timeout_s: longest wait for one answer.
        transport: how requests travel; None for the network.
        sleep: waits before a request is repeated.

    Raises:
        UsageError: the address or the timeout is wrong.
    """

    def __init__(
        self,
        base_url: str,
        *,
        token: str | None = None,
        timeout_s: float = TIMEOUT_S,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = str(check_url("the address of the papers", base_url)).rstrip("/")
        self._token = token
        self._timeout_s = timeout_s
        self._client = RetryingClient(
            "the paper server",
            headers={KEY_HEADER: token} if token is not None else None,
            timeout_s=timeout_s,
            retried=_RETRIED_STATUS,
            transport=transport,
            sleep=sleep,
        )

    def __reduce__(self) -> tuple[Callable[..., RemotePapers], tuple[str, str | None, float]]:
        return _reopened, (self.url, self._token, self._timeout_s)

    @property
    def digest(self) -> str:
        """What the server says at ``/info`` of papers, vectors and fusion; "" if it does not.

        Raises:
            RetrievalError: the server cannot be reached.
        """
        digest = self.info().get("digest")
        return digest if isinstance(digest, str) else ""

    def search_papers(
        self,
        queries: Sequence[str],
        k: int,
        *,
        retrieval: str | None = None,
        before: int | None = None,
    ) -> list[list[Paper]]:
        """The best papers for each query, best first; blank queries are not sent.

        Args:
            queries: any number of them.
            k: at most so many papers for each.
            retrieval: ``sparse``, ``dense`` or ``hybrid``; None: the server chooses.
            before: only papers with a smaller day; see ``paper_dates.cutoff_day``.

        Raises:
            UsageError: ``k`` is below 1, or a query is not text.
            RetrievalError: no usable answer came; never an empty list instead.
        """
        check_search(queries, k)
        asked: dict[str, str] = {} if retrieval is None else {"retrieval": retrieval}
        if k > MOST_PAPERS:
            asked["depth"] = str(k)  # pages of one list, not of ever deeper ones
        return [
            self._collect("/paper/search", {"query": query, **asked}, k, before)
            if query.strip()
            else []
            for query in map(without_surrogates, queries)
        ]

    def citing_papers(self, paper_id: str, limit: int, before: int | None = None) -> list[Paper]:
        """Papers that cite this one, in the server's order.

        Args:
            paper_id: the cited paper.
            limit: at most so many.
            before: only papers with a smaller day.

        Raises:
            RetrievalError: there is no such paper, or no usable answer came.
        """
        path = f"/paper/{_written_id(paper_id)}/citations"
        return self._collect(path, {}, limit, before, "citingPaper")

    def referenced_papers(
        self, paper_id: str, limit: int, before: int | None = None
    ) -> list[Paper]:
        """Papers that this one cites; see ``citing_papers``."""
        path = f"/paper/{_written_id(paper_id)}/references"
        return self._collect(path, {}, limit, before, "citedPaper")

    def find_id(self, text: str) -> str | None:
        """The id of the paper that an id names, in any spelling; None if there is none.

        Raises:
            RetrievalError: no usable answer came.
        """
        if _OTHER_ADDRESSES.fullmatch(text.strip()):
            return None
        url = f"{self.url}/paper/{_written_id(text)}?fields=title"
        answer = self._client.send("GET", url)
        if answer.status_code == 404 and _detail(answer):
            return None
        paper_id = _text(self._usable(url, answer), "paperId", url)
        if not paper_id:
            raise _malformed(url, "a paper has no 'paperId'")
        return paper_id

    def info(self) -> dict[str, Json]:
        """The address, and what the server says of its papers at ``/info``, if it does.

        Raises:
            RetrievalError: the server cannot be reached.
        """
        index = self._client.object_at(f"{self.url}/info").get("index")
        return {**(index if isinstance(index, dict) else {}), "kind": "paper-api", "url": self.url}

    def close(self) -> None:
        """Close the connections; the next request opens others."""
        self._client.close()

    def _collect(
        self, path: str, asked: dict[str, str], k: int, before: int | None, within: str = ""
    ) -> list[Paper]:
        """The first ``k`` papers of a list that are visible, each once."""
        if before is not None:
            asked = {**asked, "before": _written_date(before)}
        found: dict[str, Paper] = {}
        for paper in self._listed(path, asked, k, within) if k > 0 else ():
            if visible(paper.day, before):
                found.setdefault(paper.paper_id, paper)
            if len(found) == k:
                break
        return list(found.values())

    def _listed(self, path: str, asked: dict[str, str], k: int, within: str) -> Iterator[Paper]:
        """Every paper of a list, a page at a time."""
        offset: int | None = 0
        while offset is not None and offset < DEEPEST:
            # not beyond k at first: a server may rank differently for a longer list
            limit = min(k - offset if offset < k else DEEPEST - offset, MOST_PAPERS)
            place = {"offset": str(offset), "limit": str(limit), "fields": FIELDS}
            url = f"{self.url}{path}?{urlencode({**asked, **place}, quote_via=quote)}"
            page = self._usable(url, self._client.send("GET", url))
            items, after = page.get("data"), page.get("next")
            if not isinstance(items, list):
                raise _malformed(url, "'data' is no list")
            for item in items:
                inner = item.get(within) if within and isinstance(item, dict) else item
                yield _to_paper(inner, url)
            if after is not None and (not isinstance(after, int) or after <= offset):
                raise _malformed(url, f"'next' is {after!r:.80}")
            offset = after if items else None

    def _usable(self, url: str, answer: httpx.Response) -> dict[str, Any]:
        if answer.status_code != 200:
            said = _detail(answer) or " ".join(answer.text.split()) or "nothing"
            raise RetrievalError(
                f"{_without_query(url)} refused the request with status {answer.status_code} and "
                f"said {said[:_SHOWN_CHARACTERS]!r}"
            )
        try:
            value = answer.json()
        except (ValueError, RecursionError) as error:
            raise _malformed(url, f"it is no JSON ({error})") from error
        if not isinstance(value, dict):
            raise _malformed(url, f"it is a JSON {json_kind(value)}")
        return value


def _to_paper(value: Any, url: str) -> Paper:
    if not isinstance(value, dict):
        raise _malformed(url, "an item is no paper")
    paper_id = _text(value, "paperId", url)
    if not paper_id:
        raise _malformed(url, "a paper has no 'paperId'")
    outside = value.get("externalIds")
    known = outside.get("ArXiv") if isinstance(outside, dict) else None
    arxiv_id = normalize_arxiv_id(known) or normalize_arxiv_id(paper_id)
    year = _number(value, "year", url)
    try:
        published = read_date(_text(value, "publicationDate", url))
    except ValueError as error:
        raise _malformed(url, f"'publicationDate': {error}") from error
    return Paper(
        rowid=0,
        paper_id=paper_id,
        arxiv_id=arxiv_id,
        title=_text(value, "title", url),
        abstract=_text(value, "abstract", url),
        authors=_names(value, url),
        year=year,
        published=published,
        venue=_text(value, "venue", url),
        citation_count=_number(value, "citationCount", url) or 0,
        day=paper_day(published, arxiv_id, year),
    )


def _text(value: dict[str, Any], name: str, url: str) -> str:
    text = value.get(name)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise _malformed(url, f"'{name}' is {text!r:.80}")
    return without_surrogates(text)


def _number(value: dict[str, Any], name: str, url: str) -> int | None:
    number = value.get(name)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise _malformed(url, f"'{name}' is {number!r:.80}")
    return number


def _names(value: dict[str, Any], url: str) -> tuple[str, ...]:
    authors = value.get("authors")
    if authors is None:
        return ()
    if not isinstance(authors, list) or not all(isinstance(one, dict) for one in authors):
        raise _malformed(url, f"'authors' is {authors!r:.80}")
    return tuple(_text(author, "name", url) for author in authors)


def _detail(answer: httpx.Response) -> str:
    """What our server and Lewen's say in an error; empty for another's page."""
    try:
        value = answer.json()
    except (ValueError, RecursionError):
        return ""
    detail = value.get("detail") if isinstance(value, dict) else None
    return detail if isinstance(detail, str) else ""


def _malformed(url: str, what: str) -> RetrievalError:
    return RetrievalError(
        f"{_without_query(url)} gave an answer that cannot be used: {what}; point to a server "
        "that answers as Lewen's API does"
    )


def _written_id(paper_id: str) -> str:
    return quote(without_surrogates(paper_id.strip()), safe="")


def _written_date(before: int) -> str:
    """A cut-off as ``read_date`` reads it: a month alone is written with the day 00."""
    year, month, day = f"{before // 10_000:04}", before // 100 % 100, before % 100
    if not month:
        return year
    return f"{year}-{month:02}-{day:02}" if day else f"{year}-{month:02}"


def _without_query(url: str) -> str:
    return url.partition("?")[0]


def _reopened(url: str, token: str | None, timeout_s: float) -> RemotePapers:
    return RemotePapers(url, token=token, timeout_s=timeout_s)
