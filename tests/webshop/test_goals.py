from __future__ import annotations

import hashlib
import json
import lzma
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym_suite.errors import DataDamaged
from agentgym_suite.webshop.goal_arrays import (
    is_full_human_set,
    published_texts_digest,
    shuffled,
    write_goal_arrays,
)
from agentgym_suite.webshop.goals import ChosenIndices, Goal, GoalSet, split_ranges
from agentgym_suite.webshop.official_files import find_official_files
from agentgym_suite.webshop.prices import NO_BOUND, recorded_test_bounds
from agentgym_suite.webshop.store import Store
from agentgym_suite.webshop.store_build import BuildOptions, build_store, plan_store
from agentgym_suite.webshop.store_products import DATABASE_NAME, ProductLimits, write_products
from tests.webshop.official_folders import entry, human, record, shirts, write_folder


def built(folder: Path) -> Store:
    official = find_official_files(folder)
    store = folder.with_name(folder.name + "-store")
    build_store(store, plan_store(official, BuildOptions(), official.digests()))
    return Store(store)


@pytest.fixture(scope="module")
def sixty(tmp_path_factory: pytest.TempPathFactory) -> Store:
    records, attributes = shirts(60)
    humans = {
        raw["asin"]: [
            human("no attributes", [], []),
            human(f"..i want shirt {number}, please.", ["machine wash"], ["small"]),
        ]
        for number, raw in enumerate(records)
        if number % 2
    }
    folder = tmp_path_factory.mktemp("goals") / "sixty"
    return built(write_folder(folder, records, attributes, humans))


def as_recorded(goal: Goal) -> dict[str, Any]:
    options = list(goal.options) if goal.kind == "human" else dict(goal.options)  # type: ignore[arg-type]
    return {
        "asin": goal.asin,
        "category": goal.category,
        "query": goal.query,
        "name": goal.name,
        "product_category": goal.product_category,
        "instruction_text": goal.instruction,
        "attributes": list(goal.attributes),
        "price_upper": goal.price_upper,
        "goal_options": options,
        "weight": goal.weight,
    }


@pytest.mark.parametrize(
    ("kind", "name"),
    [("synthetic", "goals_synth.jsonl.xz"), ("human", "goals_human.jsonl")],
)
def test_official_goals_equal_the_recorded_ones(
    official_store: Path, golden: Callable[[str], list[Any]], kind: Any, name: str
) -> None:
    goals = GoalSet(Store(official_store), kind)
    assert [as_recorded(goal) for goal in goals] == golden(name)


def test_the_order_is_that_of_the_original() -> None:
    order = shuffled(12_087)
    assert order[:5].tolist() == [8655, 10304, 6940, 2750, 3667]
    text = ",".join(map(str, order.tolist()))
    assert (
        hashlib.sha256(text.encode()).hexdigest()
        == "bff456d4a63c3cf00a6744c0f35d629aa04d44cddf14c90d70fb53e7d7d163a8"
    )
    assert shuffled(6_910)[:5].tolist() == [3963, 2638, 2193, 1856, 4358]
    assert shuffled(0).tolist() == []


@pytest.fixture(scope="session")
def human_texts(shared: Path) -> list[str]:
    path = shared / "data" / "webshop" / "human_goal_texts.json.xz"
    with lzma.open(path, "rt", encoding="utf-8") as stream:
        texts: list[str] = json.load(stream)
    return texts


def test_the_full_human_set_is_recognised_by_its_test_texts(human_texts: list[str]) -> None:
    order = shuffled(len(human_texts)).tolist()
    in_file_order = [""] * len(order)
    for goal, slot in enumerate(order):
        in_file_order[slot] = human_texts[goal].capitalize()
    assert is_full_human_set(in_file_order, order)
    assert not is_full_human_set(in_file_order[:-1], order[:-1])
    in_file_order[order[499]] += "s"
    assert not is_full_human_set(in_file_order, order)
    assert (
        published_texts_digest(human_texts)
        == "aa7fbacb728541bf4cf16399b68eee06de6038789fdbf00b1f29152eea0f4f82"
    )


def test_goals_of_the_full_human_set_have_the_recorded_bounds(
    human_texts: list[str], tmp_path: Path
) -> None:
    """Acceptance fact 6, on invented products that carry the official instructions."""
    order = shuffled(len(human_texts)).tolist()
    goal_of = {slot: goal for goal, slot in enumerate(order)}
    bounds = recorded_test_bounds()
    records, humans = [], {}
    for slot in range(len(order)):
        goal, asin = goal_of[slot], f"B{slot:09d}"
        bound = bounds[goal] if goal < len(bounds) else NO_BOUND
        fits = bound - 35 if bound != NO_BOUND else 985.0
        # Every second product is sold in a range that reaches beyond what the bound allows.
        pricing = f"${fits}" if slot % 2 else f"${max(fits - 100, 1)} to ${fits + 100}"
        records.append(record(asin, pricing=pricing))
        humans[asin] = [human(human_texts[goal], ["machine wash"], [])]
    official = find_official_files(write_folder(tmp_path / "full", records, None, humans))
    summary = write_products(
        tmp_path,
        official,
        limits=ProductLimits(),
        extractor=plan_store(official, BuildOptions(), official.digests()).extractor,
        strict=True,
        progress=None,
    )
    database = sqlite3.connect(tmp_path / DATABASE_NAME)
    arrays = write_goal_arrays(
        tmp_path,
        database,
        catalogue_digest=summary["digest"],
        legacy_price_seed=None,
        progress=None,
    )
    listed = dict(database.execute("SELECT position, price FROM human"))
    database.close()
    assert arrays["price_source"] == "test500+digest"
    assert arrays["human"]["full"] is True
    saved = np.load(tmp_path / "goals" / "human_bounds.npy")
    positions = np.load(tmp_path / "goals" / "range_positions.npy").tolist()
    prices = np.load(tmp_path / "goals" / "range_prices.npy").tolist()
    price_of = listed | dict(zip(positions, prices, strict=True))
    for goal, bound in enumerate(bounds):
        assert saved[order[goal]] == bound
        assert price_of[order[goal]] <= bound


def test_splits() -> None:
    full = split_ranges(12_087, full_human_set=True)
    assert full == {
        "test": range(500),
        "eval": range(500, 1_500),
        "train": range(1_500, 12_087),
        "train500": range(500, 12_087),
    }
    assert len(full["train500"]) == 11_587
    assert split_ranges(6_910, full_human_set=False) == {
        "test": range(500),
        "eval": range(500, 1_191),
        "train": range(1_191, 6_910),
    }
    assert split_ranges(13, full_human_set=False) == {
        "test": range(1),
        "eval": range(1, 2),
        "train": range(2, 13),
    }


def test_human_goals_without_attributes_are_skipped_and_dots_are_stripped(sixty: Store) -> None:
    goals = GoalSet(sixty, "human")
    assert len(goals) == 30
    assert all(goal.instruction.startswith("i want shirt ") for goal in goals)
    assert all("please, and price lower" in goal.instruction for goal in goals)
    assert all(goal.options == ("small",) and goal.weight == 1.0 for goal in goals)
    report = sixty.manifest.notes["report"]
    assert report["goals_skipped"] == {"human instruction without attributes": 30}  # type: ignore[index,call-overload]


def test_synthetic_goals_are_the_product_of_the_options(sixty: Store) -> None:
    goals = GoalSet(sixty, "synthetic")
    assert len(goals) == 120
    by_asin = Counter(goal.asin for goal in goals)
    assert set(by_asin.values()) == {2}
    assert {goal.options for goal in goals} == {
        (("color", "red"), ("size", "small")),
        (("color", "red"), ("size", "w |  hood")),
    }
    # "machine wash" is asked for by all 120 goals, each other trait by a third of them.
    assert {goal.weight for goal in goals} == {(1 / 120 + 1 / 40) / 2}


def test_goals_are_found_by_text_with_or_without_clause(sixty: Store) -> None:
    for kind in ("human", "synthetic"):
        goals = GoalSet(sixty, kind)
        for goal in goals:
            bare = goal.instruction.split(", and price")[0]
            assert goals.find(goal.instruction) == [goal.index]
            assert goals.find(bare) == [goal.index]
            assert goals.find(bare.upper() + ", and price lower than 990.00 dollars") == [
                goal.index
            ]
        assert goals.find("nothing like it") == []
        assert goals.find("") == []


def test_a_text_that_itself_says_with_is_found(tmp_path: Path) -> None:
    attributes = {"B1": entry("a", instruction="a shirt with pockets with buttons")}
    goals = GoalSet(built(write_folder(tmp_path / "one", [record("B1")], attributes)), "synthetic")
    assert [goals.find(goal.instruction) for goal in goals] == [[0], [1]]


def test_every_goal_is_drawn_by_its_weight(tmp_path: Path) -> None:
    attributes = {
        "B1": entry("common", instruction="one"),
        "B2": entry("common", instruction="two"),
        "B3": entry("rare", instruction="three"),
    }
    records = [record(asin, customization_options="") for asin in attributes]
    goals = GoalSet(built(write_folder(tmp_path / "three", records, attributes)), "synthetic")
    rng = np.random.default_rng(0)
    drawn = Counter(goals[goals.draw(rng.random(), range(3))].asin for _ in range(4_000))
    assert {asin: round(n / 1_000) for asin, n in drawn.items()} == {"B1": 1, "B2": 1, "B3": 2}
    with pytest.raises(ValueError, match="no goal"):
        goals.draw(rng.random(), range(0))


@pytest.mark.parametrize("indices", [range(12, 120), [3, 50, 51], range(5, 6)])
def test_draws_stay_within_the_indices(sixty: Store, indices: Any) -> None:
    goals = GoalSet(sixty, "synthetic")
    rng = np.random.default_rng(1)
    drawn = {goals.draw(rng.random(), indices) for _ in range(2_500)}
    assert drawn == set(indices)


def test_filters_and_limits_narrow_the_splits_and_keep_the_ids(sixty: Store) -> None:
    whole = GoalSet(sixty, "synthetic")
    even = GoalSet(sixty, "synthetic", filter_goals=lambda index, goal: index % 2 == 0)
    for name, part in even.splits.items():
        assert list(part) == [index for index in whole.splits[name] if index % 2 == 0]
        assert 4 in even.splits["test"] and 5 not in part
    assert even[7] == whole[7] and len(even) == len(whole)
    ten = GoalSet(sixty, "synthetic", limit_goals=10)
    again = GoalSet(sixty, "synthetic", limit_goals=10)
    assert sum(map(len, ten.splits.values())) == 10
    assert {name: list(part) for name, part in ten.splits.items()} == {
        name: list(part) for name, part in again.splits.items()
    }
    assert len({whole.digest, even.digest, ten.digest}) == 3
    part = ten.splits["train"]
    assert isinstance(part, ChosenIndices)
    rng = np.random.default_rng(2)
    assert {ten.draw(rng.random(), part) for _ in range(1_000)} == set(part)


@pytest.mark.parametrize("index", [-121, 120, 10**9])
def test_indices_out_of_range_name_the_range(sixty: Store, index: int) -> None:
    with pytest.raises(IndexError, match="0 to 119"):
        GoalSet(sixty, "synthetic")[index]


def test_ids_and_numpy_integers(sixty: Store) -> None:
    goals = GoalSet(sixty, "human")
    number: Any = np.int64(3)
    assert goals[number].id == "human-3"


def test_goals_and_chosen_indices_are_sequences(sixty: Store) -> None:
    goals = GoalSet(sixty, "human", filter_goals=lambda index, goal: index % 3 == 0)
    everything = list(goals)
    for chosen, plain in (
        (goals.splits["train"], [i for i in range(6, 30) if i % 3 == 0]),
        (goals, everything),
    ):
        assert list(chosen) == plain
        for part in (slice(2, 5), slice(None, None, -1), slice(-3, None), slice(99, None)):
            assert chosen[part] == plain[part]
        assert chosen[-1] == plain[-1] and chosen[-len(plain)] == plain[0]
        assert chosen[np.int64(1)] == plain[1]  # type: ignore[call-overload]
        assert all(type(one) is type(plain[0]) for one in (chosen[0], *chosen[:2]))
        for index in (len(plain), -len(plain) - 1):
            with pytest.raises(IndexError):
                chosen[index]
        assert chosen.index(plain[2]) == 2 and list(reversed(chosen)) == plain[::-1]


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [("DELETE FROM products", "names the product"), ("DELETE FROM human", "no row for slot")],
)
def test_a_goal_that_leads_nowhere_is_damage(tmp_path: Path, damage: str, sentence: str) -> None:
    records, attributes = shirts(5)
    humans = {records[0]["asin"]: [human("i want a shirt", ["machine wash"], [])]}
    store = built(write_folder(tmp_path / "raw", records, attributes, humans))
    database = sqlite3.connect(store.folder / DATABASE_NAME)
    database.execute(damage)
    database.commit()
    database.close()
    with pytest.raises(DataDamaged, match=f"{sentence}.*remove .*raw-store and import it again"):
        GoalSet(Store(store.folder, store.manifest), "human")[0]
