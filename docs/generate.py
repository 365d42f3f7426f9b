"""Write what is generated: the command line's page, environments' references, the schemas.

An environment's page begins with what people wrote, up to ``## Reference``; that and all below it
is made here of the class's docstring.

A test compares the pages with what this writes, so they cannot go stale: run ``make docs``.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym

import agentgym_suite  # noqa: F401  (registers the environments)
from agentgym_suite.cli import build_parser
from agentgym_suite.evaluation.schema import published_schemas
from agentgym_suite.importers import IMPORTERS
from agentgym_suite.registry import ENVIRONMENTS

DOCS = Path(__file__).parent
REFERENCE = "## Reference\n"


def pages() -> dict[Path, str]:
    """Every generated page: path -> text."""
    written = {DOCS / "command-line.md": command_line(), **published_schemas()}
    for environment in ENVIRONMENTS:
        page = DOCS / f"{environment.name}.md"
        text = page.read_text(encoding="utf-8") if page.is_file() else ""
        guide, mark, _ = text.partition(REFERENCE)
        guide = guide if mark else f"# {environment.id}\n\n"
        written[page] = guide + reference(environment.id)
    return written


def reference(env_id: str) -> str:
    """An environment's class docstring as the last part of its page."""
    game = gym.make(env_id).unwrapped
    documentation = inspect.cleandoc(type(game).__doc__ or "")
    origin = f"made by `make docs` from the docstring of {type(game).__name__}"
    return f"{REFERENCE}\n<!-- {origin} -->\n\n```text\n{documentation}\n```\n"


def command_line() -> str:
    """The help text of every command."""
    parts = ["# The command line\n\n<!-- made by `make docs` -->\n"]
    for parser in (*walk(build_parser()), *data_set_parsers()):
        parts.append(f"## {parser.prog}\n\n```text\n{help_text(parser)}\n```\n")
    return "\n".join(parts)


def data_set_parsers() -> Iterator[argparse.ArgumentParser]:
    """What ``data import``, ``generate`` and ``verify`` take after a data set's name."""
    for name in dict.fromkeys(spoken_for(each) for each in IMPORTERS):
        importer = IMPORTERS[name]
        module = importer.load()
        same = [each for each in IMPORTERS if each != name and spoken_for(each) == name]
        also = f"the same for {', '.join(same)}" if same else None
        for command, add_arguments, offered in (
            ("import", "add_import_arguments", True),
            ("generate", "add_generate_arguments", importer.generates),
            ("verify", "add_compare_arguments", importer.compares),
        ):
            if offered:
                prog = f"agentgym-suite data {command} {name}"
                epilog = also if command == "import" else None
                parser = argparse.ArgumentParser(prog=prog, epilog=epilog)
                getattr(module, add_arguments)(parser)
                yield parser


def spoken_for(name: str) -> str:
    """The data set whose options stand for those of a name: one that can do the most."""
    fellows = [n for n, other in IMPORTERS.items() if other.module == IMPORTERS[name].module]
    return next((n for n in fellows if IMPORTERS[n].generates), fellows[0])


def walk(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parser and all its commands, depth first."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in dict.fromkeys(action.choices.values()):
                yield from walk(child)


def help_text(parser: argparse.ArgumentParser) -> str:
    """The help of one command at a fixed width."""
    parser.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=96)
    return parser.format_help().strip()


def main() -> None:
    """Write every page."""
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
