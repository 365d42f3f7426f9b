"""The vectors that every equation is compared with, when the benchmark data is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def vectors(shared: Path) -> dict[str, Any]:
    """Name to inputs, outputs and note."""
    path = shared / "oracles" / "algorithms.json"
    if not path.is_file():
        pytest.skip(f"shared test data not found at {path}")
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded
