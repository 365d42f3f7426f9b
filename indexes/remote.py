"""The index of a retrieval server: ours, or any that answers as Search-R1's does.

One POST carries a whole batch: ``{"queries": […], "topk": k, "return_scores": true}``; the
answer is ``{"result": [[{"document": {…}, "score": …}, …], …]}``.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import httpx

from agentgym_suite.arguments import json_kind
from agentgym_suite.errors import RetrievalError
from agentgym_suite.files import Json
from agentgym_suite.indexes.passages import Found, Passage, check_search, split_contents
from agentgym_suite.indexes.retrying_client import TIMEOUT_S, RetryingClient, check_url
from agentgym_suite.spaces import without_surrogates

ROUTE = "/retrieve"

_LONGEST_PAUSE_S = 10.0
_RETRIED_STATUS = (502, 503, 504)
_SHOWN_CHARACTERS = 200


class RemoteIndex:
    """Searches through a retrieval server; threads and forked processes may share it.

    Pickling keeps the address, the token and the timeout.

    Args:
        url: ``http(s)://host:port``, with or without the route ``/retrieve``.
        token: bearer token, for a server that asks for one.
        timeout_s: longest wait for one answer.
        transport: how requests travel; None for the network.
        sleep: waits before a request is repeated.

    Raises:
        UsageError: the address or the timeout is wrong.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout_s: float = TIMEOUT_S,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = _with_route(url)
        self._token = token
        self._timeout_s = timeout_s
        self._client = RetryingClient(
            "the retrieval server",
            token=token,
            timeout_s=timeout_s,
            retried=_RETRIED_STATUS,
            longest_pause_s=_LONGEST_PAUSE_S,
            transport=transport,
            sleep=sleep,
        )

    def __reduce__(self) -> tuple[Callable[..., RemoteIndex], tuple[str, str | None, float]]:
        return _reopened, (self.url, self._token, self._timeout_s)

    def __len__(self) -> int:
        """How many passages the server says it has; 0 when it does not say."""
        rows = self.info().get("rows")
        return rows if isinstance(rows, int) else 0

    def __bool__(self) -> bool:
        """True: an index, whatever its length, which only the server knows."""
        return True

    @property
    def digest(self) -> str:
        """What the server says at ``/info`` of what it searches; empty when it does not say.

        Raises:
            RetrievalError: the server cannot be reached.
        """
        digest = self.info().get("digest")
        return digest if isinstance(digest, str) else ""

    def retrieve(self, queries: Sequence[str], k: int) -> list[list[Found]]:
        """The best passages for each query, in one request; blank queries are not sent.

        Raises:
            UsageError: ``k`` is below 1, or a query is not text.
            RetrievalError: no usable answer came, or none that has this form.
        """
        check_search(queries, k)
        places = [place for place, query in enumerate(queries) if query.strip()]
        found: list[list[Found]] = [[] for _ in queries]
        if not places:
            return found
        texts = [without_surrogates(queries[place]) for place in places]
        body: dict[str, Json] = {"queries": texts, "topk": k, "return_scores": True}
        answer = self._usable(self._client.send("POST", self.url, body))
        for place, one in zip(places, self._results(answer, len(texts)), strict=True):
            found[place] = one[:k]
        return found

    def info(self) -> dict[str, Json]:
        """The address, and what the server says of its index at ``/info``, if it does.

        Raises:
            RetrievalError: the server cannot be reached.
        """
        about = self._client.object_at(self.url.removesuffix(ROUTE) + "/info")
        return {**about, "kind": "remote", "url": self.url}

    def close(self) -> None:
        """Close the connections; the next search opens others."""
        self._client.close()

    def _usable(self, answer: httpx.Response) -> Any:
        if answer.status_code != 200:
            said = answer.text[:_SHOWN_CHARACTERS].strip() or "nothing"
            raise RetrievalError(
                f"{self.url} refused the search with status {answer.status_code} and said {said!r}"
            )
        try:
            return answer.json()
        except (ValueError, RecursionError) as error:
            raise self._malformed(f"it is no JSON ({error})") from error

    def _results(self, answer: Any, count: int) -> list[list[Found]]:
        results = answer.get("result") if isinstance(answer, dict) else None
        if not isinstance(results, list) or len(results) != count:
            raise self._malformed(f"'result' is no list of {count} lists")
        found = []
        for place, items in enumerate(results):
            if not isinstance(items, list):
                raise self._malformed(f"result {place} is a JSON {json_kind(items)}")
            try:
                found.append(list(map(_to_found, items)))
            except ValueError as error:
                raise self._malformed(f"result {place}: {error}") from error
        return found

    def _malformed(self, what: str) -> RetrievalError:
        return RetrievalError(
            f"{self.url} gave an answer that cannot be used: {what}; point to a server that "
            "answers as Search-R1's does"
        )


def _to_found(item: Any) -> Found:
    document = item.get("document") if isinstance(item, dict) else None
    if not isinstance(document, dict):
        raise ValueError("an item has no 'document'")
    score = item.get("score")
    if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
        raise ValueError(f"a score is {score!r}")
    title, text, contents = (document.get(key) for key in ("title", "text", "contents"))
    if isinstance(contents, str):
        title, text = split_contents(contents)
    if not isinstance(title, str) or not isinstance(text, str):
        raise ValueError("a document has neither 'contents' nor 'title' and 'text'")
    identifier = document.get("id")
    if identifier is None:
        # What is found twice must be known again, also on a server without ids.
        data = f"{title}\n{text}".encode("utf-8", "replace")
        identifier = hashlib.sha256(data).hexdigest()[:16]
    if isinstance(identifier, bool) or not isinstance(identifier, str | int):
        raise ValueError(f"an id is {identifier!r}")
    passage = Passage(*map(without_surrogates, (str(identifier), title, text)))
    return Found(passage, float(score))


def _with_route(url: str) -> str:
    parts = check_url("the index address", url)
    return str(parts) if parts.path.strip("/") else str(parts).rstrip("/") + ROUTE


def _reopened(url: str, token: str | None, timeout_s: float) -> RemoteIndex:
    return RemoteIndex(url, token=token, timeout_s=timeout_s)
