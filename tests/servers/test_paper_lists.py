"""The lists and papers of the paper server: pages, citations both ways, ids, titles."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from agentgym_suite.indexes.paper_store import PaperStore
from tests.servers.small_papers import (
    ACL,
    NEW,
    OLD,
    QUERY,
    SHA,
    TRANSFORMERS,
    detail,
    ids,
    pages,
    search,
)

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
def test_numbers_out_of_bounds(paper_client: httpx.Client, name: str, value: str) -> None:
    answer = search(paper_client, **{name: value})
    assert answer.status_code == 422 and detail(answer).startswith(name)
    if name == "limit":
        for page in ("citations", "references"):
            answer = paper_client.get(f"/paper/{NEW}/{page}", params={name: value})
            assert answer.status_code == 422 and detail(answer).startswith(name)


def test_ten_papers_unless_a_number_is_given(paper_client: httpx.Client) -> None:
    assert len(ids(search(paper_client))) == len(ids(search(paper_client, limit=""))) == 10
    assert len(ids(search(paper_client, limit=1))) == 1
    assert len(ids(search(paper_client, limit=100))) == 100
    assert len(ids(paper_client.get(f"/paper/{NEW}/citations"), "citingPaper")) == 10
    assert len(ids(paper_client.get(f"/paper/{NEW}/citations?limit=99"), "citingPaper")) == 99


def test_following_next_reads_the_whole_ranking_once(
    paper_client: httpx.Client, paper_store: PaperStore
) -> None:
    ranking = list(paper_store.search_sparse(QUERY, 1_000).ids)
    assert len(ranking) > 100
    for limit in (100, 33, 7):
        found, read = pages(
            lambda at, limit=limit: search(paper_client, limit=limit, offset=at)  # type: ignore[misc]
        )
        assert found == ranking
        assert read[-1]["total"] == len(ranking) and read[-1]["next"] is None
        assert all(page["next"] == page["offset"] + limit for page in read[:-1])
    beyond = search(paper_client, offset=9_000).json()
    assert (beyond["data"], beyond["next"], beyond["total"]) == ([], None, len(ranking))


@pytest.mark.parametrize(
    ("page", "within", "count"),
    [("citations", "citingPaper", 120), ("references", "citedPaper", 111)],
)
def test_citations_both_ways_in_the_order_of_the_store(
    paper_client: httpx.Client, paper_store: PaperStore, page: str, within: str, count: int
) -> None:
    row = paper_store.find(NEW)
    assert row is not None
    rows = paper_store.citing(row) if page == "citations" else paper_store.references(row)
    assert len(rows) == count
    newest = sorted(paper_store.iterate(), key=lambda one: (-one.day, one.paper_id))
    assert paper_store.ids(rows) == [one.paper_id for one in newest if one.rowid in set(rows)]
    for limit in (100, 30, 7):
        found, read = pages(
            lambda at, limit=limit: paper_client.get(  # type: ignore[misc]
                f"/paper/{NEW}/{page}", params={"limit": limit, "offset": at}
            ),
            within,
        )
        assert found == paper_store.ids(rows)
        assert all(list(item) == [within] for one in read for item in one["data"])
        assert {one["total"] for one in read} == {count}
    beyond = paper_client.get(f"/paper/{NEW}/{page}?offset=99999999999").json()
    assert (beyond["data"], beyond["next"], beyond["total"]) == ([], None, count)


def test_a_paper_without_citations(paper_client: httpx.Client) -> None:
    for page in ("citations", "references"):
        answer = paper_client.get(f"/paper/{ACL}/{page}")
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
    paper_client: httpx.Client, spelled: str, known: str
) -> None:
    for written in (quote(spelled, safe=""), quote(spelled, safe="/:")):
        assert paper_client.get(f"/paper/{written}").json()["paperId"] == known
        for page in ("citations", "references"):
            answer = paper_client.get(f"/paper/{written}/{page}")
            assert answer.json() == paper_client.get(f"/paper/{quote(known)}/{page}").json()


@pytest.mark.parametrize(
    "spelled",
    ["nonexistent123456", "1706.03763", "", "search", "x/citations", "..%2F..%2Fetc", "%00", "😀"],
)
def test_an_id_that_no_paper_has(paper_client: httpx.Client, spelled: str) -> None:
    for page in ("", "/citations", "/references"):
        answer = paper_client.get(f"/paper/{spelled}{page}")
        if spelled == "search" and not page:
            assert answer.status_code == 422
            continue
        assert answer.status_code == 404 and detail(answer)
        if spelled not in ("", "x/citations"):
            assert detail(answer).startswith("Paper not found: ")


# ---------------------------------------------------------------- titles


def titles(client: httpx.Client, **parameters: Any) -> list[str]:
    return ids(client.get("/paper/search/title", params=parameters))


def test_the_best_match_of_a_title_comes_first(
    paper_client: httpx.Client, paper_store: PaperStore
) -> None:
    assert titles(paper_client, query=TRANSFORMERS)[0] == NEW
    assert (
        titles(paper_client, query="attention is ALL you need — transformers for Übersetzung!")[0]
        == NEW
    )
    assert titles(paper_client, query="old studies of the harbour")[0] == OLD
    for paper in paper_store.papers(range(1, 60)):
        assert paper_store.find_title(paper.title) is not None
        (first,) = titles(paper_client, query=paper.title, limit=1)
        assert paper_store.paper(first).title == paper.title


def test_a_title_search_is_a_page_with_the_same_filters(paper_client: httpx.Client) -> None:
    page = paper_client.get(
        "/paper/search/title", params={"query": "attention", "fields": "year"}
    ).json()
    assert list(page) == ["total", "offset", "next", "data"] and page["total"] == 4
    assert {one["paperId"] for one in page["data"]} == {NEW, OLD, SHA, ACL}
    assert all(list(one) == ["paperId", "title", "year"] for one in page["data"])
    assert set(titles(paper_client, query="attention", year="2017")) == {NEW}
    assert set(titles(paper_client, query="attention", before="2018")) == {NEW, OLD}
    assert set(titles(paper_client, query="attention", venue="neurips")) == {NEW, SHA}
    assert (
        titles(paper_client, query=TRANSFORMERS, before="20170612")
        == titles(paper_client, query=TRANSFORMERS, year="-2016")
        == [OLD, *titles(paper_client, query=TRANSFORMERS, year="-2016")[1:]]
    )
    split = [titles(paper_client, query="attention", limit=3, offset=at) for at in (0, 3)]
    assert split[0] + split[1] == titles(paper_client, query="attention")
    assert titles(paper_client, query="zyxwv") == titles(paper_client, query=" ") == []
    assert paper_client.get("/paper/search/title").status_code == 422
