from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite.data import data_home
from agentgym_suite.errors import DataMissing, MissingExtra, RetrievalError, UsageError
from agentgym_suite.indexes import paper_index, paper_store_build
from agentgym_suite.indexes.paper_index import PaperIndex
from agentgym_suite.indexes.paper_store import PaperStore
from agentgym_suite.indexes.paper_store_build import build_paper_store
from agentgym_suite.paper_search.env import PaperSearchEnv
from agentgym_suite.paper_search.paper_sources import RemoteSource, StoreSource
from agentgym_suite.paper_search.query_folder import CITATIONS_NAME, CORPUS_NAME
from agentgym_suite.paper_search.query_set import QuerySet
from agentgym_suite.paper_search.searching import (
    check_index,
    encoder_of,
    open_source,
    told_source,
)
from tests.paper_search.handmade import (
    BARE,
    BEACON,
    EMBER,
    GLOW,
    LANTERN,
    LATE,
    MOSS,
    OLD_YEAR,
    QUESTION,
    SURVEY,
    TORCH,
    WICK,
    TableSelector,
    handmade_queries,
    outcomes,
    write_library,
)


@pytest.fixture
def with_papers(tmp_path: Path, fresh_home: Path) -> QuerySet:
    return handmade_queries(tmp_path / "queries", with_papers=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of the papers made by hand."""
    folder = tmp_path_factory.mktemp("store")
    write_library(folder)
    build_paper_store(folder / "store", folder / CORPUS_NAME, folder / CITATIONS_NAME)
    return folder / "store"


@pytest.fixture
def source(built: Path) -> StoreSource:
    return StoreSource(PaperIndex(PaperStore.open(built)))


def ids(papers: Any) -> list[str]:
    return [each.paper_id for each in papers]


def test_the_own_papers_become_a_store_once_in_the_data_home(
    with_papers: QuerySet, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = PaperSearchEnv(queries=with_papers, selector=TableSelector())
    assert not data_home().exists()  # nothing is opened before it is needed
    env.reset(options={"task_id": QUESTION})
    info = env.step("search[lantern parsing]")[4]
    assert outcomes(info)[0][0] == "ok" and LANTERN in env.state.pool
    env.close()
    (folder,) = (path for path in (data_home() / "indexes").iterdir() if path.is_dir())
    assert folder.name.startswith("papers-")
    monkeypatch.setattr(paper_store_build, "build_paper_store", None)
    for retrieval in (None, "sparse"):
        opened = open_source(with_papers, None, retrieval)
        assert opened.retrieval == "sparse" and opened.digest
        opened.close()
    env.reset(seed=1)  # opens again
    env.close()


def test_a_store_finds_what_the_table_finds(source: StoreSource) -> None:
    before = 20241001
    found = source.search_papers(["ember", "zzz", "parse lanterns"], 10, before)
    assert ids(found[0]) == [EMBER] and found[1] == []
    assert LANTERN in ids(found[2]) and LATE not in ids(found[2])
    assert LATE in ids(source.search_papers(["parse lanterns"], 10, None)[0])
    assert ids(source.citing_papers(LANTERN, 30, before)) == [TORCH, BARE, GLOW, BEACON]
    assert ids(source.citing_papers(LANTERN, 2, None)) == [LATE, TORCH]
    assert ids(source.referenced_papers(LANTERN, 99, before)) == [WICK, EMBER, OLD_YEAR]
    assert ids(source.referenced_papers(SURVEY, 99, 20190105)) == []
    assert ids(source.referenced_papers(SURVEY, 3, None)) == list(MOSS[:3])
    assert source.find_id("arXiv:cs.CL/0112017v1") == WICK and source.find_id("nothing") is None
    assert source.find_id("a00-1009") == EMBER
    assert source.locate(["nothing", f"{LANTERN}v2"]) == {f"{LANTERN}v2": LANTERN}
    assert source.store is not None and len(source.store) == 30


def test_hidden_papers_use_up_no_places(source: StoreSource) -> None:
    query, k = "parse with lanterns", 2
    assert LATE in ids(source.search_papers([query], k, None)[0])
    assert len(source.search_papers([query], k, 20241001)[0]) == k


def test_searches_of_one_batch_equal_single_ones(source: StoreSource) -> None:
    queries = ["lantern", "moss", "", '"quotes" AND (x OR', "灯籠", "beacon\x00"]
    together = source.search_papers(queries, 5, None)
    assert together == [source.search_papers([query], 5, None)[0] for query in queries]


@pytest.mark.parametrize("index", [Path, str])
def test_a_folder_may_be_named(queries: QuerySet, built: Path, index: Any) -> None:
    env = PaperSearchEnv(queries=queries, index=index(built), selector="lexical")
    told = json.loads(env.reset(options={"task_id": QUESTION})[1]["provenance"])
    assert told["retrieval"] == "sparse" and told["selector"]["name"] == "lexical"
    assert str(built) not in json.dumps(told) and told["index"]["papers"] == 30
    assert told["index_digest"].startswith("sha256:")
    info = env.step(f"search[lantern parsing]\nexpand[{LANTERN}]")[4]
    assert [status for status, _ in outcomes(info)] == ["ok", "ok"]
    assert {LANTERN, BEACON, GLOW} <= {entry.id for entry in env.state.pool}
    env.close()
    assert pickle.loads(pickle.dumps(env)).reset(seed=1)


def test_vectors_are_used_where_they_are_and_asked_for_where_not(
    queries: QuerySet, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(built, tmp_path / "store")

    class Vectors:
        digest = "sha256:vectors"

        def __len__(self) -> int:
            return 30

        def info(self) -> dict[str, Any]:
            return {"kind": "qdrant-index", "encoder": {"name": "minilm"}, "path": "x"}

        def close(self) -> None:
            pass

    for retrieval in ("dense", "hybrid"):
        with pytest.raises(RetrievalError, match="has no vectors"):
            open_source(queries, str(folder), retrieval)
    assert open_source(queries, str(folder), None).retrieval == "sparse"

    vectors: Any = Vectors()
    (folder.with_name("store-dense")).mkdir()
    (folder.with_name("store-dense") / "manifest.json").write_text("{}")
    monkeypatch.setattr(paper_index, "open_paper_vectors", lambda *_, **__: vectors)
    for retrieval, used in ((None, "hybrid"), ("dense", "dense"), ("sparse", "sparse")):
        opened = open_source(queries, str(folder), retrieval)
        told = told_source(opened)
        assert opened.retrieval == used
        assert encoder_of(told) == ("" if used == "sparse" else {"name": "minilm"})
        assert (opened.digest == PaperStore.open(folder).digest) == (used == "sparse")

    def without(*_: Any, **__: Any) -> None:
        raise MissingExtra("retrieval", "searching by vectors")

    monkeypatch.setattr(paper_index, "open_paper_vectors", without)
    assert open_source(queries, str(folder), None).retrieval == "sparse"
    with pytest.raises(MissingExtra):
        open_source(queries, str(folder), "hybrid")


def test_vectors_of_the_own_papers_are_built_only_when_asked_for(
    with_papers: QuerySet, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agentgym_suite.indexes import paper_vectors

    def without(*_: Any, **__: Any) -> None:
        raise MissingExtra("retrieval", "searching by vectors")

    monkeypatch.setattr(paper_vectors, "build_paper_vectors", without)
    assert open_source(with_papers, None, None).retrieval == "sparse"
    for retrieval in ("dense", "hybrid"):
        with pytest.raises(MissingExtra, match="pip install"):
            open_source(with_papers, None, retrieval)


def test_an_absent_folder_says_how_to_build_it(queries: QuerySet, tmp_path: Path) -> None:
    for retrieval in (None, "sparse", "hybrid"):
        with pytest.raises(DataMissing, match="index build papers"):
            open_source(queries, str(tmp_path / "absent"), retrieval)


def test_data_without_papers_ask_for_an_index(queries: QuerySet) -> None:
    for retrieval in (None, "sparse", "hybrid"):
        with pytest.raises(RetrievalError, match="by index="):
            open_source(queries, None, retrieval)


def test_what_an_index_argument_may_be(tmp_path: Path) -> None:
    assert check_index(None) is None
    assert check_index(tmp_path) == str(tmp_path)
    for wrong in ("", " ", 3, ["x"], b"x"):
        with pytest.raises(UsageError, match="http address"):
            check_index(wrong)


def test_a_paper_api_is_asked_as_its_client_takes_it() -> None:
    class Client:
        digest = ""
        asked: list[tuple[Any, ...]] = []

        def search_papers(self, queries: Any, k: int, *, retrieval: Any, before: Any) -> Any:
            self.asked.append((queries, k, retrieval, before))
            return [[] for _ in queries]

        def citing_papers(self, *what: Any) -> Any:
            self.asked.append(what)
            return []

        referenced_papers = citing_papers

        def find_id(self, text: str) -> str | None:
            return None

        def info(self) -> dict[str, Any]:
            return {"kind": "paper-api"}

        def close(self) -> None:
            self.asked.append(("closed",))

    client: Any = Client()
    remote = RemoteSource(client)
    assert remote.search_papers(["a", "b"], 3, None) == [[], []]
    RemoteSource(client, "dense").search_papers(["a"], 3, 20200101)
    remote.citing_papers("x", 30, None)
    remote.referenced_papers("x", 99, 7)
    assert (remote.retrieval, remote.digest, remote.store) == ("", "", None)
    assert remote.locate(["x"]) == {} and remote.find_id("x") is None
    assert told_source(remote) == {"digest": "", "kind": "paper-api"}
    remote.close()
    assert client.asked == [
        (["a", "b"], 3, None, None), (["a"], 3, "dense", 20200101), ("x", 30, None), ("x", 99, 7),
        ("closed",),
    ]  # fmt: skip
