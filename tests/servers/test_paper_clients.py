"""What the clients that exist send to a paper API, what they read, and that many get the same.

StepPO's ``recipe/paper_search/utils.py`` and its inference client, and the calls that Lewen's own
``test/test_api.py`` makes of a service; written anew here, by what they do.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentgym_suite.cli import main
from agentgym_suite.indexes.paper_index import PaperIndex
from agentgym_suite.indexes.paper_store import PaperStore
from agentgym_suite.indexes.remote_papers import RemotePapers
from tests.indexes.corpus_files import WORDS
from tests.servers.small_papers import NEW, OLD, SHA, detail, ids
from tests.servers.test_cli import served, wait_until_ready

STEPPO_FIELDS = "title,abstract,year,authors,externalIds"
CLIENTS = 64


@pytest.fixture(scope="module")
def address(paper_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("home")
    with served(home, "papers", "--store", str(paper_folder), "--threads", "2") as (process, base):
        wait_until_ready(base)
        yield base
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def read_by_steppo(record: dict[str, Any]) -> tuple[str, str, str, str, int | None]:
    """Id, title, abstract, authors and year as StepPO's client takes them from a record."""
    arxiv = (record.get("externalIds") or {}).get("ArXiv")
    names = ", ".join(author["name"] for author in record.get("authors") or [])
    return (
        arxiv or record["paperId"],
        record.get("title") or "",
        record.get("abstract") or "",
        names,
        record.get("year"),
    )


def wanted_by_steppo(store: PaperStore, rows: list[int]) -> list[Any]:
    return [
        (p.arxiv_id or p.paper_id, p.title, p.abstract, ", ".join(p.authors), p.year)
        for p in store.papers(rows)
    ]


def test_stepppos_search(paper_client: httpx.Client, paper_store: PaperStore) -> None:
    sent: dict[str, Any] = {"query": "attention shots", "limit": 10, "fields": STEPPO_FIELDS}
    data = paper_client.get("/paper/search", params=sent).json()["data"]
    found = [row for row, _ in paper_store.search_rows("attention shots", 10)]
    assert list(map(read_by_steppo, data)) == wanted_by_steppo(paper_store, found)
    # a SHA is never what the agent sees where an arXiv id is known
    assert read_by_steppo(data[0])[0] == "2005.14165" and data[0]["paperId"] == SHA
    narrowed = {**sent, "year": "2010-2019", "minCitationCount": 3}
    assert ids(paper_client.get("/paper/search", params=narrowed)) == [NEW]


def test_stepppos_expansion_takes_30_citations_and_99_references(
    paper_client: httpx.Client, paper_store: PaperStore
) -> None:
    for spelled, rowid in (
        (NEW, paper_store.find(NEW)),
        ("2005.14165", paper_store.find(SHA)),
        (OLD, None),
    ):
        row = paper_store.find(spelled) if rowid is None else rowid
        assert row is not None
        citing = paper_client.get(
            f"/paper/{spelled}/citations", params={"limit": 30, "fields": STEPPO_FIELDS}
        ).json()["data"]
        cited = paper_client.get(
            f"/paper/{spelled}/references", params={"limit": 99, "fields": STEPPO_FIELDS}
        ).json()["data"]
        assert [read_by_steppo(item["citingPaper"]) for item in citing] == wanted_by_steppo(
            paper_store, paper_store.citing(row, 30)
        )
        assert [read_by_steppo(item["citedPaper"]) for item in cited] == wanted_by_steppo(
            paper_store, paper_store.references(row, 99)
        )
    assert len(paper_store.citing(paper_store.find(NEW) or 0)) > 30
    assert len(paper_store.references(paper_store.find(NEW) or 0)) > 99


def test_stepppos_inference_reads_one_paper_and_takes_404_for_none(
    paper_client: httpx.Client,
) -> None:
    answer = paper_client.get(f"/paper/{NEW}", params={"fields": STEPPO_FIELDS})
    assert read_by_steppo(answer.json())[0] == NEW
    assert (
        paper_client.get("/paper/1706.99999", params={"fields": STEPPO_FIELDS}).status_code == 404
    )
    months = {"query": "attention", "limit": 10, "from": "2017-01", "to": "2020-12"}
    assert set(ids(paper_client.get("/paper/search", params=months))) == {NEW, SHA}


LEWEN_CALLS: list[tuple[str, dict[str, Any]]] = [
    ("/paper/search", {}),
    ("/paper/search", {"retrieval": "sparse"}),
    ("/paper/search", {"year": "2020"}),
    ("/paper/search", {"year": "2018-2022"}),
    ("/paper/search", {"minCitationCount": 10}),
    ("/paper/search", {"openAccessPdf": "1"}),
    ("/paper/search", {"venue": "NeurIPS"}),
    ("/paper/search", {"fieldsOfStudy": "Computer Science"}),
    ("/paper/search", {"publicationTypes": "JournalArticle"}),
    ("/paper/search", {"limit": 5, "offset": 2}),
    ("/paper/search", {"fields": "abstract,year"}),
    ("/paper/search", {"fields": "*", "limit": 1}),
    ("/paper/search/title", {"limit": 5}),
    ("/paper/search/title", {"year": "2017"}),
    ("/paper/search/title", {"fields": "abstract"}),
]


@pytest.mark.parametrize(("path", "parameters"), LEWEN_CALLS)
def test_the_searches_of_lewens_own_test(
    paper_client: httpx.Client, path: str, parameters: dict[str, Any]
) -> None:
    answer = paper_client.get(path, params={"query": "attention transformers", **parameters})
    assert answer.status_code == 200, answer.text
    page = answer.json()
    assert page["data"] and page["total"] >= len(page["data"])
    assert all(item["paperId"] and item["title"] for item in page["data"])


def test_the_papers_of_lewens_own_test(paper_client: httpx.Client) -> None:
    found = paper_client.get(
        "/paper/search/title", params={"query": "Attention shots", "limit": 10}
    )
    sha = found.json()["data"][0]["paperId"]
    assert sha == SHA
    for parameters in ({}, {"fields": "abstract,year,authors"}):
        assert paper_client.get(f"/paper/{sha}", params=parameters).status_code == 200
    missing = paper_client.get("/paper/nonexistent123456")
    assert missing.status_code == 404
    assert detail(missing).startswith("Paper not found: nonexistent123456")
    for parameters in ({}, {"limit": 3, "offset": 1}, {"fields": "title,year"}, {"limit": 5}):
        for page in ("citations", "references"):
            assert paper_client.get(f"/paper/{sha}/{page}", params=parameters).status_code == 200


def test_64_clients_at_once_get_what_one_gets(address: str, paper_store: PaperStore) -> None:
    index = PaperIndex(paper_store)
    known = paper_store.ids(range(1, len(paper_store) + 1))

    def play(client: int) -> list[Any]:
        dice = random.Random(client)
        got: list[Any] = []
        with httpx.Client(base_url=address, trust_env=False, timeout=60) as http:
            for _ in range(4):
                query = " ".join(dice.choices(WORDS, k=4))
                sent: dict[str, Any] = {"query": query, "limit": 1 + client, "offset": client % 5}
                got.append((sent, ids(http.get("/paper/search", params=sent))))
                paper, limit = dice.choice(known), 1 + client % 30
                path = f"/paper/{paper}/citations"
                cited = http.get(path, params={"limit": limit})
                got.append(((paper, limit), ids(cited, "citingPaper")))
        return got

    with ThreadPoolExecutor(CLIENTS) as pool:
        played = [turn for its in pool.map(play, range(CLIENTS)) for turn in its]
    assert len(played) == CLIENTS * 8
    for sent, found in played:
        if isinstance(sent, dict):
            page = index.page(sent["query"], offset=sent["offset"], limit=sent["limit"])
            assert found == list(page.hits.ids)
        else:
            paper, limit = sent
            assert found == paper_store.ids(
                paper_store.citing(paper_store.paper(paper).rowid, limit)
            )


def test_our_own_client_over_a_real_port(address: str, paper_store: PaperStore) -> None:
    remote = RemotePapers(address)
    query = "attention «Übersetzung» 😀 " + "w" * 2_000
    (found,) = remote.search_papers([query], 5)
    assert [paper.paper_id for paper in found] == list(paper_store.search_sparse(query, 5).ids)
    old = paper_store.find(OLD)
    assert old is not None and remote.find_id("cs.CL/0112017v1") == OLD
    cited = remote.referenced_papers(OLD, 99)
    assert [paper.paper_id for paper in cited] == paper_store.ids(paper_store.references(old))
    remote.close()


def test_what_cannot_be_served_is_one_sentence(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    paper_folder: Path,
) -> None:
    monkeypatch.delenv("AGENTGYM_SUITE_TOKEN", raising=False)

    def complaint(*arguments: str) -> str:
        assert main(["serve", "papers", "--port", "0", *arguments]) == 2
        text = capsys.readouterr().err
        assert text.startswith("agentgym-suite: ") and text.count("\n") == 1
        return text

    assert "index build papers" in complaint("--store", str(tmp_path / "none"))
    assert "--insecure" in complaint("--store", str(paper_folder), "--host", "0.0.0.0")
    assert "no vectors at" in complaint("--store", str(paper_folder), "--vectors", str(tmp_path))
    with pytest.raises(SystemExit) as stopped:
        main(["serve", "papers", "--store", str(paper_folder), "--threads", "0"])
    assert stopped.value.code == 2 and "whole number" in capsys.readouterr().err
