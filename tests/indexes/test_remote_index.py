"""The index of a retrieval server, against answers right, late, wrong and absent."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from agentgym_suite.errors import RetrievalError, UsageError
from agentgym_suite.indexes.passages import Found, Passage, PassageIndex, RankedIndex
from agentgym_suite.indexes.remote import RemoteIndex

Answer = httpx.Response | Exception
DOCUMENT = {"id": "7", "contents": '"Ann"\na poet'}


class Server:
    """Answers requests in the process, and remembers them."""

    def __init__(self, *answers: Answer | Callable[[httpx.Request], httpx.Response]) -> None:
        self._answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.pauses: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else answer(request)

    def index(self, url: str = "http://server:1", **options: Any) -> RemoteIndex:
        transport = httpx.MockTransport(self)
        return RemoteIndex(url, transport=transport, sleep=self.pauses.append, **options)


def result(*items: object) -> httpx.Response:
    return httpx.Response(200, json={"result": list(items)})


def echo(request: httpx.Request) -> httpx.Response:
    """As Search-R1's server: k passages for each query."""
    body = json.loads(request.content)
    return result(
        *(
            [
                {"document": {"id": str(n), "contents": f'"{query}"\n{n}'}, "score": 1.0 - n}
                for n in range(body["topk"])
            ]
            for query in body["queries"]
        )
    )


def test_one_request_for_a_batch() -> None:
    server = Server(echo)
    index = server.index()
    found = index.retrieve(["a", "", "é\ud800", "  "], 2)
    assert found == [
        [Found(Passage("0", "a", "0"), 1.0), Found(Passage("1", "a", "1"), 0.0)],
        [],
        [Found(Passage("0", "é\ufffd", "0"), 1.0), Found(Passage("1", "é\ufffd", "1"), 0.0)],
        [],
    ]
    (request,) = server.requests
    assert (request.method, str(request.url)) == ("POST", "http://server:1/retrieve")
    assert request.headers["Content-Type"] == "application/json"
    assert json.loads(request.content) == {
        "queries": ["a", "é\ufffd"],
        "topk": 2,
        "return_scores": True,
    }
    index.close()
    index.close()


def test_nothing_is_sent_for_blank_queries() -> None:
    server = Server(echo)
    with_nothing = server.index()
    assert with_nothing.retrieve([], 3) == []
    assert with_nothing.retrieve(["", "\n"], 3) == [[], []]
    assert not server.requests


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("http://h:1", "http://h:1/retrieve"),
        ("http://h:1/", "http://h:1/retrieve"),
        ("http://h:1/retrieve", "http://h:1/retrieve"),
        ("https://h/proxy/retrieve", "https://h/proxy/retrieve"),
    ],
)
def test_the_route_may_be_left_out(url: str, asked: str) -> None:
    server = Server(echo)
    server.index(url).retrieve(["a"], 1)
    assert str(server.requests[0].url) == asked


@pytest.mark.parametrize("url", ["h:1", "ftp://h", "http://", "", "http://h:port"])
def test_wrong_addresses(url: str) -> None:
    with pytest.raises(UsageError, match="give http://host:port"):
        RemoteIndex(url)


def test_wrong_arguments() -> None:
    with pytest.raises(UsageError, match="timeout_s is 0"):
        RemoteIndex("http://h", timeout_s=0)
    index = Server(echo).index()
    with pytest.raises(UsageError, match="k is 0"):
        index.retrieve(["a"], 0)
    with pytest.raises(UsageError, match="query 0 is None"):
        index.retrieve([None], 1)  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("document", "passage"),
    [
        (DOCUMENT, Passage("7", "Ann", "a poet")),
        ({"id": 7, "title": "Ann", "text": "x"}, Passage("7", "Ann", "x")),
        (
            {**DOCUMENT, "title": '"Ann"', "text": "other"},
            Passage("7", "Ann", "a poet"),
        ),
        ({"id": "7", "contents": "no title"}, Passage("7", "no title", "")),
    ],
)
def test_shapes_of_documents(document: dict[str, object], passage: Passage) -> None:
    index = Server(result([{"document": document, "score": 1}])).index()
    assert index.retrieve(["a"], 1) == [[Found(passage, 1.0)]]


def test_a_document_without_id_is_known_again() -> None:
    bare = [{"document": {"contents": text}, "score": 0.5} for text in ("a\nb", "a\nc", "a\nb")]
    (found,) = Server(result(bare)).index().retrieve(["a"], 3)
    ids = [one.passage.id for one in found]
    assert ids[0] == ids[2] != ids[1] and all(ids)


def test_never_more_than_k() -> None:
    many = [{"document": DOCUMENT, "score": 1.0}] * 9
    assert len(Server(result(many)).index().retrieve(["a"], 3)[0]) == 3


UNREACHABLE = httpx.ConnectError("no route")


@pytest.mark.parametrize(
    ("answers", "pauses"),
    [
        ([httpx.Response(503, headers={"Retry-After": "1"}), echo], [1.0]),
        ([httpx.Response(503), UNREACHABLE, httpx.ReadTimeout("late"), echo], [0.5, 1.0, 2.0]),
        ([httpx.Response(503, headers={"Retry-After": "9999"}), echo], [10.0]),
        ([httpx.Response(503, headers={"Retry-After": "Tue"}), httpx.Response(504), echo], None),
    ],
)
def test_a_busy_server_is_asked_again(answers: list[Any], pauses: list[float] | None) -> None:
    server = Server(*answers)
    assert len(server.index().retrieve(["a"], 1)[0]) == 1
    assert len(server.requests) == len(answers)
    assert pauses is None or server.pauses == pauses
    assert len({request.content for request in server.requests}) == 1


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(httpx.Response(503), "status 503"), (UNREACHABLE, "ConnectError: no route")],
)
def test_a_server_that_stays_away(answer: Answer, reason: str) -> None:
    server = Server(answer)
    with pytest.raises(RetrievalError, match=f"no answer in 4 tries .{reason}") as told:
        server.index().retrieve(["a"], 1)
    assert len(server.requests) == 4
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422, 500, 302])
def test_a_refusal_is_not_asked_again(status: int) -> None:
    server = Server(httpx.Response(status, text="because " + "x" * 1000))
    with pytest.raises(RetrievalError, match=f"status {status} and said 'because x") as told:
        server.index().retrieve(["a"], 1)
    assert len(server.requests) == 1 and len(str(told.value)) < 400


ITEM = {"document": DOCUMENT, "score": 1.0}


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, text=""),
        httpx.Response(200, text="{"),
        httpx.Response(200, text="[" * 100_000),
        httpx.Response(200, content=b"\xff\xfe\xfd"),
        httpx.Response(200, json=[]),
        httpx.Response(200, json={"results": []}),
        httpx.Response(200, json={"result": None}),
        result(),
        result([ITEM], [ITEM]),
        result(ITEM),
        result([DOCUMENT]),
        result([{"document": DOCUMENT}]),
        result([{"document": DOCUMENT, "score": None}]),
        result([{"document": DOCUMENT, "score": "1"}]),
        result([{"document": DOCUMENT, "score": True}]),
        httpx.Response(200, text='{"result": [[{"document": {"contents": ""}, "score": NaN}]]}'),
        result([{"document": "text", "score": 1.0}]),
        result([{"document": {"id": "7"}, "score": 1.0}]),
        result([{"document": {"id": [], "contents": ""}, "score": 1.0}]),
        result([None]),
    ],
)
def test_a_malformed_answer_is_one_sentence(answer: httpx.Response) -> None:
    server = Server(answer)
    with pytest.raises(RetrievalError, match="gave an answer that cannot be used") as told:
        server.index().retrieve(["a"], 1)
    assert len(server.requests) == 1
    assert "\n" not in str(told.value)


def test_a_token_is_sent() -> None:
    server = Server(echo)
    server.index(token="secret").retrieve(["a"], 1)
    assert server.requests[0].headers["Authorization"] == "Bearer secret"
    assert "secret" not in repr(server.index(token="secret"))


@pytest.fixture
def told() -> Iterator[RemoteIndex]:
    answer = {"rows": 12, "kind": "fts5-index", "digest": "sha256:1"}
    yield Server(httpx.Response(200, json=answer)).index()


def test_what_a_server_says_of_itself(told: RemoteIndex) -> None:
    about = told.info()
    url = "http://server:1/retrieve"
    assert about == {"rows": 12, "digest": "sha256:1", "kind": "remote", "url": url}
    assert len(told) == 12 and bool(told) and told.digest == "sha256:1"
    assert isinstance(told, PassageIndex) and not isinstance(told, RankedIndex)


@pytest.mark.parametrize(
    "answer", [httpx.Response(404), httpx.Response(200, text="x"), httpx.Response(200, json=[])]
)
def test_a_server_that_says_nothing(answer: httpx.Response) -> None:
    server = Server(answer)
    index = server.index()
    assert index.info() == {"kind": "remote", "url": "http://server:1/retrieve"}
    assert str(server.requests[0].url) == "http://server:1/info"
    assert len(index) == 0 and bool(index) and index.digest == ""


def test_threads_share_one_and_copies_open_their_own() -> None:
    index = Server(echo).index()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: index.retrieve([f"q{n}"], 1)[0][0], range(64)))
    assert [one.passage.title for one in found] == [f"q{n}" for n in range(64)]
    copy = pickle.loads(pickle.dumps(RemoteIndex("http://h:1", token="t", timeout_s=3)))
    assert isinstance(copy, RemoteIndex) and copy.url == "http://h:1/retrieve"
