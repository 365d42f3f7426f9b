"""Official files as texts to be read, whatever they are packed in: told by their first bytes.

Endings are not believed: a published ``.jsonl.gz`` may turn out to be a tar archive, and a
``.json`` to be packed.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, cast

from agentgym_suite.errors import DataDamaged, DataMissing, UsageError
from agentgym_suite.files import explain_unreadable
from agentgym_suite.json_stream import UNPACK_ERRORS

_GZIP = b"\x1f\x8b"
_XZ = b"\xfd7zXZ\x00"
_BZIP2 = b"BZh"
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_ZIP = b"PK\x03\x04"
_TAR, _TAR_PLACE = b"ustar", 257
_PARQUET = b"PAR1"
_HEAD_BYTES = 512
_ENDINGS = frozenset({".json", ".jsonl", ".parquet"})
_PACKINGS = frozenset({".gz", ".xz", ".bz2"})
_UNPACK_ERRORS = (*UNPACK_ERRORS, tarfile.TarError, zipfile.BadZipFile)


@dataclass(frozen=True, slots=True)
class SourceText:
    """One text: a file, or a member of a zip archive.

    Attributes:
        path: the file on the disk.
        member: the name inside the archive, "" for a file of its own.
    """

    path: Path
    member: str = ""

    def __str__(self) -> str:
        return f"{self.path}/{self.member}" if self.member else str(self.path)

    @property
    def inner_path(self) -> PurePosixPath:
        """What the text calls itself: its path, or that inside the archive."""
        return PurePosixPath(self.member or self.path.as_posix())

    @property
    def stem(self) -> str:
        """Its name without the endings of forms and packings."""
        name = self.inner_path
        while name.suffix in _ENDINGS | _PACKINGS:
            name = name.with_suffix("")
        return name.name

    @property
    def is_parquet(self) -> bool:
        """Whether the bytes are parquet; raises as ``open`` does."""
        with self.open() as stream:
            return bool(stream.peek(_HEAD_BYTES)[: len(_PARQUET)] == _PARQUET)

    @contextmanager
    def open(self) -> Iterator[io.BufferedReader]:
        """Open it for reading, unpacked; what is damaged inside is explained.

        Raises:
            DataMissing: there is no such file.
            DataDamaged: it is cut off, or not what its first bytes promise.
            UsageError: it is packed in a way that is not read here.
        """
        try:
            with self._packed() as packed:
                yield _unpacked(packed, self)
        except _UNPACK_ERRORS as error:
            raise DataDamaged(
                f"{self} cannot be unpacked ({error or type(error).__name__}); fetch or copy the "
                "file again"
            ) from error

    @contextmanager
    def _packed(self) -> Iterator[IO[bytes]]:
        if not os.path.isfile(self.path):
            raise DataMissing(f"there is no file {self.path}; check the path")
        with explain_unreadable(self.path):
            stream = self.path.open("rb")
        with stream:
            if not self.member:
                yield stream
                return
            with zipfile.ZipFile(stream) as archive, archive.open(self.member) as inside:
                yield inside


def find_texts(path: Path | str, also: Collection[str] = ()) -> list[SourceText]:
    """The texts that a path means: a file, every data file of a zip archive or of a folder.

    In the order of their names; hidden files and foreign endings are passed over.

    Args:
        path: where.
        also: endings of data files beside those of JSON and parquet, such as ``.tsv``.

    Raises:
        DataMissing: nothing is there, or nothing that could be data.
        DataDamaged: an archive cannot be read.
    """
    path = Path(path).expanduser().absolute()
    if path.is_dir():
        within = [each for each in sorted(path.rglob("*")) if each.is_file()]
        texts = [
            SourceText(each) for each in within if _could_be_data(each.relative_to(path), also)
        ]
    elif not path.is_file():
        raise DataMissing(f"there is no file {path}; check the path")
    elif _is_zip(path):
        try:
            with zipfile.ZipFile(path) as archive:
                members = sorted(archive.namelist())
        except _UNPACK_ERRORS as error:
            raise DataDamaged(f"{path} is no zip archive ({error}); fetch it again") from error
        texts = [SourceText(path, name) for name in members if _could_be_data(Path(name), also)]
    else:
        texts = [SourceText(path)]
    if not texts:
        known = ", ".join(sorted({*_ENDINGS, *also}))
        raise DataMissing(f"{path} holds no data file ({known}); give another file or folder")
    return texts


def _is_zip(path: Path) -> bool:
    with explain_unreadable(path), path.open("rb") as stream:
        return stream.read(len(_ZIP)) == _ZIP


def _is_hidden(name: Path) -> bool:
    return any(part.startswith((".", "__")) and part != "." for part in name.parts)


def _could_be_data(name: Path, also: Collection[str]) -> bool:
    if _is_hidden(name):
        return False
    bare = name.with_suffix("") if name.suffix in _PACKINGS else name
    return (
        bare.suffix in _ENDINGS or bare.suffix in also or name.suffix == ".bz2"
    )  # HotpotQA's dump: wiki_00.bz2


def _unpacked(packed: IO[bytes], text: SourceText) -> io.BufferedReader:
    """The stream of what is inside, through as many layers as there are."""
    stream: io.BufferedReader = io.BufferedReader(cast(io.RawIOBase, packed))
    while True:
        head = stream.peek(_HEAD_BYTES)
        if head.startswith(_GZIP):
            inside: IO[bytes] = cast(IO[bytes], gzip.GzipFile(fileobj=stream, mode="rb"))
        elif head.startswith(_XZ):
            inside = cast(IO[bytes], lzma.LZMAFile(stream))  # noqa: SIM115 - the caller's to close
        elif head.startswith(_BZIP2):
            inside = cast(IO[bytes], bz2.BZ2File(stream))
        elif head.startswith(_ZSTANDARD):
            raise UsageError(f"{text} is packed with Zstandard; unpack it first: zstd -d {text}")
        elif head.startswith(_ZIP):
            raise UsageError(f"{text} is a zip archive inside another file; unpack it first")
        elif head[_TAR_PLACE:].startswith(_TAR):
            inside = _first_member(stream, text)
        else:
            return stream
        stream = io.BufferedReader(cast(io.RawIOBase, inside))


def _first_member(stream: IO[bytes], text: SourceText) -> IO[bytes]:
    archive = tarfile.open(fileobj=stream, mode="r|")  # noqa: SIM115 - read on by the caller
    for member in archive:
        if member.isfile() and not _is_hidden(Path(member.name)):
            inside = archive.extractfile(member)
            if inside is not None:
                return inside
    raise DataMissing(f"{text} is a tar archive without a data file in it; give another file")
