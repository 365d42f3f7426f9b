"""The vectors that every equation is compared with, when the benchmark data is there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch


@pytest.fixture(scope="package", autouse=True)
def one_thread() -> Iterator[None]:
    """Tensors this small are slowed down by threads that wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def vectors(shared: Path) -> dict[str, Any]:
    """Name to inputs, outputs and note."""
    path = shared / "oracles" / "algorithms.json"
    if not path.is_file():
        pytest.skip(f"shared test data not found at {path}")
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded
