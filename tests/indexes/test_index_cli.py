"""The command `agentgym-suite index`, from documents to hits, and its one-sentence errors."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from agentgym_suite.data import load_manifest
from agentgym_suite.errors import AgentGymSuiteError, DataDamaged, DataError, DataMissing
from agentgym_suite.indexes import cli

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
    assert run("build", "bm25", "--documents", documents, "--out", folder) == 0
    assert "documents: 3" in capsys.readouterr().out
    return folder


def test_search_prints_ranks_scores_and_ids(
    index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("search", index, "SHOES", "-k", "5") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [(rank, name) for rank, _, name in lines] == [("1", "B1"), ("2", "B2")]
    assert float(lines[0][1]) == pytest.approx(float(lines[1][1]) + 1e-6, abs=1e-9)


def test_nothing_found_is_said_on_stderr(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("search", index, "zebra") == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "no document" in said.err


def test_info_and_verify(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("info", index) == 0
    text = capsys.readouterr().out
    assert "bm25-index" in text and "digest: sha256:" in text and "terms: 4" in text
    assert run("verify", index) == 0
    assert "9 files" in capsys.readouterr().out


def test_verify_finds_a_changed_byte(index: Path) -> None:
    path = index / "documents.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataDamaged, match=r"documents\.npy"):
        run("verify", index)


def test_a_second_build_reuses_or_refuses(documents: Path, index: Path) -> None:
    before = (index / "manifest.json").stat().st_mtime_ns
    assert run("build", "bm25", "--documents", documents, "--out", index) == 0
    assert (index / "manifest.json").stat().st_mtime_ns == before
    documents.write_text('{"id": "B9", "contents": "another"}\n', encoding="utf-8")
    with pytest.raises(DataError, match="already holds"):
        run("build", "bm25", "--documents", documents, "--out", index)


@pytest.mark.parametrize(
    "line",
    ["{", "[]", '{"id": "B1"}', '{"id": 3, "contents": "x"}', '{"contents": "x"}', "\udcff"],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "documents.jsonl"
    text = '{"id": "B0", "contents": "fine"}\n' + line + "\n"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(DataDamaged, match=r"documents\.jsonl line \d is not a document"):
        run("build", "bm25", "--documents", path, "--out", tmp_path / "index")
    assert not (tmp_path / "index").exists()


def test_a_line_nested_too_deeply_is_named(tmp_path: Path) -> None:
    path = tmp_path / "documents.jsonl"
    path.write_text("[" * 99_999)
    with pytest.raises(DataDamaged, match=r"documents\.jsonl line 1 is not a document"):
        run("build", "bm25", "--documents", path, "--out", tmp_path / "index")


def test_a_byte_order_mark_is_no_damage(documents: Path, index: Path, tmp_path: Path) -> None:
    marked = tmp_path / "marked.jsonl"
    marked.write_bytes(b"\xef\xbb\xbf" + documents.read_bytes())
    assert run("build", "bm25", "--documents", marked, "--out", tmp_path / "other") == 0
    one, other = (load_manifest(folder) for folder in (index, tmp_path / "other"))
    assert one.digest == other.digest


def test_a_truncated_archive_is_named(tmp_path: Path) -> None:
    path = tmp_path / "documents.jsonl.xz"
    path.write_bytes(b"\xfd7zXZ\x00\x00\x04")
    with pytest.raises(DataDamaged, match="is not a document"):
        run("build", "bm25", "--documents", path, "--out", tmp_path / "index")


@pytest.mark.parametrize("action", [["search", "{}", "x"], ["info", "{}"], ["verify", "{}"]])
def test_no_index_names_the_command(tmp_path: Path, action: list[str]) -> None:
    with pytest.raises(DataMissing, match="agentgym-suite index build bm25"):
        run(*(word.format(tmp_path) for word in action))


def test_no_documents(tmp_path: Path) -> None:
    with pytest.raises(AgentGymSuiteError, match="no documents at"):
        run("build", "bm25", "--documents", tmp_path / "no.jsonl", "--out", tmp_path / "index")
