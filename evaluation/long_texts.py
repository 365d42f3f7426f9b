"""Texts above 64 KiB, kept apart from the records: ``observations.jsonl.gz``.

Each text is a gzip member of its own that holds one JSON line, so that the file is at once a
valid gzip file for any tool and readable at the offset that a record's reference gives.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zlib
from pathlib import Path
from typing import BinaryIO

from agentgym_suite.errors import RunError
from agentgym_suite.evaluation.appending import append_whole
from agentgym_suite.evaluation.records import utf8
from agentgym_suite.evaluation.step_records import TextReference

LONG_BYTES = 64 * 1024
_LONGEST_CODE_POINT = 4  # bytes in UTF-8
_BLOCK_BYTES = 1 << 20
_GZIP = 31  # zlib's number for a gzip member


class LongTexts:
    """The file of long texts of one run."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def keep(self, text: str) -> TextReference | None:
        """Store a text of more than 64 KiB; None for a shorter one, which stays in its record.

        Raises:
            OSError: the disk's own error; the file is then as it was.
        """
        if len(text) * _LONGEST_CODE_POINT <= LONG_BYTES:
            return None
        data = utf8(text)
        if len(data) <= LONG_BYTES:
            return None
        digest = hashlib.sha256(data).hexdigest()
        line = json.dumps({"sha256": digest, "text": data.decode("utf-8")}, ensure_ascii=False)
        member = gzip.compress(line.encode("utf-8") + b"\n", mtime=0)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            offset = append_whole(descriptor, member)
        finally:
            os.close(descriptor)
        return TextReference(digest, offset)

    def read(self, reference: TextReference) -> str:
        """The text behind a reference.

        Raises:
            RunError: it is not there, or its digest is another one.
        """
        try:
            with self._path.open("rb") as stream:
                stream.seek(reference.offset)
                member = zlib.decompressobj(_GZIP)
                parts = []
                while not member.eof and (block := stream.read(_BLOCK_BYTES)):
                    parts.append(member.decompress(block))
            text = str(json.loads(b"".join(parts))["text"])
        except (OSError, ValueError, TypeError, KeyError, RecursionError, zlib.error) as error:
            raise RunError(
                f"{self._path} has no readable text at {reference.offset}; restore that file"
            ) from error
        if hashlib.sha256(utf8(text)).hexdigest() != reference.sha256:
            raise RunError(
                f"{self._path} has another text at {reference.offset} than its record says; "
                "restore that file"
            )
        return text

    def cut_torn_end(self) -> None:
        """Cut off what a killed writer left of its last member."""
        if not self._path.exists():
            return
        good = 0
        with self._path.open("rb") as stream:
            while (size := _member_size(stream)) is not None:
                good += size
                stream.seek(good)
        if good < self._path.stat().st_size:
            os.truncate(self._path, good)


def _member_size(stream: BinaryIO) -> int | None:
    """The bytes of the complete gzip member that starts here; None when there is none."""
    member = zlib.decompressobj(_GZIP)
    size = 0
    try:
        while not member.eof:
            block = stream.read(_BLOCK_BYTES)
            if not block:
                return None
            member.decompress(block)
            size += len(block)
    except zlib.error:
        return None
    return size - len(member.unused_data)
