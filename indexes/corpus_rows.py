"""Preparing a corpus file: one pass over its rows, checked, and written down where they are."""

from __future__ import annotations

import codecs
import hashlib
import json
from array import array
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agentgym_suite.errors import DataDamaged, RetrievalError
from agentgym_suite.files import (
    TEMPORARY_PREFIX,
    Json,
    Progress,
    explain_damage,
    sha256_file,
    write_array,
    write_json_atomic,
)
from agentgym_suite.indexes.passages import Passage, split_contents
from agentgym_suite.json_stream import UNPACK_ERRORS, iter_json_list, open_bytes
from agentgym_suite.spaces import without_surrogates

FOLDER = "corpus"
ROW_STARTS = "row_starts.npy"
IDS = "ids.npy"
ID_STARTS = "id_starts.npy"
ID_ORDER = "id_order.npy"
ROW_DIGESTS = "row_digests.npy"
FACTS = "facts.json"
UNPACKED = "passages.jsonl"

CONTENTS_SHAPE = "id, contents"
TITLED_SHAPE = "id, title, text"

_BLANKS = b" \t\r\n"
_DIGEST_BYTES = 8
_REPORTED_LINES = 1000
_EXAMPLES = (
    '{"id": "7", "contents": "\\"Title\\"\\ntext"} or {"id": "7", "title": "…", "text": "…"}'
)


@dataclass(frozen=True, slots=True)
class CorpusFacts:
    """What is known of a prepared corpus.

    Attributes:
        rows: how many passages.
        sha256: of the file as it was given, in hex.
        shape: ``id, contents`` or ``id, title, text``: the keys of the first row.
        bytes: size of the file as it was given.
        unpacked: whether the rows were written anew into the index's folder.
    """

    rows: int
    sha256: str
    shape: str
    bytes: int
    unpacked: bool


def prepare_corpus(
    path: Path | str,
    folder: Path | str,
    progress: Progress | None = None,
    *,
    sha256: Json = None,
) -> CorpusFacts:
    """Check every row of a corpus and write into ``folder/corpus/`` where the rows are.

    What an earlier run finished there is taken as it is: ``folder`` must be the working folder
    of one corpus, as ``data.publish`` gives it.

    Args:
        path: JSON lines or one JSON list of ``{"id", "contents"}`` or ``{"id"?, "title",
            "text"}``, plain, ``.gz`` or ``.xz``; a row without an id gets its number, from 0.
        folder: the folder of the index.
        progress: called with the phase ``read corpus`` and bytes done.
        sha256: what the file's digest was when the build began; None when nobody looked.

    Raises:
        RetrievalError: the digest is another one by now.
        DataMissing: there is no such file.
        DataDamaged: a row is none of these, an id comes twice, or the file is cut off.
    """
    path, here = Path(path), Path(folder) / FOLDER
    if not (here / FACTS).is_file():
        here.mkdir(parents=True, exist_ok=True)
        write_json_atomic(here / FACTS, asdict(_prepare(path, here, progress)))
    facts = load_facts(folder)
    if sha256 is not None and facts.sha256 != sha256:
        (here / FACTS).unlink()
        raise RetrievalError(f"corpus {path} changed while it was indexed; build again")
    return facts


def _prepare(path: Path, here: Path, progress: Progress | None) -> CorpusFacts:
    source = path
    unpacked = _is_list(path) or path.suffix in (".gz", ".xz")
    if unpacked:
        source = here / UNPACKED
        _unpack(path, source, progress)
    table = _Table(path)
    digest = table.scan(source, progress)
    table.write(here)
    if unpacked:
        digest = sha256_file(path, progress)
    return CorpusFacts(len(table), digest, table.shape, path.stat().st_size, unpacked)


def read_passages(path: Path | str) -> Iterator[Passage]:
    """Every passage of a corpus file, in order; nothing is written.

    Raises:
        DataMissing: there is no such file.
        DataDamaged: a row is no passage, or the file is cut off.
    """
    path = Path(path)
    rows = 0
    for number, line in enumerate(_lines(path), start=1):
        if not _is_blank(line):
            yield _decode(path, line, number, rows)[1]
            rows += 1


def load_facts(folder: Path | str) -> CorpusFacts:
    """What ``prepare_corpus`` found.

    Raises:
        DataDamaged: the folder is not as it was built.
    """
    with explain_damage(Path(folder)):
        return CorpusFacts(**json.loads((Path(folder) / FOLDER / FACTS).read_text("utf-8")))


def row_digest(line: bytes) -> int:
    """What tells that a row is as it was: the first 8 bytes of its BLAKE2b, without end blanks."""
    digest = hashlib.blake2b(line.rstrip(_BLANKS), digest_size=_DIGEST_BYTES).digest()
    return int.from_bytes(digest, "little")


def to_passage(value: Any, row: int) -> Passage:
    """The passage of a decoded row; lone surrogates become U+FFFD, so that it can be sent on.

    Args:
        value: what the row's JSON says.
        row: its number, which is the id of a row without one.

    Raises:
        ValueError: what is wrong with the row.
    """
    if not isinstance(value, dict):
        raise ValueError(f"a {type(value).__name__} instead of an object")
    identifier = value.get("id")
    if identifier is None:
        identifier = row
    if isinstance(identifier, bool) or not isinstance(identifier, str | int):
        raise ValueError(f"id is {identifier!r}, neither text nor an integer")
    if identifier == "":
        raise ValueError("id is empty")
    title, text = value.get("title"), value.get("text")
    if not isinstance(title, str) or not isinstance(text, str):
        contents = value.get("contents")
        if not isinstance(contents, str):
            raise ValueError("neither 'contents' nor 'title' and 'text' are there as text")
        title, text = split_contents(contents)
    return Passage(*map(without_surrogates, (str(identifier), title, text)))


class _Table:
    """The offsets, digests and ids of the rows, as they are met."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._starts = array("Q")
        self._digests = array("Q")
        self._ids: list[bytes] = []
        self.shape = ""

    def __len__(self) -> int:
        return len(self._ids)

    def scan(self, source: Path, progress: Progress | None) -> str:
        """Read every row of plain JSON lines; the SHA-256 of the file."""
        digest = hashlib.sha256()
        offset, size = 0, source.stat().st_size
        with open_bytes(source) as stream:
            for number, line in enumerate(stream, start=1):
                digest.update(line)
                if not _is_blank(line):
                    self._starts.append(offset)
                    self._add(line, number)
                offset += len(line)
                if progress is not None and (number % _REPORTED_LINES == 0 or offset == size):
                    progress("read corpus", offset, size)
        self._starts.append(offset)
        if not self._ids:
            raise DataDamaged(f"{self._path} holds no passage; give rows like {_EXAMPLES}")
        return digest.hexdigest()

    def _add(self, line: bytes, number: int) -> None:
        value, passage = _decode(self._path, line, number, len(self))
        self._ids.append(passage.id.encode("utf-8"))
        self._digests.append(row_digest(line))
        if not self.shape:
            self.shape = CONTENTS_SHAPE if "contents" in value else TITLED_SHAPE

    def write(self, here: Path) -> None:
        """Write the arrays; refuses an id that comes twice."""
        ids = self._ids
        # UTF-8 sorts as its code points do, which is how Python sorts text.
        order = sorted(range(len(ids)), key=ids.__getitem__)
        for row, following in zip(order, order[1:], strict=False):
            if ids[row] == ids[following]:
                raise DataDamaged(
                    f"{self._path} has the id {ids[row].decode('utf-8')!r} in row {row} and again "
                    f"in row {following}; give every passage its own"
                )
        ends = np.cumsum(np.array([len(identifier) for identifier in ids], np.int64))
        write_array(here / ROW_STARTS, np.array(self._starts, np.uint64))
        write_array(here / ROW_DIGESTS, np.array(self._digests, np.uint64))
        write_array(here / IDS, np.frombuffer(b"".join(ids), np.uint8))
        write_array(here / ID_STARTS, np.concatenate([np.zeros(1, np.int64), ends]))
        write_array(here / ID_ORDER, np.array(order, np.uint32))


def _is_blank(line: bytes) -> bool:
    return not line.removeprefix(codecs.BOM_UTF8).strip(_BLANKS)


def _decode(path: Path, line: bytes, number: int, row: int) -> tuple[Any, Passage]:
    """A line's value and the passage that it is."""
    try:
        value = json.loads(line.removeprefix(codecs.BOM_UTF8))
        return value, to_passage(value, row)
    except (ValueError, RecursionError) as error:
        raise DataDamaged(
            f"{path} line {number} is not a passage ({error}); every row is like {_EXAMPLES}"
        ) from error


def _is_list(path: Path) -> bool:
    """Whether the file is one JSON list; JSON lines of objects never begin with a bracket."""
    try:
        with open_bytes(path) as stream:
            while block := stream.read(4096):
                text = block.removeprefix(codecs.BOM_UTF8).lstrip(_BLANKS)
                if text:
                    return text.startswith(b"[")
    except UNPACK_ERRORS as error:
        raise DataDamaged(f"{path} cannot be unpacked ({error}); fetch the file again") from error
    return False


def _unpack(path: Path, target: Path, progress: Progress | None) -> None:
    """Write the rows of a packed file or a JSON list as plain JSON lines."""
    temporary = target.with_name(TEMPORARY_PREFIX + target.name)
    with temporary.open("wb") as out:
        for done, line in enumerate(_lines(path), start=1):
            out.write(line)
            if progress is not None and done % _REPORTED_LINES == 0:
                progress("unpack corpus", done, None)
    temporary.replace(target)


def _lines(path: Path) -> Iterator[bytes]:
    if _is_list(path):
        for value, _ in iter_json_list(path):
            # ASCII, because a lone surrogate can only be written as an escape.
            yield json.dumps(value).encode("ascii") + b"\n"
        return
    try:
        with open_bytes(path) as stream:
            yield from stream
    except UNPACK_ERRORS as error:
        raise DataDamaged(f"{path} cannot be unpacked ({error}); fetch the file again") from error
