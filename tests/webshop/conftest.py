"""The official 1,000 products, built once for the tests that compare with recordings."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite.webshop.official_files import find_official_files
from agentgym_suite.webshop.store_build import BuildOptions, build_store, plan_store

RECORDED_PRICE_SEED = 20240


@pytest.fixture(scope="session")
def golden(shared: Path) -> Callable[[str], list[Any]]:
    """Reads the rows of a recording by its file name."""

    def read(name: str) -> list[Any]:
        path = shared / "data" / "webshop" / "golden" / name
        data = path.read_bytes()
        text = (lzma.decompress(data) if path.suffix == ".xz" else data).decode("utf-8")
        return [json.loads(line) for line in text.split("\n") if line]

    return read


@pytest.fixture(scope="session")
def official_store(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of the official products with the recordings' prices and title nouns."""
    folder = shared / "data" / "webshop"
    official = find_official_files(folder, nouns=folder / "golden" / "title_nouns_sm360.jsonl.xz")
    plan = plan_store(
        official, BuildOptions(legacy_price_seed=RECORDED_PRICE_SEED), official.digests()
    )
    store = tmp_path_factory.mktemp("official") / "store"
    build_store(store, plan)
    return store
