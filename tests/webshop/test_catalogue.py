from __future__ import annotations

import gc
import hashlib
import importlib.util
import json
import pickle
import subprocess
import sys
import threading
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite.errors import DataError, DataMissing, MissingExtra, UsageError
from agentgym_suite.webshop import store_folder
from agentgym_suite.webshop.catalogue import Catalogue, open_catalogue
from agentgym_suite.webshop.goals import Goal
from tests.webshop.official_folders import entry, human, record, shirts, write_folder

pytestmark = pytest.mark.usefixtures("fresh_home")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "official", *shirts(30))


def odd(index: int, goal: Goal) -> bool:
    return index % 2 == 1


# -------------------------------------------------------------- what data means


def test_a_small_folder_builds_itself_once_under_the_home(folder: Path, fresh_home: Path) -> None:
    phases: list[str] = []

    def note(phase: str, done: int, total: int | None) -> None:
        phases.append(phase)

    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert open_catalogue(folder, progress=note).size == 30
    assert phases
    phases.clear()
    assert open_catalogue(str(folder), goals="synthetic", progress=note).size == 30
    assert phases == []
    assert len(list((fresh_home / "webshop").glob("cache-*/manifest.json"))) == 1
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_a_changed_folder_is_another_catalogue(folder: Path) -> None:
    one = open_catalogue(folder)
    write_folder(folder, *shirts(31))
    other = open_catalogue(folder)
    assert (one.size, other.size) == (30, 31) and one.digest != other.digest


def test_the_first_products_only(folder: Path) -> None:
    assert open_catalogue(folder, num_products=7).size == 7
    with pytest.raises(UsageError, match="num_products is 0"):
        open_catalogue(folder, num_products=0)


def test_a_built_store_is_opened_where_it_is(folder: Path, fresh_home: Path) -> None:
    open_catalogue(folder)
    (store,) = (path for path in (fresh_home / "webshop").iterdir() if path.is_dir())
    assert open_catalogue(store).digest == open_catalogue(folder).digest
    assert open_catalogue(store, num_products=30).size == 30
    with pytest.raises(UsageError, match="num_products=7 does not fit the built store"):
        open_catalogue(store, num_products=7)
    with pytest.raises(UsageError, match="legacy_price_seed=1 does not fit"):
        open_catalogue(store, legacy_price_seed=1)


def test_a_large_folder_names_the_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_folder, "MOST_PRODUCTS_UNBUILT", 29)
    with pytest.raises(DataMissing, match="agentgym-suite data import webshop --items"):
        open_catalogue(folder)
    assert open_catalogue(folder, num_products=29).size == 29
    monkeypatch.setattr(store_folder, "_MOST_BYTES_UNBUILT", 100)
    with pytest.raises(DataMissing, match="agentgym-suite data import webshop --items"):
        open_catalogue(folder, num_products=29)


def test_data_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="nowhere', neither a folder nor a data set"):
        open_catalogue(tmp_path / "nowhere")
    with pytest.raises(DataMissing, match="neither a built store nor items_shuffle"):
        open_catalogue(tmp_path)


def test_two_products_files_in_one_folder_are_ambiguous(folder: Path) -> None:
    (folder / "items_shuffle_1000.json").write_text("[]", "utf-8")
    with pytest.raises(DataError, match="keep one of them"):
        open_catalogue(folder)


def test_the_embedded_catalogue(fresh_home: Path) -> None:
    catalogue = open_catalogue()
    assert catalogue.size == 1_000
    assert catalogue.goals.kind == "human" and len(catalogue.goals) >= 200
    assert str(catalogue.provenance()["noun_source"]).startswith("generator:")
    assert all(catalogue.product(goal.asin) is not None for goal in catalogue.goals)
    assert open_catalogue() is catalogue


FIRST_USE = """
from agentgym_suite.webshop.catalogue import open_catalogue
print(open_catalogue().digest)
"""


def test_two_first_uses_at_once_both_succeed(fresh_home: Path) -> None:
    command = [sys.executable, "-c", FIRST_USE]
    uses = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    digests = {use.communicate(timeout=120)[0].strip() for use in uses}
    assert digests == {open_catalogue().digest}


# --------------------------------------------------------------------- sharing


def test_equal_arguments_share_one_catalogue(folder: Path) -> None:
    one = open_catalogue(folder, filter_goals=odd)
    assert open_catalogue(folder, filter_goals=odd) is one
    assert open_catalogue(folder) is not one
    assert open_catalogue(folder, num_products=7) is not one


def test_a_catalogue_goes_with_its_last_user(folder: Path) -> None:
    gc.collect()
    gc.disable()
    try:
        catalogue = open_catalogue(folder)
        catalogue.search(["shirt"])
        catalogue.goals[0]
        before = id(catalogue)
        del catalogue
        assert not any(id(one) == before for one in gc.get_objects() if type(one) is Catalogue)
    finally:
        gc.enable()


def test_threads_get_the_same_catalogue(folder: Path) -> None:
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(open_catalogue(folder))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len({id(one) for one in found}) == 1


def test_a_catalogue_pickles_as_its_arguments(folder: Path) -> None:
    catalogue = open_catalogue(folder, filter_goals=odd, cache_size=0)
    data = pickle.dumps(catalogue)
    assert pickle.loads(data) is catalogue
    assert len(data) < 1_000


# ----------------------------------------------------------------------- goals


def test_human_goals_are_the_default_where_there_are_enough(tmp_path: Path) -> None:
    records, attributes = shirts(3)
    few = {"B000000000": [human("a shirt", ["machine wash"], [])] * 99}
    many = {"B000000000": few["B000000000"] * 2}
    one = open_catalogue(write_folder(tmp_path / "few", records, attributes, few))
    assert (one.goals.kind, len(one.goals)) == ("synthetic", 6)
    other = open_catalogue(write_folder(tmp_path / "many", records, attributes, many))
    assert (other.goals.kind, len(other.goals)) == ("human", 198)
    assert open_catalogue(tmp_path / "many", goals="synthetic").goals.kind == "synthetic"


def test_goals_that_are_not_there_or_not_known(folder: Path) -> None:
    with pytest.raises(UsageError, match="no human goals"):
        open_catalogue(folder, goals="human")
    with pytest.raises(UsageError, match="goals is 'martian'"):
        open_catalogue(folder, goals="martian")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="search is 'grep'"):
        open_catalogue(folder, search="grep")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="limit_goals is 0"):
        open_catalogue(folder, limit_goals=0)


def test_bounds_follow_from_the_catalogue_digest(folder: Path) -> None:
    catalogue = open_catalogue(folder)
    for goal in catalogue.goals:
        product = catalogue.product(goal.asin)
        assert product is not None
        text = f"{catalogue.digest}|bound|{goal.asin}|0"
        fraction = int(hashlib.sha256(text.encode()).hexdigest()[:16], 16) / 2**64
        above = [bound for bound in range(10, 1_000, 10) if bound > product.price][:4]
        pairs = list(combinations(above, 2))
        assert goal.price_upper == pairs[int(fraction * len(pairs))][1]


# ---------------------------------------------------------------------- search


@pytest.mark.parametrize("cache_size", [0, 2])
def test_search_gives_the_same_with_and_without_cache(folder: Path, cache_size: int) -> None:
    catalogue = open_catalogue(folder, cache_size=cache_size)
    for _ in range(2):
        assert catalogue.search(["number", "7"])[0] == "B000000007"
        assert len(catalogue.search(["shirt"])) == 30
        assert catalogue.search(["the"]) == catalogue.search([""]) == catalogue.search([]) == ()
        assert catalogue.search(["unknown"]) == ()


def test_at_most_fifty_hits_ties_by_asin(tmp_path: Path) -> None:
    records = [record(f"B{number:09d}", name="shirt") for number in reversed(range(60))]
    catalogue = open_catalogue(write_folder(tmp_path / "sixty", records))
    assert catalogue.search(["shirt"]) == tuple(f"B{number:09d}" for number in range(50))


def test_special_keywords_are_ordinary_words_unless_asked_for(tmp_path: Path) -> None:
    records = [
        record(f"B{n:09d}", name="c shirt", category=("fashion", "beauty")[n % 2], query=f"q {n}")
        for n in range(60)
    ]
    attributes = {"B000000005": entry("machine wash", instruction="find it")}
    folder = write_folder(tmp_path / "sixty", records, attributes)
    plain = open_catalogue(folder)
    special = open_catalogue(folder, special_queries=True)
    assert len(plain.search(["<c>", "fashion"])) == 50
    assert special.search(["<c>", "fashion"]) == tuple(f"B{n:09d}" for n in range(0, 60, 2))
    assert special.search(["<c>"]) == special.search(["<c>", "toys"]) == ()
    assert special.search(["<q>", "q", "7"]) == ("B000000007",)
    assert special.search(["<a>", "machine", "wash"]) == ("B000000005",)
    drawn = special.search(["<r>"])
    assert len(set(drawn)) == 50 and special.search(["<r>"]) == drawn
    assert special.search(["<r>", "again"]) != drawn
    assert special.search(["shirt"]) == plain.search(["shirt"])
    assert plain.provenance()["special_queries"] is False


# ------------------------------------------------------------------ provenance


def test_provenance_names_what_results_depend_on(folder: Path) -> None:
    catalogue = open_catalogue(folder, legacy_price_seed=3)
    about = catalogue.provenance()
    assert about == json.loads(json.dumps(about))
    assert about["catalogue"] == catalogue.digest
    assert (about["products"], about["goals"], about["goal_count"]) == (30, "synthetic", 60)
    assert about["goals_digest"] == catalogue.goals.digest
    assert about["price_source"] == "legacy:3"
    assert about["noun_source"] == "rules:1"
    assert about["search"] == "bm25" and str(about["index"]).startswith("sha256:")
    assert open_catalogue(folder).provenance()["price_source"] == "digest"
    assert open_catalogue(folder).digest == catalogue.digest


def test_nouns_of_a_file_beside_the_folder(folder: Path, tmp_path: Path) -> None:
    nouns = tmp_path / "my_nouns.jsonl"
    nouns.write_text('{"asin": "B000000001", "nouns": ["garment"]}\n', "utf-8")
    catalogue = open_catalogue(folder, nouns=nouns)
    product, other = catalogue.product("B000000001"), catalogue.product("B000000002")
    assert product is not None and product.nouns == ("garment",)
    assert other is not None and other.nouns == ()
    assert str(catalogue.provenance()["noun_source"]).startswith("file:")


def test_lucene_is_an_extra(folder: Path) -> None:
    if importlib.util.find_spec("pyserini") is not None:
        pytest.skip("pyserini is installed")
    with pytest.raises(MissingExtra, match=r"agentgym-suite\[lucene\]"):
        open_catalogue(folder, search="lucene")


def test_lucene_finds_the_same(folder: Path) -> None:
    pytest.importorskip("pyserini", reason="pyserini is not installed")
    own, lucene = open_catalogue(folder), open_catalogue(folder, search="lucene")
    for goal in own.goals:
        words = goal.instruction.split(" ")
        assert own.search(words) == lucene.search(words)
    assert lucene.provenance()["search"] == "lucene"


def test_hits_are_the_search_with_its_scores() -> None:
    catalogue = open_catalogue()
    words = ("coffee", "table")
    hits = catalogue.hits(words)
    assert hits.ids == catalogue.search(words)
    assert list(hits.scores) == sorted(hits.scores, reverse=True)
    assert catalogue.hits(words, 3).ids == hits.ids[:3]
