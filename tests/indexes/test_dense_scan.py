"""Every way of scanning gives the same bits: against sums in float64, with ties and near ties."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_suite.errors import UsageError
from agentgym_suite.indexes import dense_path, dense_scan
from agentgym_suite.indexes.dense_path import choose_path
from agentgym_suite.indexes.dense_scan import (
    BfloatScan,
    Candidates,
    FaissScan,
    Floats,
    ListedScan,
    NumpyScan,
    Scan,
    best_rows,
    exact_scores,
    lower_blas_threshold,
)

faiss = pytest.importorskip("faiss", reason="the extra retrieval is not installed")

DIM = 48
Make = Callable[[Floats], Scan]


def flat(vectors: Floats) -> FaissScan:
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return FaissScan(index, vectors, longest(vectors))


def longest(vectors: Floats) -> float:
    return float(np.linalg.norm(vectors.astype(np.float64), axis=1).max())


def numpy_scan(vectors: Floats) -> NumpyScan:
    return NumpyScan(vectors, longest(vectors))


def bfloat(vectors: Floats) -> BfloatScan:
    pytest.importorskip("torch", reason="torch is not installed")
    return BfloatScan(vectors, longest(vectors))


WAYS: list[Make] = [flat, numpy_scan, bfloat]


def hard_vectors(rows: int, seed: int = 0) -> Floats:
    """Unit vectors in tight clusters, with exact repeats and ones that differ in a last bit."""
    dice = np.random.default_rng(seed)
    centres = dice.standard_normal((max(rows // 40, 1), DIM))
    vectors = centres[dice.integers(0, len(centres), rows)]
    vectors += dice.choice([1e-4, 0.02, 0.5], (rows, 1)) * dice.standard_normal((rows, DIM))
    unit = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    unit[1::7] = unit[:-1:7][: len(unit[1::7])]
    touched = unit[3::11]
    touched[:, 0] = np.nextafter(touched[:, 0], np.float32(2))
    return unit


def queries_for(vectors: Floats, count: int, seed: int = 1) -> Floats:
    dice = np.random.default_rng(seed)
    near = vectors[dice.integers(0, len(vectors), count)] + 0.05 * dice.standard_normal(
        (count, DIM)
    ).astype(np.float32)
    return np.asarray(near / np.linalg.norm(near, axis=1, keepdims=True), np.float32)


def expected(vectors: Floats, query: Floats, k: int) -> set[tuple[int, float]]:
    scores = [
        float(np.float32(np.sum(row.astype(np.float64) * query.astype(np.float64))))
        for row in vectors
    ]
    kth = sorted(scores, reverse=True)[min(k, len(scores)) - 1]
    return {(row, score) for row, score in enumerate(scores) if score >= kth}


def found(scan: Scan, queries: Floats, k: int, rows: int) -> list[set[tuple[int, float]]]:
    return [
        set(zip(best.tolist(), scores.tolist(), strict=True))
        for best, scores in best_rows(scan, queries, k, rows)
    ]


@pytest.mark.parametrize("make", WAYS)
@pytest.mark.parametrize("k", [1, 10, 100, 2999, 3000, 5000])
def test_every_way_finds_the_best_of_float64_with_all_their_ties(make: Make, k: int) -> None:
    vectors = hard_vectors(3000)
    queries = queries_for(vectors, 5)
    assert found(make(vectors), queries, k, len(vectors)) == [
        expected(vectors, query, k) for query in queries
    ]


@pytest.mark.parametrize("make", WAYS)
def test_batches_of_every_size_give_what_single_queries_give(make: Make) -> None:
    vectors = hard_vectors(4000)
    queries = queries_for(vectors, 40)
    scan = make(vectors)
    single = [found(scan, queries[place : place + 1], 10, 4000)[0] for place in range(40)]
    for size in (2, 3, 4, 5, 8, 32, 40):
        batched = []
        for start in range(0, 40, size):
            batched += found(scan, queries[start : start + size], 10, 4000)
        assert batched == single


@pytest.mark.parametrize("make", WAYS)
@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(1, 300), k=st.integers(1, 40), count=st.integers(1, 6), seed=st.integers(0, 99)
)
def test_any_shape(make: Make, rows: int, k: int, count: int, seed: int) -> None:
    vectors = hard_vectors(rows, seed)
    queries = queries_for(vectors, count, seed + 1)
    assert found(make(vectors), queries, k, rows) == [
        expected(vectors, query, k) for query in queries
    ]


@pytest.mark.parametrize("make", WAYS)
def test_no_row_that_is_not_listed_is_better_than_the_ceiling(make: Make) -> None:
    vectors = hard_vectors(2000) * np.float32(3)
    queries = queries_for(vectors, 20) * np.float32(0.2)
    for query, listed in zip(queries, make(vectors).candidates(queries, 30), strict=True):
        others = np.setdiff1d(np.arange(len(vectors)), listed.rows)
        assert exact_scores(vectors, others, query).max() <= listed.ceiling
        assert listed.ceiling < 0.9  # and it says something: the scores are up to 0.6


def test_a_score_depends_on_its_query_and_row_alone() -> None:
    vectors = hard_vectors(2500)
    query = queries_for(vectors, 1)[0]
    together = exact_scores(vectors, np.arange(2500), query)
    for rows in (np.arange(1), np.arange(3, 900, 7), np.arange(2499, -1, -1)):
        assert exact_scores(vectors, rows, query).tolist() == together[rows].tolist()


def test_a_bound_that_settles_nothing_is_widened_and_at_last_left_to_float32() -> None:
    dice = np.random.default_rng(0)
    # all scores lie closer together than bfloat16 can tell
    vectors = np.float32(1) + 1e-4 * dice.standard_normal((5000, DIM)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    queries = vectors[:3].copy()
    asked: list[int] = []

    class Loose(NumpyScan):
        def candidates(self, queries: Floats, count: int) -> list[Candidates]:
            asked.append(count)
            return [
                Candidates(listed.rows, listed.scores, np.inf)
                for listed in super().candidates(queries, count)
            ]

    fallback = flat(vectors)
    best = best_rows(Loose(vectors, 1.0), queries, 10, 5000, fallback)
    assert asked == [28, 56, 112, 224, 448]
    for query, (rows, scores) in zip(queries, best, strict=True):
        assert set(zip(rows.tolist(), scores.tolist(), strict=True)) == expected(vectors, query, 10)
    # without one it ends too: with every row listed
    asked.clear()
    best_rows(Loose(vectors, 1.0), queries[:1], 10, 5000)
    assert asked[-1] == 5000


def test_many_equal_rows_are_all_found() -> None:
    vectors = np.repeat(hard_vectors(3), 200, axis=0)
    query = vectors[:1].copy()
    for make in WAYS:
        rows, scores = best_rows(make(vectors), query, 5, 600)[0]
        assert set(rows.tolist()) >= set(range(200))
        assert len(set(scores.tolist())) == 1


@pytest.mark.parametrize("factory", ["SQfp16", "SQ8", "HNSW32,Flat", "IVF16,SQ8"])
def test_kinds_of_their_own_scores_are_the_same_in_batches_and_drop_padding(factory: str) -> None:
    vectors = hard_vectors(1500)
    index = faiss.index_factory(DIM, factory, faiss.METRIC_INNER_PRODUCT)
    index.train(vectors)
    index.add(vectors)
    scan = ListedScan(index, one_by_one=factory.startswith("IVF"))
    queries = queries_for(vectors, 33)
    single = [found(scan, queries[place : place + 1], 10, 1500)[0] for place in range(33)]
    assert found(scan, queries, 10, 1500) == single
    assert all(len(best) >= 10 for best in single)
    for best in found(scan, queries, 2000, 1500):
        assert 0 < len(best) <= 1500  # nprobe 1 reaches one list only
        assert min(row for row, _ in best) >= 0
        assert min(score for _, score in best) > -1.1


def test_the_blas_threshold_is_only_ever_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faiss.cvar, "distance_compute_blas_threshold", 128_000, raising=False)
    assert lower_blas_threshold(1024) == 4096
    assert lower_blas_threshold(384) == 1536
    assert lower_blas_threshold(1024) == 1536
    assert faiss.cvar.distance_compute_blas_threshold == 1536


def test_batches_that_would_take_too_much_memory_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = hard_vectors(500)
    queries = queries_for(vectors, 9)
    whole = found(numpy_scan(vectors), queries, 5, 500)
    monkeypatch.setattr(dense_scan, "_MOST_SCORES", 1200)
    assert found(numpy_scan(vectors), queries, 5, 500) == whole


def test_a_small_index_is_not_timed_and_a_name_is_obeyed() -> None:
    vectors = hard_vectors(100)
    chosen = choose_path(vectors, 1.0)
    assert (chosen.name, dict(chosen.estimated_ms)) == ("faiss", {})
    assert choose_path(vectors, 1.0, "numpy").name == "numpy"
    with pytest.raises(UsageError, match="scan is 'gpu'; give one of auto, faiss"):
        choose_path(vectors, 1.0, "gpu")


@pytest.fixture
def timed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_path, "_TIMED_FLOATS", 1000 * DIM)


@pytest.mark.usefixtures("timed_at_once")
def test_every_fit_way_is_timed_and_the_fastest_taken() -> None:
    vectors = hard_vectors(2000)
    chosen = choose_path(vectors, longest(vectors))
    assert chosen.timed_rows == 1000
    assert {"faiss", "numpy"} <= set(chosen.estimated_ms) <= {"faiss", "numpy", "bfloat16"}
    assert chosen.estimated_ms[chosen.name] == min(chosen.estimated_ms.values())
    assert chosen.to_json()["batches"] == chosen.name


def test_what_a_search_pays_once_is_not_taken_for_the_cost_of_its_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timed = {"faiss": [8.0, 2.0], "numpy": [9.0, 3.0], "bfloat16": [9.0, 6.0]}
    monkeypatch.setattr(dense_path, "_time", lambda *arguments: timed)
    monkeypatch.setattr(dense_path, "_TIMED_FLOATS", 400 * DIM)
    chosen = choose_path(hard_vectors(4000), 1.0)
    # 3,600 rows more: 6 ms and 3 ms for every 300 of them
    assert chosen.estimated_ms == {"faiss": 80.0, "numpy": 81.0, "bfloat16": 45.0}
    assert chosen.name == "bfloat16"


@pytest.mark.usefixtures("timed_at_once")
def test_bfloat16_is_left_out_where_it_cannot_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = hard_vectors(2000)
    monkeypatch.setattr(dense_path, "_multiplies_bfloat16", lambda: True)
    monkeypatch.setattr(dense_path, "available_memory", lambda: 1000)
    chosen = choose_path(vectors, longest(vectors))
    assert "bfloat16" not in chosen.estimated_ms
    monkeypatch.setattr(dense_path, "_multiplies_bfloat16", lambda: False)
    assert "the processor does not multiply it" in choose_path(vectors, 1.0).reason
    monkeypatch.setattr(dense_path, "find_spec", lambda name: None)
    assert "torch is not installed" in choose_path(vectors, 1.0).reason
    with pytest.raises(UsageError, match="needs torch"):
        choose_path(vectors, 1.0, "bfloat16")
