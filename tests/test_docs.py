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

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMAND = re.compile(r"^agentgym-suite .*?(?<!\\)$", re.MULTILINE | re.DOTALL)


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def shell_commands() -> list[str]:
    text = "\n".join(blocks("sh")).replace("\\\n", " ")
    return [line.split("#")[0].strip() for line in text.splitlines() if line.split("#")[0].strip()]


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


@pytest.mark.parametrize("command", [c for c in shell_commands() if c.startswith("agentgym-suite")])
def test_commands_of_the_readme_parse(command: str) -> None:
    assert callable(build_parser().parse_args(shlex.split(command)[1:]).run)


@pytest.mark.parametrize("command", [c for c in shell_commands() if c.startswith("make")])
def test_make_targets_of_the_readme_exist(command: str) -> None:
    target = command.split()[1]
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("block", blocks("python"))
def test_python_examples_of_the_readme_run(
    block: str, fresh_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})


def test_links_of_the_readme_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
