"""Corpora: which passages count as one, and what is left of a file that is given."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.errors import DataDamaged
from agentgym_suite.multihop_qa.corpora import (
    RULES,
    copy_corpus,
    hotpot_passages,
    is_corpus_row,
    paragraphs_of,
    twowiki_passages,
    write_corpus,
)
from agentgym_suite.multihop_qa.question_set import open_question_set
from agentgym_suite.official_rows import BadRows
from agentgym_suite.source_texts import SourceText
from tests.multihop_qa import official_rows as official
from tests.multihop_qa.official_rows import variant, write_lines, write_list

WIKI = b'{"id": "0", "contents": "\\"Harrow\\"\\nA port."}\n'


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def copied(path: Path, out: Path, *, skip: bool = False) -> int:
    return copy_corpus(out, [SourceText(path)], BadRows(skip), None)


def test_passages_of_hotpotqa_keep_double_blanks_and_drop_empty_ones() -> None:
    assert hotpot_passages(official.HOTPOT) == [
        ("Odrin Vale", "Odrin Vale is a writer.  He was born in Tessaly."),
        ("Tessaly", "Tessaly lies on the Morne."),
    ]
    assert twowiki_passages(official.TWOWIKI) == [("Grey Lantern", "A film. By Odrin Vale.")]


def test_hotpotqa_reads_train_before_dev_and_keeps_the_first(
    tmp_path: Path, fresh_home: Path
) -> None:
    hidden = variant(official.HOTPOT, _id="t", context=[["New", ["x"]]])
    files = [
        write_list(tmp_path / "hotpot_dev.json", [official.HOTPOT_HUB]),
        write_list(tmp_path / "hotpot_train.json", [official.HOTPOT]),
        write_list(tmp_path / "hotpot_test.json", [hidden]),
    ]
    opened = open_question_set(files)
    assert opened.corpus is not None
    assert rows_of(opened.corpus) == [
        {
            "id": "0",
            "title": "Odrin Vale",
            "text": "Odrin Vale is a writer.  He was born in Tessaly.",
        },
        {"id": "1", "title": "Tessaly", "text": "Tessaly lies on the Morne."},
        {"id": "2", "title": "Harrow", "text": "Harrow is large."},
    ]
    assert opened.notes["corpus"] == {
        "rule": "contexts of train and dev",
        "paragraphs": 4,
        "published": 509_308,
    }


def test_musique_reads_ans_before_full_and_dev_test_train(tmp_path: Path, fresh_home: Path) -> None:
    def row(title: str, **changes: Any) -> dict[str, Any]:
        paragraph = {"idx": 0, "title": title, "paragraph_text": "x", "is_supporting": True}
        return variant(official.MUSIQUE, paragraphs=[paragraph], id=f"2hop__{title}", **changes)

    names = {"full_v1.0_dev": "e", "ans_v1.0_train": "d", "ans_v1.0_test": "c", "ans_v1.0_dev": "b"}
    files = [
        write_lines(tmp_path / f"musique_{name}.jsonl", [row(title), row("same", answer=title)])
        if title == "e"
        else write_lines(tmp_path / f"musique_{name}.jsonl", [row(title)])
        for name, title in names.items()
    ]
    opened = open_question_set(files)
    assert opened.corpus is not None
    assert [each["title"] for each in rows_of(opened.corpus)] == ["b", "c", "d", "e", "same"]
    # Full gives passages only, where Ans is there too
    assert [opened.question(n).id for n in range(len(opened))] == [
        "2hop__d",
        "2hop__b",
        "2hop__c",
    ]


@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), max_size=12))
def test_each_passage_is_kept_once_in_order(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("corpus") / "corpus.jsonl"
    counts = write_corpus(path, ((title, text, "\0") for title, text in pairs))
    kept = [(row["title"], row["text"]) for row in rows_of(path)]
    assert kept == list(dict.fromkeys(pairs))
    assert (counts.paragraphs, counts.passages) == (len(pairs), len(kept))


def test_the_separator_is_part_of_the_key(tmp_path: Path) -> None:
    for separator, passages in (("\0", 2), (" ", 1)):
        pairs = [("a b", "c", separator), ("a", "b c", separator)]
        assert write_corpus(tmp_path / "c.jsonl", pairs).passages == passages


def test_published_lines_are_copied_byte_by_byte(tmp_path: Path) -> None:
    lines = WIKI + b'{"title":"T","text":"\\u00e9"}\r\n' + b'{"id": 7, "title": "U", "text": ""}'
    packed = tmp_path / "wiki.jsonl.gz"
    packed.write_bytes(gzip.compress(lines))
    assert copied(packed, tmp_path / "out.jsonl") == 3
    assert (tmp_path / "out.jsonl").read_bytes() == lines.replace(b"\r", b"") + b"\n"


def test_lists_and_dumps_are_brought_into_one_shape(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "12", "title": "T", "sentences": ["One.", "Two. "], "mentions": []},
        {"id": "13", "url": "u", "title": "U", "text": ["One.", " Two."]},
        {"title": "V", "text": "plain"},
    ]
    path = write_list(tmp_path / "dump.json", rows)
    assert copied(path, tmp_path / "out.jsonl") == 3
    assert rows_of(tmp_path / "out.jsonl") == [
        {"id": "12", "title": "T", "text": "One. Two."},
        {"id": "13", "title": "U", "text": "One. Two."},
        {"title": "V", "text": "plain"},
    ]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"id": 1.5, "contents": "x"}, "'id' is 1.5"),
        ({"contents": None}, "'contents' is None"),
        ({"title": "x"}, "no 'text'"),
        ({"text": "x"}, "no 'title'"),
        ({"title": "x", "sentences": [1]}, "a sentence is not text"),
    ],
)
def test_bad_passages(tmp_path: Path, row: dict[str, Any], reason: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(WIKI + json.dumps(row).encode() + b"\n" + WIKI)
    with pytest.raises(DataDamaged) as told:
        copied(path, tmp_path / "out.jsonl")
    assert f"{path} line 2: {reason}" in str(told.value)
    assert copied(path, tmp_path / "out.jsonl", skip=True) == 2


def test_what_is_a_passage() -> None:
    assert is_corpus_row({"contents": "x"})
    assert is_corpus_row({"title": "x", "text": "y"})
    assert is_corpus_row({"title": "x", "sentences": []})
    assert not is_corpus_row(official.FLASHRAG)
    assert not is_corpus_row({"question": "q", "title": "x", "text": "y"})


def passages_of(tmp_path: Path, form: str, *files: Path) -> tuple[int, int]:
    found = (
        each for file in files for each in paragraphs_of(SourceText(file), RULES[form], BadRows())
    )
    counts = write_corpus(tmp_path / "corpus.jsonl", found)
    return counts.paragraphs, counts.passages


def test_passages_of_the_samples(shared: Path, tmp_path: Path) -> None:
    folder = shared / "data" / "qa"
    train, dev = (folder / f"hotpot_distractor_{part}100.json" for part in ("train", "dev"))
    assert passages_of(tmp_path, "hotpotqa", train, dev) == (1_600, 1_599)
    assert passages_of(tmp_path, "hotpotqa", train) == (800, 800)
    assert passages_of(tmp_path, "hotpotqa", dev) == (800, 800)
    assert passages_of(tmp_path, "musique", folder / "musique_100.jsonl") == (1_400, 1_352)


def test_the_passages_of_twowiki(shared: Path, tmp_path: Path) -> None:
    packed = shared / "data" / "qa" / "2wiki_corpus.jsonl.xz"
    assert copied(packed, tmp_path / "corpus.jsonl") == 6_119
    assert len({row["title"] for row in rows_of(tmp_path / "corpus.jsonl")}) == 6_119
