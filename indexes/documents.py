"""Documents in pyserini's collection form: JSON lines with ``id`` and ``contents``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentgym_suite.errors import DataMissing
from agentgym_suite.json_stream import read_json_lines


def require_documents(path: Path | str) -> None:
    """Check that the file is there, before anything long begins.

    Raises:
        DataMissing: it is not.
    """
    if not os.path.isfile(path):
        raise DataMissing(f"no documents at {path}; give a file of JSON lines with id and contents")


def read_documents(path: Path | str) -> Iterator[tuple[str, str]]:
    """The (id, contents) of every line of a ``.jsonl`` file, plain, ``.gz`` or ``.xz``.

    Raises:
        DataMissing: the file is not there.
        DataDamaged: a line is not such a document, or the file is cut short.
    """
    require_documents(path)
    example = '{"id": "B01", "contents": "a red shoe"}'
    return read_json_lines(path, _document, "a document", example)


def _document(value: Any) -> tuple[str, str]:
    if not isinstance(value, dict):
        raise ValueError(f"a {type(value).__name__} instead of an object")
    for key in ("id", "contents"):
        if not isinstance(value.get(key), str):
            raise ValueError(f"no text for {key!r}")
    return value["id"], value["contents"]
