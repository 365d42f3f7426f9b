"""Building an FTS5 index: killed anywhere, by two at once, from a corpus that goes away."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agentgym_suite.data import load_manifest
from agentgym_suite.errors import (
    DataDamaged,
    DataError,
    DataMissing,
    RetrievalError,
    UsageError,
)
from agentgym_suite.files import partial_folder
from agentgym_suite.indexes import fts5_build
from agentgym_suite.indexes.cli import verify
from agentgym_suite.indexes.fts5 import FTS5Index
from agentgym_suite.indexes.fts5_build import build_fts5
from agentgym_suite.indexes.opening import open_index
from tests.indexes.corpus_files import passages, write_corpus

ROWS = passages(700)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "corpus.jsonl", ROWS)


KILLED = """
import os, signal, sys
from agentgym_suite.indexes import fts5_build, fts5_table
out, corpus, when = sys.argv[1:]
fts5_build._ROWS_AT_ONCE = 100
def kill():
    os.kill(os.getpid(), signal.SIGKILL)
def progress(phase, done, total):
    if f"{phase} {done}" == when or phase == when:
        kill()
def within(method, calls):
    original = getattr(fts5_table.FTS5Table, method)
    def wrapped(*args):
        nonlocal calls
        original(*args)
        calls -= 1
        if not calls:
            kill()
    setattr(fts5_table.FTS5Table, method, wrapped)
if when == "inside a batch":
    within("insert", 4)
if when == "inside the merge":
    within("finish", 1)
fts5_build.build_fts5(out, corpus, progress=progress)
"""


@pytest.mark.parametrize(
    ("when", "how_far"),
    [
        ("read corpus", "MB written"),
        ("index 100", "index: 100 of 700 rows"),
        ("inside a batch", "index: 300 of 700 rows"),
        ("index 700", "index: 700 of 700 rows"),
        ("merge", "index: 700 of 700 rows"),
        ("inside the merge", "index: 700 of 700 rows"),
        ("digest", "MB written"),
    ],
)
def test_a_killed_build_goes_on_and_gives_the_same(
    tmp_path: Path, corpus: Path, when: str, how_far: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "index"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(out), str(corpus), when])
    assert killed.returncode == -signal.SIGKILL
    with pytest.raises(DataMissing) as told:
        open_index(out)
    sentence = str(told.value)
    assert how_far in sentence and f"`agentgym-suite index build fts5 --corpus {corpus}" in sentence
    monkeypatch.setattr(fts5_build, "_ROWS_AT_ONCE", 100)
    done: list[int] = []
    resumed = build_fts5(
        out, corpus, progress=lambda phase, rows, _: done.append(rows) if phase == "index" else None
    )
    if how_far.startswith("index"):
        already = int(how_far.split()[1])
        assert done == list(range(already + 100, 701, 100))
    whole = build_fts5(tmp_path / "whole", corpus)
    assert resumed.files == whole.files
    assert not partial_folder(out).exists()
    index = FTS5Index.open(out)
    assert len(index.search("river stone", 10)) == 10
    index.close()


def test_a_killed_build_with_other_options_starts_clean(tmp_path: Path, corpus: Path) -> None:
    out = tmp_path / "index"
    subprocess.run([sys.executable, "-c", KILLED, str(out), str(corpus), "index 300"])
    assert partial_folder(out).is_dir()
    other = build_fts5(out, corpus, tokenizer="unicode61")
    assert other.files == build_fts5(tmp_path / "whole", corpus, tokenizer="unicode61").files


def test_two_builders_end_with_one_index(tmp_path: Path, corpus: Path) -> None:
    out = tmp_path / "index"
    begun, waiting = threading.Event(), threading.Event()
    said: list[str] = []
    made = []

    def hold(phase: str, done: int, total: int | None) -> None:
        if phase == "index":
            begun.set()
            waiting.wait(30)

    def second(sentence: str) -> None:
        said.append(sentence)
        waiting.set()

    first = threading.Thread(target=lambda: made.append(build_fts5(out, corpus, progress=hold)))
    first.start()
    begun.wait(30)
    made.append(build_fts5(out, corpus, on_wait=second))
    first.join()
    assert made[0] == made[1] == load_manifest(out)
    assert said == [f"another process is writing {os.path.realpath(out)}; waiting for it to finish"]
    verify(out)


def test_a_build_is_a_function_of_its_inputs(tmp_path: Path, corpus: Path) -> None:
    one, other = (build_fts5(tmp_path / name, corpus) for name in ("one", "other"))
    assert one == other and one.digest == other.digest
    before = (tmp_path / "one" / "manifest.json").stat().st_mtime_ns
    assert build_fts5(tmp_path / "one", corpus) == one
    assert (tmp_path / "one" / "manifest.json").stat().st_mtime_ns == before
    with pytest.raises(DataError, match="already holds"):
        build_fts5(tmp_path / "one", corpus, title_weight=1)


def test_the_order_of_the_rows_changes_no_result(tmp_path: Path, corpus: Path) -> None:
    build_fts5(tmp_path / "one", corpus)
    turned = write_corpus(tmp_path / "turned.jsonl", ROWS[::-1])
    build_fts5(tmp_path / "other", turned)
    one, other = FTS5Index.open(tmp_path / "one"), FTS5Index.open(tmp_path / "other")
    queries = [row.title for row in ROWS[:50]]
    assert one.retrieve(queries, 10) == other.retrieve(queries, 10)
    assert one.digest != other.digest
    one.close()
    other.close()


def test_a_corpus_that_goes_away(tmp_path: Path, corpus: Path) -> None:
    out = tmp_path / "made" / "index"
    build_fts5(out, corpus)
    index = open_index(out)
    expected = index.retrieve(["river"], 3)
    packed = pickle.dumps(index)
    index.close()
    whole = corpus.read_bytes()
    corpus.write_bytes(whole + b"\n")
    with pytest.raises(RetrievalError, match=f"has {len(whole) + 1} bytes, .* from {len(whole)}"):
        open_index(out)
    corpus.write_bytes(whole[::-1])
    with pytest.raises(DataDamaged, match="has SHA-256"):
        verify(out)
    changed = open_index(out)
    with pytest.raises(DataDamaged, match="changed since the index was built"):
        changed.retrieve(["river"], 3)
    changed.close()
    corpus.unlink()
    for opening in (lambda: open_index(out), lambda: pickle.loads(packed), lambda: verify(out)):
        with pytest.raises(RetrievalError, match=r"corpus\.jsonl of the index .* is gone"):
            opening()
    (out.parent / "corpus.jsonl").write_bytes(whole)  # a copy beside the index's folder will do
    moved = open_index(out)
    assert moved.retrieve(["river"], 3) == expected
    moved.close()
    verify(out)


def test_a_packed_corpus_may_go_away(tmp_path: Path, corpus: Path) -> None:
    import lzma

    packed = tmp_path / "corpus.jsonl.xz"
    packed.write_bytes(lzma.compress(corpus.read_bytes()))
    build_fts5(tmp_path / "index", packed)
    packed.unlink()
    index = open_index(tmp_path / "index")
    by_id = {row.id: row for row in ROWS}
    for found in index.retrieve(["river"], 5)[0]:
        assert by_id[found.passage.id] == found.passage
    index.close()
    verify(tmp_path / "index")


def test_a_corpus_that_changes_while_it_is_read(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = fts5_build.corpus_inputs

    def then_change(path: Path, progress: object) -> object:
        inputs = original(path)
        write_corpus(corpus, ROWS[1:])
        return inputs

    monkeypatch.setattr(fts5_build, "corpus_inputs", then_change)
    with pytest.raises(RetrievalError, match="changed while it was indexed"):
        build_fts5(tmp_path / "index", corpus)
    monkeypatch.undo()
    write_corpus(corpus, ROWS)  # the file that the unfinished build began with
    build_fts5(tmp_path / "index", corpus)
    index = FTS5Index.open(tmp_path / "index")
    assert len(index) == 700
    index.close()


def test_wrong_arguments_and_rows(tmp_path: Path, corpus: Path) -> None:
    for weight in (-1.0, float("nan"), 1000.5, 1e308):
        with pytest.raises(UsageError, match="give a number from 0 to 1000"):
            build_fts5(tmp_path / "index", corpus, text_weight=weight)
    with pytest.raises(UsageError, match="the weights of title and text are all 0"):
        build_fts5(tmp_path / "index", corpus, title_weight=0, text_weight=0)
    with pytest.raises(UsageError, match="tokenizer is 'klingon'; choose one of porter"):
        build_fts5(tmp_path / "index", corpus, tokenizer="klingon")
    with pytest.raises(DataMissing, match="there is no file"):
        build_fts5(tmp_path / "index", tmp_path / "no.jsonl")
    corpus.write_text("{")
    with pytest.raises(DataDamaged, match="line 1 is not a passage"):
        build_fts5(tmp_path / "index", corpus)
    assert not (tmp_path / "index").exists()


def test_the_index_holds_no_text_of_the_corpus(tmp_path: Path, corpus: Path) -> None:
    build_fts5(tmp_path / "index", corpus)
    database = (tmp_path / "index" / "index.sqlite").read_bytes()
    assert not any(row.text.encode() in database for row in ROWS if len(row.text) > 40)
