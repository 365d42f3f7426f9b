"""The lists and papers of the paper server: pages, citations both ways, ids, titles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from agentgym_suite.indexes.paper_index import PaperIndex
from agentgym_suite.indexes.paper_store import PaperStore
from tests.servers.small_papers import (
    ACL,
    NEW,
    OLD,
    QUERY,
    SHA,
    TRANSFORMERS,
    build,
    detail,
    ids,
    pages,
    search,
    serving,
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PaperStore]:
    opened = PaperStore.open(build(tmp_path_factory.mktemp("papers")))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def client(store: PaperStore) -> Iterator[httpx.Client]:
    with serving(PaperIndex(store), threads=2) as client:
        yield client


# ---------------------------------------------------------------- places


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limit", "0"), ("limit", "101"), ("limit", "-1"), ("limit", "ten"), ("limit", "1.0"),
        ("limit", "1e1"), ("limit", "٣"), ("limit", "9" * 5000), ("offset", "-1"),
        ("offset", "x"), ("offset", "9" * 5000), ("minCitationCount", "-1"),
        ("minCitationCount", "many"), ("depth", "10001"), ("depth", "-1"), ("offset", "9991"),
    ],
)  # fmt: skip
def test_numbers_out_of_bounds(client: httpx.Client, name: str, value: str) -> None:
    answer = search(client, **{name: value})
    assert answer.status_code == 422 and detail(answer).startswith(name)
    if name == "limit":
        for page in ("citations", "references"):
            answer = client.get(f"/paper/{NEW}/{page}", params={name: value})
            assert answer.status_code == 422 and detail(answer).startswith(name)


def test_ten_papers_unless_a_number_is_given(client: httpx.Client) -> None:
    assert len(ids(search(client))) == len(ids(search(client, limit=""))) == 10
    assert len(ids(search(client, limit=1))) == 1
    assert len(ids(search(client, limit=100))) == 100
    assert len(ids(client.get(f"/paper/{NEW}/citations"), "citingPaper")) == 10
    assert len(ids(client.get(f"/paper/{NEW}/citations?limit=99"), "citingPaper")) == 99


def test_following_next_reads_the_whole_ranking_once(
    client: httpx.Client, store: PaperStore
) -> None:
    ranking = list(store.search_sparse(QUERY, 1_000).ids)
    assert len(ranking) > 100
    for limit in (100, 33, 7):
        found, read = pages(
            lambda at, limit=limit: search(client, limit=limit, offset=at)  # type: ignore[misc]
        )
        assert found == ranking
        assert read[-1]["total"] == len(ranking) and read[-1]["next"] is None
        assert all(page["next"] == page["offset"] + limit for page in read[:-1])
    beyond = search(client, offset=9_000).json()
    assert (beyond["data"], beyond["next"], beyond["total"]) == ([], None, len(ranking))


@pytest.mark.parametrize(
    ("page", "within", "count"),
    [("citations", "citingPaper", 120), ("references", "citedPaper", 111)],
)
def test_citations_both_ways_in_the_order_of_the_store(
    client: httpx.Client, store: PaperStore, page: str, within: str, count: int
) -> None:
    row = store.find(NEW)
    assert row is not None
    rows = store.citing(row) if page == "citations" else store.references(row)
    assert len(rows) == count
    newest = sorted(store.iterate(), key=lambda one: (-one.day, one.paper_id))
    assert store.ids(rows) == [one.paper_id for one in newest if one.rowid in set(rows)]
    for limit in (100, 30, 7):
        found, read = pages(
            lambda at, limit=limit: client.get(  # type: ignore[misc]
                f"/paper/{NEW}/{page}", params={"limit": limit, "offset": at}
            ),
            within,
        )
        assert found == store.ids(rows)
        assert all(list(item) == [within] for one in read for item in one["data"])
        assert {one["total"] for one in read} == {count}
    beyond = client.get(f"/paper/{NEW}/{page}?offset=99999999999").json()
    assert (beyond["data"], beyond["next"], beyond["total"]) == ([], None, count)


def test_a_paper_without_citations(client: httpx.Client) -> None:
    for page in ("citations", "references"):
        answer = client.get(f"/paper/{ACL}/{page}")
        assert answer.json() == {"total": 0, "offset": 0, "next": None, "data": []}


# ---------------------------------------------------------------- ids


@pytest.mark.parametrize(
    ("spelled", "known"),
    [
        (NEW, NEW), (f"{NEW}v5", NEW), (f"arXiv:{NEW}", NEW), (f"ARXIV:{NEW}v1", NEW),
        (f"https://arxiv.org/abs/{NEW}v2", NEW), (f"http://arxiv.org/pdf/{NEW}.pdf", NEW),
        (f"https:/arxiv.org/abs/{NEW}", NEW), (f"doi:10.48550/arXiv.{NEW}", NEW),
        (f"https://doi.org/10.48550/ARXIV.{NEW}", NEW), (f" {NEW} ", NEW), (f"{NEW}/", NEW),
        ("CorpusId:13756489", NEW), ("corpusid:13756489", NEW), ("PDF of attention", NEW),
        (OLD, OLD), ("cs.CL/0112017", OLD), ("CS/0112017v3", OLD),
        ("https://arxiv.org/abs/cs/0112017", OLD), (SHA, SHA), (SHA.upper(), SHA),
        ("2005.14165", SHA), ("2005.14165v3", SHA), (ACL, ACL), ("a00-1009", ACL),
    ],
)  # fmt: skip
def test_ids_in_every_form_with_slashes_and_without(
    client: httpx.Client, spelled: str, known: str
) -> None:
    for written in (quote(spelled, safe=""), quote(spelled, safe="/:")):
        assert client.get(f"/paper/{written}").json()["paperId"] == known
        for page in ("citations", "references"):
            answer = client.get(f"/paper/{written}/{page}")
            assert answer.json() == client.get(f"/paper/{quote(known)}/{page}").json()


@pytest.mark.parametrize(
    "spelled",
    ["nonexistent123456", "1706.03763", "", "search", "x/citations", "..%2F..%2Fetc", "%00", "😀"],
)
def test_an_id_that_no_paper_has(client: httpx.Client, spelled: str) -> None:
    for page in ("", "/citations", "/references"):
        answer = client.get(f"/paper/{spelled}{page}")
        if spelled == "search" and not page:
            assert answer.status_code == 422
            continue
        assert answer.status_code == 404 and detail(answer)
        if spelled not in ("", "x/citations"):
            assert detail(answer).startswith("Paper not found: ")


# ---------------------------------------------------------------- titles


def titles(client: httpx.Client, **parameters: Any) -> list[str]:
    return ids(client.get("/paper/search/title", params=parameters))


def test_the_best_match_of_a_title_comes_first(client: httpx.Client, store: PaperStore) -> None:
    assert titles(client, query=TRANSFORMERS)[0] == NEW
    assert (
        titles(client, query="attention is ALL you need — transformers for Übersetzung!")[0] == NEW
    )
    assert titles(client, query="old studies of the harbour")[0] == OLD
    for paper in store.papers(range(1, 60)):
        assert store.find_title(paper.title) is not None
        (first,) = titles(client, query=paper.title, limit=1)
        assert store.paper(first).title == paper.title


def test_a_title_search_is_a_page_with_the_same_filters(client: httpx.Client) -> None:
    page = client.get("/paper/search/title", params={"query": "attention", "fields": "year"}).json()
    assert list(page) == ["total", "offset", "next", "data"] and page["total"] == 4
    assert {one["paperId"] for one in page["data"]} == {NEW, OLD, SHA, ACL}
    assert all(list(one) == ["paperId", "title", "year"] for one in page["data"])
    assert set(titles(client, query="attention", year="2017")) == {NEW}
    assert set(titles(client, query="attention", before="2018")) == {NEW, OLD}
    assert set(titles(client, query="attention", venue="neurips")) == {NEW, SHA}
    assert (
        titles(client, query=TRANSFORMERS, before="20170612")
        == titles(client, query=TRANSFORMERS, year="-2016")
        == [OLD, *titles(client, query=TRANSFORMERS, year="-2016")[1:]]
    )
    split = [titles(client, query="attention", limit=3, offset=at) for at in (0, 3)]
    assert split[0] + split[1] == titles(client, query="attention")
    assert titles(client, query="zyxwv") == titles(client, query=" ") == []
    assert client.get("/paper/search/title").status_code == 422
