"""A small index of the server tests' own: ranks by shared words, can be held up, and can fail."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

from agentgym_suite.errors import RetrievalError
from agentgym_suite.files import Json
from agentgym_suite.indexes.passages import Found, Passage, check_search
from agentgym_suite.servers.retrieval import retrieval_app
from agentgym_suite.servers.retrieval_service import RetrievalService, RetrievalSettings
from tests.servers.in_process import running

ROWS = 20
FAILS = "please fail"
WAITS = "please wait"


def passage(number: int) -> Passage:
    words = " ".join(f"word{number % divisor}" for divisor in (2, 3, 5, 7))
    return Passage(f"p{number:02}", f"Title {number} «ü»", f"Text {number} 😀 of {words}.")


class SmallIndex:
    """Twenty passages; what it was asked stands in ``calls``."""

    def __init__(self, kind: str = "small-index", rows: int = ROWS) -> None:
        self.kind = kind
        self.passages = [passage(number) for number in range(rows)]
        self.calls: list[tuple[tuple[str, ...], int]] = []
        self.entered = threading.Event()
        self.release = threading.Event()
        self.closed = False

    @property
    def digest(self) -> str:
        return "sha256:small"

    def __len__(self) -> int:
        return len(self.passages)

    def retrieve(self, queries: Sequence[str], k: int) -> list[list[Found]]:
        check_search(queries, k)
        self.calls.append((tuple(queries), k))
        if FAILS in queries:
            raise RetrievalError("the index lies at a secret path and is gone")
        if WAITS in queries:
            self.entered.set()
            self.release.wait(30)
        return [self._rank(query, k) for query in queries]

    def _rank(self, query: str, k: int) -> list[Found]:
        words = set(query.split())
        if not words:
            return []
        found = [
            Found(p, len(words & set(f"{p.title} {p.text}".split())) + 1 / 3) for p in self.passages
        ]
        return sorted(found, key=lambda f: (-f.score, f.passage.id))[:k]

    def info(self) -> dict[str, Json]:
        return {"kind": self.kind, "rows": len(self)}

    def close(self) -> None:
        self.closed = True


@contextmanager
def serving(
    index: Any = None,
    *,
    token: str | None = None,
    hosts: Sequence[str] = (),
    public_metrics: bool = False,
    **settings: Any,
) -> Iterator[httpx.Client]:
    """A client of a retrieval server that runs in this process."""
    service = RetrievalService(index or SmallIndex(), RetrievalSettings(**settings))
    app = retrieval_app(service, token=token, hosts=hosts, public_metrics=public_metrics)
    with (
        running(app) as transport,
        httpx.Client(transport=transport, base_url="http://localhost", timeout=60) as client,
    ):
        yield client


def ids(result: Sequence[Any]) -> list[list[str]]:
    """The passage ids of a nested result, scored or bare."""
    return [[item.get("document", item)["id"] for item in found] for found in result]
