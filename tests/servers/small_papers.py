"""A small literature for the tests of the paper server, with ids of every form."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from agentgym_suite.indexes.paper_index import PaperIndex
from agentgym_suite.indexes.paper_store import PaperStore
from agentgym_suite.indexes.paper_store_build import build_paper_store
from agentgym_suite.servers.paper_service import PaperService, PaperSettings
from agentgym_suite.servers.papers import papers_app
from tests.indexes.literature import citations, papers, write_citations, write_papers
from tests.servers.in_process import LoopTransport, running

NEW, OLD, ACL = "1706.03762", "cs/0112017", "A00-1009"
SHA = "83b90f4a0ae4cc214eb3cc140ccfef9cd99fac05"
TRANSFORMERS = "Attention Is All You Need: Transformers for «Übersetzung» 😀"
QUERY = "attention glacier falcon canyon copper violin meadow lantern"


def rows() -> list[dict[str, Any]]:
    """A hundred and forty papers of plain words, and four with ids of every form."""
    special: list[dict[str, Any]] = [
        {
            "paper_id": "https://arxiv.org/abs/1706.03762v5",
            "title": TRANSFORMERS,
            "abstract": "A network of attention, and of nothing else.",
            "authors": ["Ann Author", {"name": "Bo Ø. Writer"}],
            "published": "2017-06-12",
            "year": 2017,
            "venue": "NeurIPS",
            "citation_count": 50_000,
            "aliases": ["CorpusId:13756489", "PDF of attention"],
        },
        {
            "paper_id": "cs.CL/0112017v1",
            "title": "Attention before all: an old study of harbours",
            "abstract": None,
            "venue": "Computational Harbours",
        },
        {
            "paper_id": SHA,
            "arxiv_id": "2005.14165",
            "title": "Attention shots",
            "abstract": "Learning from few shots of attention.",
            "year": 2020,
            "venue": "  neurips ",
            "citation_count": 7,
        },
        {"paper_id": ACL, "title": "Undated attention", "abstract": "No date, no venue."},
    ]
    return special + papers(140)


def build(folder: Path) -> Path:
    """Build the store; the new paper is cited by 120 others and cites 110."""
    made = rows()
    plain = [row["paper_id"] for row in made[4:]]
    links = [(one, NEW) for one in plain[:120]] + [(NEW, one) for one in plain[-110:]]
    links += [(OLD, SHA), (NEW, OLD)]
    known = set(links)
    links += [pair for pair in citations(made[4:], 200) if pair not in known]
    corpus = write_papers(folder / "papers.jsonl", made)
    build_paper_store(folder / "store", corpus, write_citations(folder / "cites.tsv", links))
    return folder / "store"


@contextmanager
def transport(index: PaperIndex, **options: Any) -> Iterator[LoopTransport]:
    """A paper server that runs in this process, ready."""
    access = {name: options.pop(name) for name in ("token", "hosts") if name in options}
    service = PaperService(index, PaperSettings(**options))
    with running(papers_app(service, **access)) as opened:
        while service.status[0] == "starting":
            asyncio.run(asyncio.sleep(0.005))
        yield opened


@contextmanager
def serving(index: PaperIndex, **options: Any) -> Iterator[httpx.Client]:
    """A client of such a server."""
    with (
        transport(index, **options) as opened,
        httpx.Client(transport=opened, base_url="http://localhost", timeout=60) as client,
    ):
        yield client


class HeldIndex(PaperIndex):
    """Waits at the query ``wait`` until it is let go, and fails at ``fail``."""

    def __init__(self, store: PaperStore) -> None:
        super().__init__(store)
        self.entered = threading.Event()
        self.release = threading.Event()

    def page(self, query: str, **options: Any) -> Any:
        if query == "wait":
            self.entered.set()
            self.release.wait(30)
        if query == "fail":
            raise OSError("the disk at a secret path")
        return super().page(query, **options)


def search(client: httpx.Client, **parameters: Any) -> httpx.Response:
    """The server's answer to a search for ``QUERY``, or for another query."""
    return client.get("/paper/search", params={"query": QUERY, **parameters})


def ids(answer: httpx.Response, within: str = "") -> list[str]:
    """The ids of the papers of a page."""
    assert answer.status_code == 200, answer.text
    return [(item[within] if within else item)["paperId"] for item in answer.json()["data"]]


def detail(answer: httpx.Response) -> str:
    """What an error says; it says nothing else."""
    assert answer.headers["Content-Type"] == "application/json"
    assert list(answer.json()) == ["detail"] and answer.headers["X-Request-Id"]
    said = answer.json()["detail"]
    assert isinstance(said, str) and said and "\n" not in said
    return said


def pages(
    get: Callable[[int], httpx.Response], within: str = ""
) -> tuple[list[str], Sequence[dict[str, Any]]]:
    """Every paper of a list, as a client that follows ``next`` reads it, and the pages."""
    found: list[str] = []
    read: list[dict[str, Any]] = []
    offset: int | None = 0
    while offset is not None:
        answer = get(offset)
        found += ids(answer, within)
        read.append(answer.json())
        assert read[-1]["offset"] == offset
        offset = read[-1]["next"]
    return found, read
