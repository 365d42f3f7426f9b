"""The client of a paper API: equal to the store behind it, and against every kind of fault."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym_suite.errors import RetrievalError, UsageError
from agentgym_suite.indexes.paper_dates import cutoff_day
from agentgym_suite.indexes.paper_index import PaperIndex
from agentgym_suite.indexes.paper_store import Paper, PaperStore
from agentgym_suite.indexes.remote_papers import RemotePapers
from agentgym_suite.paper_search.paper_sources import RemoteSource, StoreSource
from tests.servers.small_papers import ACL, NEW, OLD, SHA, build, transport

QUERIES = [
    "attention glacier falcon canyon copper violin meadow lantern",
    "few shots",
    "zyxwv",
    " ",
]
CUTOFFS = [None, "20050615", "2005-06", "2005", "20170612", "20170613"]

Answer = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]


class Server:
    """Answers requests in the process, and remembers them."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.pauses: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else answer(request)

    def papers(self, url: str = "http://server:4000", **options: Any) -> RemotePapers:
        travel = httpx.MockTransport(self)
        return RemotePapers(url, transport=travel, sleep=self.pauses.append, **options)


def page(*papers: Any, after: Any = None) -> httpx.Response:
    return httpx.Response(
        200, json={"total": len(papers), "offset": 0, "next": after, "data": list(papers)}
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PaperStore]:
    opened = PaperStore.open(build(tmp_path_factory.mktemp("papers")))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def remote(store: PaperStore) -> Iterator[RemotePapers]:
    with transport(PaperIndex(store), token="secret") as travel:
        yield RemotePapers("http://localhost/", token="secret", transport=travel)


def without_rows(papers: list[Paper]) -> list[Paper]:
    return [replace(paper, rowid=0) for paper in papers]


# ----------------------------------------------------------- remote is local


@pytest.mark.parametrize("date", CUTOFFS)
def test_everything_is_as_in_the_store_behind_the_server(
    store: PaperStore, remote: RemotePapers, date: str | None
) -> None:
    before = cutoff_day(date)
    source = StoreSource(PaperIndex(store))
    for k in (1, 10, 100, 101, 130):
        found = source.search_papers(QUERIES, k, before)
        assert remote.search_papers(QUERIES, k, before=before) == [*map(without_rows, found)]
        assert found[0] and not found[2] and not found[3]
    for paper_id in (NEW, OLD, SHA, ACL, *store.ids(range(1, 9))):
        for limit in (0, 1, 30, 99, 100, 101, 1_000):
            citing = source.citing_papers(paper_id, limit, before)
            assert remote.citing_papers(paper_id, limit, before) == without_rows(citing)
            cited = source.referenced_papers(paper_id, limit, before)
            assert remote.referenced_papers(paper_id, limit, before) == without_rows(cited)


SPELLINGS = [
    f"{NEW}v5", f"https://arxiv.org/abs/{NEW}?x=1#top", "CS/0112017v1", "CorpusId:13756489",
    "pdf OF attention", SHA.upper(), ACL.lower(), " 2005.14165 ", "GPT", "", " ", ".", "..", "/",
    "search", "search/title", f"{NEW}/citations", f"x/{OLD}/references", "a?b", "a&b=c", "a%2Fb",
    "%", "\x00", "é\ud800", "😀", "1706.03763", "../healthz", "\n",
]  # fmt: skip


@pytest.mark.parametrize("text", SPELLINGS)
def test_ids_in_any_spelling(store: PaperStore, remote: RemotePapers, text: str) -> None:
    assert remote.find_id(text) == StoreSource(PaperIndex(store)).find_id(text)


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.text(max_size=30))
def test_whatever_an_agent_writes_as_an_id_is_no_error(
    store: PaperStore, remote: RemotePapers, text: str
) -> None:
    assert remote.find_id(text) == StoreSource(PaperIndex(store)).find_id(text)


def test_hybrid_lists_beyond_a_page_are_those_of_the_index(tmp_path: Path) -> None:
    pytest.importorskip("qdrant_edge", reason="the extra retrieval is not installed")
    from agentgym_suite.indexes.paper_vectors import build_paper_vectors
    from tests.indexes.hashing_encoder import HashingEncoder

    store = PaperStore.open(build(tmp_path))
    build_paper_vectors(store, encoder=HashingEncoder())
    index = PaperIndex.open(store.folder, encoder=HashingEncoder())
    before = cutoff_day("2009-06")
    with transport(index) as travel:
        papers = RemotePapers("http://localhost", transport=travel)
        for retrieval in ("sparse", "dense", "hybrid", None):
            for k in (10, 100, 120):
                source = StoreSource(index, retrieval)
                assert RemoteSource(papers, retrieval).digest == source.digest
                local = source.search_papers(QUERIES[:1], k, before)
                found = papers.search_papers(QUERIES[:1], k, retrieval=retrieval, before=before)
                assert found == [*map(without_rows, local)]
    index.close()
    store.close()


def test_unknown_papers_are_errors_here_as_there(store: PaperStore, remote: RemotePapers) -> None:
    for papers in (RemoteSource(remote), StoreSource(PaperIndex(store))):
        with pytest.raises(RetrievalError):
            papers.citing_papers("nothing", 30, None)
        with pytest.raises(RetrievalError):
            papers.referenced_papers("nothing", 30, None)


def test_what_cannot_be_searched_is_an_error_with_the_servers_words(remote: RemotePapers) -> None:
    with pytest.raises(RetrievalError, match="status 422 and said 'retrieval is dense, but"):
        remote.search_papers(["a"], 3, retrieval="dense")
    with pytest.raises(UsageError, match="k is 0"):
        remote.search_papers(["a"], 0)
    with pytest.raises(UsageError, match="query 0 is None"):
        remote.search_papers([None], 1)  # type: ignore[list-item]


def test_what_it_says_of_itself(store: PaperStore, remote: RemotePapers) -> None:
    about = remote.info()
    assert (about["kind"], about["url"]) == ("paper-api", "http://localhost")
    assert about["rows"] == len(store) and about["store"] == store.info()
    assert remote.digest == PaperIndex(store).digest
    assert RemoteSource(remote).info() == about
    for retrieval in (None, "sparse"):
        assert RemoteSource(remote, retrieval).digest == store.digest


def test_a_wrong_token_is_an_error(store: PaperStore) -> None:
    with transport(PaperIndex(store), token="secret") as travel:
        for token in (None, "wrong"):
            papers = RemotePapers("http://localhost", token=token, transport=travel)
            with pytest.raises(RetrievalError, match="status 401 and said .the token is missing"):
                papers.search_papers(["a"], 1)
            with pytest.raises(RetrievalError, match="status 401"):
                papers.find_id(NEW)


# ------------------------------------------------------ what is sent and read


def test_one_request_for_a_search_and_nothing_for_blank_queries() -> None:
    server = Server(page({"paperId": "x", "year": 2020}))
    papers = server.papers("https://h/proxy/", token="t")
    assert papers.search_papers(["", "\n"], 3) == [[], []] and not server.requests
    found = papers.search_papers(["é\ud800 & b", " "], 7, retrieval="sparse", before=20241000)
    assert [len(one) for one in found] == [1, 0]
    (request,) = server.requests
    assert str(request.url).startswith("https://h/proxy/paper/search?")
    assert dict(request.url.params) == {
        "query": "é\ufffd & b", "retrieval": "sparse", "before": "2024-10", "offset": "0",
        "limit": "7",
        "fields": "title,abstract,year,authors,venue,externalIds,citationCount,publicationDate",
    }  # fmt: skip
    assert request.headers["X-API-Key"] == "t" and "Authorization" not in request.headers
    assert "secret" not in repr(server.papers(token="secret"))


@pytest.mark.parametrize(
    ("before", "sent"), [(20241001, "2024-10-01"), (20241000, "2024-10"), (20240000, "2024")]
)
def test_cut_offs_are_written_as_dates(before: int, sent: str) -> None:
    server = Server(page())
    server.papers().citing_papers("cs/0112017", 30, before)
    (request,) = server.requests
    assert request.url.raw_path.startswith(b"/paper/cs%2F0112017/citations?")
    assert request.url.params["before"] == sent and cutoff_day(sent) == before


def numbered(request: httpx.Request) -> httpx.Response:
    """A service that knows no ``before``: 300 papers, of every month since 2000."""
    offset, limit = int(request.url.params["offset"]), int(request.url.params["limit"])
    assert 1 <= limit <= 100
    data = [
        {"paperId": f"p{n}", "publicationDate": f"{2000 + n // 12}-{n % 12 + 1:02}-15"}
        for n in range(offset, min(offset + limit, 300))
    ]
    end = offset + len(data)
    return httpx.Response(200, json={"next": end if end < 300 else None, "data": data})


def test_a_service_without_dates_is_read_on_until_enough_are_visible() -> None:
    server = Server(numbered)
    (found,) = server.papers().search_papers(["a"], 20)
    assert [paper.paper_id for paper in found] == [f"p{n}" for n in range(20)]
    assert len(server.requests) == 1
    (found,) = server.papers().search_papers(["a"], 250)
    assert len(found) == 250
    assert [r.url.params["limit"] for r in server.requests[1:]] == ["100", "100", "50"]
    assert {r.url.params["depth"] for r in server.requests[1:]} == {"250"}
    newest_first = Server(lambda r: httpx.Response(200, json=_reversed(numbered(r).json())))
    (found,) = newest_first.papers().search_papers(["a"], 10, before=20000601)
    assert sorted(paper.paper_id for paper in found) == [f"p{n}" for n in range(5)]


def _reversed(value: dict[str, Any]) -> dict[str, Any]:
    for item in value["data"]:
        year, month, day = item["publicationDate"].split("-")
        number = 299 - int(item["paperId"][1:])
        item.update(paperId=f"p{number}")
        item["publicationDate"] = f"{2000 + number // 12}-{number % 12 + 1:02}-{day}"
        assert year and month
    return value


def test_sparse_records_and_semantic_scholars_are_read() -> None:
    record = {
        "paperId": SHA,
        "title": None,
        "abstract": None,
        "authors": [{"authorId": None, "name": "Ann"}, {"name": None}],
        "externalIds": {"ArXiv": "cs.CL/0112017v2", "DOI": "10.1/x", "CorpusId": 7},
        "year": 2001,
        "publicationDate": "2001-12-07",
        "openAccessPdf": {"url": ""},
    }
    (found,) = (
        Server(page(record, record, {"paperId": "1706.03762"})).papers().search_papers(["a"], 5)
    )
    paper = Paper(
        0, SHA, OLD, "", "", ("Ann", ""), 2001, "20011207", "", citation_count=0, day=20011207
    )
    assert found[0] == paper
    assert found[1].arxiv_id == "1706.03762" and found[1].day == 20170699 and len(found) == 2


# ------------------------------------------------------------------- faults

AWAY = httpx.ConnectError("no route")


@pytest.mark.parametrize(
    ("answers", "pauses"),
    [
        ([httpx.Response(503, headers={"Retry-After": "1"}), page({"paperId": "x"})], [1.0]),
        ([httpx.Response(503), AWAY, httpx.ReadTimeout("late"), page({"paperId": "x"})],
         [0.5, 1.0, 2.0]),
    ],
)  # fmt: skip
def test_a_busy_server_is_asked_again(answers: list[Any], pauses: list[float]) -> None:
    server = Server(*answers)
    assert len(server.papers().search_papers(["a"], 1)[0]) == 1
    assert server.pauses == pauses and len({str(one.url) for one in server.requests}) == 1


@pytest.mark.parametrize("answer", [httpx.Response(503), AWAY])
def test_a_server_that_stays_away_is_never_an_empty_list(answer: Answer) -> None:
    calls: list[Callable[[RemotePapers], object]] = [
        lambda papers: papers.search_papers(["a"], 1),
        lambda papers: papers.citing_papers("a", 1),
        lambda papers: papers.referenced_papers("a", 1),
        lambda papers: papers.find_id("a"),
        lambda papers: papers.info(),
    ]
    for call in calls:
        server = Server(answer)
        with pytest.raises(RetrievalError, match="no answer in 4 tries") as told:
            call(server.papers())
        assert len(server.requests) == 4 and "\n" not in str(told.value)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 429, 500, 302])
def test_a_refusal_is_an_error_with_what_was_said(status: int) -> None:
    server = Server(httpx.Response(status, text="<p>because\n" + "x" * 1_000))
    with pytest.raises(RetrievalError, match=f"status {status} and said '<p>because x") as told:
        server.papers().search_papers(["a"], 1)
    assert len(server.requests) == 1 and len(str(told.value)) < 400
    with pytest.raises(RetrievalError, match=f"status {status}"):
        server.papers().find_id("a")  # a 404 of another page says nothing about a paper


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, text=""),
        httpx.Response(200, text="[" * 100_000),
        httpx.Response(200, json=[]),
        httpx.Response(200, json={}),
        httpx.Response(200, json={"data": {}}),
        page("x"),
        page(None),
        page({}),
        page({"paperId": ""}),
        page({"paperId": 7}),
        page({"paperId": "x", "title": 7}),
        page({"paperId": "x", "abstract": []}),
        page({"paperId": "x", "year": "2001"}),
        page({"paperId": "x", "year": True}),
        page({"paperId": "x", "citationCount": -1}),
        page({"paperId": "x", "authors": "Ann"}),
        page({"paperId": "x", "authors": ["Ann"]}),
        page({"paperId": "x", "publicationDate": "soon"}),
        page({"paperId": "x"}, after=0),
        page({"paperId": "x"}, after="1"),
    ],
)
def test_a_malformed_answer_is_one_sentence(answer: httpx.Response) -> None:
    server = Server(answer)
    with pytest.raises(RetrievalError, match="gave an answer that cannot be used") as told:
        server.papers().search_papers(["a"], 2)
    assert len(server.requests) == 1 and "\n" not in str(told.value)
    with pytest.raises(RetrievalError, match="that cannot be used"):
        Server(page({"paperId": "x"})).papers().citing_papers("a", 1)


def test_a_server_that_says_nothing_of_itself() -> None:
    for answer in (
        httpx.Response(404),
        httpx.Response(200, text="x"),
        httpx.Response(200, json=[]),
    ):
        assert Server(answer).papers().info() == {"kind": "paper-api", "url": "http://server:4000"}


@pytest.mark.parametrize("url", ["h:1", "ftp://h", "http://", "", "http://h:port"])
def test_wrong_addresses(url: str) -> None:
    with pytest.raises(UsageError, match="give http://host:port"):
        RemotePapers(url)
    with pytest.raises(UsageError, match="timeout_s is 0"):
        RemotePapers("http://h", timeout_s=0)


def test_threads_share_one_and_copies_open_their_own(remote: RemotePapers) -> None:
    queries = [f"attention {word}" for word in ("river", "stone", "harbour", "shots")] * 8
    alone = [remote.search_papers([query], 5)[0] for query in queries]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda query: remote.search_papers([query], 5)[0], queries))
    assert together == alone == remote.search_papers(queries, 5)
    copy = pickle.loads(pickle.dumps(RemotePapers("http://h:1/", token="t", timeout_s=3)))
    assert isinstance(copy, RemotePapers) and copy.url == "http://h:1"
    copy.close()
    copy.close()
