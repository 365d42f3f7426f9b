"""Qdrant through its client: the same answers as in a folder, and servers that misbehave."""

from __future__ import annotations

import json
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym_suite.errors import MissingExtra, RetrievalError, UsageError
from agentgym_suite.indexes import qdrant_connection
from agentgym_suite.indexes.qdrant import QdrantIndex
from agentgym_suite.indexes.qdrant_build import build_qdrant
from agentgym_suite.indexes.qdrant_connection import MOST_RETRIES, QdrantServer
from agentgym_suite.indexes.qdrant_points import Days, PointSearch
from agentgym_suite.indexes.qdrant_server import ServerPoints
from tests.indexes.hashing_encoder import HashingEncoder, passages, write_corpus

pytest.importorskip("qdrant_edge", reason="the extra retrieval is not installed")
qdrant_client = pytest.importorskip("qdrant_client", reason="the extra retrieval is not installed")

ROWS = 400
DAYS = [20_200_101 + place % 12 * 100 + place % 28 for place in range(ROWS)]
QUERIES = ["river glass", "violin", "anchor pepper mirror", "quarry", "saddle ember lantern"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "corpus.jsonl", passages(ROWS))


@pytest.fixture
def local() -> Iterator[Any]:
    client = qdrant_client.QdrantClient(":memory:")
    yield client
    client.close()


def test_without_the_client_the_install_line_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    with pytest.raises(MissingExtra, match=r"agentgym-suite\[retrieval\]"):
        QdrantServer("http://localhost:6333")


def test_a_server_holds_and_finds_the_same(corpus: Path, local: Any, tmp_path: Path) -> None:
    build_qdrant(tmp_path / "embedded", corpus, encoder=HashingEncoder(), days=DAYS)
    index = QdrantIndex.open(tmp_path / "embedded", HashingEncoder())
    server = QdrantServer(client=local)
    manifest = build_qdrant(
        tmp_path / "index", corpus, encoder=HashingEncoder(), days=DAYS, server=server
    )
    place: Any = manifest.inputs["points"]
    point = local.retrieve(place["collection"], [0], with_payload=True)[0]
    assert point.payload == {"id": "p00000", "day": DAYS[0]}
    other = QdrantIndex.open(tmp_path / "index", HashingEncoder(), server=server)
    assert other.digest == index.digest
    for before in (None, 20_200_301):
        ours, theirs = (one.search_batch(QUERIES, 20, before) for one in (index, other))
        assert [hits.ids for hits in ours] == [hits.ids for hits in theirs]
        assert other.search(QUERIES[0], 20, before) == theirs[0]
    assert other.count(20_200_301) == index.count(20_200_301)
    with pytest.raises(UsageError, match="client object"):
        pickle.dumps(other)
    local.delete(place["collection"], [5])
    with pytest.raises(RetrievalError, match="399 points instead of 400"):
        QdrantIndex.open(tmp_path / "index", HashingEncoder(), server=server)
    local.delete_collection(place["collection"])
    with pytest.raises(RetrievalError, match="not found"):
        QdrantIndex.open(tmp_path / "index", HashingEncoder(), server=server)


def test_a_collection_of_another_dimension_is_refused(
    corpus: Path, local: Any, tmp_path: Path
) -> None:
    models = qdrant_client.models
    local.create_collection("mine", vectors_config=models.VectorParams(size=7, distance="Dot"))
    server = QdrantServer(client=local)
    with pytest.raises(RetrievalError, match="dimension 7, not 32"):
        build_qdrant(
            tmp_path / "index",
            corpus,
            encoder=HashingEncoder(),
            server=server,
            collection="mine",
        )
    with pytest.raises(RetrievalError, match="dimension 7, not 32"):
        ServerPoints(server, "mine", 32, None)


def test_local_mode_is_refused_above_20_000_points(
    local: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = QdrantServer(client=local)
    monkeypatch.setattr(ServerPoints, "count", lambda self, days: 20_001)
    models = qdrant_client.models
    local.create_collection("big", vectors_config=models.VectorParams(size=4, distance="Dot"))
    with pytest.raises(RetrievalError, match="20,001 points.*start a Qdrant server.*in a folder"):
        ServerPoints(server, "big", 4, None)
    rows = [{"id": str(number), "title": "", "text": "x"} for number in range(20_001)]
    corpus = write_corpus(tmp_path / "corpus.jsonl", rows)
    encoder = HashingEncoder()
    with pytest.raises(RetrievalError, match="refused above 20,000"):
        build_qdrant(tmp_path / "index", corpus, encoder=encoder, server=server)
    assert encoder.calls == []


# --- servers that misbehave ---------------------------------------------------------

ABOUT = {
    "result": {
        "status": "green",
        "optimizer_status": "ok",
        "segments_count": 1,
        "points_count": 3,
        "payload_schema": {},
        "config": {
            "params": {"vectors": {"size": 4, "distance": "Dot"}},
            "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10},
            "optimizer_config": {
                "deleted_threshold": 0.2,
                "vacuum_min_vector_number": 1000,
                "default_segment_number": 0,
                "flush_interval_sec": 5,
            },
        },
    },
    "status": "ok",
    "time": 0.0,
}
COUNT = {"result": {"count": 3}, "status": "ok", "time": 0.0}


@contextmanager
def serving(answer: Callable[[str], tuple[int, bytes]]) -> Iterator[tuple[str, list[str]]]:
    """A server that answers by the path; its address, and the paths that were asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path = self.path.partition("?")[0]
            asked.append(path)
            status, body = answer(path)
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Retry-After", "1")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                pass  # the client has gone

        do_POST = do_PUT = do_GET

        def log_message(self, format: str, *values: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", asked
    server.shutdown()
    server.server_close()
    thread.join()


def healthy(path: str) -> tuple[int, bytes]:
    return 200, json.dumps(COUNT if path.endswith("/count") else ABOUT).encode()


def ask(url: str, slept: list[float] | None = None, timeout_s: int = 20) -> list[Any]:
    """Search a collection of three points there, with one query."""
    sleep = slept.append if slept is not None else lambda seconds: None
    server = QdrantServer(url, timeout_s=timeout_s, sleep=sleep)
    try:
        points = ServerPoints(server, "papers", 4, 3)
        return points.search(np.ones((1, 4), np.float32), PointSearch(2, Days(), True, 8, False))
    finally:
        server.close()


def test_a_server_that_is_down_is_named() -> None:
    with serving(healthy) as (url, _):
        pass
    slept: list[float] = []
    with pytest.raises(RetrievalError, match=f"{url} gave no answer in 4 tries .*server runs"):
        ask(url, slept)
    assert slept == [0.5, 1.0, 2.0]


def test_a_slow_server_is_not_waited_for() -> None:
    release = threading.Event()

    def slow(path: str) -> tuple[int, bytes]:
        if path.endswith("/query"):
            release.wait(60)
        return healthy(path)

    with serving(slow) as (url, asked):
        with pytest.raises(RetrievalError, match=f"{url} did not answer within 1 s; .*timeout_s"):
            ask(url, timeout_s=1)
        assert asked.count("/collections/papers/points/query") == 1
        release.set()


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"{}", b'{"result": {"points": 3}}'])
def test_an_answer_that_is_none_is_no_empty_result(body: bytes) -> None:
    def answer(path: str) -> tuple[int, bytes]:
        return (200, body) if path.endswith("/query") else healthy(path)

    with serving(answer) as (url, _), pytest.raises(RetrievalError, match="cannot be used|gave"):
        ask(url)


@pytest.mark.parametrize("point", [{"score": 0.5}, {"score": 0.5, "payload": {"id": 7}}])
def test_a_point_that_is_not_ours_is_refused(point: dict[str, Any]) -> None:
    points = [{"id": 1, "version": 1, **point}]
    body = json.dumps({"result": {"points": points}, "status": "ok", "time": 0.0}).encode()

    def answer(path: str) -> tuple[int, bytes]:
        return (200, body) if path.endswith("/query") else healthy(path)

    with serving(answer) as (url, _), pytest.raises(RetrievalError, match="point 1"):
        ask(url)


def test_refusals_are_quoted_and_overload_is_waited_for() -> None:
    with serving(lambda path: (404, b'{"status": {"error": "no such thing"}}')) as (url, asked):
        with pytest.raises(RetrievalError, match="status 404 .*no such thing"):
            ask(url)
        assert len(asked) == 1
    for status, pauses in ((503, [0.5, 1.0, 2.0]), (429, [1.0, 1.0, 1.0])):
        slept: list[float] = []
        with serving(lambda path, status=status: (status, b"{}")) as (url, asked):  # type: ignore[misc]
            with pytest.raises(RetrievalError, match=f"status {status}"):
                ask(url, slept)
            assert len(asked) == MOST_RETRIES + 1 and slept == pauses
    busy = iter([503, 503])

    def recovers(path: str) -> tuple[int, bytes]:
        if path.endswith("/query"):
            points = [{"id": 1, "version": 1, "score": 0.5, "payload": {"id": "a"}}]
            return 200, json.dumps(
                {"result": {"points": points}, "status": "ok", "time": 0.0}
            ).encode()
        status = next(busy, 200)
        return (status, b"{}") if status != 200 else healthy(path)

    with serving(recovers) as (url, _):
        assert ask(url) == [[(0.5, "a")]]


def test_a_server_of_another_dimension_or_size_is_refused() -> None:
    with serving(healthy) as (url, _):
        server = QdrantServer(url)
        with pytest.raises(RetrievalError, match="dimension 4, not 9"):
            ServerPoints(server, "papers", 9, 3)
        with pytest.raises(RetrievalError, match="3 points instead of 8"):
            ServerPoints(server, "papers", 4, 8)
        server.close()


@pytest.mark.parametrize("url", ["", "localhost:6333", "ftp://x", None])
def test_addresses_are_checked(url: str | None) -> None:
    with pytest.raises(UsageError, match="address of Qdrant"):
        QdrantServer(url)
    with pytest.raises(UsageError, match="timeout_s is 0"):
        QdrantServer("http://localhost", timeout_s=0)


def test_the_address_goes_to_other_processes() -> None:
    server = QdrantServer("http://localhost:1", api_key="secret", timeout_s=7)
    copy = pickle.loads(pickle.dumps(server))
    assert (copy.url, copy.timeout_s, copy._api_key) == (server.url, 7, "secret")
    assert "secret" not in str(copy) + repr(copy)
    assert qdrant_connection.TIMEOUT_S == 30


def test_a_wrong_collection_is_noticed_before_anything_is_encoded(
    corpus: Path, local: Any, tmp_path: Path
) -> None:
    class Never(HashingEncoder):
        def encode_passages(self, *_: Any, **__: Any) -> Any:
            raise AssertionError("it was encoded")

    sizes = qdrant_client.models.VectorParams(size=3, distance="Dot")
    local.create_collection("mine", vectors_config=sizes)
    with pytest.raises(RetrievalError, match="dimension 3, not"):
        build_qdrant(
            tmp_path / "index",
            corpus,
            encoder=Never(),
            server=QdrantServer(client=local),
            collection="mine",
        )
