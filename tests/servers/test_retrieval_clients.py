"""The requests of the clients that exist, byte for byte as they send them, and what they read.

Search-R1's ``generation.py`` and verl's ``search_r1_like_utils.py`` post with ``requests`` and
``json=``; SkyRL-gym and verl-agent do so from a pooled session; gem posts msgpack bytes without a
content type; rLLM uses httpx.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import msgpack
import pytest

from tests.servers.small_index import SmallIndex, passage, serving

QUERIES = ["Title 4", "Title 11", "word6"]


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with serving() as client:
        yield client


def post_as_requests(client: httpx.Client, payload: Any, **headers: str) -> httpx.Response:
    """``requests.post(url, json=payload)``: ASCII JSON with blanks after commas and colons."""
    body = json.dumps(payload, allow_nan=False).encode("utf-8")
    sent = {"Content-Type": "application/json", "User-Agent": "python-requests/2.32.3"}
    return client.post("/retrieve", content=body, headers={**sent, **headers})


def passages_to_string(found: list[dict[str, Any]]) -> str:
    """How Search-R1, verl, SkyRL and gem read one list."""
    lines = []
    for rank, item in enumerate(found, start=1):
        title, _, text = item["document"]["contents"].partition("\n")
        lines.append(f"Doc {rank}(Title: {title}) {text}")
    return "\n".join(lines)


def expected(query: str, k: int) -> str:
    found = SmallIndex().retrieve([query], k)[0]
    return "\n".join(
        f'Doc {rank}(Title: "{f.passage.title}") {f.passage.text}'
        for rank, f in enumerate(found, start=1)
    )


def test_search_r1_sends_one_batch_for_all_trajectories(client: httpx.Client) -> None:
    payload = {"queries": QUERIES, "topk": 3, "return_scores": True}
    results = post_as_requests(client, payload).json()["result"]
    assert [passages_to_string(found) for found in results] == [expected(q, 3) for q in QUERIES]


def test_verls_search_tool(client: httpx.Client) -> None:
    payload = {"queries": QUERIES, "topk": 3, "return_scores": True}
    answer = post_as_requests(client, payload, Accept="application/json")
    assert answer.status_code not in (500, 502, 503, 504)
    results = answer.json().get("result", [])
    assert "\n---\n".join(map(passages_to_string, results)) == "\n---\n".join(
        expected(q, 3) for q in QUERIES
    )
    # its own word for "no results" is an empty result
    empty = post_as_requests(client, {"queries": [], "topk": 3, "return_scores": True})
    assert empty.json() == {"result": []}


def test_skyrl_and_verl_agent_send_one_query(client: httpx.Client) -> None:
    payload = {"query": "Title 4", "topk": 3, "return_scores": True}
    answer = post_as_requests(client, payload, Connection="keep-alive")
    (found,) = answer.json()["result"]
    contents = [item["document"]["contents"].strip() for item in found]
    assert contents[0] == passage(4).contents.strip() and len(contents) == 3


def test_both_generations_of_gems_client(client: httpx.Client) -> None:
    one = msgpack.packb({"query": "Title 4", "topk": 3, "return_scores": True})
    many = msgpack.packb({"queries": ["Title 4"], "topk": 3, "return_scores": True})
    flat = msgpack.unpackb(client.post("/retrieve", content=one).content)["result"]
    nested = msgpack.unpackb(client.post("/retrieve", content=many).content)["result"][0]
    assert flat == nested
    assert passages_to_string(flat) == expected("Title 4", 3)


def test_rllm_below_its_prefix(client: httpx.Client) -> None:
    base = "/rllm"  # its server_url is http://host:port/rllm
    assert client.get(f"{base}/health").status_code == 200
    answer = client.post(f"{base}/retrieve", json={"query": "Title 4", "top_k": 10})
    document = answer.json()
    assert list(document) == ["query", "method", "results", "num_results"]
    assert (document["query"], document["method"]) == ("Title 4", "small")
    assert document["num_results"] == len(document["results"]) == 10
    direct = SmallIndex().retrieve(["Title 4"], 10)[0]
    assert [item["id"] for item in document["results"]] == [f"doc_{i}" for i in range(1, 11)]
    for item, found in zip(document["results"], direct, strict=True):
        assert (item["doc_id"], item["score"]) == (found.passage.id, found.score)
        assert item["content"] == item["document"]["contents"] == found.passage.contents
        assert item["document"]["id"] == found.passage.id


def test_rllms_k_wins_and_wrong_bodies_are_the_clients_fault(client: httpx.Client) -> None:
    def count(**body: Any) -> int:
        return int(client.post("/rllm/retrieve", json={"query": "a", **body}).json()["num_results"])

    assert (count(top_k=10, k=2), count(k=0, top_k=10), count(), count(top_k=999)) == (2, 3, 3, 20)
    assert client.post("/rllm/retrieve", json={"query": " "}).json()["results"] == []
    for body, status in (
        ({"top_k": 3}, 422), ({"query": ["a"]}, 422), ({"query": "a", "k": -1}, 422), ([], 400)
    ):  # fmt: skip
        assert client.post("/rllm/retrieve", json=body).status_code == status


def test_the_pages_that_clients_look_at(client: httpx.Client) -> None:
    for path in ("/health", "/rllm/health"):
        page = client.get(path).json()
        assert (page["status"], page["corpus_size"], page["topk"]) == ("healthy", 20, 3)
    for path in ("/stats", "/rllm/stats"):
        page = client.get(path).json()
        assert page["requests"] >= 1 and page["queue_depth"] == 0
