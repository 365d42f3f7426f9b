"""Building: the same arrays by every way to them, and what a build refuses."""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym_suite.data import verify_folder
from agentgym_suite.errors import DataError, DiskFull, RetrievalError, UsageError
from agentgym_suite.files import write_array
from agentgym_suite.indexes import bm25_build, bm25_collect, bm25_files, bm25_invert
from agentgym_suite.indexes.analyzer import Analyzer
from agentgym_suite.indexes.bm25 import BM25Index
from agentgym_suite.indexes.bm25_build import build


def texts(count: int) -> list[tuple[str, str]]:
    draw = random.Random(3)
    words = [f"word{number}s" for number in range(200)]
    documents = [(f"D{n:04}", " ".join(draw.choices(words, k=n % 40))) for n in range(count)]
    draw.shuffle(documents)
    return documents


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several batches and several ranges, as a large build has."""
    monkeypatch.setattr(bm25_invert, "_BATCH_DOCUMENTS", 17)
    monkeypatch.setattr(bm25_build, "_RANGE_BITS", 5)


def test_postings_are_those_of_the_documents(tmp_path: Path) -> None:
    documents = dict(texts(100))
    manifest = build(tmp_path / "index", documents.items(), inputs={"source": "test"})
    analyzer = Analyzer()
    terms = {name: analyzer(text) for name, text in documents.items()}
    names = sorted(documents)
    folder = tmp_path / "index"
    vocabulary = np.load(folder / bm25_files.TERMS).tobytes()
    starts = np.load(folder / bm25_files.TERM_STARTS)
    words = [vocabulary[a:b].decode() for a, b in zip(starts[:-1], starts[1:], strict=True)]
    assert words == sorted({term for found in terms.values() for term in found})
    numbers = np.load(folder / bm25_files.DOCUMENTS)
    pairs = np.load(folder / bm25_files.PAIR_TABLE)[np.load(folder / bm25_files.PAIRS)]
    posting_starts = np.load(folder / bm25_files.POSTING_STARTS)
    for word, a, b in zip(words, posting_starts[:-1], posting_starts[1:], strict=True):
        expected = [(n, terms[name].count(word)) for n, name in enumerate(names)]
        found = zip(numbers[a:b].tolist(), pairs[a:b, 0].tolist(), strict=True)
        assert list(found) == [(n, count) for n, count in expected if count]
    lengths = [len(terms[name]) for name in names]
    codes = np.load(folder / bm25_files.LENGTHS)
    assert codes.tolist() == bm25_files.length_codes(np.array(lengths)).tolist()
    assert pairs[:, 1].tolist() == codes[numbers].tolist()
    assert manifest.counts["postings"] == len(numbers)
    assert manifest.counts["tokens"] == sum(lengths)
    assert sorted(manifest.files) == sorted(path.name for path in folder.glob("*.npy"))
    assert verify_folder(folder).digest == manifest.digest


def test_order_of_documents_and_workers_change_nothing(tmp_path: Path) -> None:
    documents = texts(120)
    digests = {
        build(tmp_path / "as-they-come", documents, inputs={}).digest,
        build(tmp_path / "sorted", sorted(documents), inputs={}).digest,
        build(tmp_path / "two", documents[::-1], inputs={}, workers=2).digest,
    }
    assert len(digests) == 1


def test_equal_inputs_are_built_once(tmp_path: Path) -> None:
    build(tmp_path / "index", texts(5), inputs={"source": 1})

    def forbidden() -> Iterator[tuple[str, str]]:
        raise AssertionError("the documents were read again")
        yield

    build(tmp_path / "index", forbidden(), inputs={"source": 1})
    with pytest.raises(DataError, match="already holds"):
        build(tmp_path / "index", texts(5), inputs={"source": 2})


def test_a_failed_build_leaves_no_index_and_can_be_repeated(tmp_path: Path) -> None:
    def failing() -> Iterator[tuple[str, str]]:
        yield from texts(60)
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        build(tmp_path / "index", failing(), inputs={})
    assert not (tmp_path / "index").exists()
    again = build(tmp_path / "index", texts(60), inputs={})
    assert again.digest == build(tmp_path / "fresh", texts(60), inputs={}).digest
    assert not (tmp_path / "index.partial").exists()


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(bm25_collect, "_write_all", no_space)
    with pytest.raises(DiskFull, match="no space left"):
        build(tmp_path / "index", texts(60), inputs={})
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize("name", [bm25_files.IDS, bm25_files.PAIR_TABLE, bm25_files.LENGTHS])
def test_a_disk_that_is_full_for_an_array(tmp_path: Path, name: str) -> None:
    def failing() -> Iterator[tuple[str, str]]:
        raise RuntimeError("the source broke")
        yield

    with pytest.raises(RuntimeError, match="the source broke"):
        build(tmp_path / "index", failing(), inputs={})
    (tmp_path / "index.partial" / name).symlink_to("/dev/full")
    with pytest.raises(DiskFull, match="no space left"):
        build(tmp_path / "index", texts(60), inputs={})
    assert not (tmp_path / "index").exists()


def test_arrays_are_written_as_numpy_writes_them(tmp_path: Path) -> None:
    for array in (
        np.arange(6, dtype=np.int32).reshape(3, 2),
        np.asfortranarray(np.arange(6).reshape(3, 2)).T,
        np.zeros(0, np.uint8),
        np.linspace(0, 1, 9_999),
    ):
        write_array(tmp_path / "own.npy", array)
        np.save(tmp_path / "numpy.npy", array)
        assert (tmp_path / "own.npy").read_bytes() == (tmp_path / "numpy.npy").read_bytes()


def test_more_workers_than_batches_or_processors_are_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    start = bm25_invert._start

    def counting(lines: list[Any], processes: list[Any]) -> None:
        started.append(len(lines))
        start(lines, processes)

    monkeypatch.setattr(bm25_invert, "_start", counting)
    monkeypatch.setattr(bm25_invert.os, "cpu_count", lambda: 2)
    few = build(tmp_path / "few", texts(10), inputs={}, workers=300)
    assert started == [0]
    build(tmp_path / "many", texts(100), inputs={}, workers=300)
    assert started == [0, 0, 1]
    assert few.digest == build(tmp_path / "one", texts(10), inputs={}).digest


def test_an_id_that_no_file_can_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"lone surrogate \('D1\\udc80'\)"):
        build(tmp_path / "index", [("D1\udc80", "a b")], inputs={})
    build(tmp_path / "index", [("D1", "a \udc80 shirt\udc80s")], inputs={})
    assert BM25Index.open(tmp_path / "index").search("shirt").ids == ("D1",)


def test_an_id_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'D2' comes twice"):
        build(tmp_path / "index", [("D2", "a b"), ("D1", "c"), ("D2", "d")], inputs={})


def test_no_workers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="workers is 0"):
        build(tmp_path / "index", [], inputs={}, workers=0)


def test_a_dead_worker_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bm25_invert, "_serve", print)  # Ends at once, without an answer.
    with pytest.raises(RetrievalError, match="ended early"):
        build(tmp_path / "index", texts(60), inputs={}, workers=2)


@pytest.mark.parametrize("documents", [[], [("D1", "")], [("D1", "the of"), ("D2", "…")]])
def test_documents_without_a_term(tmp_path: Path, documents: list[tuple[str, str]]) -> None:
    build(tmp_path / "index", documents, inputs={})
    index = BM25Index.open(tmp_path / "index")
    assert len(index) == len(documents)
    assert len(index.search("anything")) == 0


def test_more_pairs_than_two_bytes_can_number(tmp_path: Path) -> None:
    # 300 x 250 distinct (frequency, length) pairs would be slow to make: two stand for them.
    many = bm25_collect.Collection.pair_keys
    try:
        bm25_collect.Collection.pair_keys = lambda self: np.union1d(  # type: ignore[method-assign]
            many(self), np.arange(70_000) << 8
        )
        manifest = build(tmp_path / "index", texts(40), inputs={})
    finally:
        bm25_collect.Collection.pair_keys = many  # type: ignore[method-assign]
    assert manifest.counts["pairs"] > 1 << 16
    build(tmp_path / "usual", texts(40), inputs={})
    wide, usual = BM25Index.open(tmp_path / "index"), BM25Index.open(tmp_path / "usual")
    assert wide.search("word7s word9s word11s") == usual.search("word7s word9s word11s")


def test_progress_names_its_phases(tmp_path: Path) -> None:
    calls: list[tuple[str, int, int | None]] = []
    build(tmp_path / "index", texts(50), inputs={}, progress=lambda *call: calls.append(call))
    assert [call for call in calls if call[0] == "analyse"][-1] == ("analyse", 50, None)
    assert [call for call in calls if call[0] == "invert"][-1] == ("invert", 50, 50)
