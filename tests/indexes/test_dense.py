"""The dense index: what it finds, in which order, in which process, and what it refuses."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym_suite.errors import DataDamaged, RetrievalError, UsageError
from agentgym_suite.indexes.dense import DenseIndex
from agentgym_suite.indexes.dense_build import build_dense
from agentgym_suite.indexes.passages import RankedIndex
from tests.indexes.hashing_encoder import WORDS, HashingEncoder, passages, write_corpus

faiss = pytest.importorskip("faiss", reason="the extra retrieval is not installed")

ROWS = 600
SCANS = ["faiss", "numpy", "bfloat16"]
KINDS = ["Flat", "fp16", "SQ8", "HNSW32", "IVF8,SQ8"]


def queries(count: int = 40) -> list[str]:
    dice = np.random.default_rng(9)
    return [" ".join(WORDS[place] for place in dice.integers(0, 20, 4)) for _ in range(count)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "corpus.jsonl", passages(ROWS))


@pytest.fixture(scope="module")
def folders(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("dense")
    for kind in KINDS:
        build_dense(home / kind, corpus, encoder=HashingEncoder(), index_type=kind)
    return {kind: home / kind for kind in KINDS}


@pytest.fixture
def index(folders: dict[str, Path]) -> Iterator[DenseIndex]:
    opened = DenseIndex.open(folders["Flat"], HashingEncoder())
    yield opened
    opened.close()


def expected(query: str, k: int) -> list[tuple[str, float]]:
    """Every passage scored in float64, cast once, sorted in plain Python."""
    encoder = HashingEncoder()
    wanted = encoder._vector(query).astype(np.float64)
    scored = []
    for row in passages(ROWS):
        own = encoder._vector(f"{row['title']} {row['text']}").astype(np.float64)
        scored.append((-float(np.float32((own * wanted).sum())), row["id"]))
    return [(name, -score) for score, name in sorted(scored)[:k]]


@pytest.mark.parametrize("scan", SCANS)
def test_results_are_exact_and_ties_come_by_id(folders: dict[str, Path], scan: str) -> None:
    if scan == "bfloat16":
        pytest.importorskip("torch", reason="torch is not installed")
    index = DenseIndex.open(folders["Flat"], HashingEncoder(), scan=scan)
    asked = queries(6)
    for query, hits in zip(asked, index.search_batch(asked, 25), strict=True):
        assert list(zip(hits.ids, hits.scores, strict=True)) == expected(query, 25)
    repeated = passages(ROWS)[9]  # "a00009" repeats "p00008" and sorts before it
    hits = index.search(f"{repeated['title']} {repeated['text']}", 2)
    assert hits.ids == ("a00009", "p00008")
    assert hits.scores[0] == hits.scores[1]


@pytest.mark.parametrize("kind", KINDS)
def test_one_batch_gives_exactly_what_one_by_one_gives(folders: dict[str, Path], kind: str) -> None:
    index = DenseIndex.open(folders[kind], HashingEncoder())
    asked = queries()
    single = [index.search(query, 10) for query in asked]
    assert index.search_batch(asked, 10) == single
    assert all(len(hits) == 10 for hits in single)
    for hits in single:
        pairs = list(zip((-score for score in hits.scores), hits.ids, strict=True))
        assert pairs == sorted(pairs)
    for size in (2, 5, 31):
        assert index.search_batch(asked[:size], 10) == single[:size]
    with_threads = DenseIndex.open(folders[kind], HashingEncoder(), threads=2)
    assert with_threads.search_batch(asked, 10) == single


@pytest.mark.parametrize("kind", KINDS)
def test_more_than_there_is_gives_what_there_is_and_no_padding(
    folders: dict[str, Path], kind: str
) -> None:
    index = DenseIndex.open(folders[kind], HashingEncoder())
    for hits in index.search_batch(queries(5), ROWS + 100):
        assert len(set(hits.ids)) == len(hits) <= ROWS
        assert min(hits.scores) >= -1.001
        if kind in ("Flat", "fp16", "SQ8"):
            assert len(hits) == ROWS


def test_it_is_a_ranked_index_whose_passages_are_fetched(index: DenseIndex) -> None:
    assert isinstance(index, RankedIndex)
    assert len(index) == ROWS
    query = queries(1)[0]
    hits = index.search(query, 3)
    [found] = index.retrieve([query], 3)
    assert [(one.passage.id, one.score) for one in found] == list(
        zip(hits.ids, hits.scores, strict=True)
    )
    assert [one.passage for one in found] == index.passages(hits.ids)
    with pytest.raises(RetrievalError, match="no passage with id 'nobody'"):
        index.passages(["nobody"])


def test_blank_queries_find_nothing_and_are_not_encoded(folders: dict[str, Path]) -> None:
    encoder = HashingEncoder()
    index = DenseIndex.open(folders["Flat"], encoder)
    assert index.retrieve(["", " \n\t"], 5) == [[], []]
    assert index.search_batch([], 5) == []
    assert encoder.calls == []
    found = index.search_batch(["", "river", " "], 5)
    assert [len(hits) for hits in found] == [0, 5, 0]


def test_a_query_is_encoded_once_and_different_ones_in_one_batch(
    folders: dict[str, Path],
) -> None:
    encoder = HashingEncoder()
    index = DenseIndex.open(folders["Flat"], encoder)
    index.search_batch(["river", "glass", "river", "ember"], 3)
    index.search_batch(["glass", "canal"], 3)
    index.search("river", 3)
    assert encoder.calls == [3, 1]


def test_of_a_long_query_the_beginning_counts(index: DenseIndex) -> None:
    long = "river " * 1_400
    assert index.search(long + "orchard " * 50_000, 3) == index.search(long[:8_192], 3)


def test_wrong_questions_are_refused(index: DenseIndex) -> None:
    for k in (0, -1, 2.5, True):
        with pytest.raises(UsageError, match="ask for at least 1 passage"):
            index.search("river", k)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="give a list of texts"):
        index.retrieve("river", 3)
    with pytest.raises(RetrievalError, match=r"shape \(2, 31\), the index .* has dimension 32"):
        index.search_vectors(np.zeros((2, 31), np.float32), 3)
    with pytest.raises(RetrievalError, match="dimension 32"):
        index.search_vectors(np.zeros(32, np.float32), 3)
    for strange in ([["a"] * 32], np.zeros((1, 32), complex), [[1.0], [1.0, 2.0]], None):
        with pytest.raises(UsageError, match="the query vectors"):
            index.search_vectors(strange, 3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="not finite"):
        index.search_vectors(np.full((1, 32), 1e300), 3)
    with pytest.raises(UsageError, match="queries is None; give a list of texts"):
        index.retrieve(None, 3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="not finite"):
        index.search_vectors(np.full((1, 32), np.nan, np.float32), 3)


def test_vectors_can_be_searched_without_an_encoder(folders: dict[str, Path]) -> None:
    index = DenseIndex.open(folders["Flat"])
    with_encoder = DenseIndex.open(folders["Flat"], HashingEncoder())
    asked = queries(7)
    vectors = HashingEncoder().encode_queries(asked)
    assert index.search_vectors(vectors.astype(np.float64), 9) == with_encoder.search_batch(
        asked, 9
    )
    assert index.search_vectors(vectors[:0], 9) == []
    with pytest.raises(RetrievalError, match="encoder 'hashing', which cannot be opened by its"):
        index.search("river", 3)


def test_an_encoder_of_another_kind_is_refused_with_both_names(folders: dict[str, Path]) -> None:
    with pytest.raises(RetrievalError) as caught:
        DenseIndex.open(folders["Flat"], HashingEncoder(dim=64, name="bge-large"))
    message = str(caught.value)
    assert "'hashing'" in message and "'bge-large'" in message
    assert "dim 32, not 64" in message
    same_name = HashingEncoder()
    identity = {**same_name.identity(), "weights_sha256": "0" * 64}
    same_name.identity = lambda: identity  # type: ignore[method-assign]
    with pytest.raises(RetrievalError, match="weights_sha256"):
        DenseIndex.open(folders["Flat"], same_name)


def test_info_says_what_it_is_and_how_it_is_searched(
    index: DenseIndex, folders: dict[str, Path]
) -> None:
    info = index.info()
    assert info["kind"] == "dense-index"
    assert (info["rows"], info["dim"], info["index_type"]) == (ROWS, 32, "Flat")
    assert info["encoder"] == HashingEncoder().identity()
    assert str(info["engine"]).startswith("FAISS ")
    path: Any = info["search_path"]
    assert path["batches"] == "faiss" and "small" in path["reason"]
    assert info["blas_threshold"] <= 128  # type: ignore[operator]
    assert index.digest == info["digest"]
    assert DenseIndex.open(folders["SQ8"]).info()["search_path"] is None
    assert DenseIndex.open(folders["SQ8"]).digest != index.digest
    with pytest.raises(UsageError, match="an index of type SQ8 has only 'faiss'"):
        DenseIndex.open(folders["SQ8"], scan="numpy")


def test_closed_it_refuses_to_search(folders: dict[str, Path]) -> None:
    index = DenseIndex.open(folders["Flat"], HashingEncoder())
    index.close()
    index.close()
    with pytest.raises(RetrievalError, match="was closed; open it again"):
        index.search("river", 3)


def test_pickling_keeps_the_address_and_the_options(folders: dict[str, Path]) -> None:
    index = DenseIndex.open(folders["Flat"], HashingEncoder(), scan="numpy", threads=1)
    data = pickle.dumps(index)
    assert len(data) < 1000
    copy = pickle.loads(data)
    assert copy.search_batch(queries(), 5) == index.search_batch(queries(), 5)
    assert copy.info() == index.info()


def test_threads_share_it(index: DenseIndex) -> None:
    asked = queries()
    wanted = [index.search(query, 5) for query in asked]
    index = pickle.loads(pickle.dumps(index))  # whose cache is empty
    wrong: list[str] = []

    def search(first: int) -> None:
        for place in range(len(asked)):
            chosen = (first * 5 + place) % len(asked)
            if index.search(asked[chosen], 5) != wanted[chosen]:
                wrong.append(asked[chosen])

    threads = [threading.Thread(target=search, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def _search_in_child(index: DenseIndex, results: Any) -> None:
    results.put(index.search_batch(queries(), 5))


# What newer Pythons say of every fork of a process with threads is what this test is about.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("scan", SCANS)
def test_a_child_searches_what_its_parent_has_searched(
    folders: dict[str, Path], method: str, scan: str
) -> None:
    if scan == "bfloat16":
        pytest.importorskip("torch", reason="torch is not installed")
    index = DenseIndex.open(folders["Flat"], HashingEncoder(), scan=scan, threads=2)
    wanted = index.search_batch(queries(), 5)  # the parent's thread pools exist from here on
    context = multiprocessing.get_context(method)
    results = context.Queue()
    child = context.Process(target=_search_in_child, args=(index, results))
    child.start()
    try:
        assert results.get(timeout=120) == wanted
    finally:
        child.join(30)
        if child.is_alive():
            child.kill()
    assert child.exitcode == 0
    assert index.search_batch(queries(), 5) == wanted


def _open_in_child(folder: Path, scan: str, results: Any) -> None:
    index = DenseIndex.open(folder, HashingEncoder(), scan=scan, threads=2)
    results.put(index.search_batch(queries(), 5))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_may_open_its_own_after_its_parent_has_searched(
    folders: dict[str, Path], method: str
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    for scan in SCANS:  # the thread pools of FAISS and torch exist after this
        index = DenseIndex.open(folders["Flat"], HashingEncoder(), scan=scan, threads=2)
        wanted = index.search_batch(queries(), 5)
    context = multiprocessing.get_context(method)
    for scan in SCANS if method == "fork" else SCANS[:1]:
        results = context.Queue()
        child = context.Process(target=_open_in_child, args=(folders["Flat"], scan, results))
        child.start()
        try:
            assert results.get(timeout=120) == wanted
        finally:
            child.join(30)
            if child.is_alive():
                child.kill()
        assert child.exitcode == 0


def test_a_damaged_or_foreign_folder_is_one_sentence(corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    build_dense(folder, corpus, encoder=HashingEncoder(), index_type="Flat")
    vectors = folder / "vectors.faiss"
    data = vectors.read_bytes()
    vectors.write_bytes(b"\0" * len(data))
    with pytest.raises(DataDamaged, match="is no FAISS index"):
        DenseIndex.open(folder, HashingEncoder())
    smaller = faiss.IndexFlatIP(16)
    smaller.add(np.zeros((2 * ROWS, 16), np.float32))
    faiss.write_index(smaller, str(vectors))
    with pytest.raises(DataDamaged, match="has dimension 16, its manifest says 32"):
        DenseIndex.open(folder, HashingEncoder())
    vectors.write_bytes(data[:-4])
    with pytest.raises(DataDamaged, match="bytes, not"):
        DenseIndex.open(folder, HashingEncoder())


def test_a_corpus_that_is_gone_or_changed_is_named(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    path = write_corpus(tmp_path / "there" / "corpus.jsonl", passages(20))
    build_dense(tmp_path / "index", path, encoder=HashingEncoder())
    path.write_text(path.read_text() + "\n")
    with pytest.raises(RetrievalError, match="bytes, the index"):
        DenseIndex.open(tmp_path / "index", HashingEncoder())
    path.unlink()
    with pytest.raises(RetrievalError, match="is gone"):
        DenseIndex.open(tmp_path / "index", HashingEncoder())
