"""Rows of official files, one after another: JSON list, JSON lines or parquet, by content.

What an import writes of them is a line of JSON each.
"""

from __future__ import annotations

import codecs
import importlib
import io
import json
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from agentgym_suite.errors import DataDamaged, MissingExtra
from agentgym_suite.json_stream import JsonWindow
from agentgym_suite.source_texts import SourceText
from agentgym_suite.spaces import without_surrogates

Row: TypeAlias = dict[str, Any]

_BREAKING = frozenset({"Cc", "Zl", "Zp"})  # controls, line and paragraph separators
_BLANKS = b" \t\r\n"
_HEAD_BYTES = 1 << 12
_MOST_LISTED = 20
_BATCH_ROWS = 1_000
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@dataclass(slots=True)
class BadRows:
    """What becomes of rows that cannot be used.

    Attributes:
        skip: leave them out and count them; otherwise the first one is an error.
        count: how many were left out; a row that is read twice is one.
        listed: the first of them, "FILE line N: reason".
    """

    skip: bool = False
    count: int = 0
    listed: list[str] = field(default_factory=list)
    _places: set[tuple[str, int]] = field(default_factory=set)

    def add(self, text: SourceText | Path, line: int, reason: object) -> None:
        """Count a row that is left out.

        Raises:
            DataDamaged: bad rows are not to be skipped; names file, line and reason.
        """
        sentence = f"{text} line {line}: {reason}"
        if not self.skip:
            raise DataDamaged(f"{sentence}; mend that row, or leave such rows out with --skip-bad")
        if (str(text), line) in self._places:
            return
        self._places.add((str(text), line))
        self.count += 1
        if len(self.listed) < _MOST_LISTED:
            self.listed.append(sentence)


def iter_rows(text: SourceText | Path, bad: BadRows) -> Iterator[tuple[int, Row]]:
    """Yield (line, row) of a file; of parquet the number of the row stands for the line.

    Args:
        text: a JSON list of objects, JSON lines or parquet, packed or not, told by content.
        bad: takes rows that are no JSON object.

    Raises:
        DataMissing: there is no such file.
        DataDamaged: it is cut off or in no such form; or a row is bad and not to be skipped.
        MissingExtra: parquet without the package that reads it.
    """
    for number, _, row in iter_lines(text, bad):
        yield number, row


def iter_lines(text: SourceText | Path, bad: BadRows) -> Iterator[tuple[int, bytes, Row]]:
    """Yield (line, its bytes, row); the bytes are empty where a row is not a line of its own.

    Arguments and errors are those of ``iter_rows``.
    """
    text = SourceText(text) if isinstance(text, Path) else text
    if text.is_parquet:
        yield from ((number, b"", row) for number, row in _parquet_rows(text))
        return
    with text.open() as stream:
        found = _list_rows(text, stream) if _begins_a_list(stream) else _lines(text, stream, bad)
        for number, line, value in found:
            if isinstance(value, dict):
                yield number, line, value
            else:
                bad.add(text, number, f"a {type(value).__name__} instead of an object")


def first_row(text: SourceText | Path) -> Row | None:
    """The first usable row, None when the file has none."""
    for _, row in iter_rows(text, BadRows(skip=True)):
        return row
    return None


def text_of(row: Row, key: str, default: str | None = None) -> str:
    """A text field of a row.

    Raises:
        ValueError: it is not there, or not text.
    """
    value = row.get(key, default)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        state = f"{key!r} is {value!r:.80}, not text" if key in row else f"no {key!r}"
        raise ValueError(state)
    return value


def list_of(row: Row, key: str) -> list[Any]:
    """A list field of a row, also when it came as an array.

    Raises:
        ValueError: it is not there, or no list.
    """
    value: Any = row.get(key)
    if hasattr(value, "tolist"):  # parquet read by others gives arrays
        value = value.tolist()
    if not isinstance(value, list | tuple):
        raise ValueError(f"{key!r} is {value!r:.80}, not a list" if key in row else f"no {key!r}")
    return list(value)


def answers_of(row: Row, key: str) -> tuple[str, ...]:
    """A field that holds one answer or a list of them, each once; numbers become text.

    Raises:
        ValueError: it is not there, or holds something else.
    """
    value = row.get(key)
    values = [value] if isinstance(value, str | int | float) else list_of(row, key)
    for each in values:
        if isinstance(each, bool) or not isinstance(each, str | int | float):
            raise ValueError(f"{key!r} holds {each!r:.80}, not an answer")
    return tuple(dict.fromkeys(str(each) for each in values))


def check_id(identity: str) -> None:
    """Refuse an id that would not stay on its line of a list or of a log.

    Raises:
        ValueError: it has a line end or another control character.
    """
    if not identity.isprintable() and any(
        unicodedata.category(character) in _BREAKING for character in identity
    ):
        raise ValueError(f"the id {identity!r:.80} has a line end or control character")


def json_line(value: Mapping[str, Any]) -> bytes:
    """A line of JSON in UTF-8, which has no place for lone surrogates: they become U+FFFD."""
    return without_surrogates(_ENCODER.encode(value)).encode("utf-8") + b"\n"


def _begins_a_list(stream: io.BufferedReader) -> bool:
    head = stream.peek(_HEAD_BYTES).removeprefix(codecs.BOM_UTF8).lstrip(_BLANKS)
    return head.startswith(b"[")


def _lines(
    text: SourceText, stream: io.BufferedReader, bad: BadRows
) -> Iterator[tuple[int, bytes, Any]]:
    after = 0
    for number, line in enumerate(stream, 1):
        after += len(line)
        bare = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        if not bare.strip():
            continue
        try:
            value = json.loads(bare.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            bad.add(text, number, f"not JSON ({_explain(error, bare, after - len(bare))})")
            continue
        yield number, bare, value


def _explain(error: Exception, line: bytes, start: int) -> str:
    """What is wrong with a line, at which byte of the unpacked file."""
    if isinstance(error, json.JSONDecodeError):
        place = len(error.doc[: error.pos].encode("utf-8"))
        cut = " and the line ends" if not line[place:].strip() else ""
        return f"byte {start + place}: {error.msg[:1].lower()}{error.msg[1:]}{cut}"
    if isinstance(error, UnicodeDecodeError):
        return f"byte {start + error.start}: not UTF-8"
    return str(error)


def _parquet_rows(text: SourceText) -> Iterator[tuple[int, Row]]:
    try:
        arrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtra("retrieval", f"reading the parquet file {text}") from error
    with text.open() as stream:
        # parquet is read from its end, which a member of an archive has only as a whole
        source = io.BytesIO(stream.read()) if text.member else str(text.path)
        try:
            with parquet.ParquetFile(source) as table:
                number = 0
                for batch in table.iter_batches(_BATCH_ROWS):
                    # no format has times, and Python has no form for some of them
                    kept = [
                        place
                        for place, column in enumerate(batch.schema)
                        if not arrow.types.is_temporal(column.type)
                    ]
                    for row in batch.select(kept).to_pylist():
                        number += 1
                        yield number, row
        except (arrow.ArrowException, OSError, ValueError, OverflowError) as error:
            raise DataDamaged(
                f"{text} is damaged parquet ({error}); fetch or copy the file again"
            ) from error


def _list_rows(text: SourceText, stream: io.BufferedReader) -> Iterator[tuple[int, bytes, Any]]:
    window = _RowWindow(text, stream)
    window.begin("[", "a JSON list")
    while not window.at_end_of("]"):
        window.peek()
        line = window.line
        yield line, b"", window.value()


class _RowWindow(JsonWindow):
    """A window that tells damage by the line, as everything else here is told."""

    def damage(self, what: str, position: int) -> DataDamaged:
        """The error that says what is wrong on the line of the cursor."""
        return DataDamaged(
            f"{self._name} line {self.line}: {what} (byte {position}); fetch or copy the file again"
        )
