"""The embedded catalogue: its bytes, its realism, and that all its goals can be reached."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite.json_stream import iter_json_list
from agentgym_suite.webshop.env import WebShopEnv
from agentgym_suite.webshop.generator import DEFAULT_SEED, generate, products
from agentgym_suite.webshop.generator.invented_names import NameSource
from agentgym_suite.webshop.generator.oddities import (
    ODD_FIELDS,
    ODD_OPTIONS,
    ODD_PRICES,
    odd_products,
)
from agentgym_suite.webshop.generator.product_maker import MadeProduct, ProductMaker
from agentgym_suite.webshop.generator.product_types import load_lexicon
from agentgym_suite.webshop.goals import GoalKind
from agentgym_suite.webshop.matching import COLOURS, token_set_ratio
from agentgym_suite.webshop.policies import oracle_action, rule_action
from agentgym_suite.webshop.products import Cleaned, clean

PINNED: dict[str, str] = {
    "items_human_ins.json": "4f66b056583d4e381bd4589dcc73dba857444c13845c7573716f4ab414b93f39",
    "items_ins_v2.json": "794ad7a87ba44b87ea010ad7bc5c58ac52579f916f6013e1238e77d1dca4ead6",
    "items_shuffle.json": "51ee93388bb31785f56a2fbe431e6780a69be269e2b31d93614d105702872012",
    "title_nouns.jsonl": "3a14499bb0230b95f6c7b77478cca84fd60a98d30f06ee6a28d6037d69e7ec52",
}
BUTTONS = {"search", "back to search", "< prev", "next >", "buy now"}
BUTTONS |= {"description", "features", "reviews", "attributes"}
PRINT_DIGESTS = """
import hashlib, sys
from agentgym_suite.webshop.generator import products
made = repr(list(products(300))).encode()
print(hashlib.sha256(made).hexdigest())
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded catalogue's files."""
    folder = tmp_path_factory.mktemp("generated")
    generate(folder)
    return folder


@pytest.fixture(scope="module")
def made() -> list[MadeProduct]:
    """The embedded catalogue's products."""
    return list(products(1000))


@pytest.fixture(scope="module")
def items(made: list[MadeProduct]) -> list[dict[str, Any]]:
    return [product.item for product in made]


def options_of(item: dict[str, Any]) -> dict[str, list[str]]:
    """Names and values of a record's groups, null ones left out."""
    groups = item["customization_options"] or {}
    return {
        name: [entry["value"] for entry in entries] for name, entries in groups.items() if entries
    }


# --- bytes


def test_files_are_pinned(folder: Path) -> None:
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    assert found == PINNED


def test_hash_seed_and_locale_change_nothing() -> None:
    def digest(hash_seed: str, locale: str) -> str:
        environment = os.environ | {"PYTHONHASHSEED": hash_seed, "LC_ALL": locale}
        command = [sys.executable, "-c", PRINT_DIGESTS]
        return subprocess.run(
            command, env=environment, capture_output=True, check=True, text=True
        ).stdout

    assert digest("1", "C") == digest("2", "C.UTF-8")


def test_a_shorter_catalogue_is_the_beginning_of_a_longer_one(made: list[MadeProduct]) -> None:
    assert list(products(120)) == made[:120]
    assert list(islice(products(1_181_436), 50)) == made[:50]


def test_any_product_can_be_made_alone(made: list[MadeProduct]) -> None:
    maker = ProductMaker(load_lexicon(), DEFAULT_SEED)
    assert [maker.product(number) for number in (777, 3, 999)] == [made[i] for i in (777, 3, 999)]
    late = maker.product(1_181_435)
    assert late == ProductMaker(load_lexicon(), DEFAULT_SEED).product(1_181_435)


def test_seeds_differ(made: list[MadeProduct]) -> None:
    other = list(products(50, seed=DEFAULT_SEED + 1))
    assert not {p.item["asin"] for p in other} & {p.item["asin"] for p in made}
    assert not {p.item["name"] for p in other} & {p.item["name"] for p in made}


def test_files_hold_the_products(folder: Path, made: list[MadeProduct]) -> None:
    assert [item for item, _ in iter_json_list(folder / "items_shuffle.json")] == [
        product.item for product in made
    ]
    attributes = json.loads((folder / "items_ins_v2.json").read_bytes())
    assert attributes == {p.item["asin"]: p.attributes for p in made}
    human = json.loads((folder / "items_human_ins.json").read_bytes())
    assert human == {p.item["asin"]: p.human for p in made if p.human}
    lines = (folder / "title_nouns.jsonl").read_text(encoding="utf-8").splitlines()
    nouns = [{"asin": p.item["asin"], "nouns": p.nouns} for p in made]
    assert [json.loads(line) for line in lines] == nouns


@pytest.mark.parametrize("count", [0, 1])
def test_tiny_catalogues_are_valid_files(tmp_path: Path, count: int) -> None:
    generate(tmp_path, products=count)
    assert len(json.loads((tmp_path / "items_shuffle.json").read_bytes())) == count
    assert len(json.loads((tmp_path / "items_ins_v2.json").read_bytes())) == count
    assert isinstance(json.loads((tmp_path / "items_human_ins.json").read_bytes()), dict)


def test_progress_ends_at_the_number_of_products(tmp_path: Path) -> None:
    calls: list[tuple[str, int, int | None]] = []
    generate(tmp_path, products=1500, progress=lambda *call: calls.append(call))
    assert [(done, total) for _, done, total in calls] == [(1000, 1500), (1500, 1500)]


def test_a_million_names_and_ids_are_distinct() -> None:
    names = NameSource(DEFAULT_SEED)
    numbers = range(0, 1_400_000, 7)
    asins = [names.asin(number) for number in numbers]
    assert len(set(asins)) == len(asins)
    assert all(re.fullmatch(r"B0[0-9A-Z]{8}", asin) for asin in asins[:1000])
    assert asins != sorted(asins)
    assert len({names.line(number) for number in numbers}) == len(numbers)


# --- titles, families, instructions


def test_instructions_name_what_is_wanted(made: list[MadeProduct]) -> None:
    for product in made:
        if "instruction" in product.attributes:
            text = product.attributes["instruction"]
            assert product.item["query"] in text
            assert all(want in text for want in product.attributes["instruction_attributes"])
        for entry in product.human:
            assert entry["instruction"] == entry["instruction"].lower()
            assert set(entry["instruction_attributes"]) <= set(product.attributes["attributes"])
            wanted = entry["instruction_attributes"] + entry["instruction_options"]
            assert all(want in entry["instruction"] for want in wanted)


def test_titles_are_distinct_and_their_nouns_are_theirs(made: list[MadeProduct]) -> None:
    titles = [product.item["name"] for product in made]
    assert len(set(titles)) == len(titles)
    for product in made:
        assert len(product.nouns) >= 2
        title = product.item["name"].lower()
        position = 0
        for noun in product.nouns:  # in order, repeats included
            position = title.index(noun, position) + len(noun)
        assert not {"for", "and", "free", "soft"} & set(product.nouns)


def test_families_are_near_duplicates(made: list[MadeProduct]) -> None:
    """Products of one collection share brand and query but not what a customer may ask for."""
    families: dict[str, list[MadeProduct]] = {}
    line_ends = "mere|wick|ton|dale|ford|lyn|quist|crest|well|gate|mont|holm"
    for product in made:
        found = re.search(rf"\b[A-Z][a-z]+(?:{line_ends})\b", product.item["name"])
        if found:
            families.setdefault(found[0] + product.item["query"], []).append(product)
    siblings = [family for family in families.values() if len(family) > 1]
    assert sum(map(len, siblings)) > 400
    for family in siblings:
        told = [(p.item["pricing"], p.attributes["attributes"], p.item["name"]) for p in family]
        assert all(one != other for i, one in enumerate(told) for other in told[:i])


# --- reachable goals


def test_no_option_value_breaks_the_rules_of_matching(items: list[dict[str, Any]]) -> None:
    for item in items:
        cleaned = clean(item, ["any"])
        assert isinstance(cleaned, Cleaned)
        assert not cleaned.repairs
        values = [value for _, group in cleaned.product.options for value in group]
        assert len(set(values)) == len(values), item["asin"]
        assert not BUTTONS & set(values)
        for value in values:
            assert "[" not in value and "]" not in value
            assert token_set_ratio(value, f"('any', '{value}')") > 85
            colour = next((colour for colour in COLOURS if colour in value), None)
            assert colour is None or colour in re.findall(r"\w+", value), value


@pytest.mark.parametrize("goals", ["human", "synthetic"])
def test_oracle_reaches_every_goal_and_the_rule_policy_few(
    goals: GoalKind, fresh_home: Path
) -> None:
    env = WebShopEnv(goals=goals)
    rule_successes = 0
    total = len(env.catalogue.goals)
    assert total >= (200 if goals == "human" else 4500)
    for index in range(total):
        task = {"task_id": f"{goals}-{index}"}
        env.reset(options=task)
        for _ in range(15):
            _, reward, done, _, _ = env.step(oracle_action(env.session))
            if done:
                break
        assert (done, reward) == (True, 1.0), task
        if index % 5 == 0:
            _, info = env.reset(options=task)
            done = False
            for _ in range(5):
                _, reward, done, _, info = env.step(rule_action(info))
                if done:
                    break
            rule_successes += done and reward == 1.0
    assert rule_successes < 0.4 * total / 5


# --- oddities


def test_no_oddity_unless_asked_for(items: list[dict[str, Any]]) -> None:
    assert all(item["name"].strip() and len(item["asin"]) == 10 for item in items)
    assert all(item["images"] and item["full_description"] is not None for item in items)
    assert len({item["asin"] for item in items}) == 1000


def test_oddities_follow_the_ordinary_products(tmp_path: Path) -> None:
    plain, odd = tmp_path / "plain", tmp_path / "odd"
    generate(plain, products=40)
    generate(odd, products=40, oddities=True)
    items = json.loads((odd / "items_shuffle.json").read_bytes())
    assert items[:40] == json.loads((plain / "items_shuffle.json").read_bytes())
    strange = items[40:]
    pricings = [item.get("pricing") for item in strange]
    assert set(ODD_PRICES) <= set(filter(lambda p: isinstance(p, str), pricings))
    for field, value in ODD_FIELDS.values():
        assert any(field in item and item[field] == value for item in strange)
    groups = [
        options_of(item) for item in strange if isinstance(item.get("customization_options"), dict)
    ]
    for wanted in ODD_OPTIONS.values():
        assert {name: values for name, values in wanted.items() if values} in groups
    asins = Counter(item["asin"] for item in strange)
    assert max(asins.values()) == 2
    human = json.loads((odd / "items_human_ins.json").read_bytes())
    assert any(not entry["instruction_attributes"] for some in human.values() for entry in some)


def test_odd_records_are_named_and_made_the_same_way_twice() -> None:
    maker = ProductMaker(load_lexicon(), DEFAULT_SEED)
    odd = list(odd_products(maker, 1000))
    assert odd == list(odd_products(maker, 1000))
    assert len({record.oddity for record in odd}) == len(odd)


# --- the texts are our own


def test_no_sentence_is_an_official_one(items: list[dict[str, Any]], shared: Path) -> None:
    def runs(text: str) -> set[tuple[str, ...]]:
        words = re.findall(r"\w+", text.lower())
        return {tuple(words[start : start + 7]) for start in range(len(words) - 6)}

    def bullets(item: dict[str, Any]) -> str:
        points = item["small_description"]
        return points if isinstance(points, str) else " ".join(points)

    official: set[tuple[str, ...]] = set()
    for item, _ in iter_json_list(shared / "data" / "webshop" / "items_shuffle_1000.json.xz"):
        official |= runs(item["full_description"]) | runs(item["name"])
        official |= runs(bullets(item))
    for item in items:
        assert not runs(item["full_description"]) & official
        assert not runs(item["name"]) & official
        assert not runs(bullets(item)) & official
