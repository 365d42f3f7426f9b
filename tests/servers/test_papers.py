"""What a search of the paper server takes: fields, filters, queries, ways of searching."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.datastructures import QueryParams

from agentgym_suite.indexes.paper_index import PaperIndex
from agentgym_suite.indexes.paper_store import PaperStore
from agentgym_suite.servers.paper_queries import FIELDS, read_search
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


def all_papers(client: httpx.Client, **parameters: Any) -> list[str]:
    return pages(lambda at: search(client, limit=100, offset=at, **parameters))[0]


# ---------------------------------------------------------------- fields


def test_without_fields_a_paper_is_its_id_and_its_title(paper_client: httpx.Client) -> None:
    for answer in (
        paper_client.get(f"/paper/{NEW}").json(),
        search(paper_client, query="transformers", limit=1).json()["data"][0],
        search(paper_client, query="transformers", limit=1, fields="").json()["data"][0],
    ):
        assert answer == {"paperId": NEW, "title": TRANSFORMERS}


def test_each_field_has_its_value(paper_client: httpx.Client) -> None:
    values = {
        "paperId": NEW,
        "title": TRANSFORMERS,
        "abstract": "A network of attention, and of nothing else.",
        "year": 2017,
        "authors": [{"name": "Ann Author"}, {"name": "Bo Ø. Writer"}],
        "venue": "NeurIPS",
        "externalIds": {"ArXiv": NEW},
        "citationCount": 50_000,
        "publicationDate": "2017-06-12",
        "referenceCount": 111,
        "openAccessPdf": {"url": f"https://arxiv.org/pdf/{NEW}", "status": "GREEN"},
        "fieldsOfStudy": None,
        "publicationTypes": None,
        "journal": None,
    }
    assert tuple(values) == FIELDS
    for every in ("*", "all", "title,*", ",".join(FIELDS)):
        assert paper_client.get(f"/paper/{NEW}", params={"fields": every}).json() == values
    for name, value in values.items():
        told = paper_client.get(f"/paper/{NEW}", params={"fields": f" {name} ,"}).json()
        assert told == {"paperId": NEW, "title": TRANSFORMERS, name: value}


def test_what_a_paper_does_not_have(paper_client: httpx.Client) -> None:
    old = paper_client.get(f"/paper/{OLD}?fields=*").json()
    assert (old["abstract"], old["year"], old["authors"]) == (None, None, [])
    assert (old["publicationDate"], old["externalIds"]) == (None, {"ArXiv": OLD})
    acl = paper_client.get(f"/paper/{ACL}?fields=*").json()
    assert (acl["externalIds"], acl["venue"], acl["openAccessPdf"]) == ({}, "", None)


@pytest.mark.parametrize(
    "fields", ["tldr", "title,Abstract", "title;year", "authors.name", "x" * 999]
)
def test_an_unknown_field_is_named(paper_client: httpx.Client, fields: str) -> None:
    for path in ("/paper/search?query=a&", f"/paper/{NEW}?", f"/paper/{NEW}/citations?"):
        answer = paper_client.get(f"{path}fields={quote(fields)}")
        assert answer.status_code == 422 and "publicationDate" in detail(answer)
        assert repr(fields.split(",")[-1][:80]) in detail(answer) and len(detail(answer)) < 500


# ---------------------------------------------------------------- filters


@pytest.mark.parametrize(
    ("year", "first", "last"),
    [
        ("2005", 2005, 2005),
        ("2003-2006", 2003, 2006),
        ("2006-", 2006, 9999),
        ("-2003", 0, 2003),
        ("2017-9999", 2017, 9999),
        (" 2004-2004 ", 2004, 2004),
    ],
)
def test_years_hold_papers_of_known_days_only(
    paper_client: httpx.Client, paper_store: PaperStore, year: str, first: int, last: int
) -> None:
    found = all_papers(paper_client, year=year)
    everything = set(all_papers(paper_client))
    days = {paper.paper_id: paper.day for paper in paper_store.iterate()}
    wanted = {one for one in everything if first <= days[one] // 10_000 <= last}
    undated = {one for one in wanted if days[one] == 99_999_999}
    assert ACL in everything and found and set(found) == wanted - undated
    assert len(found) == len(set(found))


@pytest.mark.parametrize(
    "year", ["-", "20", "2010-2005", "2005-2006-2007", "abcd", "２００５", "2005 - 2006", "20055"]
)
def test_what_is_no_year(paper_client: httpx.Client, year: str) -> None:
    answer = search(paper_client, year=year)
    assert answer.status_code == 422 and detail(answer).startswith("year is ")


@pytest.mark.parametrize(
    ("before", "cutoff"),
    [("20050615", 20050615), ("2005-06-15", 20050615), ("2005-06", 20050600), ("2005", 20050000)],
)
def test_before_shows_what_is_strictly_earlier(
    paper_client: httpx.Client, paper_store: PaperStore, before: str, cutoff: int
) -> None:
    days = {paper.paper_id: paper.day for paper in paper_store.iterate()}
    wanted = {one for one in all_papers(paper_client) if days[one] < cutoff}
    assert wanted and set(all_papers(paper_client, before=before)) == wanted
    for page, within in (("citations", "citingPaper"), ("references", "citedPaper")):
        listed = pages(
            lambda at, page=page: paper_client.get(  # type: ignore[misc]
                f"/paper/{NEW}/{page}", params={"limit": 100, "offset": at, "before": before}
            ),
            within,
        )
        assert listed[0] and all(days[one] < cutoff for one in listed[0])
        assert listed[1][0]["total"] == len(listed[0])


@pytest.mark.parametrize("before", ["soon", "20051301", "2005-00", "9" * 99])
def test_what_is_no_date(paper_client: httpx.Client, before: str) -> None:
    for path in ("/paper/search?query=a&", f"/paper/{NEW}/references?"):
        answer = paper_client.get(f"{path}before={before}")
        assert answer.status_code == 422 and detail(answer).startswith("before is no date")


def test_hidden_papers_use_up_no_places(
    paper_client: httpx.Client, paper_store: PaperStore
) -> None:
    found = search(paper_client, before="20030101", limit=10)
    assert len(ids(found)) == 10
    assert ids(found) == list(paper_store.search_sparse(QUERY, 10, 20030101).ids)


def test_the_months_that_stepppos_inference_sends(
    paper_client: httpx.Client, paper_store: PaperStore
) -> None:
    days = {paper.paper_id: paper.day for paper in paper_store.iterate()}
    found = all_papers(paper_client, **{"from": "2003-02", "to": "2004-12"})
    wanted = {one for one in all_papers(paper_client) if 20030200 <= days[one] < 20050000}
    assert set(found) == wanted != set()
    narrow = all_papers(paper_client, to="2004-11", year="2004-2005", before="20041015")
    assert set(narrow) == {one for one in wanted if 20040000 <= days[one] < 20041015}
    for month in ("2004", "2004-13", "2004-1", "now"):
        assert detail(search(paper_client, to=month)).startswith("to is ")


def test_venues_are_compared_without_case_and_one_of_several_is_enough(
    paper_client: httpx.Client, paper_store: PaperStore
) -> None:
    venues = {paper.paper_id: paper.venue for paper in paper_store.iterate()}
    everything = all_papers(paper_client)
    for names, wanted in (
        ("venue 1", {"Venue 1"}),
        ("Venue 1,VENUE  2,", {"Venue 1", "Venue 2"}),
        ("NeurIPS", {"NeurIPS", "  neurips "}),
        ("Venue", set()),
        ("nowhere", set()),
    ):
        found = all_papers(paper_client, venue=names)
        assert found == [one for one in everything if venues[one] in wanted]


def test_papers_that_are_cited_often_enough(
    paper_client: httpx.Client, paper_store: PaperStore
) -> None:
    counts = {paper.paper_id: paper.citation_count for paper in paper_store.iterate()}
    everything = all_papers(paper_client)
    for least in (0, 1, 7, 50_000, 50_001, 10**14):
        found = all_papers(paper_client, minCitationCount=least)
        assert found == [one for one in everything if counts[one] >= least]
    assert all_papers(paper_client, minCitationCount=50_000) == [NEW]
    assert all_papers(paper_client, openAccessPdf="1") == [
        one for one in everything if one in (NEW, OLD, SHA)
    ]


def test_filters_that_a_store_knows_nothing_of_are_taken_and_told(
    paper_client: httpx.Client,
) -> None:
    plain = search(paper_client).json()
    told = search(paper_client, fieldsOfStudy="Computer Science", publicationTypes="JournalArticle")
    assert told.json() == {**plain, "ignored": ["fieldsOfStudy", "publicationTypes"]}
    assert "ignored" not in search(paper_client, fieldsOfStudy="", unknown="x").json()
    assert search(paper_client, unknown="x").json() == plain


# ---------------------------------------------------------------- queries


@pytest.mark.parametrize("query", ["", "   ", "\n", "?", "zyxwv", "-", "\x00"])
def test_a_query_without_results_is_an_empty_page(paper_client: httpx.Client, query: str) -> None:
    empty = {"total": 0, "offset": 0, "next": None, "data": []}
    assert search(paper_client, query=query).json() == empty


def test_a_query_must_be_there(paper_client: httpx.Client) -> None:
    answer = paper_client.get("/paper/search")
    assert answer.status_code == 422 and detail(answer).startswith("query is missing")


def test_a_long_question_finds_papers_although_none_has_all_its_words(
    paper_client: httpx.Client,
) -> None:
    question = "which studies of attention and few shots, if any, were made in a harbour of stone?"
    assert {NEW, SHA} <= set(ids(search(paper_client, query=question, limit=100)))


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    query=st.text(max_size=200),
    extra=st.dictionaries(
        st.sampled_from(
            ["fields", "year", "venue", "offset", "limit", "depth", "before", "from", "retrieval"]
        ),
        st.text(max_size=20) | st.integers().map(str),
        max_size=3,
    ),
    path=st.sampled_from(["search", "search/title"]) | st.text(min_size=1, max_size=40),
)
def test_nothing_that_a_client_sends_is_the_servers_fault(
    paper_client: httpx.Client, query: str, extra: dict[str, str], path: str
) -> None:
    sent = {"query": query.encode("utf-8", "replace"), **extra}
    answer = paper_client.get(f"/paper/{quote(path, errors='replace')}", params=sent)
    assert answer.status_code in (200, 404, 422)
    if answer.status_code != 200:
        assert detail(answer)


# ---------------------------------------------------------------- retrieval


def test_a_store_without_vectors_says_so_where_they_are_asked_for(
    paper_client: httpx.Client,
) -> None:
    plain = search(paper_client).json()
    assert (
        search(paper_client, retrieval="sparse").json()
        == search(paper_client, retrieval="").json()
        == plain
    )
    for retrieval in ("dense", "hybrid"):
        answer = search(paper_client, retrieval=retrieval)
        assert answer.status_code == 422
        assert "no vectors" in detail(answer) and "sparse" in detail(answer)
    for retrieval in ("Sparse", "bm25", "sparse,dense"):
        answer = search(paper_client, retrieval=retrieval)
        assert answer.status_code == 422 and detail(answer).startswith("retrieval is ")


@pytest.mark.parametrize("engine", ["qdrant", "faiss"])
def test_with_vectors_all_three_ways_are_those_of_the_index(tmp_path: Path, engine: str) -> None:
    pytest.importorskip("qdrant_edge", reason="the extra retrieval is not installed")
    pytest.importorskip("faiss", reason="the extra retrieval is not installed")
    from agentgym_suite.indexes.paper_vectors import build_paper_vectors
    from tests.indexes.hashing_encoder import HashingEncoder

    store = PaperStore.open(build(tmp_path))
    build_paper_vectors(store, engine=engine, encoder=HashingEncoder())
    index = PaperIndex.open(store.folder, encoder=HashingEncoder())

    def listed(client: httpx.Client, **parameters: Any) -> list[str]:
        return ids(search(client, **parameters))

    with serving(index) as client:
        for retrieval in ("sparse", "dense", "hybrid"):
            local = index.search(QUERY, 40, retrieval=retrieval).ids
            assert listed(client, retrieval=retrieval, limit=40) == list(local)
            days = index.search(QUERY, 40, retrieval=retrieval, before=20050000).ids
            assert listed(client, retrieval=retrieval, limit=40, before="2005") == list(days)
            cited = index.search(
                QUERY, 5, retrieval=retrieval, keep=lambda one: store.paper(one).citation_count > 9
            )
            kept = listed(client, retrieval=retrieval, limit=5, minCitationCount=10)
            assert kept == list(cited.ids)
        assert listed(client, limit=40) == list(index.search(QUERY, 40, retrieval="hybrid").ids)
        deep = [listed(client, limit=65, offset=at, depth=130) for at in (0, 65)]
        assert deep[0] + deep[1] == list(index.search(QUERY, 130).ids)
    index.close()
    store.close()


def test_a_parameter_given_twice_and_months_in_the_wrong_order(paper_client: httpx.Client) -> None:
    for twice, name in (("query=b", "query"), ("before=2001&before=2002", "before")):
        answer = paper_client.get(f"/paper/search?query=a&{twice}")
        assert answer.status_code == 422 and detail(answer).startswith(f"{name} is given 2 times")
    answer = paper_client.get("/paper/search?query=a&from=2020-02&to=2020-01")
    assert answer.status_code == 422 and "'2020-02', after to" in detail(answer)
    assert paper_client.get("/paper/search?query=a&from=2020-01&to=2020-01").status_code == 200
    assert detail(paper_client.get("/paper/search?query=a&before=soon")).count("no date") == 1


def test_a_venue_may_have_a_comma_and_be_given_twice() -> None:
    written = "query=a&venue=Signs, Systems&venue=ACL&fields=year&fields=abstract"
    wanted = read_search(QueryParams(written))
    assert wanted.venues == {"signs, systems", "signs", "systems", "acl"}
    assert wanted.fields == ("paperId", "title", "year", "abstract")
