"""The table of sources: complete, and open to a user's own addresses."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_suite.errors import UsageError
from agentgym_suite.sources import HubAddress, find_source, load_sources


def test_every_row_of_the_specification_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENTGYM_SUITE_SOURCES", raising=False)
    sources = load_sources()
    assert list(sources) == [
        "alfworld",
        "webshop-small",
        "webshop",
        "hotpotqa",
        "2wiki",
        "musique",
        "searchqa",
        "wiki-18",
        "pasa",
        "litsearch",
        "pasa-selector",
    ]
    for source in sources.values():
        assert source.licence
        assert source.title
        for file in source.files:
            assert (file.url is None) == (file.hub is not None)
    assert sources["webshop"].counts == {"products": 1_181_436, "human_goals": 12_087}
    assert sources["alfworld"].counts["games"] == 4_027


def test_addresses_resolve() -> None:
    sources = load_sources()
    small = sources["webshop-small"].files[0]
    assert small.url is not None
    assert small.url.startswith("https://drive.usercontent.google.com/download?id=1EgHdxQ_")
    assert small.browser_page.startswith("https://drive.google.com/file/d/1EgHdxQ_")
    assert sources["2wiki"].files[0].address.endswith("?dl=1")
    pasa = sources["pasa"].files[0]
    assert pasa.url is None
    assert pasa.hub == HubAddress(
        "dataset", "CarlanLark/pasa-dataset", "232428b0c867268c3b8ded90db4d98c1b30501d6"
    )
    assert "CarlanLark/pasa-dataset" in pasa.browser_page


OVERRIDE = """
[webshop-small.files."items_shuffle_1000.json"]
address = "file:///mnt/mirror/items.json"

[house]
environment = "webshop"
title = "A catalogue of our own"
licence = "ours"
[house.files."all.json"]
option = "items"
address = "https://intranet.example/all.json"
"""


@pytest.mark.parametrize("by", ["argument", "variable"])
def test_an_override_changes_single_addresses_and_adds_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(OVERRIDE)
    monkeypatch.delenv("AGENTGYM_SUITE_SOURCES", raising=False)
    packaged = load_sources()
    if by == "variable":
        monkeypatch.setenv("AGENTGYM_SUITE_SOURCES", str(path))
    changed = load_sources(path if by == "argument" else None)
    first, *rest = changed["webshop-small"].files
    assert first.url == "file:///mnt/mirror/items.json"
    assert first.option == "items"
    assert rest == list(packaged["webshop-small"].files[1:])
    assert changed["house"].files[0].url == "https://intranet.example/all.json"
    assert {name: changed[name] for name in packaged if name != "webshop-small"} == {
        name: packaged[name] for name in packaged if name != "webshop-small"
    }


ROW = '[x]\nenvironment="e"\ntitle="t"\nlicence="l"\n'
FILE = '[x.files."a.json"]\noption="o"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "is not TOML"),
        ("x = 1", "must be a table"),
        ('[x]\nenvironment="e"\ntitle="t"', "lacks 'licence'"),
        (ROW, "lacks 'files'"),
        (ROW + "[x.files]", "is empty"),
        (ROW + "colour = 1\n" + FILE + 'address="https://h/a"', "no key 'colour'"),
        (ROW + FILE, "lacks 'address'"),
        (ROW + FILE + 'address="ftp://h/a"', "'ftp://h/a' is not understood"),
        (ROW + FILE + 'address="file://relative"', "is not understood"),
        (ROW + FILE + "address=3", "must be text"),
        (ROW + FILE + 'address="https://h/a"\nabout_bytes=true', "must be a whole number"),
        (ROW + "counts={a='b'}\n" + FILE + 'address="https://h/a"', "whole numbers"),
        (ROW + '[x.files."../a"]\noption="o"\naddress="https://h/a"', "no plain file name"),
        (ROW + '[x.files.".."]\noption="o"\naddress="https://h/a"', "no plain file name"),
    ],
)
def test_a_wrong_override_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load_sources(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_absent_override_and_unknown_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_sources(tmp_path / "none.toml")
    with pytest.raises(UsageError, match="unknown data set 'nope'; choose one of alfworld"):
        find_source("nope", load_sources())
