"""The offset store: both shapes, every packing, what is wrong in one sentence, and reading."""

from __future__ import annotations

import gzip
import json
import lzma
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.errors import DataDamaged, DataMissing, RetrievalError
from agentgym_suite.indexes.corpus import Corpus, corpus_inputs
from agentgym_suite.indexes.corpus_rows import prepare_corpus, read_passages
from agentgym_suite.indexes.passages import Passage, split_contents
from tests.indexes.corpus_files import passages, write_corpus

TITLED = [{"title": "Ann", "text": "a poet"}, {"title": "Bob", "text": "a\npainter é"}]
EXPECTED = [Passage("0", "Ann", "a poet"), Passage("1", "Bob", "a\npainter é")]


def opened(path: Path, folder: Path) -> Corpus:
    prepare_corpus(path, folder)
    return Corpus(path, folder)


def lines(rows: list[dict[str, object]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


PACKINGS: dict[str, Callable[[list[dict[str, object]]], bytes]] = {
    "corpus.jsonl": lines,
    "no-end.jsonl": lambda rows: lines(rows).rstrip(),
    "blank-lines.jsonl": lambda rows: b"\n \n" + lines(rows).replace(b"\n", b"\r\n\r\n"),
    "marked.jsonl": lambda rows: b"\xef\xbb\xbf" + lines(rows),
    "corpus.jsonl.gz": lambda rows: gzip.compress(lines(rows)),
    "corpus.jsonl.xz": lambda rows: lzma.compress(lines(rows)),
    "corpus.json": lambda rows: b" " + json.dumps(rows, indent=1).encode(),
    "list.jsonl": lambda rows: json.dumps(rows).encode(),
    "corpus.json.gz": lambda rows: gzip.compress(json.dumps(rows).encode()),
}


@pytest.mark.parametrize("name", PACKINGS)
@pytest.mark.parametrize("shape", ["titled", "contents"])
def test_every_packing_and_shape_gives_the_same(tmp_path: Path, name: str, shape: str) -> None:
    rows: list[dict[str, object]] = [dict(row) for row in TITLED]
    if shape == "contents":
        rows = [{"id": p.id, "contents": p.contents} for p in EXPECTED]
    path = tmp_path / name
    path.write_bytes(PACKINGS[name](rows))
    corpus = opened(path, tmp_path / "index")
    assert len(corpus) == 2
    assert [corpus.row(0), corpus.row(1)] == EXPECTED
    assert list(corpus.rows(range(2))) == list(read_passages(path)) == EXPECTED
    assert (corpus.position("1"), corpus.position("2"), corpus.position("x")) == (1, None, None)
    assert corpus.facts.sha256 == corpus_inputs(path)["sha256"]
    assert corpus.facts.bytes == path.stat().st_size
    assert corpus.facts.shape.startswith("id, contents" if shape == "contents" else "id, title")
    corpus.close()


@pytest.mark.parametrize(
    ("contents", "title", "text"),
    [
        ('"Ann"\na poet', "Ann", "a poet"),
        ("Ann\na\npoet", "Ann", "a\npoet"),
        ('""Ann""\nx', '"Ann"', "x"),
        ('"Ann\nx', '"Ann', "x"),
        ('"\nx', '"', "x"),
        ("", "", ""),
        ('""\n', "", ""),
        ('"A\x85B\u2028C"\rD\nx', '"A\x85B\u2028C"\rD', "x"),
    ],
)
def test_contents_are_split_at_the_first_line(contents: str, title: str, text: str) -> None:
    assert split_contents(contents) == (title, text)


@given(st.text().filter(lambda title: "\n" not in title), st.text())
def test_contents_and_back(title: str, text: str) -> None:
    assert split_contents(Passage("1", title, text).contents) == (title, text)


def test_ids_become_text_and_surrogates_u_fffd(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text(
        '{"id": 7, "title": "\\ud800", "text": "a\\u0000b"}\n{"id": "é", "contents": ""}'
    )
    corpus = opened(path, tmp_path / "index")
    assert corpus.row(0) == Passage("7", "\ufffd", "a\0b")
    assert corpus.position("7") == 0 and corpus.position("é") == 1
    corpus.close()


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("{", "Expecting"),
        ("[]", "list instead of an object"),
        ('{"id": "1"}', "neither 'contents' nor 'title' and 'text'"),
        ('{"id": "1", "contents": 3}', "neither 'contents'"),
        ('{"id": "1", "title": "x", "text": null}', "neither 'contents'"),
        ('{"id": true, "contents": "x"}', "id is True"),
        ('{"id": 1.5, "contents": "x"}', "id is 1.5"),
        ('{"id": "", "contents": "x"}', "id is empty"),
        ("\udcff", "utf-8"),
        ("[" * 99_999, "recursion"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, row: str, reason: str) -> None:
    path = tmp_path / "corpus.jsonl"
    text = '{"id": "0", "contents": "x"}\n\n' + row + "\n"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(DataDamaged, match=rf"corpus\.jsonl line 3 is not a passage.*{reason}"):
        prepare_corpus(path, tmp_path / "index")


def test_an_id_twice_is_named(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"id": "1", "contents": "x"}\n{"contents": "y"}\n')
    with pytest.raises(DataDamaged, match="has the id '1' in row 0 and again in row 1"):
        prepare_corpus(path, tmp_path / "index")


@pytest.mark.parametrize("name", ["empty.jsonl", "empty.json"])
def test_nothing_in_it(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("[]" if name.endswith(".json") else "\n \n")
    with pytest.raises(DataDamaged, match="holds no passage"):
        prepare_corpus(tmp_path / name, tmp_path / "index")


@pytest.mark.parametrize("damage", ["cut", "flipped", "foreign"])
def test_a_damaged_archive_is_named(tmp_path: Path, damage: str) -> None:
    packed = bytearray(gzip.compress(lines([dict(row) for row in TITLED]) * 100))
    if damage == "flipped":
        packed[15] ^= 0xFF
    path = tmp_path / "corpus.jsonl.gz"
    path.write_bytes({"cut": packed[:-9], "flipped": packed, "foreign": b"{}"}[damage])
    with pytest.raises(DataDamaged, match=r"corpus\.jsonl\.gz"):
        prepare_corpus(path, tmp_path / "index")
    with pytest.raises(DataDamaged, match=r"corpus\.jsonl\.gz"):
        list(read_passages(path))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match=r"there is no file .*no\.jsonl"):
        prepare_corpus(tmp_path / "no.jsonl", tmp_path / "index")


def test_positions_of_ids_in_any_order(tmp_path: Path) -> None:
    rows = passages(700)
    corpus = opened(write_corpus(tmp_path / "c.jsonl", rows), tmp_path / "index")
    assert [corpus.position(row.id) for row in rows] == list(range(700))
    ordered = [corpus.id(int(row)) for row in corpus.id_order]
    assert ordered == sorted(row.id for row in rows)
    assert list(corpus.rows(range(3, 690))) == rows[3:690]
    assert list(corpus.rows(range(690, 3, -7))) == rows[690:3:-7]
    assert corpus.passages([rows[5].id, rows[2].id]) == [rows[5], rows[2]]
    with pytest.raises(RetrievalError, match="no passage with id 'nobody'"):
        corpus.passages(["nobody"])
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(corpus.row, range(700))) == rows
    copy = pickle.loads(pickle.dumps(corpus))
    assert copy.row(9) == rows[9]
    copy.close()
    corpus.close()
    corpus.close()
    with pytest.raises(RetrievalError, match="was closed"):
        corpus.row(0)


def test_a_file_that_is_gone_or_changed(tmp_path: Path) -> None:
    path = write_corpus(tmp_path / "c.jsonl", passages(20))
    prepare_corpus(path, tmp_path / "index")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(
        RetrievalError, match=f"has {len(whole) - 1} bytes, the index .* built from {len(whole)};"
    ):
        Corpus(path, tmp_path / "index")
    path.write_bytes(whole.replace(b'"id": "p0"', b'"id": "q0"'))
    corpus = Corpus(path, tmp_path / "index")
    with pytest.raises(DataDamaged, match=r"c\.jsonl changed since the index was built .row 0"):
        corpus.row(0)
    path.write_bytes(b" " * len(whole))
    with pytest.raises(DataDamaged, match="changed since the index was built"):
        corpus.row(1)
    corpus.close()
    path.unlink()
    with pytest.raises(RetrievalError, match=r"c\.jsonl of the index .* is gone"):
        Corpus(path, tmp_path / "index")


def test_a_file_cut_after_it_was_opened_is_no_crash(tmp_path: Path) -> None:
    path = write_corpus(tmp_path / "c.jsonl", passages(2000))
    corpus = opened(path, tmp_path / "index")
    with path.open("r+b") as stream:
        stream.truncate(100)
    with pytest.raises(DataDamaged, match="changed since the index was built"):
        corpus.row(1999)
    corpus.close()


def test_an_edit_that_keeps_every_size_is_seen(tmp_path: Path) -> None:
    rows = passages(20)
    path = write_corpus(tmp_path / "c.jsonl", rows)
    corpus = opened(path, tmp_path / "index")
    whole = path.read_bytes()
    place = whole.index(b"river", whole.index(b"\n"))
    path.write_bytes(whole[:place] + b"RIVER" + whole[place + 5 :])
    row = whole[:place].count(b"\n")
    with pytest.raises(DataDamaged, match=rf"changed .* .row {row}: its digest differs"):
        list(corpus.rows(range(20)))
    assert corpus.row(row - 1) == rows[row - 1]
    corpus.close()
    (tmp_path / "index" / "corpus" / "row_digests.npy").unlink()  # as an older build left it
    older = Corpus(path, tmp_path / "index")
    assert "RIVER" in (older.row(row).title + older.row(row).text)
    older.close()


@pytest.mark.parametrize(
    "name", ["row_starts.npy", "ids.npy", "id_starts.npy", "id_order.npy", "row_digests.npy"]
)
def test_flipped_bytes_are_one_sentence(tmp_path: Path, name: str) -> None:
    rows = passages(20)
    prepare_corpus(write_corpus(tmp_path / "c.jsonl", rows), tmp_path / "index")
    array = tmp_path / "index" / "corpus" / name
    whole = array.read_bytes()
    for place in range(len(whole)):
        array.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            corpus = Corpus(tmp_path / "c.jsonl", tmp_path / "index")
            for number, row in enumerate(rows):
                assert corpus.row(number) == row
                corpus.position(row.id)
        except DataDamaged as error:
            assert "is damaged" in str(error) or "changed since" in str(error)
        else:  # the blanks of the header, or an order by which one id is not found
            assert place < 128 or name == "id_order.npy"
            corpus.close()


def test_what_was_prepared_is_not_done_again(tmp_path: Path) -> None:
    path = write_corpus(tmp_path / "c.jsonl", passages(20))
    facts = prepare_corpus(path, tmp_path / "index")
    path.write_text("changed")
    assert prepare_corpus(path, tmp_path / "index") == facts


def test_progress_is_in_bytes(tmp_path: Path) -> None:
    calls: list[tuple[str, int, int | None]] = []
    path = write_corpus(tmp_path / "c.jsonl", passages(2500))
    prepare_corpus(path, tmp_path / "index", lambda *call: calls.append(call))
    size = path.stat().st_size
    assert len(calls) == 3 and calls[-1] == ("read corpus", size, size)
