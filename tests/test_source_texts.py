"""Texts in files, packings and archives, told by their first bytes."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from agentgym_suite.errors import DataDamaged, DataMissing, UsageError
from agentgym_suite.source_texts import SourceText, find_texts


def text_of(source: SourceText) -> bytes:
    with source.open() as stream:
        return stream.read()


def tar_of(content: bytes) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        folder = tarfile.TarInfo("wiki")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        hidden = tarfile.TarInfo("wiki/._rows.jsonl")
        hidden.size = 3
        archive.addfile(hidden, io.BytesIO(b"xyz"))
        member = tarfile.TarInfo("wiki/rows.jsonl")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


@pytest.mark.parametrize(
    "packed",
    [
        bytes,
        gzip.compress,
        lzma.compress,
        bz2.compress,
        lambda content: gzip.compress(tar_of(content)),
        tar_of,
        lambda content: gzip.compress(gzip.compress(content)),
    ],
    ids=["plain", "gzip", "xz", "bzip2", "tar.gz", "tar", "twice"],
)
def test_packing_is_told_by_the_first_bytes(
    tmp_path: Path, packed: Callable[[bytes], bytes]
) -> None:
    content = b"".join(json.dumps({"n": n}).encode() + b"\n" for n in range(3_000))
    path = tmp_path / "rows.jsonl"  # whatever it is packed in
    path.write_bytes(packed(content))
    assert text_of(SourceText(path)) == content


def test_what_cannot_be_unpacked_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\x28\xb5\x2f\xfd\x00")
    with pytest.raises(UsageError, match="zstd -d"):
        text_of(SourceText(path))
    for packed in (gzip.compress(b'{"a": 1}\n' * 9_000), lzma.compress(b'{"a": 1}\n' * 9_000)):
        path.write_bytes(packed[:-20])
        with pytest.raises(DataDamaged, match="cannot be unpacked"):
            text_of(SourceText(path))
    with pytest.raises(DataMissing, match="there is no file"):
        text_of(SourceText(tmp_path / "absent.json"))


def test_archives_and_folders(tmp_path: Path) -> None:
    archive = tmp_path / "data.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("data/dev.json", "[1]")
        made.writestr("data/train.jsonl", gzip.compress(b"[1]"))
        made.writestr("__MACOSX/data/._dev.json", "x")
        made.writestr("README.md", "x")
    assert [text.member for text in find_texts(archive)] == ["data/dev.json", "data/train.jsonl"]
    for text in find_texts(archive):
        assert text_of(text) == b"[1]"
    with zipfile.ZipFile(archive) as made:
        made.extractall(tmp_path / "folder")
    names = [text.path.name for text in find_texts(tmp_path / "folder")]
    assert names == ["dev.json", "train.jsonl"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataMissing, match="holds no data file"):
        find_texts(tmp_path / "empty")
