"""Every row of the request table, over HTTP within this process."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym_suite.servers.retrieval_bodies import MAX_BODY_BYTES, MOST_PASSAGES, MOST_QUERIES
from tests.servers.protocol_calls import slug
from tests.servers.small_index import FAILS, ROWS, SmallIndex, ids, passage, serving

PACKED = {"Content-Type": "application/msgpack"}


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with serving() as client:
        yield client


def retrieve(client: httpx.Client, **body: Any) -> httpx.Response:
    # what a client's own json.dumps writes: NaN and lone surrogates too
    return client.post("/retrieve", content=json.dumps(body).encode("utf-8"))


def result(client: httpx.Client, **body: Any) -> list[Any]:
    answer = retrieve(client, **body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == "application/json"
    assert list(answer.json()) == ["result"]
    return list(answer.json()["result"])


@pytest.mark.parametrize("scores", [True, False])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 1_000])
def test_one_list_for_each_query_with_and_without_scores(
    client: httpx.Client, count: int, scores: bool
) -> None:
    queries = [f"word{i % 7} Title {i % 20}" for i in range(count)]
    found = result(client, queries=queries, topk=2, return_scores=scores)
    direct = SmallIndex().retrieve(queries, 2)
    assert ids(found) == [[f.passage.id for f in one] for one in direct]
    if scores:
        assert [[i["score"] for i in one] for one in found] == [
            [f.score for f in o] for o in direct
        ]


def test_an_item_with_scores_and_a_bare_one(client: httpx.Client) -> None:
    wanted = passage(7)
    document = {
        "id": "p07",
        "contents": f'"{wanted.title}"\n{wanted.text}',
        "title": wanted.title,
        "text": wanted.text,
    }
    ((item,),) = result(client, queries=["Title 7"], topk=1, return_scores=True)
    assert item == {"document": document, "score": 2 + 1 / 3}
    assert isinstance(item["score"], float)
    assert result(client, queries=["Title 7"], topk=1) == [[document]]


@pytest.mark.parametrize("name", ["topk", "top_k", "k"])
@pytest.mark.parametrize(
    ("k", "found"),
    [(None, 3), (0, 3), (1, 1), (5, 5), (ROWS, ROWS), (ROWS + 1, ROWS), (10**400, ROWS)],
)
def test_the_number_of_passages(client: httpx.Client, name: str, k: Any, found: int) -> None:
    assert len(result(client, queries=["word1"], **{name: k})[0]) == found


@pytest.mark.parametrize("name", ["topk", "top_k", "k"])
@pytest.mark.parametrize(
    "k", [-1, -(10**30), "3", "", True, False, 2.5, 3.0, float("nan"), float("inf"), [3], {}]
)
def test_what_is_no_number_of_passages(client: httpx.Client, name: str, k: Any) -> None:
    answer = retrieve(client, queries=["word1"], **{name: k})
    assert (answer.status_code, slug(answer)) == (422, "invalid")
    assert answer.json()["field"] == name


@pytest.mark.parametrize("digits", [b"9" * 5_000, b"-" + b"9" * 5_000])
def test_a_number_of_five_thousand_digits_is_named(client: httpx.Client, digits: bytes) -> None:
    answer = client.post("/retrieve", content=b'{"query": "a", "topk": ' + digits + b"}")
    assert (answer.status_code, answer.json()["field"]) == (422, "topk")


def test_a_byte_order_mark_is_no_part_of_the_json(client: httpx.Client) -> None:
    answer = client.post("/retrieve", content=b'\xef\xbb\xbf{"query": "word1"}')
    assert answer.status_code == 200


def test_without_a_number_the_servers_default_and_the_first_name_given_wins(
    client: httpx.Client,
) -> None:
    assert len(result(client, queries=["word1"])[0]) == 3
    assert len(result(client, queries=["word1"], k=1, top_k=2, topk=4)[0]) == 4
    assert len(result(client, queries=["word1"], k=1, top_k=2)[0]) == 2
    assert len(result(client, queries=["word1"], k=1, topk=None)[0]) == 1
    assert len(result(client, queries=["word1"], k=1, topk=0)[0]) == 3
    with serving(topk=7) as other:
        assert len(result(other, queries=["word1"])[0]) == 7
    with serving(SmallIndex(rows=2)) as small:
        assert len(result(small, queries=["word1"])[0]) == 2


def test_query_is_one_text_or_a_list_and_queries_wins(client: httpx.Client) -> None:
    one = result(client, queries=["word1"])
    assert result(client, query="word1") == one
    assert result(client, query=["word1"]) == one
    assert result(client, query=["word1", "word2"]) == result(client, queries=["word1", "word2"])
    assert result(client, queries=["word1"], query="word2") == one
    assert result(client, queries=None, query="word1") == one
    assert result(client, queries=[], query="word1") == []


@pytest.mark.parametrize("blank", ["", "   ", "\n\t", " "])
def test_a_blank_query_has_an_empty_list_at_its_place(client: httpx.Client, blank: str) -> None:
    found = result(client, queries=["word1", blank, "word2"])
    assert [len(one) for one in found] == [3, 0, 3]
    assert result(client, query=blank) == [[]]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "queries"),
        ({"queries": None}, "queries"),
        ({"query": None}, "query"),
        ({"query": 3}, "query"),
        ({"query": {"a": 1}}, "query"),
        ({"queries": "word1"}, "queries"),
        ({"queries": 5}, "queries"),
        ({"queries": {"a": "b"}}, "queries"),
        ({"queries": ["a", "b", None]}, "queries[2]"),
        ({"queries": [1]}, "queries[0]"),
        ({"queries": ["a", ["b"]]}, "queries[1]"),
        ({"query": ["a", True]}, "query[1]"),
        ({"queries": ["a", "\ud800"]}, "queries[1]"),
        ({"query": "\udfff"}, "query"),
        ({"queries": ["a"], "return_scores": "true"}, "return_scores"),
        ({"queries": ["a"], "return_scores": 1}, "return_scores"),
        ({"queries": ["a"], "return_scores": None}, "return_scores"),
        ({"queries": ["a"], "return_scores": float("nan")}, "return_scores"),
    ],
)
def test_a_wrong_field_is_named(client: httpx.Client, body: Any, field: str) -> None:
    answer = retrieve(client, **body)
    assert (answer.status_code, slug(answer)) == (422, "invalid")
    assert answer.json()["field"] == field
    assert field in answer.json()["detail"]


def test_unknown_keys_are_ignored_whatever_they_hold(client: httpx.Client) -> None:
    deep: Any = "x"
    for _ in range(200):
        deep = [deep]
    plain = result(client, queries=["word1"])
    for value in (None, "text", float("nan"), {"k": -1}, deep, "\ud800", 10**300):
        assert result(client, queries=["word1"], method="bm25", other=value) == plain
    # Search-R1's server with a reranker
    assert len(result(client, queries=["word1"], topk_retrieval=10, topk_rerank=3)[0]) == 3


@pytest.mark.parametrize(
    "body",
    [
        b"", b"   ", b"{", b"null", b"[]", b'"text"', b"3", b"NaN", b'{"queries": ["a"]', b"\xff{}",
        b'{"queries": ["a"]} x', b"queries=a", b"[" * 100_000,
        b"{'queries': ['a']}", '{"queries": ["a"]}'.encode("utf-16"),
    ],
)  # fmt: skip
def test_what_is_no_json_object(client: httpx.Client, body: bytes) -> None:
    answer = client.post("/retrieve", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, slug(answer)) == (400, "bad-json")


def test_a_query_of_one_megabyte(client: httpx.Client) -> None:
    long = "word1 " * 175_000
    assert len(long) > 1_000_000
    assert ids(result(client, queries=[long, "word1"]))[0] == ids(result(client, query="word1"))[0]


def test_a_body_beyond_eight_megabytes(client: httpx.Client) -> None:
    body = json.dumps({"queries": ["x" * MAX_BODY_BYTES]})
    answer = client.post("/retrieve", content=body)
    assert (answer.status_code, slug(answer)) == (413, "too-large")
    room = MAX_BODY_BYTES - len(json.dumps({"queries": [""]}))
    assert len(result(client, queries=["x" * room])) == 1


def test_more_than_a_server_could_answer() -> None:
    with serving(SmallIndex(rows=1_000)) as client:
        answer = retrieve(client, queries=["a"] * (MOST_QUERIES + 1))
        assert (answer.status_code, slug(answer)) == (413, "too-large")
        answer = retrieve(client, queries=["a"] * (MOST_PASSAGES // 1_000 + 1), topk=10**9)
        assert (answer.status_code, slug(answer)) == (413, "too-large")
        assert len(result(client, query="word1", topk=10**9)[0]) == 1_000


def test_msgpack_with_and_without_a_content_type(client: httpx.Client) -> None:
    document = result(client, query="Title 7", topk=1)[0][0]
    scored = {"document": document, "score": 2 + 1 / 3}
    body = {"query": "Title 7", "topk": 1, "return_scores": True}
    for headers in ({}, PACKED, {"Content-Type": "application/x-msgpack; v=1"}):
        answer = client.post("/retrieve", content=msgpack.packb(body), headers=headers)
        assert answer.status_code == 200
        assert answer.headers["Content-Type"] == "application/msgpack"
        assert msgpack.unpackb(answer.content) == {"result": [scored]}
    many = {"queries": ["Title 7", "", "Title 7"], "topk": 1, "return_scores": True}
    answer = client.post("/retrieve", content=msgpack.packb(many))
    assert msgpack.unpackb(answer.content) == {"result": [[scored], [], [scored]]}
    for bare, shape in (({"query": "Title 7"}, "flat"), ({"query": ["Title 7"]}, "nested")):
        answer = client.post("/retrieve", content=msgpack.packb({**bare, "topk": 1}))
        item = {"document": document, "score": None}
        assert msgpack.unpackb(answer.content)["result"] == (
            [item] if shape == "flat" else [[item]]
        )
    # a map of more than 15 members begins with another byte
    wide = {**body, **{f"unknown{i}": i for i in range(20)}}
    assert msgpack.unpackb(client.post("/retrieve", content=msgpack.packb(wide)).content) == {
        "result": [scored]
    }


@pytest.mark.parametrize(
    "body",
    [
        b"\x80\x80",
        b"\x81",
        b"\x81\xa5query",
        b"\xde\x00",
        b"\xdf\xff\xff\xff\xff",
        b"\x81\xa1\xff\x01",
    ],
)
def test_broken_msgpack(client: httpx.Client, body: bytes) -> None:
    answer = client.post("/retrieve", content=body)
    assert (answer.status_code, slug(answer)) == (400, "bad-json")


def test_msgpack_that_is_no_map_or_has_wrong_fields(client: httpx.Client) -> None:
    for value, status in (
        ([1], 400), ({"queries": [b"bytes"]}, 422), ({"query": "a", "topk": -1}, 422),
        ({"query": "a", "topk": float("nan")}, 422), ({}, 422),
    ):  # fmt: skip
        answer = client.post("/retrieve", content=msgpack.packb(value), headers=PACKED)
        assert answer.status_code == status
        slug(answer)


def test_msgpack_that_is_not_installed(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "msgpack", None)
    for headers in ({}, PACKED):
        answer = client.post("/retrieve", content=b"\x81\xa5query\xa1a", headers=headers)
        assert (answer.status_code, slug(answer)) == (415, "media-type")
        assert "pip install 'agentgym-suite[retrieval]'" in answer.json()["detail"]


def test_an_index_that_fails_is_unavailable_and_keeps_its_secrets(
    client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    answer = retrieve(client, queries=["word1", FAILS])
    assert (answer.status_code, slug(answer)) == (503, "index-failed")
    assert answer.headers["Retry-After"] == "1"
    assert "secret" not in answer.text and "secret path" in caplog.text
    assert answer.json()["request_id"] in caplog.text
    assert len(result(client, queries=["word1"])) == 1


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
@pytest.mark.parametrize("form", ["json", "msgpack", "rllm"])
def test_a_score_that_is_no_number_is_never_sent(
    monkeypatch: pytest.MonkeyPatch, score: float, form: str
) -> None:
    from agentgym_suite.indexes.passages import Found

    index = SmallIndex()
    monkeypatch.setattr(
        index, "_rank", lambda query, k: [Found(passage(1), score)] if query != "warm up" else []
    )
    body: Any = {"query": "a", "return_scores": True}
    with serving(index) as client:
        answer = client.post(
            "/rllm/retrieve" if form == "rllm" else "/retrieve",
            content=msgpack.packb(body) if form == "msgpack" else json.dumps(body),
        )
    assert (answer.status_code, slug(answer)) == (503, "index-failed")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
MEMBERS = st.dictionaries(
    st.sampled_from(["queries", "query", "topk", "top_k", "k", "return_scores", "other"]),
    JSON_VALUES | st.lists(st.text(), max_size=4),
)


@settings(
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(body=MEMBERS.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=60))
@pytest.mark.parametrize("path", ["/retrieve", "/rllm/retrieve"])
def test_no_body_brings_a_server_error(client: httpx.Client, path: str, body: bytes) -> None:
    answer = client.post(path, content=body)
    assert answer.status_code in (200, 400, 422), answer.text
    if answer.status_code != 200:
        slug(answer)


@settings(
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    value=st.dictionaries(
        st.sampled_from(["queries", "query", "topk", "return_scores"]),
        st.none()
        | st.integers(-(2**63), 2**64 - 1)
        | st.binary(max_size=8)
        | st.text(max_size=8)
        | st.lists(st.text(max_size=8), max_size=4),
    ),
    cut=st.integers(0, 30),
)
def test_no_msgpack_brings_a_server_error(
    client: httpx.Client, value: dict[str, Any], cut: int
) -> None:
    packed = msgpack.packb(value)
    for body in (packed, packed[: max(1, len(packed) - cut)]):
        answer = client.post("/retrieve", content=body, headers=PACKED)
        assert answer.status_code in (200, 400, 422), answer.text
