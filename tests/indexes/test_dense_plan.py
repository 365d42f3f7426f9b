"""Which index is recommended: the table of the specification, every rule, every refusal."""

from __future__ import annotations

import pytest

from agentgym_suite.errors import RetrievalError, UsageError
from agentgym_suite.indexes.dense_plan import list_count, machine_memory, recommend

GB = 10**9


@pytest.mark.parametrize(
    ("rows", "dim", "index_type", "mapped", "size_gb"),
    [
        (139_416, 1024, "Flat", False, 0.57),
        (509_308, 1024, "Flat", False, 2.09),
        (5_902_082, 1024, "IVF16384,SQ8", False, 6.2),
        (21_015_324, 768, "IVF32768,SQ8", True, 16.4),
    ],
)
def test_the_table_at_24_gb(
    rows: int, dim: int, index_type: str, mapped: bool, size_gb: float
) -> None:
    plan = recommend(rows, dim, 24 * GB)
    assert (plan.index_type, plan.mapped) == (index_type, mapped)
    assert plan.bytes / GB == pytest.approx(size_gb, abs=0.06)


def test_flat_is_estimated_by_memory_bandwidth() -> None:
    assert recommend(139_416, 1024, 24 * GB).estimated_ms == pytest.approx(25, abs=0.5)
    assert recommend(509_308, 1024, 24 * GB).estimated_ms == pytest.approx(92, abs=1.5)
    # 4 x 500,000 x 1024 bytes do not fit into 0.6 x 3 GB, half of them do
    fp16 = recommend(500_000, 1024, 3 * GB)
    assert fp16.index_type == "fp16"
    assert fp16.bytes == 2 * 500_000 * 1024
    assert fp16.estimated_ms == pytest.approx(0.42 * 4 * 500_000 * 1024 / 23e6)


def test_more_than_a_million_rows_get_a_graph_while_it_fits() -> None:
    assert recommend(1_000_000, 384, 64 * GB).index_type == "Flat"
    graph = recommend(1_000_001, 384, 64 * GB)
    assert graph.index_type == "HNSW32"
    assert graph.bytes == 1_000_001 * (4 * 384 + 256)
    assert recommend(3_000_000, 384, 64 * GB).index_type == "HNSW32"
    assert recommend(3_000_001, 384, 64 * GB).index_type == "IVF16384,SQ8"
    # 5.4 GB of a graph do not fit into 3 GB: groups of one byte a number do
    assert recommend(3_000_000, 384, 5 * GB).index_type == "IVF16384,SQ8"


def test_an_exact_index_that_does_not_fit_is_refused_with_the_bytes() -> None:
    assert recommend(139_416, 1024, 24 * GB, exact=True).index_type == "Flat"
    assert recommend(500_000, 1024, 3 * GB, exact=True).index_type == "fp16"
    with pytest.raises(RetrievalError, match=r"needs 24\.2 GB .* 14\.4 GB may be used"):
        recommend(5_902_082, 1024, 24 * GB, exact=True)


def test_mapped_says_what_a_query_reads_and_what_would_hold_it() -> None:
    reason = recommend(21_015_324, 768, 24 * GB).reason
    assert "16.4 GB do not fit into 14.4 GB" in reason
    assert "ms from a disk of 1 GB/s" in reason
    assert "27.3 GB of memory would hold it" in reason


def test_when_nothing_fits_the_bytes_and_the_smallest_plan_are_named() -> None:
    with pytest.raises(RetrievalError) as caught:
        recommend(21_015_324, 768, GB // 10)
    message = str(caught.value)
    assert "needs 16.4 GB as IVF32768,SQ8" in message
    assert "60.0 MB may be used" in message
    assert "fits a machine with 0.2 GB" in message


def test_list_counts_are_the_nearest_powers_of_two() -> None:
    assert [list_count(rows) for rows in (1, 64, 500_000, 5_902_082)] == [8, 64, 4096, 16384]
    assert list_count(36 * 36) == 256  # 288 is nearer to 256 than to 512
    assert list_count(48 * 48) == 256  # 384 lies in the middle: the smaller
    assert list_count(49 * 49) == 512


def test_numbers_below_one_are_refused() -> None:
    for arguments in ((0, 384, GB), (10, 0, GB), (10, 384, 0)):
        with pytest.raises(UsageError, match="give at least 1"):
            recommend(*arguments)


def test_the_memory_of_this_machine_is_known() -> None:
    assert machine_memory() > 1 << 28
