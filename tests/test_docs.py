"""The documentation is held to the program: commands, generated pages and examples."""

from __future__ import annotations

import argparse
import importlib.util
import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest

from agentgym_suite.cli import build_parser
from agentgym_suite.registry import ENVIRONMENTS, Environment

ROOT = Path(__file__).parents[1]
PAGES = {
    page.name: page.read_text(encoding="utf-8")
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
}


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(language: str) -> list[tuple[str, str]]:
    """(page, text) of every block of code in a language."""
    return [
        (name, block)
        for name, page in PAGES.items()
        for block in re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)
    ]


def shell_commands(program: str) -> list[str]:
    text = "\n".join(block for _, block in blocks("sh")).replace("\\\n", " ")
    lines = (line.split("#")[0].strip() for line in text.splitlines())
    return sorted({line for line in lines if line.split(" ")[0] == program})


def test_generated_pages_are_current() -> None:
    stale = [
        path.name
        for path, text in generator().pages().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    assert stale == [], "run: make docs"


def test_every_command_and_option_has_help() -> None:
    for parser in generator().walk(build_parser()):
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                continue
            assert action.help, f"{parser.prog} {action.option_strings or action.dest} has no help"
        if parser._subparsers is None:
            assert parser.get_default("run") is not None, parser.prog


@pytest.mark.parametrize("command", shell_commands("agentgym-suite"))
def test_commands_of_the_pages_parse(command: str) -> None:
    args = build_parser().parse_args(shlex.split(command)[1:])
    assert callable(args.run)
    if getattr(args, "rest", None):  # what comes after a data set's name has a parser of its own
        parsers = {parser.prog: parser for parser in generator().data_set_parsers()}
        words = shlex.split(command)
        prog = " ".join([*words[:3], generator().spoken_for(words[3])])
        assert parsers[prog].parse_args(args.rest)


@pytest.mark.parametrize("command", shell_commands("make"))
def test_make_targets_of_the_pages_exist(command: str) -> None:
    target = command.split()[1]
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize(("page", "block"), blocks("python"))
def test_python_examples_of_the_pages_run(
    page: str, block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = compile(block, page, "exec", dont_inherit=True)  # no reader's file has our annotations
    exec(code, {"__name__": "example"})


def test_python_examples_share_no_folder() -> None:
    """A reader runs them one after the other in one place."""
    found: dict[str, list[str]] = {}
    for number, (page, block) in enumerate(blocks("python")):
        for folder in set(re.findall(r'\bout=f?"([^"]+)"', block)):
            found.setdefault(folder, []).append(f"{page}, block {number}")
    assert found and {f: pages for f, pages in found.items() if len(pages) > 1} == {}


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=lambda one: one.name)
def test_every_environment_has_a_page_that_begins_with_a_guide(environment: Environment) -> None:
    guide, reference, _ = PAGES[f"{environment.name}.md"].partition(generator().REFERENCE)
    assert guide.startswith(f"# {environment.id}\n") and len(guide.split()) > 5 and reference


def test_links_of_the_pages_lead_somewhere() -> None:
    for name, page in PAGES.items():
        folder = ROOT if name == "README.md" else ROOT / "docs"
        for target in re.findall(r"\]\(([^)#]+)\)", page):
            assert target.startswith("http") or (folder / target).exists(), (name, target)
