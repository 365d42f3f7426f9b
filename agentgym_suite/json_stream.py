"""Large JSON files read element by element, never whole.

The official catalogue is one JSON list of several GB, its attributes one JSON object.
Both readers decode one element at a time out of a sliding window of text, from plain,
``.xz`` or ``.gz`` files, and give what ``json.load`` would give. A file that is cut off or is
not JSON raises ``DataDamaged`` with the byte (of the unpacked text) where reading stopped.
Other readers take the window alone, over a stream of their own.
"""

from __future__ import annotations

import codecs
import gzip
import json
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NoReturn, TypeVar, cast

from agentgym_suite.errors import DataDamaged, DataMissing
from agentgym_suite.files import explain_unreadable

T = TypeVar("T")

CHUNK_BYTES = 1 << 20
UNPACK_ERRORS = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile)
"""What reading from ``open_bytes`` raises on a packed file that is damaged or cut off."""

_BLANKS = re.compile(r"[ \t\n\r]*")
# The longest token that a cut can leave undecidable is an escaped surrogate pair: 12 characters.
_CUT_ZONE = 16
_BYTE_ORDER_MARK = "\ufeff"


def open_bytes(path: Path | str) -> IO[bytes]:
    """Open a file for reading bytes, unpacked when its name ends in ``.xz`` or ``.gz``.

    Raises:
        DataMissing: there is no such file.
        DataError: it cannot be read.
    """
    path = Path(path)
    with explain_unreadable(path):
        try:
            if path.suffix == ".xz":
                return cast(IO[bytes], lzma.open(path, "rb"))
            if path.suffix == ".gz":
                return cast(IO[bytes], gzip.open(path, "rb"))
            return path.open("rb")
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
            raise DataMissing(f"there is no file {path}; check the path") from error


def read_json_lines(
    path: Path | str, take: Callable[[Any], T], what: str, example: str
) -> Iterator[T]:
    """Yield what each line of a file of JSON lines holds; blank lines do not count.

    Args:
        path: a ``.jsonl``, ``.jsonl.xz`` or ``.jsonl.gz`` file in UTF-8.
        take: makes of a decoded value what is yielded; a ``ValueError`` says what is wrong with it.
        what: what a line should be, for the sentence.
        example: such a line.

    Raises:
        DataMissing: there is no such file.
        DataDamaged: a line is not such a value, or the file is cut off.
    """
    number = 0
    try:
        with open_bytes(path) as stream:
            for line in stream:
                number += 1
                text = line.decode("utf-8")
                if text.strip(_BYTE_ORDER_MARK + " \t\r\n"):
                    yield take(json.loads(text.removeprefix(_BYTE_ORDER_MARK)))
    except (ValueError, RecursionError, *UNPACK_ERRORS) as error:
        raise DataDamaged(
            f"{path} line {max(number, 1)} is not {what} ({error}); every line is a JSON object "
            f"like {example}"
        ) from error


def iter_json_list(
    path: Path | str, *, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[tuple[Any, int]]:
    """Yield each element of the JSON list in a file.

    Args:
        path: a ``.json``, ``.json.xz`` or ``.json.gz`` file in UTF-8.
        chunk_bytes: how much is read at once; the results do not depend on it.

    Yields:
        (element, end_offset): the decoded element and the byte of the unpacked text right
        after it, which is how far the file has been read.

    Raises:
        DataMissing: there is no such file.
        DataDamaged: the text is cut off or is not one JSON list.
    """
    with open_bytes(path) as stream:
        window = JsonWindow(path, stream, chunk_bytes)
        window.begin("[", "a JSON list")
        while not window.at_end_of("]"):
            element = window.value()
            yield element, window.position


def iter_json_object(
    path: Path | str, *, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[tuple[str, Any]]:
    """Yield each (key, value) pair of the JSON object in a file, repeated keys included.

    Args:
        path: a ``.json``, ``.json.xz`` or ``.json.gz`` file in UTF-8.
        chunk_bytes: how much is read at once; the results do not depend on it.

    Raises:
        DataMissing: there is no such file.
        DataDamaged: the text is cut off or is not one JSON object.
    """
    with open_bytes(path) as stream:
        window = JsonWindow(path, stream, chunk_bytes)
        window.begin("{", "a JSON object")
        while not window.at_end_of("}"):
            if window.peek() != '"':
                window.fail("expected a key in double quotes")
            key = window.value()
            window.expect(":", "':' after a key")
            yield key, window.value()


class JsonWindow:
    """A sliding window of decoded text over a byte stream, and the cursor in it.

    Args:
        name: what the text is called in sentences.
        stream: UTF-8, unpacked.
        chunk_bytes: how much is read at once; the results do not depend on it.
    """

    def __init__(self, name: object, stream: IO[bytes], chunk_bytes: int = CHUNK_BYTES) -> None:
        self._name = name
        self._stream = stream
        self._chunk_bytes = max(1, chunk_bytes)
        self._text = ""
        self._cursor = 0
        # What comes before index _measured of the window: each stretch of text is measured once.
        self._measured = 0
        self._measured_bytes = 0
        self._measured_lines = 0
        self._read_bytes = 0
        self._finished = False
        self._elements = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._parser = json.JSONDecoder()

    @property
    def position(self) -> int:
        """Bytes of unpacked text before the cursor."""
        self._measure()
        return self._measured_bytes

    @property
    def line(self) -> int:
        """The line of the cursor, from 1."""
        self._measure()
        return self._measured_lines + 1

    def peek(self) -> str:
        """The next character that is not blank; "" at the end of the file."""
        while True:
            blanks = _BLANKS.match(self._text, self._cursor)
            self._cursor = blanks.end() if blanks else self._cursor
            if self._cursor < len(self._text):
                return self._text[self._cursor]
            if not self._read_more():
                return ""

    def begin(self, opening: str, meaning: str) -> None:
        """Step over the bracket that opens the file's one value."""
        if self.peek() == _BYTE_ORDER_MARK:
            self._cursor += 1
        self.expect(opening, meaning)

    def expect(self, character: str, meaning: str) -> None:
        """Step over ``character``, or fail because ``meaning`` is not there."""
        if self.peek() != character:
            self.fail(f"expected {meaning}")
        self._cursor += 1

    def at_end_of(self, closing: str) -> bool:
        """Step over a comma to the next element, or over ``closing`` to the end of the file."""
        found = self.peek()
        if found == closing:
            self._cursor += 1
            if self.peek():
                self.fail("text goes on after the end of the JSON value")
            return True
        if self._elements:
            if found != ",":
                self.fail(f"expected ',' or '{closing}'")
            self._cursor += 1
        self._elements += 1
        return False

    def value(self) -> Any:
        """Decode the value at the cursor, reading on until it is complete."""
        self.peek()
        while True:
            try:
                value, end = self._parser.raw_decode(self._text, self._cursor)
            except json.JSONDecodeError as error:
                if self._may_be_cut(error) and not self._finished:
                    self._read_more()
                    continue
                self.fail(_explain(error), at=error.pos)
            except (ValueError, RecursionError) as error:
                self.fail(str(error))
            # A number ends only where something else is seen to begin: 1 may go on as 1.5e3.
            if isinstance(value, int | float) and self._near_end(end) and not self._finished:
                self._read_more()
                continue
            self._cursor = end
            return value

    def fail(self, what: str, *, at: int | None = None) -> NoReturn:
        """Raise ``DataDamaged`` at the cursor, or at index ``at`` of the window."""
        if at is not None:
            self._cursor = max(self._cursor, min(at, len(self._text)))
        if self._finished and self._cursor >= len(self._text):
            what = f"the file ends here, {what}"
        raise self.damage(what, self.position)

    def damage(self, what: str, position: int) -> DataDamaged:
        """The error that says what is wrong at a byte of the unpacked text."""
        return DataDamaged(
            f"{self._name} is damaged at byte {position} (element {self._elements}): {what}; "
            "fetch or copy the file again"
        )

    def _measure(self) -> None:
        stretch = self._text[self._measured : self._cursor]
        self._measured_bytes += _utf8_length(stretch)
        self._measured_lines += stretch.count("\n")
        self._measured = self._cursor

    def _near_end(self, index: int) -> bool:
        return len(self._text) - index < _CUT_ZONE

    def _may_be_cut(self, error: json.JSONDecodeError) -> bool:
        # Any other error far from the edge is real: reading on would only fill the memory.
        return error.msg.startswith("Unterminated string") or self._near_end(error.pos)

    def _read_more(self) -> bool:
        """Append the next chunk to the window; False when the file is over."""
        if self._finished:
            return False
        pending = self._text[self._cursor :]
        # Doubling keeps the repeated parses of one huge element linear in its size.
        wanted = max(self._chunk_bytes, len(pending))
        try:
            chunk = self._stream.read(wanted)
            fresh = self._decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            place = self._read_bytes + len(chunk) - len(error.object) + error.start
            raise self.damage("not UTF-8", place) from error
        except UNPACK_ERRORS as error:
            what = f"cannot be unpacked ({error})"
            raise self.damage(what, self._read_bytes) from error
        self._read_bytes += len(chunk)
        self._finished = not chunk
        self._measure()
        self._text = pending + fresh
        self._cursor = self._measured = 0
        return not self._finished


def _utf8_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8"))


def _explain(error: json.JSONDecodeError) -> str:
    return error.msg[:1].lower() + error.msg[1:]
