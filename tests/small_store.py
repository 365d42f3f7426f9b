"""A published folder of two files, for the tests of the data home."""

from __future__ import annotations

from pathlib import Path

from agentgym_suite import data
from agentgym_suite.data import Contents, Json, Manifest


def build(
    folder: Path,
    *,
    version: int = 1,
    inputs: dict[str, Json] | None = None,
    text: str = "hello",
    seen: list[list[str]] | None = None,
) -> Manifest:
    def write(partial: Path) -> Contents:
        if seen is not None:
            seen.append(sorted(path.name for path in partial.iterdir()))
        (partial / "deep").mkdir(exist_ok=True)
        (partial / "deep" / "a.txt").write_text(text)
        (partial / "b.bin").write_bytes(b"\x00" * 10)
        return Contents({"things": 2}, {"label": "ü"})

    return data.publish(
        folder, kind="test-store", version=version, inputs=inputs or {"x": 1}, write=write
    )
