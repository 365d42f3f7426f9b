"""The values of settings as files and command lines give them, made what a setting wants."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, get_args, get_type_hints

from agentgym_suite.arguments import LONGEST_SHOWN, shown
from agentgym_suite.errors import UsageError
from agentgym_suite.files import json_digest

_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
_OPTIONS = ("preset", "config", "threads", "tensorboard", "force", "out", "dry_run")


def kinds(settings: type[Any]) -> dict[str, Any]:
    """The type of each field of a dataclass."""
    hints = get_type_hints(settings)
    return {item.name: hints[item.name] for item in fields(settings)}


def typed(name: str, value: Any, kind: Any, source: str) -> Any:
    """The value as its setting wants it; choices are checked by the settings themselves.

    Args:
        name: of the setting.
        value: as it was given.
        kind: the setting's type.
        source: what gave it, for the error.

    Raises:
        UsageError: it is of another type, or JSON cannot record it.
    """
    if isinstance(kind, UnionType):
        if value is None:
            return None
        (kind,) = set(get_args(kind)) - {NoneType}
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return _float(name, value, source)
    if kind == Mapping[str, Any] and not isinstance(value, dict):
        raise UsageError(f"{source} has {name} = {shown(value)}; give a table of arguments by name")
    plain = kind in _WORDS
    if plain and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)):
        raise UsageError(f"{source} has {name} = {shown(value)}; give {_WORDS[kind]}")
    if kind == Mapping[str, Any] or kind is str:
        _refuse_unrecordable(name, value, source)
    return value


def _refuse_unrecordable(name: str, value: Any, source: str) -> None:
    """``run.json`` and the digest of a run hold every value, as JSON."""
    try:
        json_digest(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{source} has {name} = {shown(value)}, which JSON cannot hold; give Unicode texts, "
            "finite numbers, true, false, lists and tables of these"
        ) from error


def _float(name: str, value: int, source: str) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise UsageError(f"{source} has {name} = {shown(value)}; give a number") from error


def unknown_setting(name: str, known: set[str], source: str) -> str:
    """What to say of a setting that there is not: an option it may be meant for, or the nearest."""
    if name == "algorithm":
        return f"{source} has {name}, which is no setting; write agentgym-suite train ALGORITHM"
    if name in _OPTIONS:
        option = name.replace("_", "-")
        return f"{source} has {name}, which is no setting; give it as the option --{option}"
    nearest = difflib.get_close_matches(name[:LONGEST_SHOWN], known, n=1)
    advice = f"did you mean {nearest[0]!r}?" if nearest else f"use {', '.join(sorted(known))}"
    return f"{source} has the unknown setting {shown(name)}; {advice}"
