"""The recordings of the original's search, and the official texts that they are about."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite.webshop.products import Cleaned, clean, indexed_text


@pytest.fixture(scope="session")
def recorded(shared: Path) -> Callable[[str], list[Any]]:
    """Reads the rows of a recording by its file name."""

    def read(name: str) -> list[Any]:
        with lzma.open(
            shared / "data" / "webshop" / "golden" / name, "rt", encoding="utf-8"
        ) as lines:
            return [json.loads(line) for line in lines]

    return read


@pytest.fixture(scope="session")
def official_texts(shared: Path) -> dict[str, str]:
    """The indexed text of each of the official 1,000 products, by ASIN."""
    with lzma.open(shared / "data" / "webshop" / "items_shuffle_1000.json.xz", "rt") as file:
        cleaned = [clean(record, None) for record in json.load(file)]
    products = [entry.product for entry in cleaned if isinstance(entry, Cleaned)]
    return {product.asin: indexed_text(product) for product in products}
