"""The paper server around its routes: access, limits, failures, figures, its page in the docs."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import REGISTRY

from agentgym_suite.indexes.paper_index import PaperIndex
from agentgym_suite.indexes.paper_store import PaperStore
from agentgym_suite.servers.paper_queries import FIELDS
from agentgym_suite.servers.paper_service import PaperService
from agentgym_suite.servers.papers import PaperRoutes, papers_app
from tests.servers.in_process import running
from tests.servers.protocol_calls import wait_until
from tests.servers.small_papers import NEW, HeldIndex, build, detail, serving

PAGE = Path(__file__).parents[2] / "docs" / "paper-server.md"


def search(client: httpx.Client, query: str) -> httpx.Response:
    return client.get("/paper/search", params={"query": query})


def test_the_token_comes_as_api_key_or_as_bearer(paper_store: PaperStore) -> None:
    with serving(PaperIndex(paper_store), token="sésame", hosts=["localhost"]) as client:
        for headers in (
            {},
            {"X-API-Key": "wrong"},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "Bearer wrong", "X-API-Key": "sésame".encode()},
            {"Authorization": "Basic c8OpcwOpc2FtZQ=="},
        ):
            for path in ("/paper/search?query=a", f"/paper/{NEW}", "/info", "/stats", "/metrics"):
                answer = client.get(path, headers=headers)
                assert answer.status_code == 401 and "token" in detail(answer)
                assert "Bearer" in answer.headers["WWW-Authenticate"]
        for headers in (
            {"X-API-Key": "sésame".encode()},
            {"authorization": "bearer sésame".encode()},
        ):
            assert client.get(f"/paper/{NEW}", headers=headers).status_code == 200
        assert client.get("/healthz").json() == {"status": "ok"}
        assert client.get("/readyz").json()["status"] == "ready"
        right = {"X-API-Key": "sésame".encode(), "Host": "evil.example"}
        answer = client.get(f"/paper/{NEW}", headers=right)
        assert answer.status_code == 421 and "localhost" in detail(answer)
    with serving(PaperIndex(paper_store)) as client:
        assert client.get("/info", headers={"X-API-Key": "any"}).status_code == 200


def test_wrong_addresses_and_methods(paper_store: PaperStore) -> None:
    with serving(PaperIndex(paper_store)) as client:
        answer = client.get("/papers")
        assert answer.status_code == 404 and "/paper/search" in detail(answer)
        for path in ("/paper/search", f"/paper/{NEW}", f"/paper/{NEW}/citations"):
            answer = client.post(path, json={})
            assert answer.status_code == 405 and "GET" in answer.headers["Allow"]
            assert detail(answer)
        for path in ("/search?q=a&top_k=3", "/lookup?title=a"):  # of an older generation of clients
            assert client.get(path).status_code == 404


def test_a_full_queue_is_a_503_that_clients_repeat(paper_store: PaperStore) -> None:
    index = HeldIndex(paper_store)
    with serving(index, threads=1, queue=1) as client, ThreadPoolExecutor(2) as pool:
        first = pool.submit(search, client, "wait")
        assert index.entered.wait(30)
        second = pool.submit(search, client, "attention")
        wait_until(lambda: client.get("/stats").json()["queue_depth"] == 1)
        assert client.get("/stats").json()["running"] == 1
        refused = search(client, "attention")
        assert refused.status_code == 503 and refused.headers["Retry-After"] == "1"
        assert "requests are waiting" in detail(refused)
        index.release.set()
        assert first.result(30).status_code == second.result(30).status_code == 200
        assert search(client, "attention").status_code == 200


def test_a_search_beyond_its_time_is_504(paper_store: PaperStore) -> None:
    index = HeldIndex(paper_store)
    with serving(index, threads=1, search_timeout_s=0.2) as client:
        answer = search(client, "wait")
        assert answer.status_code == 504 and "0.2 s" in detail(answer)
        assert search(client, "attention").status_code == 200
        assert "agentgym_threads_lost_total 1.0" in client.get("/metrics").text
        index.release.set()


def test_a_failure_is_a_503_whose_reason_is_for_the_log(
    paper_store: PaperStore, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(HeldIndex(paper_store)) as client:
        answer = search(client, "fail")
        assert answer.status_code == 503 and answer.headers["Retry-After"] == "1"
        assert "secret" not in detail(answer) and "secret path" in caplog.text
        assert answer.headers["X-Request-Id"] in caplog.text
        assert search(client, "attention").status_code == 200


def test_a_closed_store_is_told_at_readyz_and_never_an_empty_list(tmp_path: Path) -> None:
    store = PaperStore.open(build(tmp_path))
    index = PaperIndex(store)
    index.close()
    with serving(index) as client:
        assert client.get("/readyz").json()["status"] == "failed"
        assert client.get("/readyz").status_code == 503
        for path in ("/paper/search?query=a", f"/paper/{NEW}", f"/paper/{NEW}/references"):
            answer = client.get(path)
            assert answer.status_code == 503 and str(tmp_path) not in detail(answer)


def test_a_fault_of_our_own_is_a_503_too(
    paper_store: PaperStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("agentgym_suite.servers.papers.read_id", broken)
    with serving(PaperIndex(paper_store)) as client:
        answer = client.get(f"/paper/{NEW}")
        assert answer.status_code == 503 and "nothing" not in detail(answer)
        assert "by nothing" in caplog.text


def test_a_draining_server_answers_what_waits_and_takes_nothing_new(
    paper_store: PaperStore,
) -> None:
    index = HeldIndex(paper_store)
    service = PaperService(index)
    with (
        running(papers_app(service)) as transport,
        httpx.Client(transport=transport, base_url="http://localhost") as client,
        ThreadPoolExecutor(1) as pool,
    ):
        wait_until(lambda: client.get("/readyz").status_code == 200)
        first = pool.submit(search, client, "wait")
        assert index.entered.wait(30)
        service.drain()
        assert client.get("/readyz").json()["status"] == "draining"
        refused = client.get(f"/paper/{NEW}")
        assert refused.status_code == 503 and refused.headers["Retry-After"] == "1"
        assert "shutting down" in detail(refused) and service.in_use
        index.release.set()
        assert first.result(30).status_code == 200
        wait_until(lambda: not service.in_use)


def test_info_stats_and_metrics(paper_store: PaperStore) -> None:
    before = {metric.name for metric in REGISTRY.collect()}
    index = PaperIndex(paper_store)
    with serving(index, threads=2, queue=9) as client, serving(index):
        info = client.get("/info").json()
        assert (info["digest"], info["rows"]) == (index.digest, len(paper_store))
        assert info["retrievals"] == ["sparse"] and info["index"] == index.info()
        assert info["limits"] == {
            "threads": 2, "queue": 9, "search_timeout_s": 60.0, "papers": 100, "depth": 10_000,
        }  # fmt: skip
        assert client.get("/stats").json()["latency_ms"] == {}
        assert search(client, "secret words").status_code == 200
        client.get(f"/paper/{NEW}")
        client.get(f"/paper/{NEW}/citations")
        client.get("/paper/secret-id")
        client.get("/paper/search")
        stats = client.get("/stats").json()
        assert (stats["requests"], stats["searches"]) == (3, 5)  # one search warms up
        text = client.get("/metrics").text
        for route, status, count in (
            ("/paper/search", 200, 1), ("/paper/search", 422, 1), ("/paper/{id:path}", 200, 1),
            ("/paper/{id:path}", 404, 1), ("/paper/{id:path}/citations", 200, 1),
        ):  # fmt: skip
            label = f'{{method="GET",route="{route}",status="{status}"}}'
            assert f"agentgym_http_requests_total{label} {count}.0" in text
        assert "secret" not in text and NEW not in text
    assert {metric.name for metric in REGISTRY.collect()} == before


needs_page = pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not here")


@needs_page
def test_the_page_names_every_route_field_and_parameter(paper_store: PaperStore) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for route in PaperRoutes(PaperService(PaperIndex(paper_store))).routes:
        assert f"`{route.path.replace('{id:path}', '{id}')}`" in page, route.path
    rows = [row.split("|")[1] for row in page.splitlines() if row.startswith("| `")]
    told = set(re.findall(r"`([^`]+)`", " ".join(rows)))
    for field in FIELDS:
        assert field in told, field
    for parameter in (
        "query", "retrieval", "fields", "year", "venue", "minCitationCount", "openAccessPdf",
        "fieldsOfStudy", "publicationTypes", "from", "to", "before", "offset", "limit", "depth",
    ):  # fmt: skip
        assert parameter in told, parameter


@needs_page
def test_the_page_names_every_metric(paper_store: PaperStore) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for metric in PaperService(PaperIndex(paper_store)).figures.registry.collect():
        suffix = {"counter": "_total", "info": "_info"}.get(metric.type, "")
        assert f"`{metric.name}{suffix}`" in page, metric.name
