from __future__ import annotations

import json
import lzma
import multiprocessing
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym_suite.data import Manifest, read_manifest
from agentgym_suite.errors import DataDamaged, DataMissing, DataVersion, DiskFull
from agentgym_suite.indexes.analyzer import Analyzer
from agentgym_suite.indexes.bm25 import BM25Index
from agentgym_suite.indexes.hits import reported_scores
from agentgym_suite.webshop import store_build
from agentgym_suite.webshop.official_files import OfficialFiles, find_official_files
from agentgym_suite.webshop.products import indexed_text
from agentgym_suite.webshop.store import INDEX_FOLDER, STORE_KIND, Store
from agentgym_suite.webshop.store_build import BuildOptions, build_store, plan_store
from tests.webshop.official_folders import entry, human, record, shirts, write_folder


def build(folder: Path, store: Path, **options: Any) -> Manifest:
    official = find_official_files(folder)
    return build_store(store, plan_store(official, BuildOptions(**options), official.digests()))


# --------------------------------------------------------- the official products


def test_official_facts(official_store: Path, golden: Callable[[str], list[Any]]) -> None:
    """Acceptance fact 1."""
    store = Store(official_store)
    products = list(store.products())
    assert len(products) == len(store) == 1_000
    assert len({product.query for product in products}) == 246
    assert sum(len(product.prices) == 2 for product in products) == 93
    assert dict(store.manifest.counts) == {
        "products": 1_000,
        "human_goals": 13,
        "synthetic_goals": 6_910,
    }
    report = store.manifest.notes["report"]
    assert report == {"skipped": {}, "repaired": {}, "goals_skipped": {}, "examples": {}}


def test_official_prices_equal_the_recorded_ones(official_store: Path, shared: Path) -> None:
    path = shared / "data" / "webshop" / "golden" / "prices.json"
    recorded = json.loads(path.read_text("utf-8"))["product_prices"]
    store = Store(official_store)
    prices = {}
    for asin in recorded:
        product = store.product(asin)
        assert product is not None
        prices[asin] = product.price
    assert prices == recorded


def test_official_nouns_come_from_their_file(
    official_store: Path, golden: Callable[[str], list[Any]]
) -> None:
    store = Store(official_store)
    for row in golden("title_nouns_sm360.jsonl.xz"):
        product = store.product(row["asin"])
        assert product is not None and list(product.nouns) == row["nouns"]
    assert str(store.manifest.notes["noun_source"]).startswith("file:")


def test_official_documents_have_the_recorded_tokens(
    official_store: Path, golden: Callable[[str], list[Any]]
) -> None:
    store, analyzer = Store(official_store), Analyzer()
    for row in golden("analyzer_docs.jsonl.xz"):
        product = store.product(row["id"])
        assert product is not None
        assert list(analyzer(indexed_text(product))) == row["tokens"]


def test_official_searches_equal_the_recorded_ones(
    official_store: Path, golden: Callable[[str], list[Any]]
) -> None:
    index = BM25Index.open(official_store / INDEX_FOLDER)
    rows = golden("search_1k.jsonl.xz")
    assert len(rows) == 434
    for row in rows:
        hits = index.search(row["q"].lower(), 50)
        assert list(hits.ids) == [asin for asin, _ in row["hits"]]
        recorded = [score for _, score in row["hits"]]
        assert np.allclose(reported_scores(hits.scores), recorded, rtol=0, atol=2e-6)


# --------------------------------------------------------------------- cleaning


def test_what_is_skipped_and_mended_is_counted(tmp_path: Path) -> None:
    records = [
        record("B000000001"),
        record("B000000001", name="the second is not taken"),
        record("nan"),
        record("B0000000001"),
        record("B000000002", pricing="12.99"),
        record("B000000003", full_description=None),
        record("B000000004", name="half \ud83d a pair"),
        "no object",
        {},
    ]
    attributes = {
        "B000000001": entry("a", instruction="find it"),
        "B000000002": {"attributes": ["a"], "instruction": "x", "instruction_attributes": []},
        "B000000003": {"attributes": ["a"], "instruction": None},
    }
    humans = {
        "B000000001": [human("fine", ["a"], ["b"]), human("", ["a"], []), "no object"],
        "B000000002": {"not": "a list"},
    }
    folder = write_folder(tmp_path / "raw", records, attributes, humans)
    manifest = build(folder, tmp_path / "store")
    report: Any = manifest.notes["report"]
    assert report["skipped"] == {
        "asin repeated": 1,
        "asin is nan or longer than 10 characters": 2,
        "record is not an object": 1,
        "asin missing": 1,
    }
    assert report["repaired"] == {
        "price unreadable": 1,
        "full_description missing": 1,
        "text holds lone surrogates": 1,
    }
    assert report["goals_skipped"] == {
        "synthetic instruction without attributes": 1,
        "human instruction is not text": 2,
        "human instructions are not a list": 1,
    }
    assert report["examples"]["price unreadable"] == "B000000002"
    store = Store(tmp_path / "store")
    kept = store.product("B000000004")
    assert kept is not None and kept.name == "half \ufffd a pair"
    first = store.product("B000000001")
    assert first is not None and first.name == "Shirt B000000001"


@pytest.mark.parametrize("changes", [{"pricing": "12.99"}, {"full_description": None}])
def test_strict_data_refuse_what_would_be_mended(tmp_path: Path, changes: dict[str, Any]) -> None:
    folder = write_folder(tmp_path / "raw", [record("B1"), record("B2", **changes)])
    with pytest.raises(DataDamaged, match="product B2: .*--strict-data"):
        build(folder, tmp_path / "store", strict_data=True)
    assert not (tmp_path / "store").exists()


def test_strict_data_accept_what_the_original_skips(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "raw", [record("B1"), record("B1"), record("nan")])
    assert build(folder, tmp_path / "store", strict_data=True).counts["products"] == 1


def test_a_record_with_endless_option_combinations_makes_no_goals(tmp_path: Path) -> None:
    values = [{"value": f"v{n}"} for n in range(40)]
    groups = {f"group {n}": values for n in range(6)}
    folder = write_folder(
        tmp_path / "raw",
        [record("B1", customization_options=groups), record("B2", customization_options={})],
        {asin: entry("a", instruction="find it") for asin in ("B1", "B2")},
    )
    assert build(folder, tmp_path / "store").counts["synthetic_goals"] == 1


def test_a_product_range_price_is_hidden_in_the_range(tmp_path: Path) -> None:
    records = [record(f"B{n}", pricing="$10 to $30") for n in range(200)]
    build(write_folder(tmp_path / "raw", records), tmp_path / "store")
    prices = [product.price for product in Store(tmp_path / "store").products()]
    assert all(10 <= price <= 30 for price in prices)
    assert len(set(prices)) == 200 and 18 < sum(prices) / 200 < 22


# --------------------------------------------------------------------- building


def test_the_same_inputs_give_the_same_bytes(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "raw", *shirts(50))
    one = build(folder, tmp_path / "one")
    assert build(folder, tmp_path / "other").digest == one.digest
    assert build(folder, tmp_path / "one").digest == one.digest


def test_packed_files_give_the_same_catalogue(tmp_path: Path) -> None:
    records, attributes = shirts(20)
    folder = write_folder(tmp_path / "raw", records, attributes)
    packed = tmp_path / "packed"
    packed.mkdir()
    for path in folder.iterdir():
        (packed / f"{path.name}.xz").write_bytes(lzma.compress(path.read_bytes()))
    one, other = build(folder, tmp_path / "one"), build(packed, tmp_path / "other")
    assert one.notes["catalogue"] == other.notes["catalogue"]
    assert one.notes["goals"] == other.notes["goals"]


class Killed(Exception):
    """Stands for a process that ends in the middle of a build."""


@pytest.mark.parametrize("phase", ["products (bytes read)", "human goals", "analyse"])
def test_a_killed_build_goes_on_where_it_was(tmp_path: Path, phase: str) -> None:
    folder = write_folder(tmp_path / "raw", *shirts(50))
    official = find_official_files(folder)
    plan = plan_store(official, BuildOptions(), official.digests())
    whole = build_store(tmp_path / "whole", plan)

    def kill(name: str, done: int, total: int | None) -> None:
        if name == phase:
            raise Killed

    with pytest.raises(Killed):
        build_store(tmp_path / "store", plan, progress=kill)
    assert not (tmp_path / "store").exists()
    phases: list[str] = []
    resumed = build_store(
        tmp_path / "store", plan, progress=lambda name, done, total: phases.append(name)
    )
    assert resumed.digest == whole.digest
    assert ("products (bytes read)" in phases) is (phase == "products (bytes read)")
    names = {path.name for path in (tmp_path / "store").iterdir()}
    assert names == {"shop.sqlite", "goals", "index", "manifest.json"}


@pytest.mark.parametrize("name", ["human_bounds", "synthetic_order", "range_prices"])
def test_a_disk_that_is_full_for_an_array_of_goals(tmp_path: Path, name: str) -> None:
    folder = write_folder(tmp_path / "raw", *shirts(5))

    def fill(phase: str, done: int, total: int | None) -> None:
        if phase == "products (bytes read)":
            (tmp_path / "store.partial" / "goals").mkdir()
            (tmp_path / "store.partial" / "goals" / f"{name}.npy").symlink_to("/dev/full")

    official = find_official_files(folder)
    with pytest.raises(DiskFull, match="no space left"):
        build_store(
            tmp_path / "store",
            plan_store(official, BuildOptions(), official.digests()),
            progress=fill,
        )
    assert not (tmp_path / "store").exists()


BUILD = """
import sys
from pathlib import Path
from agentgym_suite.webshop.official_files import find_official_files
from agentgym_suite.webshop.store_build import BuildOptions, build_store, plan_store
official = find_official_files(Path(sys.argv[1]))
plan = plan_store(official, BuildOptions(), official.digests())
say = lambda phase, done, total: print(phase, flush=True)
print(build_store(Path(sys.argv[2]), plan, progress=say).digest)
"""


def start_build(folder: Path, store: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", BUILD, str(folder), str(store)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_two_builds_at_once_both_succeed(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "raw", *shirts(300))
    builds = [start_build(folder, tmp_path / "store") for _ in range(2)]
    digests = {build.communicate(timeout=120)[0].split()[-1] for build in builds}
    assert digests == {Store(tmp_path / "store").manifest.digest}
    assert [build.returncode for build in builds] == [0, 0]


def test_a_build_ended_by_sigkill_is_finished_by_the_next(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "raw", *shirts(300))
    with start_build(folder, tmp_path / "store") as first:
        assert first.stdout is not None
        while not first.stdout.readline().startswith("human goals"):
            pass
        first.kill()
    with start_build(folder, tmp_path / "store") as second:
        printed = second.communicate(timeout=120)[0].splitlines()
    assert printed[-1] == Store(tmp_path / "store").manifest.digest


@pytest.mark.parametrize("cut", [0, 1, 700, -3])
def test_a_truncated_products_file_names_file_and_place(tmp_path: Path, cut: int) -> None:
    folder = write_folder(tmp_path / "raw", *shirts(5))
    path = folder / "items_shuffle.json"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(DataDamaged, match=r"items_shuffle\.json is damaged at byte \d+"):
        build(folder, tmp_path / "store")


def test_files_that_were_named_must_be_there(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "raw", *shirts(5))
    gone = OfficialFiles(folder / "items_shuffle.json", tmp_path / "gone.json")
    with pytest.raises(DataMissing, match=r"no file .*gone\.json for the attributes"):
        gone.digests()


# ---------------------------------------------------------------------- serving


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    build(write_folder(folder / "raw", *shirts(50)), folder / "store")
    return folder / "store"


def test_products_by_asin(store: Path) -> None:
    opened = Store(store)
    product = opened.product("B000000007")
    assert product is not None and product.name == "Cotton shirt number 7"
    assert opened.product("B000000007") is product
    assert opened.product("b000000007") is None
    assert opened.product("") is None


def test_a_store_is_not_written_while_it_serves(store: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*")}
    opened = Store(store)
    assert len(list(opened.products())) == 50
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        opened._rows.one("DELETE FROM products")
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*")} == before


def test_threads_share_a_store(store: Path) -> None:
    opened = Store(store)
    names: list[str] = []

    def read() -> None:
        for number in range(50):
            product = opened.product(f"B{number:09d}")
            names.append("" if product is None else product.name)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(names) == sorted(f"Cotton shirt number {n}" for n in range(50) for _ in range(8))


def test_a_forked_child_reads_for_itself(store: Path) -> None:
    opened = Store(store)
    assert opened.product("B000000001") is not None
    with multiprocessing.get_context("fork").Pool(1, _keep, (opened,)) as pool:
        assert pool.apply(_name_of, ("B000000009",)) == "Cotton shirt number 9"


_kept: list[Store] = []


def _keep(store: Store) -> None:
    _kept.append(store)


def _name_of(asin: str) -> str:
    product = _kept[0].product(asin)
    return "" if product is None else product.name


def test_a_missing_store_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="agentgym-suite data import webshop"):
        Store(tmp_path)


def test_another_version_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_folder(tmp_path / "raw", *shirts(3))
    monkeypatch.setattr(store_build, "STORE_VERSION", 99)
    build(folder, tmp_path / "store")
    with pytest.raises(DataVersion, match="99"):
        Store(tmp_path / "store")
    assert read_manifest(tmp_path / "store", kind=STORE_KIND, version=99)


def test_a_damaged_store_is_noticed(tmp_path: Path) -> None:
    build(write_folder(tmp_path / "raw", *shirts(3)), tmp_path / "store")
    with (tmp_path / "store" / "shop.sqlite").open("ab") as stream:
        stream.write(b"more")
    with pytest.raises(DataDamaged, match=r"shop\.sqlite"):
        Store(tmp_path / "store")
