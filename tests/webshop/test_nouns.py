from __future__ import annotations

import gzip
import importlib.util
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite.errors import DataDamaged, DataMissing, MissingExtra, UsageError
from agentgym_suite.webshop.nouns import RuleNouns, SpacyNouns, read_noun_file
from agentgym_suite.webshop.store import Store


def test_rules_keep_names_and_drop_function_words_and_numbers() -> None:
    title = "Women's Tongue Cleaner for the Home, 2 Pcs with 10.5 oz (Color : Wine red,40)"
    words = ("women", "tongue", "cleaner", "home", "oz", "color", "wine", "red")
    assert RuleNouns().extract([title, "", "12 34"]) == [words, (), ()]


def test_rules_keep_repeats_and_order() -> None:
    assert RuleNouns().extract(["Table and table, Chair"]) == [("table", "table", "chair")]


def test_rules_agree_with_the_recorded_tagger(
    official_store: Path, golden: Callable[[str], list[Any]]
) -> None:
    """As well as two versions of the tagger agree with each other, which is 95 %."""
    store = Store(official_store)
    recorded = {row["asin"]: row["nouns"] for row in golden("title_nouns_sm360.jsonl.xz")}
    names = [product.name for product in store.products()]
    ruled = dict(zip(recorded, RuleNouns().extract(names), strict=True))
    goals = [row["asin"] for row in golden("goals_synth.jsonl.xz")]
    pairs = {(row["asin"], goals[row["goal_idx"]]) for row in golden("rewards_synth.jsonl.xz")}

    def tier(bought: list[str], goal: list[str]) -> int:
        score = len(set(bought) & set(goal)) / len(goal) if goal else 0.2
        return (score > 0) + (score >= 0.1) + (score > 0.2)

    differing = sum(
        tier(recorded[bought], recorded[goal]) != tier(list(ruled[bought]), list(ruled[goal]))
        for bought, goal in pairs
    )
    assert len(pairs) > 500
    assert differing / len(pairs) < 0.06


@pytest.mark.parametrize("name", ["nouns.jsonl", "nouns.jsonl.xz"])
def test_a_noun_file_is_read_line_by_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    data = b'{"asin": "B1", "nouns": ["a", "b"]}\n\n{"asin": "B2", "nouns": []}'
    path.write_bytes(lzma.compress(data) if name.endswith(".xz") else data)
    assert list(read_noun_file(path)) == [("B1", ["a", "b"]), ("B2", [])]


@pytest.mark.parametrize(
    "line",
    [
        '{"asin": "B2"',
        "[]",
        '{"asin": 7, "nouns": []}',
        '{"asin": "B2", "nouns": "a"}',
        "\xff",
        pytest.param("[" * 99_999, id="deep"),
    ],
)
def test_a_damaged_noun_file_names_the_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "nouns.jsonl"
    path.write_bytes(b'{"asin": "B1", "nouns": []}\n' + line.encode("latin-1"))
    with pytest.raises(DataDamaged, match=r"nouns\.jsonl line 2 is not the nouns"):
        list(read_noun_file(path))


def test_a_cut_off_packed_noun_file_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "nouns.jsonl.xz"
    path.write_bytes(lzma.compress(b'{"asin": "B1", "nouns": []}\n' * 9)[:-20])
    with pytest.raises(DataDamaged, match="is not the nouns"):
        list(read_noun_file(path))


def test_a_missing_noun_file(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="no file"):
        list(read_noun_file(tmp_path / "nouns.jsonl"))


def test_spacy_is_an_extra_and_its_model_is_named() -> None:
    if importlib.util.find_spec("spacy") is None:
        with pytest.raises(MissingExtra, match="webshop-build"):
            SpacyNouns("en_core_web_sm")
    else:
        with pytest.raises(UsageError, match="python -m spacy download no_such_model"):
            SpacyNouns("no_such_model")


def test_spacy_tags_when_it_is_there() -> None:
    pytest.importorskip("spacy", reason="spaCy is not installed")
    if importlib.util.find_spec("en_core_web_sm") is None:
        pytest.skip("the spaCy model en_core_web_sm is not installed")
    nouns = SpacyNouns("en_core_web_sm")
    assert nouns.label.startswith("spacy:en_core_web_sm-")
    assert "table" in nouns.extract(["Reclaimed Wood Console Table with drawers"])[0]


@pytest.mark.parametrize("damage", ["cut", "flipped", "foreign"])
def test_a_damaged_packed_file_is_damage(tmp_path: Path, damage: str) -> None:
    packed = bytearray(gzip.compress(b'{"asin": "B1", "nouns": ["shirt"]}\n' * 100))
    if damage == "flipped":
        packed[15] ^= 0xFF
    path = tmp_path / "nouns.jsonl.gz"
    path.write_bytes({"cut": packed[:-9], "flipped": packed, "foreign": b"{}"}[damage])
    with pytest.raises(DataDamaged, match=r"line [1-9]\d* is not the nouns"):
        list(read_noun_file(path))
