"""Write what is generated: the command line's page, one for each environment, the schemas.

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
from agentgym_suite.registry import ENVIRONMENTS

DOCS = Path(__file__).parent


def pages() -> dict[Path, str]:
    """Every generated page: path -> text."""
    written = {DOCS / "command-line.md": command_line(), **published_schemas()}
    for environment in ENVIRONMENTS:
        written[DOCS / f"{environment.name}.md"] = environment_page(environment.id)
    return written


def environment_page(env_id: str) -> str:
    """An environment's class docstring as a page."""
    game = gym.make(env_id).unwrapped
    documentation = inspect.cleandoc(type(game).__doc__ or "")
    origin = f"made by `make docs` from the docstring of {type(game).__name__}"
    return f"# {env_id}\n\n<!-- {origin} -->\n\n```text\n{documentation}\n```\n"


def command_line() -> str:
    """The help text of every command."""
    parts = ["# The command line\n\n<!-- made by `make docs` -->\n"]
    for parser in walk(build_parser()):
        parts.append(f"## {parser.prog}\n\n```text\n{help_text(parser)}\n```\n")
    return "\n".join(parts)


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
