"""Stores whose bytes changed after they were built, and processes that end while one is read."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite.errors import AgentGymSuiteError, DataDamaged, DataError
from agentgym_suite.webshop.catalogue import open_catalogue
from agentgym_suite.webshop.env import WebShopEnv
from agentgym_suite.webshop.generated_files import publish_generated
from agentgym_suite.webshop.official_files import find_official_files
from agentgym_suite.webshop.store import Store, read_store_manifest
from agentgym_suite.webshop.store_build import BuildOptions, build_store, plan_store
from tests.manifest_edits import edit_manifest
from tests.webshop.official_folders import human, shirts, write_folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    records, attributes = shirts(40)
    humans = {"B000000003": [human("a shirt", ["machine wash"], ["red"])]}
    official = find_official_files(write_folder(folder / "raw", records, attributes, humans))
    build_store(folder / "store", plan_store(official, BuildOptions(), official.digests()))
    return folder / "store"


@pytest.fixture
def store(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "store"))


def play(store: Path) -> None:
    """Touch everything that an episode reads."""
    for goals, limit in (("human", None), ("synthetic", None), ("synthetic", 5)):
        env: Any = WebShopEnv(store, goals=goals, limit_goals=limit)  # type: ignore[arg-type]
        for seed, policy in enumerate(("oracle", "scripted")):
            act = env.policies[policy](env)
            observation, info = env.reset(seed=seed)
            for _ in range(8):
                observation, _, over, _, info = env.step(act(observation, info))
                if over:
                    break
        every = env.catalogue.goals
        every.find(every[0].instruction)
        list(every)
        env.catalogue.search(["cotton", "shirt", "number"])


def zero(data: bytearray, draw: random.Random) -> None:
    first = draw.randrange(len(data))
    data[first : first + 4_000] = bytes(len(data[first : first + 4_000]))


def flip(data: bytearray, draw: random.Random) -> None:
    for _ in range(draw.choice((1, 5, 200))):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def change_head(data: bytearray, draw: random.Random) -> None:
    data[draw.randrange(min(130, len(data)))] = draw.randrange(256)


def scramble(data: bytearray, draw: random.Random) -> None:
    data[:] = draw.randbytes(len(data))


@pytest.mark.parametrize("harm", [zero, flip, change_head, scramble])
def test_changed_bytes_are_one_sentence_or_harmless(
    store: Path, whole: Path, harm: Callable[[bytearray, random.Random], None]
) -> None:
    draw = random.Random(harm.__name__)
    refused = 0
    for path in sorted(path for path in whole.rglob("*") if path.is_file()):
        data = bytearray(path.read_bytes())
        harm(data, draw)
        victim = store / path.relative_to(whole)
        victim.write_bytes(data)
        try:
            play(store)
        except AgentGymSuiteError as error:
            refused += 1
            assert "\n" not in str(error)
        victim.write_bytes(path.read_bytes())
    assert refused > 0
    play(store)


@pytest.mark.parametrize(
    "name",
    ["shop.sqlite", "goals/synthetic_order.npy", "index/ids.npy", "index/pair_table.npy"],
)
def test_zeroed_files_are_damage(store: Path, name: str) -> None:
    (store / name).write_bytes(bytes((store / name).stat().st_size))
    with pytest.raises(DataDamaged, match="data verify|is not an array file"):
        play(store)


@pytest.mark.parametrize("text", ["", "{", "[" * 99_999, "{}"])
def test_a_damaged_manifest_is_not_taken_for_a_missing_store(store: Path, text: str) -> None:
    (store / "manifest.json").write_text(text)
    with pytest.raises(DataDamaged, match="is not a manifest"):
        open_catalogue(store)


def test_an_unreadable_manifest_is_not_taken_for_a_missing_store(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(DataError, match=r"manifest\.json cannot be read \(Permission denied\)"):
        open_catalogue(store)


@pytest.mark.parametrize("part", ["counts", "notes"])
def test_a_manifest_without_its_parts_names_what_lacks(store: Path, part: str) -> None:
    manifest = json.loads((store / "manifest.json").read_text("utf-8"))
    lost = sorted(set(manifest[part]) - {"report", "human_goal_texts"})
    edit_manifest(store, **{part: {}})
    with pytest.raises(DataDamaged, match=f"lacks {', '.join(lost)}"):
        open_catalogue(store)
    (store / "manifest.json").write_text(json.dumps(manifest))
    edit_manifest(store, **{part: {"goals": "many"}})
    with pytest.raises(DataDamaged):
        open_catalogue(store)


def test_a_generated_folder_without_its_label_is_still_played(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    publish_generated(folder, products=30)
    edit_manifest(folder, notes={})
    assert str(open_catalogue(folder).provenance()["noun_source"]).startswith("file:")


LATE_READER = """
import atexit, sys
from pathlib import Path

def read_late():
    # Runs after the finalizers, as an abandoned thread may.
    assert store.product("B000000007").name and index.search("cotton shirt").ids
    print("read")

atexit.register(read_late)
from agentgym_suite.indexes.bm25 import BM25Index
from agentgym_suite.webshop.store import Store
store = Store(Path(sys.argv[1]))
index = BM25Index.open(Path(sys.argv[1]) / "index")
"""


def test_nothing_is_closed_at_exit_under_a_thread_that_reads(store: Path) -> None:
    command = [sys.executable, "-c", LATE_READER, str(store)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("read\n", "", 0)


def test_a_store_at_a_path_that_is_not_text(whole: Path, tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"caf\xe9 100% #?")
    try:
        shutil.copytree(whole, odd)
    except OSError:
        pytest.skip("this disk takes no such name")
    product = Store(odd).product("B000000007")
    assert product is not None and product.name == "Cotton shirt number 7"


def test_the_manifest_of_a_whole_store_is_fine(whole: Path) -> None:
    assert read_store_manifest(whole).counts["products"] == 40
