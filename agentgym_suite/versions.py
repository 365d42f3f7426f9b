"""The version of the suite, read once from the installed distribution's metadata."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def suite_version() -> str:
    """The installed version, such as ``0.1.0``; ``0+unknown`` from a bare checkout."""
    try:
        return version("agentgym-suite")
    except PackageNotFoundError:
        return "0+unknown"
