from __future__ import annotations

import argparse
import json
import lzma
from pathlib import Path

import pytest

from agentgym_suite.errors import DataDamaged, DataError, DataMissing, DataVersion, UsageError
from agentgym_suite.webshop.catalogue import open_catalogue
from agentgym_suite.webshop.env import WebShopEnv
from agentgym_suite.webshop.importing import (
    add_generate_arguments,
    add_import_arguments,
    describe,
    run_generate,
    run_import,
    verify,
)
from tests.manifest_edits import edit_manifest
from tests.webshop.official_folders import human, record, shirts, write_folder


def parse_import(*words: object) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_import_arguments(parser)
    return parser.parse_args([str(word) for word in words])


def parse_generate(*words: object) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_generate_arguments(parser)
    return parser.parse_args([str(word) for word in words])


@pytest.fixture
def files(tmp_path: Path) -> list[object]:
    records, attributes = shirts(20)
    humans = {"B000000003": [human("a shirt", ["machine wash"], [])]}
    folder = write_folder(tmp_path / "official", records, attributes, humans)
    items = folder / "items_shuffle.json.xz"
    items.write_bytes(lzma.compress((folder / "items_shuffle.json").read_bytes()))
    return [
        "--items",
        items,
        "--attributes",
        folder / "items_ins_v2.json",
        "--human",
        folder / "items_human_ins.json",
    ]


def test_import_builds_a_store_that_plays(files: list[object], tmp_path: Path) -> None:
    phases: set[str] = set()
    args = parse_import(*files, "--legacy-price-seed", 5, "--out", tmp_path / "store")
    folder = run_import(args, lambda phase, done, total: phases.add(phase))
    assert folder == tmp_path / "store"
    assert {"attributes", "human", "products (bytes read)", "human goals"} <= phases
    catalogue = open_catalogue(folder)
    assert (catalogue.size, len(catalogue.goals)) == (20, 40)
    assert len(open_catalogue(folder, goals="human").goals) == 1
    assert catalogue.provenance()["price_source"] == "legacy:5"
    assert verify(folder).counts["products"] == 20


def test_import_again_reuses_and_other_options_are_refused(
    files: list[object], tmp_path: Path
) -> None:
    out = ["--out", tmp_path / "store"]
    run_import(parse_import(*files, *out))
    before = (tmp_path / "store" / "shop.sqlite").stat().st_mtime_ns
    run_import(parse_import(*files, *out))
    assert (tmp_path / "store" / "shop.sqlite").stat().st_mtime_ns == before
    with pytest.raises(DataError, match="num_products"):
        run_import(parse_import(*files, "--num-products", 3, *out))


def test_import_of_the_first_products(files: list[object], tmp_path: Path) -> None:
    run_import(parse_import(*files, "--num-products", 3, "--out", tmp_path / "store"))
    assert verify(tmp_path / "store").counts["products"] == 3


def test_what_import_refuses(files: list[object], tmp_path: Path) -> None:
    out = ["--out", tmp_path / "store"]
    with pytest.raises(UsageError, match="--out DIR"):
        run_import(parse_import(*files))
    with pytest.raises(UsageError, match="--num-products is 0"):
        run_import(parse_import(*files, "--num-products", 0, *out))
    with pytest.raises(UsageError, match="--nouns and --spacy"):
        run_import(parse_import(*files, "--nouns", "a", "--spacy", "b", *out))
    with pytest.raises(DataMissing, match="no file nowhere for the nouns"):
        run_import(parse_import(*files, "--nouns", "nowhere", *out))
    assert not (tmp_path / "store").exists()


def test_strict_import_names_the_product(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "official", [record("B1", pricing="free")])
    files = ["--items", folder / "items_shuffle.json", "--out", tmp_path / "store"]
    with pytest.raises(DataDamaged, match="product B1: price unreadable"):
        run_import(parse_import(*files, "--strict-data"))
    run_import(parse_import(*files))


def test_exchanged_files_are_refused(files: list[object], tmp_path: Path) -> None:
    _, items, _, attributes, _, humans = files
    out = ["--out", tmp_path / "store"]
    for given, blamed in (
        (["--attributes", humans, "--human", attributes], "--attributes and --human"),
        (["--attributes", humans, "--human", humans], r"items_human_ins\.json gives no goal"),
        (["--attributes", attributes, "--human", attributes], r"items_ins_v2\.json gives no goal"),
    ):
        with pytest.raises(DataDamaged, match=blamed):
            run_import(parse_import("--items", items, *given, *out))
        assert not (tmp_path / "store").exists()


def test_a_few_products_may_have_no_human_goal(files: list[object], tmp_path: Path) -> None:
    run_import(parse_import(*files, "--num-products", 2, "--out", tmp_path / "store"))
    assert verify(tmp_path / "store").counts["human_goals"] == 0


@pytest.mark.parametrize("records", [[], [float("nan")], [{"asin": "nan"}]])
def test_a_file_without_a_product_is_refused(tmp_path: Path, records: list[object]) -> None:
    folder = write_folder(tmp_path / "official", records)
    args = parse_import("--items", folder / "items_shuffle.json", "--out", tmp_path / "store")
    for _ in range(2):  # what the first try left behind changes nothing
        with pytest.raises(DataDamaged, match=r"items_shuffle\.json gives no product"):
            run_import(args)
    assert not (tmp_path / "store").exists()


def test_what_was_left_out_is_told(tmp_path: Path) -> None:
    records = [record("B1", pricing="free"), record("B2"), record("B2"), "no object"]
    instructions = {"B1": [human("a shirt", ["soft"], []), human("", ["soft"], [])]}
    folder = write_folder(tmp_path / "official", records, None, instructions)
    files = ["--items", folder / "items_shuffle.json", "--human", folder / "items_human_ins.json"]
    store = run_import(parse_import(*files, "--out", tmp_path / "store"))
    assert describe(store) == [
        "goals: human (1)",
        "products left out: asin repeated (1, such as B2)",
        "products left out: record is not an object (1, such as a record without an ASIN)",
        "products mended: price unreadable (1, such as B1)",
        "goals left out: human instruction is not text (1, such as B1)",
    ]


def test_a_count_past_every_index_is_refused(files: list[object], tmp_path: Path) -> None:
    args = parse_import(*files, "--num-products", 10**30, "--out", tmp_path / "store")
    with pytest.raises(UsageError, match="--num-products is 10+; give at most"):
        run_import(args)


def test_values_and_titles_too_long_for_an_action_stop_no_policy(tmp_path: Path) -> None:
    endless = "very " * 500_000
    groups = {"size": [{"value": "small"}, {"value": endless}], endless: [{"value": "red"}]}
    records = [record("B1", name=endless, customization_options=groups)]
    instructions = {"B1": [human(endless, ["soft"], [endless, "small"])]}
    folder = write_folder(tmp_path / "official", records, None, instructions)
    files = ["--items", folder / "items_shuffle.json", "--human", folder / "items_human_ins.json"]
    store = run_import(parse_import(*files, "--out", tmp_path / "store"))
    assert describe(store)[1:] == [
        "products mended: option value too long for an action (2, such as B1)"
    ]
    env = WebShopEnv(store, split="train")
    for policy in ("oracle", "scripted"):
        act = env.policies[policy](env)
        observation, info = env.reset(seed=0)
        over = False
        while not over:
            observation, _, over, _, info = env.step(act(observation, info))
            assert info["action_valid"]


def test_verify_compares_what_lies_there_with_the_manifest(
    files: list[object], tmp_path: Path
) -> None:
    store = run_import(parse_import(*files, "--out", tmp_path / "store"))
    (store / ".DS_Store").write_text("what a file browser leaves")
    verify(store)
    edit_manifest(store, files={})
    with pytest.raises(DataDamaged, match="is not in the manifest beside it"):
        verify(store)
    newer = json.loads((store / "manifest.json").read_text("utf-8")) | {"version": 99}
    (store / "manifest.json").write_text(json.dumps(newer))
    with pytest.raises(DataVersion, match="99"):
        verify(store)


def test_generate_then_play(tmp_path: Path) -> None:
    args = parse_generate("--products", 40, "--seed", 9, "--out", tmp_path / "made")
    folder = run_generate(args)
    assert run_generate(args) == folder
    assert verify(folder).counts["products"] == 40
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "items_shuffle.json",
        "items_ins_v2.json",
        "items_human_ins.json",
        "title_nouns.jsonl",
        "manifest.json",
    }
    with pytest.raises(UsageError, match="--products is 0"):
        run_generate(parse_generate("--products", 0, "--out", tmp_path / "none"))


@pytest.mark.usefixtures("fresh_home")
def test_generated_oddities_are_cleaned(tmp_path: Path) -> None:
    args = parse_generate("--products", 5, "--oddities", "--out", tmp_path / "odd")
    catalogue = open_catalogue(run_generate(args))
    assert catalogue.size > 5
    assert str(catalogue.provenance()["noun_source"]).startswith("generator:")


def test_verify_notices_a_changed_byte(files: list[object], tmp_path: Path) -> None:
    store = run_import(parse_import(*files, "--out", tmp_path / "store"))
    path = store / "goals" / "human_bounds.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(DataDamaged, match=r"human_bounds\.npy"):
        verify(store)


def test_verify_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataMissing):
        verify(tmp_path)
