"""The fields of the TOML files that define suites: typed, and refused by name where wrong."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from agentgym_suite.arguments import shown
from agentgym_suite.errors import DataError, UsageError
from agentgym_suite.files import irregular

_WANTED = {str: "a string", int: "an integer", float: "a number", list: "a list", dict: "a table"}


def read_toml(text: str, source: str) -> dict[str, Any]:
    """The tables of a TOML text.

    Raises:
        UsageError: it is not TOML.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source} is not TOML ({error}); correct it") from error
    except RecursionError as error:
        raise UsageError(f"{source} is nested too deeply; write it flat") from error


def typed(raw: Mapping[str, Any], key: str, kind: type, source: str, *default: Any) -> Any:
    """The value of a key; the default where the key is absent and there is one.

    Args:
        raw: the table.
        key: the key.
        kind: str, int, float (which an integer is too), list or dict.
        source: what the table is, for error messages.
        default: at most one.

    Raises:
        UsageError: the value is of another kind, or absent without a default.
    """
    if key not in raw and default:
        return default[0]
    value: Any = raw.get(key)
    fits = isinstance(value, (int, float) if kind is float else kind)
    if not fits or isinstance(value, bool):
        raise UsageError(f"{source} has {key} = {shown(value)}; give {_WANTED[kind]}")
    return float(value) if kind is float else value


def refuse_unknown(raw: Mapping[str, Any], known: Collection[str], source: str) -> None:
    """Refuse a key that nobody reads.

    Raises:
        UsageError: naming the first such key and the known ones.
    """
    unknown = sorted(set(raw) - set(known))
    if unknown:
        raise UsageError(
            f"{source} has the unknown key {shown(unknown[0])}; use {', '.join(sorted(known))}"
        )


def counts_in(raw: Mapping[str, Any], key: str, source: str) -> None:
    """Check that a table, where it is there, holds integers alone.

    Raises:
        UsageError: it is no table, or holds something else.
    """
    table = typed(raw, key, dict, source, {})
    for name in table:
        typed(table, name, int, f"{source}, {key}")


def text_of(path: Path) -> str:
    """The text of a file of a suite.

    Raises:
        UsageError: it is not UTF-8.
        DataError: it cannot be read.
    """
    if irregular(path):
        raise DataError(f"{path} is no regular file; give one")
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 ({error.reason}); save it as UTF-8") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); make it readable") from error
