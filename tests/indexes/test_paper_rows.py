"""Reading papers and citations: every spelling, and what is wrong with a line."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite.errors import DataDamaged, DataMissing
from agentgym_suite.indexes.paper_rows import PaperRow, read_citations, read_papers


def row(tmp_path: Path, value: object) -> PaperRow:
    path = tmp_path / "papers.jsonl"
    path.write_text(json.dumps(value) + "\n", "utf-8")
    (found,) = read_papers(path)
    return found


def test_the_least_and_the_most(tmp_path: Path) -> None:
    assert row(tmp_path, {"paper_id": "A00-1009", "title": "T"}) == PaperRow("A00-1009", "T")
    nothing = dict.fromkeys(("arxiv_id", "abstract", "authors", "year", "published", "venue"))
    assert row(tmp_path, {"paper_id": "x", "title": None, **nothing}) == PaperRow("x", "")
    full = {
        "paper_id": " P1 ",
        "title": "A \ud800 title",
        "abstract": "words",
        "arxiv_id": "https://arxiv.org/abs/1706.03762v5",
        "authors": ["A. B.", {"name": "C. D.", "authorId": 7}],
        "year": 2017,
        "published": "2017-06-12",
        "venue": "V",
        "citation_count": 12,
        "aliases": ["CorpusId:7", " arXiv:1706.03762v1 ", " "],
        "unknown key": {},
    }
    found = row(tmp_path, full)
    assert found == PaperRow(
        "P1",
        "A \ufffd title",
        "words",
        "1706.03762",
        ("A. B.", "C. D."),
        2017,
        "20170612",
        "V",
        12,
        ("CorpusId:7", "1706.03762"),
    )
    assert found.day == 20170612


def test_an_arxiv_id_is_stored_bare(tmp_path: Path) -> None:
    found = row(tmp_path, {"paper_id": "arXiv:math.GT/0309136v2", "title": ""})
    assert (found.paper_id, found.arxiv_id, found.day) == ("math/0309136", "math/0309136", 20030999)
    found = row(tmp_path, {"arxiv_id": "2005.14165", "title": ""})
    assert (found.paper_id, found.arxiv_id) == ("2005.14165", "2005.14165")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([], "a list instead of an object"),
        ({}, "neither paper_id nor arxiv_id"),
        ({"paper_id": "  ", "title": ""}, "neither paper_id nor arxiv_id"),
        ({"paper_id": 7}, "paper_id is 7, not text"),
        ({"paper_id": "x", "title": 3}, "title is 3, not text"),
        ({"paper_id": "x", "arxiv_id": "17.3"}, "which is no arXiv id"),
        ({"paper_id": "x", "year": "2017"}, "year is .*not a count"),
        ({"paper_id": "x", "year": True}, "year is true, not a count"),
        ({"paper_id": "x", "year": 0}, "year is 0, not one of our era"),
        ({"paper_id": "x", "year": 10_000}, "not one of our era"),
        ({"paper_id": "x", "published": "2017-13"}, "published: .*is no date"),
        ({"paper_id": "x", "published": [2017]}, "published is .*not a date"),
        ({"paper_id": "x", "authors": "A. B."}, "authors is .*not a list"),
        ({"paper_id": "x", "authors": [1]}, "neither a name nor"),
        ({"paper_id": "x", "aliases": [1]}, "aliases has 1, not text"),
        ({"paper_id": "x", "citation_count": 10**23}, "citation_count is .*more than"),
        ({"paper_id": "a\nb"}, "paper_id is .*control character"),
        ({"paper_id": "a\x00b"}, "paper_id is .*control character"),
        ({"paper_id": "a\u2028b"}, "paper_id is .*control character"),
        ({"paper_id": "a\ud800"}, "paper_id is .*control character"),
        ({"paper_id": "x" * 257}, "paper_id has 257 characters, at most 256"),
        ({"paper_id": "x", "aliases": ["y\tz"]}, "one of the aliases is .*control character"),
        ({"paper_id": "x", "citation_count": -1}, "citation_count is -1, not a count"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, value: object, reason: str) -> None:
    path = tmp_path / "papers.jsonl"
    path.write_text('{"paper_id": "good", "title": "t"}\n\n' + json.dumps(value) + "\n")
    with pytest.raises(DataDamaged, match=f"papers.jsonl line 3 is not a paper.*{reason}"):
        list(read_papers(path))


PACKERS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("", bytes),
    (".gz", gzip.compress),
    (".xz", lzma.compress),
]


@pytest.mark.parametrize(("suffix", "pack"), PACKERS)
def test_packed_files(tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes]) -> None:
    papers = tmp_path / f"papers.jsonl{suffix}"
    papers.write_bytes(pack(b'{"paper_id": "x", "title": "t"}\n' * 3))
    assert len(list(read_papers(papers))) == 3
    citations = tmp_path / f"citations.tsv{suffix}"
    citations.write_bytes(pack("citing\tcited\r\nä \t b\n\n\nciting\tcited\n".encode()))
    assert list(read_citations(citations)) == [("ä", "b"), ("citing", "cited")]
    if suffix:
        for path, read in ((papers, read_papers), (citations, read_citations)):
            path.write_bytes(path.read_bytes()[:-9])
            reading: Any = read
            with pytest.raises(DataDamaged, match="line"):
                list(reading(path))


@pytest.mark.parametrize(
    "line", ["a", "a\t", "\tb", "a\tb\tc", "a b", '{"citing": "a"}', b"\xff\tb", "\t"]
)
def test_a_bad_citation_is_named(tmp_path: Path, line: str | bytes) -> None:
    path = tmp_path / "citations.tsv"
    path.write_bytes(b"a\tb\n" + (line.encode() if isinstance(line, str) else line) + b"\nx\ty\n")
    if not line.strip():
        assert list(read_citations(path)) == [("a", "b"), ("x", "y")]
        return
    with pytest.raises(DataDamaged, match=r"citations\.tsv line 2 is no citation"):
        list(read_citations(path))


def test_a_header_is_not_needed(tmp_path: Path) -> None:
    path = tmp_path / "citations.tsv"
    path.write_text("\ufeffa\tb\nc\td")
    assert list(read_citations(path)) == [("a", "b"), ("c", "d")]
    with pytest.raises(DataMissing, match="there is no file"):
        list(read_citations(tmp_path / "no.tsv"))
