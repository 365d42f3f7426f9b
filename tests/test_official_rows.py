"""Rows of files that others published: lists, lines and parquet, told by content."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.errors import DataDamaged, DataMissing, MissingExtra
from agentgym_suite.official_rows import BadRows, Row, first_row, iter_rows, json_line
from agentgym_suite.source_texts import SourceText

OBJECTS = st.lists(
    st.dictionaries(
        st.text(max_size=5),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=9),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
            ),
            max_leaves=6,
        ),
        max_size=4,
    ),
    max_size=8,
)


@given(
    rows=OBJECTS,
    as_list=st.booleans(),
    indent=st.none() | st.integers(0, 2),
    ascii_only=st.booleans(),
    blanks=st.text(st.sampled_from(" \t\r\n"), max_size=3),
    mark=st.booleans(),
)
def test_lists_and_lines_are_told_apart_and_give_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[Row],
    as_list: bool,
    indent: int | None,
    ascii_only: bool,
    blanks: str,
    mark: bool,
) -> None:
    if as_list:
        text = blanks + json.dumps(rows, indent=indent, ensure_ascii=ascii_only) + blanks
    else:
        text = "".join(json.dumps(row, ensure_ascii=ascii_only) + "\r\n" + blanks for row in rows)
    path = tmp_path_factory.mktemp("rows") / "rows.json"
    path.write_bytes((b"\xef\xbb\xbf" if mark else b"") + text.encode("utf-8"))
    found = list(iter_rows(SourceText(path), BadRows()))
    assert [row for _, row in found] == rows
    assert first_row(path) == (rows[0] if rows else None)
    lines = text.split("\n")
    for number, _ in found:
        assert "{" in lines[number - 1]


def test_a_list_that_is_cut_off_or_broken_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    whole = "[\n" + ",\n".join(json.dumps({"n": n}) for n in range(5)) + "\n]\n"
    for text, reason in (
        (whole[:-3], "line 6: the file ends here, expected ',' or ']'"),
        (whole[:30], "line 4: the file ends here"),
        (whole.replace('"n": 2', "n: 2"), "line 4: expecting property name"),
        (whole + "{}", "line 8: text goes on after the end"),
        (whole.replace(",\n", "\n", 1), "line 3: expected ',' or ']'"),
    ):
        path.write_text(text, "utf-8")
        with pytest.raises(DataDamaged) as told:
            list(iter_rows(SourceText(path), BadRows(skip=True)))
        assert reason in str(told.value)
    path.write_bytes(b'[{"n": "\xff"}]')
    with pytest.raises(DataDamaged, match="not UTF-8"):
        list(iter_rows(SourceText(path), BadRows()))


def test_bad_lines_are_errors_or_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"n": 0}\n\n{"n": \n[1]\n{"n": 3}\nnull\n\xff\n{"n": 6}')
    with pytest.raises(DataDamaged) as told:
        list(iter_rows(SourceText(path), BadRows()))
    assert str(told.value).startswith(f"{path} line 3: not JSON (")
    assert "--skip-bad" in str(told.value)
    bad = BadRows(skip=True)
    for _ in range(2):  # a row that is met again is not counted again
        assert [(line, row["n"]) for line, row in iter_rows(SourceText(path), bad)] == [
            (1, 0),
            (5, 3),
            (8, 6),
        ]
    assert bad.count == 4
    assert bad.listed[1] == f"{path} line 4: a list instead of an object"
    assert bad.listed[2] == f"{path} line 6: a NoneType instead of an object"


def test_an_absent_file_and_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="there is no file"):
        list(iter_rows(tmp_path / "absent.jsonl", BadRows()))
    (tmp_path / "empty.jsonl").touch()
    assert first_row(tmp_path / "empty.jsonl") is None


def test_parquet_without_its_package_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "test.parquet"
    path.write_bytes(b"PAR1....PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"agentgym-suite\[retrieval\]"):
        list(iter_rows(SourceText(path), BadRows()))


def test_lone_surrogates_do_not_reach_the_disk() -> None:
    assert json_line({"text": "a\ud800b"}) == '{"text":"a\ufffdb"}\n'.encode()
    assert json_line({"text": "a😀b"}) == '{"text":"a😀b"}\n'.encode()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"n": "cut', "byte 16: unterminated string starting at"),
        (b'{"n": ', "byte 16: expecting value and the line ends"),
        (b'{"n": "\xff"}', "byte 17: not UTF-8"),
    ],
)
def test_a_broken_line_names_its_byte(tmp_path: Path, line: bytes, reason: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"n": 0}\r\n' + line)
    with pytest.raises(DataDamaged, match=re.escape(f"line 2: not JSON ({reason})")):
        list(iter_rows(path, BadRows()))


def test_times_of_parquet_are_passed_over(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    times = arrow.array([1, 2], arrow.timestamp("ns"))  # Python's have no nanoseconds
    path = tmp_path / "test.parquet"
    parquet.write_table(arrow.table({"made": times, "question": ["a", "b"]}), path)
    rows = [row for _, row in iter_rows(path, BadRows())]
    assert rows == [{"question": "a"}, {"question": "b"}]
    nested = arrow.array([[1]], arrow.list_(arrow.timestamp("ns")))
    parquet.write_table(arrow.table({"made": nested}), path)
    with pytest.raises(DataDamaged, match="test.parquet"):
        list(iter_rows(path, BadRows()))
