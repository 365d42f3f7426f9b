"""What the server tests share: a small shop in the official file formats, and papers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentgym_suite.indexes.paper_index import PaperIndex
from agentgym_suite.indexes.paper_store import PaperStore
from agentgym_suite.webshop.catalogue import Catalogue, open_catalogue
from tests.servers.shop_site import shop
from tests.servers.small_papers import build, serving

SHIRT = "B00SHIRT01"
COLORS = ("blue", "red / white", 'the "best" one', "grün 😀")


def _product(asin: str, name: str, price: str, **options: tuple[str, ...]) -> dict[str, Any]:
    return {
        "asin": asin,
        "name": name,
        "full_description": f"All about {name}. <script>alert(1)</script>",
        "small_description": ["soft cotton", "machine wash"],
        "pricing": price,
        "images": [f"https://images.example/{asin}.jpg"],
        "category": "fashion",
        "query": "shirts",
        "product_category": "Clothing › Men › Shirts",
        "customization_options": {
            group: [{"value": value, "image": None} for value in values]
            for group, values in options.items()
        }
        or "",
    }


@pytest.fixture(scope="session")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    """Twenty-five shirts and a cap, with goals for one shirt."""
    folder = tmp_path_factory.mktemp("shop")
    products = [
        _product(
            SHIRT, "Running Shirt 1/4 zip <b>bold</b>", "$20.00", color=COLORS, size=("s", "m")
        )
    ]
    products += [_product(f"B00SHIRT{i:02}", f"Shirt number {i}", "$9.99") for i in range(2, 26)]
    products.append(_product("B00CAP0001", "Green Cap", "$5.00"))
    attributes = {product["asin"]: {"attributes": ["soft cotton"]} for product in products}
    goals = [
        {
            "asin": SHIRT,
            "instruction": f"i want a running shirt <number {i}> in blue",
            "attributes": ["soft cotton"],
            "options": ["blue"],
            "instruction_attributes": ["soft cotton"],
            "instruction_options": ["blue"],
        }
        for i in range(12)
    ]
    for name, value in (
        ("items_shuffle_1000.json", products),
        ("items_ins_v2_1000.json", attributes),
        ("items_human_ins.json", {SHIRT: goals}),
    ):
        (folder / name).write_text(json.dumps(value), encoding="utf-8")
    return _open(folder, tmp_path_factory.mktemp("home"))


def _open(folder: Path, home: Path) -> Catalogue:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTGYM_SUITE_HOME", str(home))
        return open_catalogue(folder, goals="human")


@pytest.fixture
def client(catalogue: Catalogue) -> Iterator[httpx.Client]:
    with shop(catalogue) as client:
        client.get("/abc")
        yield client


@pytest.fixture(scope="session")
def paper_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built store of ``small_papers``."""
    return build(tmp_path_factory.mktemp("papers"))


@pytest.fixture(scope="session")
def paper_store(paper_folder: Path) -> Iterator[PaperStore]:
    """The same, opened."""
    opened = PaperStore.open(paper_folder)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def paper_client(paper_store: PaperStore) -> Iterator[httpx.Client]:
    """A client of a paper server over it."""
    with serving(PaperIndex(paper_store), threads=2) as client:
        yield client
