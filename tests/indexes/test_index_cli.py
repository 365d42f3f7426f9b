"""The command `agentgym-suite index`, from documents to hits, and its one-sentence errors."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from agentgym_suite.data import Contents, load_manifest, publish
from agentgym_suite.errors import (
    AgentGymSuiteError,
    DataDamaged,
    DataError,
    DataMissing,
    RetrievalError,
    UsageError,
)
from agentgym_suite.indexes import bm25_build, cli
from agentgym_suite.indexes.dense_build import build_dense
from agentgym_suite.indexes.opening import open_index
from agentgym_suite.indexes.remote import RemoteIndex
from tests.indexes.hashing_encoder import HashingEncoder, open_without_address

DOCUMENTS = {"B2": "Blue shoes", "B1": "blue shoes", "B3": "A red hat"}


def run(*words: str | Path) -> int:
    parser = argparse.ArgumentParser()
    cli.register(parser.add_subparsers(required=True))
    arguments = parser.parse_args(["index", *map(str, words)])
    return int(arguments.run(arguments))


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    lines = [json.dumps({"id": name, "contents": text}) for name, text in DOCUMENTS.items()]
    path = tmp_path / "documents.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def index(documents: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    folder = tmp_path / "index"
    assert run("build", "bm25", "--corpus", documents, "--out", folder) == 0
    assert "documents: 3" in capsys.readouterr().out
    return folder


def test_search_prints_ranks_scores_and_ids(
    index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("search", index, "SHOES", "-k", "5") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[::2] for line in lines] == [
        ["1", "B1", "shoes"],
        ["2", "B2", "shoes"],
    ]
    assert lines[0].split()[1] == lines[1].split()[1]


def test_search_shows_titles_and_the_beginning_of_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"title": "Red  shoe", "text": "A shoe,\nred " + "and worn " * 40}
    (tmp_path / "corpus.jsonl").write_text(json.dumps(row))
    assert run("build", "fts5", "--corpus", tmp_path / "corpus.jsonl", "--out", tmp_path / "i") == 0
    capsys.readouterr()
    assert run("search", tmp_path / "i", "shoe") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("  0  Red shoe")
    assert second.strip().startswith("A shoe, red and worn") and second.endswith("…")
    assert len(second) == 106


def test_an_index_of_bare_documents_shows_ids(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bm25_build.build(tmp_path / "bare", DOCUMENTS.items(), inputs={})
    assert run("search", tmp_path / "bare", "SHOES", "-k", "5") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [(rank, name) for rank, _, name in lines] == [("1", "B1"), ("2", "B2")]
    assert float(lines[0][1]) == pytest.approx(float(lines[1][1]) + 1e-6, abs=1e-9)


@pytest.mark.parametrize("kind", ["bm25", "fts5"])
def test_every_kind_is_built_described_and_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"title": "a", "text": "b c"}\n{"title": "d", "text": "e"}\n')
    folder = tmp_path / "index"
    assert run("build", kind, "--corpus", corpus, "--out", folder) == 0
    said = capsys.readouterr().out
    assert f"{kind}-index" in said and f"corpus path: {corpus}" in said and "corpus sha256" in said
    assert run("verify", folder) == 0
    corpus.write_text(corpus.read_text().replace("b c", "c b"))
    with pytest.raises(DataDamaged, match="has SHA-256"):
        run("verify", folder)


def test_restart_begins_anew_and_removes_nothing_else(
    documents: Path, index: Path, tmp_path: Path
) -> None:
    documents.write_text('{"id": "B9", "contents": "another"}\n', encoding="utf-8")
    assert run("build", "bm25", "--corpus", documents, "--out", index, "--restart") == 0
    assert load_manifest(index).counts["documents"] == 1
    foreign = tmp_path / "foreign"
    publish(foreign, kind="tea", version=1, inputs={}, write=lambda _: Contents({}, {}))
    with pytest.raises(RetrievalError, match="holds a tea"):
        run("build", "bm25", "--corpus", documents, "--out", foreign, "--restart")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious.txt").write_text("x")
    with pytest.raises(DataError, match="was not made by this suite"):
        run("build", "bm25", "--corpus", documents, "--out", tmp_path / "mine", "--restart")
    assert (tmp_path / "mine" / "precious.txt").exists()


def test_a_hybrid_index_of_two(
    documents: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("faiss", reason="the extra retrieval is not installed")
    open_without_address(monkeypatch)
    words = ("--corpus", documents, "--out")
    assert run("build", "fts5", *words, tmp_path / "fts5", "--tokenizer", "unicode61") == 0
    build_dense(tmp_path / "dense", documents, encoder=HashingEncoder())
    sides = ("--sparse", tmp_path / "fts5", "--dense", tmp_path / "dense")
    assert run("build", "hybrid", *sides, "--out", tmp_path / "hybrid") == 0
    assert run("search", tmp_path / "hybrid", "shoes") == 0
    assert run("info", tmp_path / "hybrid") == run("verify", tmp_path / "hybrid") == 0
    for name in ("fts5", "dense", "hybrid"):
        capsys.readouterr()
        assert run("info", tmp_path / name) == 0
        index = open_index(tmp_path / name)
        assert f"  digest: {index.digest}\n" in capsys.readouterr().out
        index.close()
    for wrong in ((), sides[:2], sides[2:], (*words[:2], *sides)):
        with pytest.raises(UsageError, match="give --corpus.*or give --sparse and --dense"):
            run("build", "hybrid", *wrong, "--out", tmp_path / "no")


def test_nothing_found_is_said_on_stderr(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("search", index, "zebra") == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "nothing was found" in said.err


def test_info_and_verify(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("info", index) == 0
    text = capsys.readouterr().out
    assert "bm25-index" in text and "digest: sha256:" in text and "terms: 4" in text
    assert run("verify", index) == 0
    assert "15 files" in capsys.readouterr().out


def test_verify_finds_a_changed_byte(index: Path) -> None:
    path = index / "documents.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataDamaged, match=r"documents\.npy"):
        run("verify", index)


def test_a_second_build_reuses_or_refuses(documents: Path, index: Path) -> None:
    before = (index / "manifest.json").stat().st_mtime_ns
    assert run("build", "bm25", "--corpus", documents, "--out", index) == 0
    assert (index / "manifest.json").stat().st_mtime_ns == before
    documents.write_text('{"id": "B9", "contents": "another"}\n', encoding="utf-8")
    with pytest.raises(DataError, match="already holds"):
        run("build", "bm25", "--corpus", documents, "--out", index)


@pytest.mark.parametrize(
    "line",
    ["{", "[]", '{"id": "B1"}', '{"id": 3.5, "contents": "x"}', '{"title": "x"}', "\udcff"],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "documents.jsonl"
    text = '{"id": "B0", "contents": "fine"}\n' + line + "\n"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(DataDamaged, match=r"documents\.jsonl line 2 is not a passage"):
        run("build", "bm25", "--corpus", path, "--out", tmp_path / "index")
    assert not (tmp_path / "index").exists()


def test_a_line_nested_too_deeply_is_named(tmp_path: Path) -> None:
    path = tmp_path / "documents.jsonl"
    path.write_text("[" * 99_999)
    with pytest.raises(DataDamaged, match=r"documents\.jsonl is damaged at byte 1"):
        run("build", "bm25", "--corpus", path, "--out", tmp_path / "index")


def test_a_byte_order_mark_is_no_damage(documents: Path, index: Path, tmp_path: Path) -> None:
    marked = tmp_path / "marked.jsonl"
    marked.write_bytes(b"\xef\xbb\xbf" + documents.read_bytes())
    assert run("build", "bm25", "--corpus", marked, "--out", tmp_path / "other") == 0
    one, other = (load_manifest(folder) for folder in (index, tmp_path / "other"))
    names = [name for name in one.files if not name.startswith("corpus/")]
    assert [one.files[name] for name in names] == [other.files[name] for name in names]


def test_a_truncated_archive_is_named(tmp_path: Path) -> None:
    path = tmp_path / "documents.jsonl.xz"
    path.write_bytes(b"\xfd7zXZ\x00\x00\x04")
    with pytest.raises(DataDamaged, match="cannot be unpacked"):
        run("build", "bm25", "--corpus", path, "--out", tmp_path / "index")


@pytest.mark.parametrize("action", [["search", "{}", "x"], ["info", "{}"], ["verify", "{}"]])
def test_no_index_names_the_command(tmp_path: Path, action: list[str]) -> None:
    with pytest.raises(DataMissing, match="agentgym-suite index build fts5"):
        run(*(word.format(tmp_path) for word in action))


@pytest.mark.parametrize("place", ["", "."])
def test_a_folder_without_a_name(
    documents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(DataMissing, match="no index at"):
        run("info", place)
    assert run("build", "fts5", "--corpus", documents, "--out", place) == 0
    monkeypatch.chdir(tmp_path / "here")  # the one that was replaced is gone
    assert run("info", place) == run("verify", place) == 0


@pytest.mark.parametrize("words", [["info"], ["build", "fts5", "--corpus", "x", "--out"]])
def test_a_root_is_refused(words: list[str]) -> None:
    with pytest.raises(UsageError, match="/ is a root, beside which nothing can be"):
        run(*words, "/")


def test_a_server_is_asked_and_not_looked_for_as_a_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    about = {"kind": "remote", "url": "http://h:1/retrieve", "rows": 12_000, "digest": "sha256:0"}
    monkeypatch.setattr(RemoteIndex, "info", lambda self: about)
    assert run("info", "HTTP://h:1") == 0
    said = "remote index at http://h:1/retrieve\n  rows: 12,000\n  digest: sha256:0\n"
    assert capsys.readouterr().out == said
    with pytest.raises(UsageError, match="is a server; verify"):
        run("verify", "http://h:1")


def test_no_documents(tmp_path: Path) -> None:
    with pytest.raises(AgentGymSuiteError, match="there is no file"):
        run("build", "bm25", "--corpus", tmp_path / "no.jsonl", "--out", tmp_path / "index")
