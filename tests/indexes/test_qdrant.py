"""Qdrant in a folder and behind its client: the same answers, in an order that never changes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from agentgym_suite.data import verify_folder
from agentgym_suite.errors import DataMissing, MissingExtra, RetrievalError, UsageError
from agentgym_suite.indexes import qdrant, qdrant_build, qdrant_embedded
from agentgym_suite.indexes.corpus import verify_corpus
from agentgym_suite.indexes.hits import Hits
from agentgym_suite.indexes.passages import RankedIndex
from agentgym_suite.indexes.qdrant import QdrantIndex
from agentgym_suite.indexes.qdrant_build import build_qdrant
from agentgym_suite.indexes.qdrant_points import PointOptions
from agentgym_suite.indexes.unfinished import explain_unfinished
from tests.indexes.hashing_encoder import HashingEncoder, passages, write_corpus

pytest.importorskip("qdrant_edge", reason="the extra retrieval is not installed")

ROOT = Path(__file__).parents[2]
ROWS = 400
DAYS = [20_200_101 + place % 12 * 100 + place % 28 for place in range(ROWS)]
QUERIES = ["river glass", "violin", "anchor pepper mirror", "quarry", "saddle ember lantern"]


def best(query: str, k: int, before: int | None = None, since: int | None = None) -> list[str]:
    """The ids as plain numpy ranks them: score descending, then id."""
    encoder = HashingEncoder()
    rows = passages(ROWS)
    vectors = encoder.encode_passages([f"{row['title']} {row['text']}" for row in rows])
    scores = vectors @ encoder.encode_queries([query])[0]
    allowed = [
        (-round(float(score), 6), row["id"])
        for score, row, day in zip(scores, rows, DAYS, strict=True)
        if (before is None or day < before) and (since is None or day >= since)
    ]
    return [identifier for _, identifier in sorted(allowed)[:k]]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "corpus.jsonl", passages(ROWS))


@pytest.fixture(scope="module")
def folder(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("embedded") / "index"
    build_qdrant(out, corpus, encoder=HashingEncoder(), days=DAYS)
    return out


@pytest.fixture
def index(folder: Path) -> Iterator[QdrantIndex]:
    opened = QdrantIndex.open(folder, HashingEncoder())
    yield opened
    opened.close()


def test_the_order_is_by_score_then_id_at_every_cut(index: QdrantIndex) -> None:
    assert isinstance(index, RankedIndex)
    for query in QUERIES:
        everything = best(query, ROWS)
        for k in (1, 2, 9, 10, 50, ROWS, 10 * ROWS):
            hits = index.search(query, k)
            assert list(hits.ids) == everything[:k], (query, k)
            assert list(hits.scores) == sorted(hits.scores, reverse=True)


def test_equal_scores_beyond_what_was_fetched_are_fetched_too(tmp_path: Path) -> None:
    rows = [{"id": f"p{999 - number}", "title": "same", "text": "text"} for number in range(60)]
    corpus = write_corpus(tmp_path / "corpus.jsonl", rows)
    build_qdrant(tmp_path / "index", corpus, encoder=HashingEncoder())
    index = QdrantIndex.open(tmp_path / "index", HashingEncoder())
    ids = sorted(row["id"] for row in rows)
    assert list(index.search("same text", 3).ids) == ids[:3]
    assert list(index.search("same text", 59).ids) == ids[:59]


def test_days_are_filtered_before_the_cut(index: QdrantIndex) -> None:
    for since, before in ((None, 20_200_301), (20_201_105, None), (20_200_301, 20_200_310)):
        hits = index.search("river glass", 25, before, since=since)
        assert list(hits.ids) == best("river glass", 25, before, since)
    allowed = sum(day < 20_200_301 for day in DAYS)
    assert index.count(20_200_301) == allowed
    assert len(index.search("river", ROWS, 20_200_301)) == allowed
    assert index.search("river", 5, 20_200_101) == Hits((), ())
    assert index.search("river", 1, 20_200_102).ids[0] in best("river", ROWS, 20_200_102)


def test_one_batch_is_what_one_by_one_gives(index: QdrantIndex) -> None:
    queries = [*QUERIES, "", "  ", QUERIES[0]]
    assert index.search_batch(queries, 7) == [
        index.search(query, 7) if query.strip() else Hits((), ()) for query in queries
    ]
    found = index.retrieve(["river glass", ""], 3)
    assert [one.passage.id for one in found[0]] == list(index.search("river glass", 3).ids)
    assert found[0][0].passage.text and found[1] == []


def test_wrong_questions_are_refused(index: QdrantIndex, corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="k is 0"):
        index.search("river", 0)
    with pytest.raises(UsageError, match="give text"):
        index.search_batch([3], 1)  # type: ignore[list-item]
    with pytest.raises(RetrievalError, match=r"shape \(1, 5\).*dimension 32"):
        index.search_vectors(np.ones((1, 5)), 3)
    with pytest.raises(UsageError, match="not finite"):
        index.search_vectors(np.full((1, 32), np.nan), 3)
    build_qdrant(tmp_path / "undated", corpus, encoder=HashingEncoder())
    with pytest.raises(UsageError, match="no days"):
        QdrantIndex.open(tmp_path / "undated", HashingEncoder()).search("river", 3, 20_200_301)
    with pytest.raises(UsageError, match="399 values for 400 rows"):
        build_qdrant(tmp_path / "short", corpus, encoder=HashingEncoder(), days=DAYS[1:])
    with pytest.raises(UsageError, match="quantization is 'int4'"):
        PointOptions(quantization="int4")
    index.close()
    index.close()
    with pytest.raises(RetrievalError, match="was closed"):
        index.search("river", 1)


def test_another_encoder_is_refused_by_name(folder: Path) -> None:
    with pytest.raises(RetrievalError, match="'hashing' and is given 'other'"):
        QdrantIndex.open(folder, HashingEncoder(name="other"))
    with pytest.raises(RetrievalError, match="dim 32, not 16"):
        QdrantIndex.open(folder, HashingEncoder(dim=16))
    with pytest.raises(RetrievalError, match="open the index with encoder="):
        QdrantIndex.open(folder).search("river", 1)


@pytest.mark.parametrize("options", [PointOptions(), PointOptions(8, 32, "int8", on_disk=True)])
def test_the_graph_gives_one_list_whoever_asks(
    options: PointOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (qdrant, qdrant_build):
        monkeypatch.setattr(module, "EXACT_POINTS", 100)
    corpus = write_corpus(tmp_path / "corpus.jsonl", passages(1500))
    days = [20_200_101 + place % 28 for place in range(1500)]
    build_qdrant(tmp_path / "index", corpus, encoder=HashingEncoder(), days=days, options=options)
    verify_folder(tmp_path / "index")
    index = QdrantIndex.open(tmp_path / "index", HashingEncoder())
    exact = QdrantIndex.open(tmp_path / "index", HashingEncoder(), exact=True)
    assert index.info()["search_path"] == "graph, ef 64"
    assert exact.info()["search_path"] == "every point"
    for before in (None, 20_200_115):
        first = index.search_batch(QUERIES, 10, before)
        shared = [
            len({*hits.ids} & {*other.ids})
            for hits, other in zip(first, exact.search_batch(QUERIES, 10, before), strict=True)
        ]
        assert sum(shared) >= 0.9 * 10 * len(QUERIES)
        for _ in range(100):
            assert index.search_batch(QUERIES, 10, before) == first
        with ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(index.search, query, 10, before) for query in QUERIES * 10]
            assert [future.result() for future in asked] == first * 10
    # Searching changes no file: processes may share a folder, and it can still be verified.
    index.close()
    exact.close()
    verify_folder(tmp_path / "index")


def test_other_processes_may_use_it(index: QdrantIndex) -> None:
    wanted = index.search("river glass", 9)
    assert pickle.loads(pickle.dumps(index)).search("river glass", 9) == wanted
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(index.search, "river glass", 9).result(timeout=120) == wanted
    # Forked after the parent has searched, with the parent's own object.
    inherit, send = multiprocessing.get_context("fork"), multiprocessing.Pipe(False)
    child = inherit.Process(target=lambda: send[1].send(index.search("river glass", 9)))
    child.start()
    assert send[0].poll(60), "the forked child hangs"
    assert send[0].recv() == wanted
    child.join(60)
    assert child.exitcode == 0
    assert index.search("river glass", 9) == wanted


# --- building -----------------------------------------------------------------------

BUILDER = """
import sys
from agentgym_suite.indexes.qdrant_build import build_qdrant
from tests.indexes.hashing_encoder import HashingEncoder
build_qdrant(sys.argv[1], sys.argv[2], encoder=HashingEncoder(pause=0.01), shard_rows=50)
"""


def test_killed_between_shards_it_goes_on(corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    shards = tmp_path / "index.partial" / "shards"
    command = [sys.executable, "-c", BUILDER, str(folder), str(corpus)]
    process = subprocess.Popen(command, cwd=ROOT)
    deadline = time.monotonic() + 120
    while len(list(shards.glob("0*.npy"))) < 2 and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    finished = len(list(shards.glob("0*.npy")))
    assert 2 <= finished < 8
    assert not (tmp_path / "index.partial" / "manifest.json").exists()
    said = explain_unfinished(folder)
    assert said is not None and "index build qdrant" in said and "of 400 rows" in said
    with pytest.raises(DataMissing):
        QdrantIndex.open(folder, HashingEncoder())
    encoder = HashingEncoder()
    build_qdrant(folder, corpus, encoder=encoder, shard_rows=50)
    assert encoder.calls == [50] * (8 - finished)
    hits = QdrantIndex.open(folder, encoder).search("river glass", 9)
    assert list(hits.ids) == best("river glass", 9)


def test_killed_while_points_are_written_nothing_is_encoded_again(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(self: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(qdrant_embedded.EmbeddedWriter, "finish", killed)
    with pytest.raises(KeyboardInterrupt):
        build_qdrant(tmp_path / "index", corpus, encoder=HashingEncoder())
    assert not list(tmp_path.rglob("manifest.json"))
    monkeypatch.undo()
    encoder = HashingEncoder()
    manifest = build_qdrant(tmp_path / "index", corpus, encoder=encoder)
    assert encoder.calls == []
    assert manifest.counts == {"rows": ROWS, "dim": 32}
    assert not [name for name in manifest.files if "shards" in name or "stage" in name]
    verify_folder(tmp_path / "index")
    verify_corpus(tmp_path / "index", manifest)


def test_progress_names_every_phase(corpus: Path, tmp_path: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    build_qdrant(
        tmp_path / "index",
        corpus,
        encoder=HashingEncoder(),
        progress=lambda *one: told.append(one),
    )
    assert ("encode", ROWS, ROWS) in told
    assert ("write points", ROWS, ROWS) in told
    assert ("build graph", ROWS, ROWS) in told


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_explained(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    for path in copy.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        with pytest.raises(RetrievalError, match="opens its files for writing"):
            QdrantIndex.open(copy, HashingEncoder())
    finally:
        for path in copy.rglob("*"):
            path.chmod(0o755)


def test_without_the_engine_the_install_line_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "qdrant_edge", None)
    with pytest.raises(MissingExtra, match=r"agentgym-suite\[retrieval\]"):
        QdrantIndex.open(folder, HashingEncoder())
