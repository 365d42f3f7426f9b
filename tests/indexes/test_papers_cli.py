"""Papers at the command line: build, search with dates, info, verify, errors in a sentence."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from agentgym_suite.errors import DataDamaged, DataMissing, RetrievalError, UsageError
from agentgym_suite.indexes import cli, encoders, qdrant_build
from agentgym_suite.indexes.paper_vectors import vectors_folder
from tests.indexes.hashing_encoder import HashingEncoder, passages, write_corpus

PAPERS = [
    {"paper_id": "A-1", "title": "River glass", "abstract": "An old river.", "year": 1999},
    {"paper_id": "B-2", "title": "Glass", "abstract": None, "published": "20050301"},
    {"paper_id": "C-3", "title": "Violin", "abstract": "A violin by the river.", "year": 2010},
]


def run(*words: str | Path) -> int:
    parser = argparse.ArgumentParser()
    cli.register(parser.add_subparsers(required=True))
    arguments = parser.parse_args(["index", *map(str, words)])
    return int(arguments.run(arguments))


@pytest.fixture
def files(tmp_path: Path) -> tuple[str | Path, ...]:
    corpus = write_corpus(tmp_path / "corpus.jsonl", PAPERS)
    (tmp_path / "citations.tsv").write_text("citing\tcited\nC-3\tA-1\n", encoding="utf-8")
    return "--corpus", corpus, "--citations", tmp_path / "citations.tsv"


@pytest.fixture
def hashing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name of an encoder opens the small one of the tests."""
    pytest.importorskip("qdrant_edge", reason="the extra retrieval is not installed")
    pytest.importorskip("faiss", reason="the extra retrieval is not installed")
    from agentgym_suite.indexes import dense_build, query_encoder

    for module in (encoders, dense_build, qdrant_build, query_encoder):
        monkeypatch.setattr(module, "open_encoder", lambda name, **options: HashingEncoder())


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_a_store_of_words(
    files: tuple[str | Path, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    assert run("build", "papers", *files, "--out", store) == 0
    assert any("papers: 3" in line for line in lines(capsys))
    assert not vectors_folder(store).exists()
    assert run("search", store, "river", "-k", "1") == 0
    first, abstract = lines(capsys)
    assert first.split()[::2] == ["1", "A-1", "River"] and " 1999 " in first
    assert abstract.strip() == "An old river."
    assert run("search", store, "glass", "--before", "2005-03") == 0
    assert [line.split()[2] for line in lines(capsys) if line.startswith("   1")] == ["A-1"]
    assert run("search", store, "violin", "--before", "20050301") == 0
    assert "nothing was found" in capsys.readouterr().err
    with pytest.raises(RetrievalError, match="no vectors.*--dense qdrant"):
        run("search", store, "river", "--retrieval", "hybrid")
    with pytest.raises(UsageError):
        run("search", store, "river", "--before", "yesterday")
    assert run("info", store) == 0
    assert any("paper-store" in line for line in lines(capsys))
    assert run("verify", store) == 0


@pytest.mark.usefixtures("hashing")
@pytest.mark.parametrize("engine", ["qdrant", "faiss"])
def test_vectors_are_added_later_and_checked(
    engine: str,
    files: tuple[str | Path, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from agentgym_suite.indexes import paper_index

    store = tmp_path / "store"
    run("build", "papers", *files, "--out", store)
    run("build", "papers", *files, "--out", store, "--dense", engine, "--encoder", "minilm")
    opened = paper_index.open_paper_vectors

    def with_encoder(folder: Path, papers: object, encoder: object, **options: object) -> object:
        return opened(folder, papers, HashingEncoder(), **options)  # type: ignore[arg-type]

    monkeypatch.setattr(paper_index, "open_paper_vectors", with_encoder)
    capsys.readouterr()
    for way in ("sparse", "dense", "hybrid"):
        assert run("search", store, "violin", "--retrieval", way, "-k", "1") == 0
        assert lines(capsys)[0].split()[2] == "C-3"
    assert run("search", store, "violin", "--retrieval", "dense", "--before", "2006") == 0
    assert {line.split()[2] for line in lines(capsys) if line[:4].strip().isdigit()} == {
        "A-1",
        "B-2",
    }
    assert run("verify", store) == 0
    damaged = next(path for path in vectors_folder(store).rglob("passages.jsonl"))
    damaged.write_bytes(damaged.read_bytes().replace(b"violin", b"guitar"))
    with pytest.raises(DataDamaged, match="SHA-256"):
        run("verify", store)
    run("build", "papers", *files, "--out", store, "--dense", engine, "--restart")
    assert run("verify", store) == 0


@pytest.mark.usefixtures("hashing")
def test_qdrant_for_passages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = write_corpus(tmp_path / "corpus.jsonl", passages(30))
    assert run("build", "qdrant", "--corpus", corpus, "--out", tmp_path / "q") == 0
    assert any(line.startswith("qdrant-index") for line in lines(capsys))
    assert run("verify", tmp_path / "q") == 0
    assert run("info", tmp_path / "q") == 0
    assert "points form: embedded" in capsys.readouterr().out


@pytest.mark.usefixtures("hashing")
def test_errors_are_one_sentence(files: tuple[str | Path, ...], tmp_path: Path) -> None:
    store = tmp_path / "store"
    with pytest.raises(UsageError, match="give its --url"):
        run(
            *("build", "papers", *files, "--out", store, "--dense", "qdrant"),
            *("--collection", "mine"),
        )
    assert not store.exists()
    with pytest.raises(DataMissing):
        run("search", store, "river")
    with pytest.raises(DataMissing):
        run("build", "papers", "--corpus", tmp_path / "nowhere", "--out", store)
    (tmp_path / "rows.jsonl").write_text(json.dumps({"title": "a", "text": "b"}))
    run("build", "fts5", "--corpus", tmp_path / "rows.jsonl", "--out", tmp_path / "fts5")
    with pytest.raises(UsageError, match="no store of papers"):
        run("search", tmp_path / "fts5", "a", "--before", "2005")
    (tmp_path / "fts5").rename(vectors_folder(store))
    with pytest.raises(RetrievalError, match="fts5-index, not vectors"):
        run("build", "papers", *files, "--out", store, "--dense", "qdrant", "--restart")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--encoder", "bge-m3"], "--encoder does nothing without --dense"),
        (["--on-disk"], "--on-disk does nothing without --dense"),
        (["--dense", "qdrant", "--index-type", "Flat"], "--index-type .* without --dense faiss"),
        (["--dense", "faiss", "--url", "http://h"], "--url does nothing without --dense qdrant"),
        (["--dense", "qdrant", "--timeout", "3"], "--timeout 3 is for no server"),
        (["--dense", "qdrant", "--url", "http://h", "--timeout", "0"], "--timeout is 0"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(
    options: list[str], named: str, files: tuple[str | Path, ...], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=named):
        run("build", "papers", *files, "--out", tmp_path / "store", *options)
    assert not (tmp_path / "store").exists()
