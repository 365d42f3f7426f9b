"""Builds of a dense index: equal every time, killed between shards, and told apart by inputs."""

from __future__ import annotations

import json
import lzma
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from agentgym_suite.data import load_manifest, verify_folder
from agentgym_suite.errors import (
    DataDamaged,
    DataError,
    DataMissing,
    DiskFull,
    RetrievalError,
    UsageError,
)
from agentgym_suite.indexes import dense_build, dense_kinds
from agentgym_suite.indexes.dense import DenseIndex
from agentgym_suite.indexes.dense_build import build_dense
from agentgym_suite.indexes.encoders import OnDone
from agentgym_suite.indexes.passages import Passage
from agentgym_suite.indexes.unfinished import explain_unfinished
from agentgym_suite.indexes.vector_shards import embedded_text
from tests.indexes.hashing_encoder import HashingEncoder, passages, write_corpus

pytest.importorskip("faiss", reason="the extra retrieval is not installed")

ROOT = Path(__file__).parents[2]
KINDS = ["Flat", "fp16", "SQ8", "HNSW32", "IVF8,SQ8"]
BUILDER = """
import sys
from tests.indexes.hashing_encoder import HashingEncoder
from agentgym_suite.indexes.dense_build import build_dense

build_dense(sys.argv[1], sys.argv[2], encoder=HashingEncoder(pause=0.002), index_type="Flat",
            shard_rows=50)
"""


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "corpus.jsonl", passages(400))


@pytest.mark.parametrize("kind", KINDS)
def test_two_builds_are_equal_byte_for_byte(kind: str, corpus: Path, tmp_path: Path) -> None:
    manifests = [
        build_dense(
            tmp_path / name, corpus, encoder=HashingEncoder(), index_type=kind, shard_rows=rows
        )
        for name, rows in (("one", 50_000), ("two", 70))
    ]
    assert manifests[0].files == manifests[1].files
    assert manifests[0].digest == manifests[1].digest
    assert manifests[0].counts == {"rows": 400, "dim": 32}
    assert set(manifests[0].files) == {
        "corpus/facts.json",
        "corpus/id_order.npy",
        "corpus/id_starts.npy",
        "corpus/ids.npy",
        "corpus/row_digests.npy",
        "corpus/row_starts.npy",
        "vectors.faiss",
        "vectors.json",
    }
    verify_folder(tmp_path / "two")


def test_the_manifest_says_what_it_was_built_from(corpus: Path, tmp_path: Path) -> None:
    encoder = HashingEncoder()
    manifest = build_dense(tmp_path / "index", corpus, encoder=encoder, index_type="IVF8,SQ8")
    assert manifest.kind == "dense-index"
    assert manifest.inputs["encoder"] == encoder.identity()
    assert manifest.inputs["metric"] == "ip"
    assert manifest.inputs["params"] == {"nlist": 8, "nprobe": 8, "seed": 1234}
    assert manifest.inputs["corpus"]["bytes"] == corpus.stat().st_size  # type: ignore[index, call-overload]
    assert "faiss-cpu" in manifest.notes["engines"]  # type: ignore[operator]
    hnsw = build_dense(tmp_path / "hnsw", corpus, encoder=encoder, index_type="HNSW32")
    assert hnsw.inputs["params"] == {"M": 32, "efConstruction": 200, "efSearch": 128}


def test_killed_between_shards_it_goes_on_and_gives_the_same(corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    command = [sys.executable, "-c", BUILDER, str(folder), str(corpus)]
    shards = tmp_path / "index.partial" / "shards"
    process = subprocess.Popen(command, cwd=ROOT)
    deadline = time.monotonic() + 60
    while len(list(shards.glob("0*.npy"))) < 2 and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    finished = {path.name: path.stat().st_mtime_ns for path in shards.glob("0*.npy")}
    assert 2 <= len(finished) < 8
    assert not (tmp_path / "index.partial" / "manifest.json").exists()
    said = explain_unfinished(folder)
    assert said is not None and "encode" in said and "of 400 rows" in said
    with pytest.raises(DataMissing):
        DenseIndex.open(folder, HashingEncoder())

    encoder = HashingEncoder()
    resumed = build_dense(folder, corpus, encoder=encoder, index_type="Flat", shard_rows=50)
    assert encoder.calls == [50] * (8 - len(finished))
    fresh = build_dense(tmp_path / "fresh", corpus, encoder=encoder, index_type="Flat")
    assert resumed.files == fresh.files


def test_killed_after_the_index_was_written_nothing_is_encoded_again(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    folder = tmp_path / "index"
    monkeypatch.setattr(dense_build.shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        build_dense(folder, corpus, encoder=HashingEncoder(), index_type="Flat")
    monkeypatch.undo()
    encoder = HashingEncoder()
    manifest = build_dense(folder, corpus, encoder=encoder, index_type="Flat")
    assert encoder.calls == []
    assert "vectors.faiss" in manifest.files
    assert not [name for name in manifest.files if "shards" in name]


def test_shards_of_another_encoder_are_not_taken(corpus: Path, tmp_path: Path) -> None:
    class Failing(HashingEncoder):
        def encode_passages(
            self, texts: Sequence[str], on_done: OnDone | None = None
        ) -> NDArray[np.float32]:
            if len(self.calls) == 2:
                raise RuntimeError("out of memory")
            return super().encode_passages(texts, on_done)

    folder = tmp_path / "index"
    with pytest.raises(RuntimeError):
        build_dense(folder, corpus, encoder=Failing(), index_type="Flat", shard_rows=100)
    other = HashingEncoder(name="other")
    build_dense(folder, corpus, encoder=other, index_type="Flat", shard_rows=100)
    assert other.calls == [100] * 4


def test_a_finished_folder_is_returned_untouched_and_others_are_refused(
    corpus: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "index"
    first = build_dense(folder, corpus, encoder=HashingEncoder(), index_type="Flat")
    encoder = HashingEncoder()
    assert build_dense(folder, corpus, encoder=encoder, index_type="Flat") == first
    assert build_dense(folder, corpus, encoder=encoder) == first  # auto: a small corpus is Flat
    assert encoder.calls == []
    with pytest.raises(DataError, match="already holds dense-index with inputs"):
        build_dense(folder, corpus, encoder=encoder, index_type="SQ8")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="was not made by this suite"):
        build_dense(tmp_path / "mine", corpus, encoder=encoder, index_type="Flat")


def test_progress_is_told_per_text_with_the_total(corpus: Path, tmp_path: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    build_dense(
        tmp_path / "index",
        corpus,
        encoder=HashingEncoder(),
        index_type="SQ8",
        shard_rows=150,
        progress=lambda phase, done, total: told.append((phase, done, total)),
    )
    encoded = [done for phase, done, total in told if phase == "encode" and total == 400]
    assert sorted(set(encoded)) == list(range(1, 401))
    assert encoded == sorted(encoded)
    assert ("train", 400, 400) in told
    assert ("assemble", 400, 400) in told


def test_auto_plans_for_the_memory_that_is_told(corpus: Path, tmp_path: Path) -> None:
    # 400 x 32 x 4 = 51,200 bytes do not fit into 0.6 x 60,000, half of them do
    manifest = build_dense(tmp_path / "index", corpus, encoder=HashingEncoder(), ram_bytes=60_000)
    assert manifest.inputs["index_type"] == "fp16"
    assert "do not fit" in str(manifest.notes["index_type_reason"])


def test_packed_corpora_and_lists_are_read_too(tmp_path: Path) -> None:
    rows = passages(30)
    packed = tmp_path / "corpus.jsonl.xz"
    packed.write_bytes(lzma.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    manifest = build_dense(tmp_path / "index", packed, encoder=HashingEncoder())
    assert manifest.counts["rows"] == 30
    found = DenseIndex.open(tmp_path / "index", HashingEncoder()).retrieve(
        [embedded_text(Passage("", rows[3]["title"], rows[3]["text"]))], 1
    )
    assert found[0][0].passage.title == rows[3]["title"]


def test_wrong_options_are_refused_before_anything_is_encoded(corpus: Path, tmp_path: Path) -> None:
    encoder = HashingEncoder()
    out = tmp_path / "index"
    with pytest.raises(UsageError, match="index type is 'PQ8'; give Flat, fp16"):
        build_dense(out, corpus, encoder=encoder, index_type="PQ8")
    with pytest.raises(UsageError, match="shard_rows is 0"):
        build_dense(out, corpus, encoder=encoder, shard_rows=0)
    with pytest.raises(UsageError, match="threads is 0"):
        build_dense(out, corpus, encoder=encoder, threads=0)
    with pytest.raises(DataMissing):
        build_dense(out, tmp_path / "none.jsonl", encoder=encoder)
    with pytest.raises(UsageError, match="encoder is 'bert', neither a folder nor one of minilm"):
        build_dense(out, corpus, encoder="bert")
    with pytest.raises(UsageError, match="has 512 lists and the corpus 400 rows"):
        build_dense(out, corpus, encoder=encoder, index_type="IVF512,SQ8")
    assert encoder.calls == []
    (tmp_path / "bad.jsonl").write_text('{"id": "1", "title": "t", "text": "x"}\n{"id": 3}\n')
    with pytest.raises(DataDamaged, match="line 2"):
        build_dense(out, tmp_path / "bad.jsonl", encoder=HashingEncoder())
    assert not out.exists()


def test_vectors_that_are_none_are_refused(corpus: Path, tmp_path: Path) -> None:
    class Broken(HashingEncoder):
        def encode_passages(
            self, texts: Sequence[str], on_done: OnDone | None = None
        ) -> NDArray[np.float32]:
            vectors = super().encode_passages(texts, on_done)
            vectors[-1, 0] = np.nan
            return vectors

    with pytest.raises(RetrievalError, match="a number that is not finite"):
        build_dense(tmp_path / "index", corpus, encoder=Broken(), index_type="Flat")
    wide = HashingEncoder()
    wide.dim = 33
    wide._vector = lambda text: np.zeros(32, np.float32)  # type: ignore[method-assign]
    with pytest.raises(RetrievalError, match=r"shape \(400, 32\) instead of \(400, 33\)"):
        build_dense(tmp_path / "index", corpus, encoder=wide, index_type="Flat")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_one_sentence_and_keeps_the_shards(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(index: object, path: Path) -> None:
        dense_kinds.write_index(index, Path("/dev/full"))

    monkeypatch.setattr(dense_build, "write_index", full)
    folder = tmp_path / "index"
    with pytest.raises(DiskFull, match="finished parts are kept"):
        build_dense(folder, corpus, encoder=HashingEncoder(), index_type="Flat")
    monkeypatch.undo()
    encoder = HashingEncoder()
    build_dense(folder, corpus, encoder=encoder, index_type="Flat")
    assert encoder.calls == []


def test_two_builders_at_once_make_one_index(corpus: Path, tmp_path: Path) -> None:
    waited: list[str] = []
    manifests = []

    def build() -> None:
        manifests.append(
            build_dense(
                tmp_path / "index",
                corpus,
                encoder=HashingEncoder(pause=0.001),
                index_type="Flat",
                on_wait=waited.append,
            )
        )

    threads = [threading.Thread(target=build) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert manifests[0] == manifests[1] == load_manifest(tmp_path / "index")
    assert len(waited) == 1
