"""Papers by words, by vectors and by both: dates before the fusion, and no silent half."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym_suite.data import load_manifest, verify_folder
from agentgym_suite.errors import DataMissing, RetrievalError, UsageError
from agentgym_suite.indexes.fusion import rrf
from agentgym_suite.indexes.hits import Hits
from agentgym_suite.indexes.paper_index import RETRIEVALS, PaperIndex
from agentgym_suite.indexes.paper_store import PaperStore
from agentgym_suite.indexes.paper_store_build import build_paper_store
from agentgym_suite.indexes.paper_vectors import ENGINES, build_paper_vectors, vectors_folder
from agentgym_suite.indexes.passages import RankedIndex
from tests.indexes.hashing_encoder import WORDS, HashingEncoder, write_corpus

pytest.importorskip("qdrant_edge", reason="the extra retrieval is not installed")
pytest.importorskip("faiss", reason="the extra retrieval is not installed")

PAPERS = 360
QUERIES = ["river glass", "violin and harbour", "anchor pepper mirror", "quarry winter"]


def papers(count: int = PAPERS) -> list[dict[str, Any]]:
    """Made-up papers of the years 2000 to 2019, some of them with a full date or none."""
    dice = np.random.default_rng(3)
    rows: list[dict[str, Any]] = []
    for number in range(count):
        words = [WORDS[place] for place in dice.integers(0, len(WORDS), 14)]
        row: dict[str, Any] = {
            "paper_id": f"X{(number * 7919) % 10_007:05}-{number % 9}",
            "title": " ".join(words[:3]),
            "abstract": " ".join(words[3:]) if number % 5 else None,
            "year": 2000 + number % 20 if number % 11 else None,
            "venue": "Even" if number % 2 == 0 else "Odd",
        }
        if number % 7 == 0 and row["year"]:
            row["published"] = f"{row['year']}0{1 + number % 9}15"
        rows.append(row)
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose vectors are by Qdrant beside it, and by FAISS in ``faiss``."""
    home = tmp_path_factory.mktemp("papers")
    corpus = write_corpus(home / "corpus.jsonl", papers())
    build_paper_store(home / "store", corpus)
    store = PaperStore.open(home / "store")
    build_paper_vectors(store, encoder=HashingEncoder())
    build_paper_vectors(store, home / "faiss", engine="faiss", encoder=HashingEncoder())
    store.close()
    return home / "store"


@pytest.fixture(params=ENGINES)
def index(request: pytest.FixtureRequest, folder: Path) -> Iterator[PaperIndex]:
    place = folder.parent / "faiss" if request.param == "faiss" else None
    opened = PaperIndex.open(folder, vectors=place, encoder=HashingEncoder())
    yield opened
    opened.close()


def by_vectors(store: PaperStore, query: str, before: int | None, since: int | None) -> list[str]:
    """Every paper of these days, as plain numpy ranks them."""
    encoder = HashingEncoder()
    kept = list(store.iterate())
    vectors = encoder.encode_passages([f"{one.title} {one.abstract}".strip() for one in kept])
    scores = vectors @ encoder.encode_queries([query])[0]
    pairs = [
        (-round(float(score), 6), paper.paper_id)
        for score, paper in zip(scores, kept, strict=True)
        if (before is None or paper.day < before) and (since is None or paper.day >= since)
    ]
    return [identifier for _, identifier in sorted(pairs)]


@pytest.mark.parametrize(
    ("since", "before"),
    [(None, None), (None, 20_050_101), (20_100_000, None), (20_030_000, 20_040_000)],
)
def test_each_way_is_what_its_parts_say(
    index: PaperIndex, since: int | None, before: int | None
) -> None:
    for query in QUERIES:
        sparse = index.store.search_sparse(query, 100, before, since=since).ids
        dense = by_vectors(index.store, query, before, since)[:100]
        both = [identifier for identifier, _ in rrf([sparse, dense])]
        for k in (1, 10, 100):
            found = {
                way: index.search(query, k, retrieval=way, before=before, since=since)
                for way in RETRIEVALS
            }
            assert list(found["sparse"].ids) == list(sparse[:k])
            assert list(found["dense"].ids) == dense[:k]
            assert list(found["hybrid"].ids) == both[:k]
            assert found["hybrid"] == index.search(query, k, before=before, since=since)


def test_beyond_a_hundred_the_lists_are_as_deep_as_the_answer(index: PaperIndex) -> None:
    sparse = index.store.search_sparse("river glass", 250).ids
    both = rrf([sparse, by_vectors(index.store, "river glass", None, None)[:250]])
    assert list(index.search("river glass", 250).ids) == [one for one, _ in both[:250]]
    everything = index.search("river glass", 10_000, retrieval="dense")
    assert len(everything) == PAPERS


def test_hidden_papers_take_no_place(index: PaperIndex) -> None:
    visible = int((index.store.days < 20_010_000).sum())
    assert 0 < visible < 30
    hits = index.search("river", 200, retrieval="dense", before=20_010_000)
    assert len(hits) == visible
    assert all(index.store.paper(one).day < 20_010_000 for one in hits.ids)
    for way in RETRIEVALS:
        assert index.search("river", 5, retrieval=way, before=19_000_000) == Hits((), ())


def test_a_further_filter_goes_as_deep_as_it_must(index: PaperIndex) -> None:
    def even(identifier: str) -> bool:
        return index.store.paper(identifier).venue == "Even"

    for before in (None, 20_080_000):
        wanted = [one for one in by_vectors(index.store, "river glass", before, None) if even(one)]
        hits = index.search("river glass", 100, retrieval="dense", before=before, keep=even)
        assert list(hits.ids) == wanted[:100]
        words = index.store.search_sparse("river glass", PAPERS, before).ids
        fused = rrf([[one for one in words if even(one)][:100], wanted[:100]])
        hits = index.search("river glass", 30, before=before, keep=even)
        assert list(hits.ids) == [one for one, _ in fused[:30]]
    nothing = index.search("river", 5, keep=lambda identifier: False)
    assert nothing == Hits((), ())


def test_pages_follow_one_another(index: PaperIndex) -> None:
    whole = index.search("river glass", 60)
    pages = [index.page("river glass", offset=start, limit=20) for start in (0, 20, 40)]
    assert [one for page in pages for one in page.hits.ids] == list(whole.ids)
    assert all(page.total >= 60 and page.more for page in pages)
    dated = index.page("river glass", limit=50, retrieval="dense", before=20_010_000)
    assert dated.total == len(dated.hits) and not dated.more
    far = index.page("river glass", offset=PAPERS, limit=10, retrieval="dense")
    assert far.hits == Hits((), ()) and far.total == PAPERS and not far.more
    with pytest.raises(UsageError, match="offset is -1"):
        index.page("river", offset=-1)


def test_one_batch_is_what_one_by_one_gives(index: PaperIndex) -> None:
    queries = [*QUERIES, "", " \n"]
    for way in RETRIEVALS:
        for before in (None, 20_050_101):
            batch = index.search_batch(queries, 8, retrieval=way, before=before)
            alone = [index.search(one, 8, retrieval=way, before=before) for one in QUERIES]
            assert batch == [*alone, Hits((), ()), Hits((), ())]


def test_the_same_list_a_hundred_times_and_in_threads(index: PaperIndex) -> None:
    first = index.search("river glass", 20, before=20_100_101)
    for _ in range(100):
        assert index.search("river glass", 20, before=20_100_101) == first
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(index.search, "river glass", 20, before=20_100_101) for _ in range(64)]
        assert all(future.result() == first for future in asked)
    assert pickle.loads(pickle.dumps(index)).search("river glass", 20, before=20_100_101) == first


def test_it_is_an_index_of_passages_too(index: PaperIndex) -> None:
    assert isinstance(index, RankedIndex)
    found = index.retrieve(["river glass", ""], 5)
    assert [one.passage.id for one in found[0]] == list(index.search("river glass", 5).ids)
    paper = index.store.paper(found[0][0].passage.id)
    assert found[0][0].passage.title == paper.title and found[1] == []
    info = json.loads(json.dumps(index.info()))
    assert info["retrievals"] == list(RETRIEVALS) and info["rows"] == len(index) == PAPERS
    assert info["vectors"]["encoder"]["name"] == "hashing" and info["digest"] == index.digest


def test_wrong_questions_are_refused(index: PaperIndex) -> None:
    with pytest.raises(UsageError, match="retrieval is 'fuzzy'"):
        index.search("river", 5, retrieval="fuzzy")
    with pytest.raises(UsageError, match="k is 0"):
        index.search("river", 0)
    with pytest.raises(UsageError, match="give text"):
        index.search(7, 5)  # type: ignore[arg-type]


def test_without_vectors_only_words_are_searched(tmp_path: Path) -> None:
    build_paper_store(tmp_path / "store", write_corpus(tmp_path / "corpus.jsonl", papers(40)))
    index = PaperIndex.open(tmp_path / "store")
    assert index.retrievals == ("sparse",)
    assert index.search("river", 5) == index.search("river", 5, retrieval="sparse")
    for way in ("dense", "hybrid"):
        with pytest.raises(RetrievalError, match="no vectors.*--dense qdrant"):
            index.search("river", 5, retrieval=way)
    with pytest.raises(DataMissing, match="no vectors at"):
        PaperIndex.open(tmp_path / "store", vectors=tmp_path / "nowhere")
    vectors_folder(tmp_path / "store").with_name("store-dense.partial").mkdir()
    with pytest.raises(DataMissing, match="not finished; repeat"):
        PaperIndex.open(tmp_path / "store")


def test_a_failing_side_is_an_error_and_no_half_answer(
    index: PaperIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: object, **options: object) -> None:
        raise RetrievalError("the engine is gone")

    monkeypatch.setattr(index.vectors, "search_batch", fails)
    assert index.search("river", 3, retrieval="sparse").ids
    for way in ("dense", "hybrid"):
        with pytest.raises(RetrievalError, match="the engine is gone"):
            index.search("river", 3, retrieval=way)


def test_vectors_of_another_store_are_refused(folder: Path, tmp_path: Path) -> None:
    rows = papers()
    rows[0]["title"] = "another title"
    build_paper_store(tmp_path / "store", write_corpus(tmp_path / "corpus.jsonl", rows))
    for place in (vectors_folder(folder), folder.parent / "faiss"):
        with pytest.raises(RetrievalError, match="build them again for this store"):
            PaperIndex.open(tmp_path / "store", vectors=place, encoder=HashingEncoder())
    with pytest.raises(RetrievalError, match="holds a paper-store, not the vectors"):
        PaperIndex.open(tmp_path / "store", vectors=folder)
    with pytest.raises(RetrievalError, match="'hashing' and is given 'other'"):
        PaperIndex.open(folder, encoder=HashingEncoder(name="other"))


def test_the_vectors_need_no_file_beside_them(folder: Path, tmp_path: Path) -> None:
    assert not list(folder.parent.glob("papers-*"))
    for engine, kind in zip(ENGINES, ("qdrant-index", "dense-index"), strict=True):
        place = folder.parent / "faiss" if engine == "faiss" else vectors_folder(folder)
        assert load_manifest(place).kind == kind
        verify_folder(place)
    # Built again, they are found there and nothing is encoded.
    store = PaperStore.open(folder)
    encoder = HashingEncoder()
    build_paper_vectors(store, encoder=encoder)
    assert encoder.calls == []
    with pytest.raises(UsageError, match="engine of the vectors is 'lance'"):
        build_paper_vectors(store, engine="lance")
    store.close()
