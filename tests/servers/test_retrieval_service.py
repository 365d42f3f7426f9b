"""The server around the searches: readiness, limits, access, figures, and its page in the docs."""

from __future__ import annotations

import asyncio
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import REGISTRY

from agentgym_suite.indexes.passages import Passage
from agentgym_suite.servers import answer_sizes
from agentgym_suite.servers.answer_sizes import COUNTED_FROM
from agentgym_suite.servers.retrieval import RetrievalRoutes, retrieval_app
from agentgym_suite.servers.retrieval_service import RetrievalService, RetrievalSettings
from tests.servers.in_process import running
from tests.servers.protocol_calls import slug, wait_until
from tests.servers.small_index import FAILS, WAITS, SmallIndex, ids, serving

PAGE = Path(__file__).parents[2] / "docs" / "retrieval-server.md"


def test_a_server_is_ready_once_it_has_searched() -> None:
    index = SmallIndex()
    hold = threading.Event()
    rank = index._rank

    def slow(query: str, k: int) -> Any:
        hold.wait(30)
        return rank(query, k)

    index._rank = slow  # type: ignore[method-assign]
    with serving(index) as client:
        assert client.get("/healthz").json() == {"status": "ok"}
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["status"]) == (503, "starting")
        assert client.get("/health").status_code == 503
        hold.set()
        wait_until(lambda: client.get("/readyz").status_code == 200)
        assert client.get("/readyz").json() == {"status": "ready", "reason": ""}


def test_a_server_whose_index_fails_says_so_and_recovers(caplog: pytest.LogCaptureFixture) -> None:
    index = SmallIndex()
    rank = index._rank

    def broken(query: str, k: int) -> Any:
        raise OSError("the disk at a secret path")

    index._rank = broken  # type: ignore[method-assign]
    with serving(index) as client:
        wait_until(lambda: client.get("/readyz").json()["status"] == "failed")
        assert "secret" not in client.get("/readyz").text and "secret path" in caplog.text
        assert slug(client.post("/retrieve", json={"query": "a"})) == "index-failed"
        index._rank = rank  # type: ignore[method-assign]
        assert client.post("/retrieve", json={"query": "a"}).status_code == 200
        assert client.get("/readyz").status_code == 200


def test_a_full_queue_answers_503_at_once_and_never_429() -> None:
    index = SmallIndex()
    with serving(index, queue=1) as client, ThreadPoolExecutor(2) as pool:
        wait_until(lambda: client.get("/readyz").status_code == 200)
        first = pool.submit(client.post, "/retrieve", json={"query": WAITS})
        assert index.entered.wait(30)
        second = pool.submit(client.post, "/retrieve", json={"query": "word1"})
        wait_until(lambda: client.get("/stats").json()["queue_depth"] == 1)
        refused = client.post("/retrieve", json={"query": "word2"})
        assert (refused.status_code, slug(refused)) == (503, "overloaded")
        assert refused.headers["Retry-After"] == "1"
        index.release.set()
        assert first.result(30).status_code == second.result(30).status_code == 200
        assert client.post("/retrieve", json={"query": "word2"}).status_code == 200


def test_a_search_beyond_its_time_is_504(caplog: pytest.LogCaptureFixture) -> None:
    index = SmallIndex()
    with serving(index, search_timeout_s=0.1) as client:
        answer = client.post("/retrieve", json={"query": WAITS})
        assert (answer.status_code, slug(answer)) == (504, "search-timeout")
        (line,) = [one for one in caplog.records if answer.json()["request_id"] in one.getMessage()]
        assert line.exc_info is None  # its traceback would be that of the clock
        assert client.post("/retrieve", json={"query": "word1"}).status_code == 200
        assert "agentgym_threads_lost_total 1.0" in client.get("/metrics").text
        index.release.set()


def test_an_answer_too_large_is_413_with_the_numbers() -> None:
    with serving(answer_characters=100) as client:
        answer = client.post("/retrieve", json={"query": "word1", "topk": 20})
        assert (answer.status_code, slug(answer)) == (413, "too-large")
        assert re.search(r"1 of 1 queries hold [\d,]+ char.* at most 100;", answer.json()["detail"])
        assert client.get("/info").json()["limits"]["answer_characters"] == 100


def test_large_answers_wait_for_room_and_give_it_back() -> None:
    index = SmallIndex()
    index.passages = [Passage(p.id, p.title, p.text + "x" * COUNTED_FROM) for p in index.passages]
    service = RetrievalService(index)
    with (
        running(retrieval_app(service)) as transport,
        httpx.Client(transport=transport, base_url="http://localhost", timeout=60) as client,
    ):
        whole = client.post("/retrieve", json={"query": "word1", "topk": 20})
        assert len(whole.json()["result"][0]) == 20
        assert int(whole.headers["Content-Length"]) == len(whole.content) > 20 * COUNTED_FROM
        assert service.room.taken == 0
        service.room.take(service.room.limit)
        refused = client.post("/retrieve", json={"query": "word1"})
        assert (refused.status_code, slug(refused)) == (503, "overloaded")
        assert refused.headers["Retry-After"] == "1"
        service.room.give_back(service.room.limit)
        assert client.post("/retrieve", json={"query": "word1"}).status_code == 200


@pytest.mark.parametrize("fault", ["gone", "stuck"])
def test_a_client_that_takes_nothing_gives_its_room_back(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_sizes, "PIECE_TIMEOUT_S", 0.01)
    ended: list[int] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            if fault == "gone":
                raise OSError("the connection is closed")
            await asyncio.Event().wait()

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    answer = answer_sizes.LargeAnswer(b"x", "text/plain", lambda: ended.append(1))
    with suppress(OSError):
        asyncio.run(asyncio.wait_for(answer({}, receive, send), 30))
    assert ended == [1]


def test_a_draining_server_answers_what_waits_and_takes_nothing_new() -> None:
    index = SmallIndex()
    service = RetrievalService(index)
    with (
        running(retrieval_app(service)) as transport,
        httpx.Client(transport=transport, base_url="http://localhost") as client,
        ThreadPoolExecutor(1) as pool,
    ):
        wait_until(lambda: client.get("/readyz").status_code == 200)
        first = pool.submit(client.post, "/retrieve", json={"query": WAITS})
        assert index.entered.wait(30)
        service.drain()
        assert client.get("/readyz").json()["status"] == "draining"
        refused = client.post("/retrieve", json={"query": "word1"})
        assert (refused.status_code, slug(refused)) == (503, "draining")
        assert refused.headers["Retry-After"] == "1"
        assert service.in_use
        index.release.set()
        assert first.result(30).status_code == 200
        wait_until(lambda: not service.in_use)


def test_a_client_that_goes_away_is_not_searched_for() -> None:
    async def work() -> None:
        index = SmallIndex()
        service = RetrievalService(index)
        app = retrieval_app(service)
        first = asyncio.create_task(service.queue.search([WAITS], 1))
        await asyncio.to_thread(index.entered.wait, 30)
        messages = [
            {"type": "http.request", "body": b'{"query": "word1"}'},
            {"type": "http.disconnect"},
        ]
        sent: list[Any] = []

        async def receive() -> Any:
            if len(messages) == 1:  # the body was read: the client stays until the request waits
                while not service.queue.waiting:
                    await asyncio.sleep(0)
            return messages.pop(0)

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"host", b"localhost")]
        scope = {
            "type": "http", "method": "POST", "path": "/retrieve", "headers": headers,
            "query_string": b"", "root_path": "", "http_version": "1.1",
        }  # fmt: skip
        await app(scope, receive, send)
        assert (service.queue.waiting, sent[0]["status"]) == (0, 499)
        index.release.set()
        await first
        assert [queries for queries, _ in index.calls] == [(WAITS,)]
        await service.queue.close()

    asyncio.run(asyncio.wait_for(work(), 60))


def test_the_token_and_the_host_are_those_of_every_server() -> None:
    with serving(token="sésame", hosts=["localhost"]) as client:
        body = {"query": "word1"}
        for path in ("/healthz", "/readyz"):
            assert client.get(path).status_code in (200, 503)
        for path in ("/health", "/stats", "/info", "/metrics"):
            assert slug(client.get(path)) == "unauthorized"
        answer = client.post("/retrieve", json=body)
        assert (answer.status_code, slug(answer)) == (401, "unauthorized")
        right = {"Authorization": "Bearer sésame".encode()}
        assert client.post("/retrieve", json=body, headers=right).status_code == 200
        foreign = client.post("/retrieve", json=body, headers={**right, "Host": "evil.example"})
        assert slug(foreign) == "forbidden-host"
    with serving(token="t", public_metrics=True) as client:
        assert client.get("/metrics").status_code == 200


def test_wrong_addresses_and_methods() -> None:
    with serving() as client:
        answer = client.get("/retrieve")
        assert (answer.status_code, slug(answer)) == (405, "method")
        assert answer.headers["Allow"] == "POST"
        answer = client.post("/search", json={"query": "a"})
        assert (answer.status_code, slug(answer)) == (404, "not-found")
        assert client.post("/stats").status_code == 405


def test_info_and_stats() -> None:
    with serving(SmallIndex("dense-index"), topk=4, queue=9) as client:
        info = client.get("/info").json()
        assert (info["digest"], info["rows"], info["default_k"]) == ("sha256:small", 20, 4)
        assert info["index"] == {"kind": "dense-index", "rows": 20} and info["batching"]
        assert info["limits"]["queue"] == 9 and info["limits"]["body_bytes"] == 8 << 20
        wait_until(lambda: client.get("/readyz").status_code == 200)
        assert client.get("/stats").json()["latency_ms"] == {}
        for queries in (["a"], ["a", "b", "c"], []):
            assert client.post("/retrieve", json={"queries": queries}).status_code == 200
        stats = client.get("/stats").json()
        assert (stats["requests"], stats["queries"]) == (3, 4)
        # the search that warms up counts as a call of the index, not as a request
        assert (stats["searches"], stats["mean_batch"]) == (3, round(5 / 3, 3))
        latency = stats["latency_ms"]
        assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"]


def test_metrics_are_the_applications_own_and_name_no_clients_words() -> None:
    before = {metric.name for metric in REGISTRY.collect()}
    with serving() as client, serving() as other:
        wait_until(lambda: client.get("/readyz").status_code == 200)
        client.post("/retrieve", json={"queries": ["a", "b"]})
        client.post("/retrieve", json={"queries": 1})
        client.post("/secret/address", json={})
        client.post("/retrieve", json={"query": FAILS})
        text = client.get("/metrics").text
        for line in (
            'agentgym_http_requests_total{method="POST",route="/retrieve",status="200"} 1.0',
            'agentgym_http_requests_total{method="POST",route="/retrieve",status="422"} 1.0',
            'agentgym_http_requests_total{method="POST",route="/retrieve",status="503"} 1.0',
            'agentgym_http_requests_total{method="POST",route="other",status="404"} 1.0',
            'agentgym_http_request_seconds_count{route="/retrieve"} 3.0',
            "agentgym_retrieval_queries_total 2.0",
            "agentgym_retrieval_search_queries_sum 4.0",
            'agentgym_retrieval_search_seconds_count{outcome="failed"} 1.0',
            "agentgym_queue_depth 0.0",
            "agentgym_retrieval_running 0.0",
            "agentgym_threads_lost_total 0.0",
        ):
            assert line in text, line
        assert 'kind="small-index"' in text and "agentgym_info{version=" in text
        assert "secret" not in text
        assert 'route="/retrieve"' not in other.get("/metrics").text
    assert {metric.name for metric in REGISTRY.collect()} == before


@pytest.mark.parametrize("kind", ["dense-index", "fts5-index"])
def test_64_clients_at_once_get_what_one_gets_serially(kind: str) -> None:
    async def work() -> None:
        index = SmallIndex(kind)
        service = RetrievalService(index, RetrievalSettings(threads=2))
        transport = httpx.ASGITransport(app=retrieval_app(service))

        def body(client: int, turn: int) -> dict[str, Any]:
            queries = [f"word{(client + i) % 7} Title {turn}" for i in range(client % 3 + 1)]
            return {"queries": queries, "topk": client % 5 + 1, "return_scores": True}

        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:

            async def play(client: int) -> list[bytes]:
                return [
                    (await http.post("/retrieve", json=body(client, turn))).content
                    for turn in range(5)
                ]

            serial = [await play(client) for client in range(64)]
            holding = [asyncio.create_task(service.queue.search([WAITS], 1)) for _ in range(2)]
            while service.queue.running < 2:
                await asyncio.sleep(0)
            playing = asyncio.gather(*(play(client) for client in range(64)))
            while service.queue.waiting < 64:
                await asyncio.sleep(0)
            index.release.set()
            together = await playing
            await asyncio.gather(*holding)
        assert together == serial
        calls = sum(WAITS not in queries for queries, _ in index.calls)
        assert (calls < 2 * 64 * 5) == (kind == "dense-index")  # never batch FTS5
        direct = SmallIndex().retrieve(body(63, 4)["queries"], 4)
        result = httpx.Response(200, content=together[63][4]).json()["result"]
        assert ids(result) == [[f.passage.id for f in found] for found in direct]
        await service.queue.close()

    asyncio.run(asyncio.wait_for(work(), 120))


@pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not here")
def test_the_page_names_every_route_option_figure_and_limit() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for route in RetrievalRoutes(RetrievalService(SmallIndex())).routes:
        assert f"{route.path}`" in text, route.path
    for name in ("topk", "top_k", "k", "queries", "query", "return_scores"):
        assert f"`{name}`" in text
    with serving() as client:
        metrics = set(re.findall(r"# TYPE (agentgym_\w+)", client.get("/metrics").text))
        for name in client.get("/stats").json():
            assert f"`{name}`" in text, name
    for name in metrics:
        if not name.endswith("_created"):
            assert f"`{name}`" in text, name
