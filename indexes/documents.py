"""Documents in pyserini's collection form: JSON lines with ``id`` and ``contents``."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

from agentgym_suite.errors import DataDamaged, DataMissing
from agentgym_suite.json_stream import UNPACK_ERRORS, open_bytes


def require_documents(path: Path | str) -> None:
    """Check that the file is there, before anything long begins.

    Raises:
        DataMissing: it is not.
    """
    if not Path(path).is_file():
        raise DataMissing(f"no documents at {path}; give a file of JSON lines with id and contents")


def read_documents(path: Path | str) -> Iterator[tuple[str, str]]:
    """The (id, contents) of every line of a ``.jsonl`` file, plain, ``.gz`` or ``.xz``.

    Raises:
        DataMissing: the file is not there.
        DataDamaged: a line is not such a document, or the file is cut short.
    """
    path = Path(path)
    require_documents(path)
    number = 0
    with io.TextIOWrapper(open_bytes(path), encoding="utf-8") as stream:
        try:
            for line in stream:
                number += 1
                if not line.isspace():
                    yield _document(line)
        except (ValueError, *UNPACK_ERRORS) as error:
            raise DataDamaged(
                f"{path} line {max(number, 1)} is not a document ({error}); every line is "
                'a JSON object like {"id": "B01", "contents": "a red shoe"}'
            ) from error


def _document(line: str) -> tuple[str, str]:
    value = json.loads(line)
    if not isinstance(value, dict):
        raise ValueError(f"a {type(value).__name__} instead of an object")
    for key in ("id", "contents"):
        if not isinstance(value.get(key), str):
            raise ValueError(f"no text for {key!r}")
    return value["id"], value["contents"]
