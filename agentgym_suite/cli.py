"""The ``agentgym-suite`` command: it composes the commands of every part and words errors."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from functools import partial

from agentgym_suite.console import plain_warnings, tell_error
from agentgym_suite.errors import AgentGymSuiteError
from agentgym_suite.versions import suite_version

# module -> commands it registers; in the order of the help page
COMMAND_MODULES = (
    "agentgym_suite.listing",
    "agentgym_suite.play",
    "agentgym_suite.data_cli",
    "agentgym_suite.indexes.cli",
    "agentgym_suite.servers.cli",
    "agentgym_suite.evaluation.cli",
    "agentgym_suite.train_cli",
    "agentgym_suite.doctor",
)


def build_parser() -> argparse.ArgumentParser:
    """The parser of every command."""
    parser = argparse.ArgumentParser(
        prog="agentgym-suite",
        description="Environments for language-model agents: play, serve, evaluate, train.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {suite_version()}")
    parser.set_defaults(run=partial(_help, parser))
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for module in COMMAND_MODULES:
        importlib.import_module(module).register(commands)
    return parser


def _help(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    parser.print_help()
    return 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0 on success, 1 when a run is incomplete, 2 on a usage or data error, 130 on Ctrl-C.
    """
    args = build_parser().parse_args(argv)
    try:
        with plain_warnings():
            return int(args.run(args) or 0)
    except AgentGymSuiteError as error:
        tell_error(str(error))
        return 2
    except BrokenPipeError:
        return 0
    except OSError as error:
        name = f" {error.filename}" if error.filename else ""
        tell_error(f"cannot read or write{name}: {error.strerror or error}")
        return 2
    except KeyboardInterrupt:
        tell_error("interrupted")
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
