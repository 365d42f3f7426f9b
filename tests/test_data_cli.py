"""`agentgym-suite data`: what a person types, and what is said back."""

from __future__ import annotations

import argparse
import io
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agentgym_suite import data, data_cli
from agentgym_suite.data_cli import CHECKERS
from agentgym_suite.errors import (
    AgentGymSuiteError,
    DataDamaged,
    DataMissing,
    DataVersion,
    UsageError,
)


def run(*words: str) -> int:
    parser = argparse.ArgumentParser(prog="agentgym-suite")
    data_cli.register(parser.add_subparsers(required=True))
    args = parser.parse_args(["data", *words])
    return int(args.run(args))


class Importing(ModuleType):
    """Stands in for an environment's importer: keeps the lines of the items file."""

    def __init__(self) -> None:
        super().__init__("importing_for_tests")
        self.verified: list[Path] = []

    def add_import_arguments(self, parser: argparse.ArgumentParser) -> None:
        for option in ("items", "attributes", "human"):
            parser.add_argument(f"--{option}", type=Path, required=option == "items")
        parser.add_argument("--out", type=Path)

    def run_import(
        self,
        args: argparse.Namespace,
        progress: data.Progress | None,
        on_wait: Callable[[str], None] | None,
    ) -> Path:
        assert on_wait is not None
        items = args.items.read_text().split()

        def write(partial: Path) -> data.Contents:
            (partial / "items").write_text("\n".join(items))
            return data.Contents({"products": len(items)}, {})

        data.publish(
            args.out, kind="shop", version=1, inputs={"n": 1}, write=write, progress=progress
        )
        return Path(args.out)

    def add_generate_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--products", type=int, default=10)
        parser.add_argument("--out", type=Path, required=True)

    def describe(self, path: Path) -> list[str]:
        return [f"toys: {data.load_manifest(path).counts['products']}", "toys left out: none"]

    def run_generate(
        self,
        args: argparse.Namespace,
        progress: data.Progress | None,
        on_wait: Callable[[str], None] | None,
    ) -> Path:
        assert on_wait is not None
        args.out.write_text("x\n" * args.products)
        return Path(args.out)

    def verify(self, path: Path, progress: data.Progress | None = None) -> None:
        self.verified.append(path)
        data.verify_folder(path, progress)


@pytest.fixture
def importing(monkeypatch: pytest.MonkeyPatch) -> Importing:
    module = Importing()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    row = data_cli.Importer(module.__name__, generates=True)
    monkeypatch.setattr(data_cli, "IMPORTERS", {"toys": row})
    monkeypatch.setattr(data_cli, "CHECKERS", {"shop": module.__name__})
    return module


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data home of the test's own, and a mirror on this machine with a small set of toys."""
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    (mirror / "items.txt").write_text("ball doll kite")
    (mirror / "human.txt").write_text("")
    rows = [
        '[toys]\nenvironment = "webshop"\ntitle = "Toys"\nlicence = "CC0 for toys"\n'
        'note = "Mind the small parts."\ncounts = {products = 3}\n'
    ]
    for name in ("items", "human"):
        address = (mirror / f"{name}.txt").as_uri()
        rows.append(f'[toys.files."{name}.txt"]\noption = "{name}"\naddress = "{address}"\n')
    (tmp_path / "sources.toml").write_text("".join(rows))
    monkeypatch.setenv("AGENTGYM_SUITE_SOURCES", str(tmp_path / "sources.toml"))
    monkeypatch.setenv("AGENTGYM_SUITE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "400")
    return tmp_path / "home"


Capture = pytest.CaptureFixture[str]


def test_download_is_fetch_and_then_the_same_import(
    importing: Importing, home: Path, capsys: Capture
) -> None:
    assert run("download", "toys", "--yes") == 0
    out, err = capsys.readouterr()
    folder = home / "webshop" / "toys"
    assert "CC0 for toys" in err and "Mind the small parts." in err
    assert [line.strip() for line in out.splitlines()] == [
        f"shop {data.load_manifest(folder).digest}",
        "products: 3 (published 3)",
        "toys: 3",
        "toys left out: none",
        f"where: {folder}",
        "play it: agentgym-suite play WebShop-v0 --data toys",
    ]
    assert (folder / "items").read_text() == "ball\ndoll\nkite"
    assert (home / "downloads" / "toys" / "items.txt").is_file()
    assert run("download", "toys", "--yes") == 0
    again, err = capsys.readouterr()
    assert again == out
    assert "present already" in err


def test_import_by_a_person_gives_the_same_contents(
    importing: Importing, home: Path, tmp_path: Path, capsys: Capture
) -> None:
    run("download", "toys", "--yes")
    here = tmp_path / "elsewhere"
    items = str(tmp_path / "mirror" / "items.txt")
    assert run("import", "toys", "--items", items, "--out", str(here)) == 0
    out = capsys.readouterr().out
    assert out.endswith(f"play it: agentgym-suite play WebShop-v0 --data {here}\n")
    one, two = (data.load_manifest(path) for path in (here, home / "webshop" / "toys"))
    assert one.digest == two.digest


def test_nothing_comes_without_consent(
    importing: Importing, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    with pytest.raises(UsageError, match="add --yes"):
        run("download", "toys")
    for answer, comes in (("n\n", False), ("\n", False), ("y\n", True)):
        terminal = io.StringIO(answer)
        monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
        monkeypatch.setattr("sys.stdin", terminal)
        if comes:
            assert run("download", "toys") == 0
        else:
            with pytest.raises(UsageError, match="was not downloaded"):
                run("download", "toys")
        assert (home / "downloads").exists() == comes
    assert "CC0 for toys" in capsys.readouterr().err


def test_download_without_an_importer_keeps_the_files(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(data_cli, "IMPORTERS", {})
    assert run("download", "toys", "--yes") == 0
    out, err = capsys.readouterr()
    assert out.strip() == str(home / "downloads" / "toys")
    assert "has no import for toys" in err


def test_path_prints_the_path_or_one_sentence(
    importing: Importing, home: Path, capsys: Capture
) -> None:
    with pytest.raises(DataMissing, match="toys is not here .*`agentgym-suite data download toys`"):
        run("path", "toys")
    run("download", "toys", "--yes")
    capsys.readouterr()
    assert run("path", "toys") == 0
    out, err = capsys.readouterr()
    assert (out, err) == (f"{home / 'webshop' / 'toys'}\n", "")
    with pytest.raises(UsageError, match="unknown data set 'toy'; choose one of"):
        run("path", "toy")


def test_verify_recomputes_digests(importing: Importing, home: Path, capsys: Capture) -> None:
    with pytest.raises(DataMissing):
        run("verify", "toys")
    run("download", "toys", "--yes")
    capsys.readouterr()
    folder = home / "webshop" / "toys"
    for name in ("toys", "webshop/toys", str(folder)):
        assert run("verify", name) == 0
    assert importing.verified == [folder] * 3
    out, err = capsys.readouterr()
    assert out.count(data.load_manifest(folder).digest) == 3
    assert out.endswith(f"{folder} is as its manifest says\n")
    assert err == ""
    (folder / "items").write_text("ball\ndoll\nkitf")
    with pytest.raises(DataDamaged, match="items has SHA-256"):
        run("verify", "toys")


def test_verify_goes_by_what_lies_there(importing: Importing, tmp_path: Path) -> None:
    """A folder of a kind or version that nobody here reads is not called sound."""
    folder = tmp_path / "store"
    for kind, version, refusal in (
        ("webshop-store", 99, "format version 99"),
        ("webshop-files", 99, "format version 99"),
        ("bm25-index", 99, "format version 99"),
        ("cupboard", 1, "holds 'cupboard'; this version of the suite verifies webshop-store"),
    ):
        publish(folder, kind, version)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(data_cli, "CHECKERS", CHECKERS)
            with pytest.raises(DataVersion, match=refusal):
                run("verify", str(folder))
        shutil.rmtree(folder)


def test_verify_tells_another_set_from_the_published_one(
    importing: Importing, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "two.txt").write_text("ball doll")
    run("import", "toys", "--items", str(tmp_path / "two.txt"))
    with pytest.raises(DataDamaged, match="products 2 where 3 are published"):
        run("verify", "toys")


def test_list_shows_state_size_licence_and_place(
    importing: Importing, home: Path, capsys: Capture
) -> None:
    def listed(*words: str) -> tuple[str, list[list[str]]]:
        run("list", *words)
        text = capsys.readouterr().out
        return text, [line.split() for line in text.splitlines() if line.strip()]

    before, rows = listed()
    assert "CC BY-NC-SA 4.0" in before
    assert "agentgym-suite data download NAME" in before
    assert "https://" not in before
    assert ["toys", "webshop", "absent", "-", "CC0", "for", "toys"] in rows
    assert any(row[:4] == ["pasa", "none", "yet", "absent"] for row in rows)
    assert "https://" in listed("--verbose")[0]
    run("download", "toys", "--yes")
    for name in ("mine", "embedded-1-2-3", "cache-ab", "lucene-ab"):
        publish_nothing(home / "webshop" / name)
    capsys.readouterr()
    text, rows = listed()
    assert ["toys", "webshop", "present", "14", "B", "CC0", "for", "toys"] in rows
    assert any(row[:2] == ["webshop/mine", "webshop"] for row in rows)
    assert "cache-ab" not in text
    assert "and 3 that environments built for themselves (--verbose)" in text
    text, rows = listed("--verbose")
    assert all(name in text for name in ("embedded-1-2-3", "cache-ab", "lucene-ab"))
    assert ["toys:", str(home / "webshop" / "toys")] in rows
    assert ["toys", "webshop", "present", "14", "B", "CC0", "for", "toys"] in rows
    (home / "webshop" / "toys" / "manifest.json").write_text("{")
    assert any(row[:3] == ["toys", "webshop", "damaged"] for row in listed()[1])


def test_places_leave_the_table_of_a_narrow_terminal_whole(
    importing: Importing, home: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("download", "toys", "--yes")
    capsys.readouterr()
    monkeypatch.setenv("COLUMNS", "80")
    run("list")
    table = capsys.readouterr().out
    run("list", "--verbose")
    told = capsys.readouterr().out
    rows = [line for line in table.splitlines() if line.startswith(" ")]
    assert rows and all(row in told for row in rows)
    assert f"toys: {home / 'webshop' / 'toys'}\n" in told


@pytest.mark.parametrize("action", ["import", "generate", "verify"])
def test_options_may_come_before_the_name(action: str) -> None:
    parser = argparse.ArgumentParser()
    data_cli.register(parser.add_subparsers(required=True))
    for words in (["alfworld", "--seed", "1"], ["--seed", "1", "alfworld"]):
        args = parser.parse_args(["data", action, *words])
        assert (args.name, args.rest) == ("alfworld", ["--seed", "1"])


def publish_nothing(folder: Path) -> None:
    publish(folder, "shop", 1)


def publish(folder: Path, kind: str, version: int) -> None:
    data.publish(
        folder, kind=kind, version=version, inputs={}, write=lambda partial: data.Contents({}, {})
    )


def test_remove_takes_what_was_made_and_asks_first(
    importing: Importing, home: Path, capsys: Capture
) -> None:
    run("download", "toys", "--yes")
    publish_nothing(home / "webshop" / "cache-ab")
    capsys.readouterr()
    with pytest.raises(UsageError, match="toys was not removed.*add --yes"):
        run("remove", "toys")
    assert run("remove", "toys", "--yes") == 0
    out, err = capsys.readouterr()
    assert out == f"removed {home / 'webshop' / 'toys'}\n"
    assert "add --downloads" in err
    assert not (home / "webshop" / "toys").exists()
    assert (home / "downloads" / "toys" / "items.txt").is_file()
    assert run("remove", "toys", "--yes", "--downloads") == 0
    assert not (home / "downloads" / "toys").exists()
    with pytest.raises(DataMissing, match="nothing to remove"):
        run("remove", "toys", "--yes", "--downloads")
    assert run("remove", "webshop/cache-ab", "--yes") == 0
    assert not (home / "webshop" / "cache-ab").exists()


def test_remove_stays_inside_the_data_home(home: Path, tmp_path: Path) -> None:
    publish_nothing(home / "webshop" / "mine")
    publish_nothing(tmp_path / "else" / "where")
    (home / "webshop" / "link").symlink_to(tmp_path / "else" / "where")
    for name in (str(tmp_path / "else" / "where"), "webshop/..", "webshop/link", "."):
        with pytest.raises(UsageError, match="not in the data home"):
            run("remove", name, "--yes")
    assert (home / "webshop" / "mine" / "manifest.json").is_file()
    assert (tmp_path / "else" / "where" / "manifest.json").is_file()


@pytest.mark.parametrize("action", ["path", "verify"])
def test_what_is_no_data_set_is_told_apart(action: str, home: Path, tmp_path: Path) -> None:
    for name in ("", " "):
        with pytest.raises(UsageError, match="the name is '.*data list"):
            run(action, name)
    with pytest.raises(DataMissing, match="mirror has no manifest.json, so it is nothing that"):
        run(action, str(tmp_path / "mirror"))
    with pytest.raises(DataMissing, match="there is no folder .*nowhere; check the path"):
        run(action, str(tmp_path / "nowhere"))
    with pytest.raises(DataMissing, match="pasa-selector is not here.*no environment of this"):
        run(action, "pasa-selector")


def test_list_in_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    run("list")
    lines = capsys.readouterr().out.splitlines()[1:]  # the first one is the home's path
    assert max(len(line) for line in lines) <= 80


def test_generate(importing: Importing, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "generated"
    assert run("generate", "toys", "--products", "4", "--out", str(out)) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert out.read_text() == "x\n" * 4


@pytest.mark.parametrize("action", ["import", "generate"])
def test_who_cannot_be_imported_is_one_sentence(action: str, importing: Importing) -> None:
    with pytest.raises(AgentGymSuiteError, match=rf"cannot {action} 'pasa'; choose one of toys"):
        run(action, "pasa", "--items", "x")


@pytest.mark.parametrize("words", [["import"], ["import", "--help"], ["import", "toys", "--help"]])
def test_help_of_the_importer(words: list[str], importing: Importing, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        run(*words)
    assert caught.value.code == (2 if words == ["import"] else 0)
    out, err = capsys.readouterr()
    assert ("--items" in out) == (words[-2:] == ["toys", "--help"])
    assert ("toys; `data import NAME --help`" in out) == (words == ["import", "--help"])
    assert not err or err.endswith("the following arguments are required: NAME\n")


def test_the_table_of_importers_names_published_sets() -> None:
    from agentgym_suite.sources import load_sources

    assert set(data_cli.IMPORTERS) <= set(load_sources())


def test_the_command_starts_light() -> None:
    code = (
        "import sys, agentgym_suite.data_cli; "
        "print([name for name in ('httpx', 'rich', 'filelock') if name in sys.modules])"
    )
    done: subprocess.CompletedProcess[Any] = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
