"""``MODULE:NAME``: what users bring themselves, from a module of their own."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from agentgym_suite.arguments import shown
from agentgym_suite.errors import UsageError


def own_module(what: str, name: str, module: str) -> ModuleType:
    """The module of something that a user names.

    Args:
        what: it is, such as "environment".
        name: as the user wrote it.
        module: the part of the name that is the module's.

    Raises:
        UsageError: the module cannot be imported.
    """
    try:
        return importlib.import_module(module)
    except (ImportError, SyntaxError, TypeError, ValueError) as error:
        raise UsageError(
            f"{what} {shown(name)} cannot be imported ({error}); start in the folder of its "
            "module, or install it"
        ) from error


def look_here(name: str) -> None:
    """Let a command import the module of ``MODULE:NAME`` from the current directory."""
    if ":" in name and "" not in sys.path:
        sys.path.insert(0, "")  # an installed command does not look there
