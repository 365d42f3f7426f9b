"""Arguments as users give them: typed as ``--set KEY=VALUE``, checked by kind, shown when wrong.

Environments check theirs when they are made, before any data are opened. Every check raises a
``UsageError`` of one sentence, however long or odd the value is.
"""

from __future__ import annotations

import difflib
import errno
import inspect
import json
import math
import numbers
import os
import reprlib
import sys
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from agentgym_suite.errors import UsageError

LONGEST_SHOWN = 80
# the first that fits: Python's flags are numbers too
_JSON_KINDS: Mapping[str, type | tuple[type, ...]] = MappingProxyType(
    {
        "null": type(None),
        "boolean": bool,
        "number": (int, float),
        "text": str,
        "list": list,
        "object": dict,
    }
)


def shown(value: object) -> str:
    """A value as a sentence shows it: as code, on one line, and cut where it is long."""
    if isinstance(value, str):
        cut = len(value) > LONGEST_SHOWN
        rest = f"… ({len(value):,} characters)" if cut else ""
        return f"{value[:LONGEST_SHOWN]!r}{rest}"
    short = reprlib.Repr()
    short.maxstring = short.maxother = LONGEST_SHOWN
    try:
        text = " ".join(short.repr(value).split())
    except ValueError:  # Python writes no number of more than some thousand digits
        return f"{type(value).__name__} of too many digits to show"
    return text if len(text) <= 2 * LONGEST_SHOWN else f"{text[: 2 * LONGEST_SHOWN]}…"


def json_kind(value: object) -> str:
    """What a value read from JSON is called there: "null", "boolean", "number", "text", ….

    A value that JSON has no form for is called by its type.
    """
    for kind, types in _JSON_KINDS.items():
        if isinstance(value, types):
            return kind
    return type(value).__name__


def shown_json(value: object) -> str:
    """A value read from JSON as a sentence shows it; of a list or an object only what it is."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int | float | str):
        return shown(value)
    kind = json_kind(value)
    return f"an {kind}" if kind == "object" else f"a {kind}"


def key_value(text: str, option: str) -> tuple[str, str]:
    """The two sides of ``KEY=VALUE``.

    Raises:
        UsageError: one of them is missing.
    """
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise UsageError(f"{option} is {shown(text)}; write NAME=VALUE")
    return key, value


def settings(texts: Iterable[str], option: str = "--set") -> dict[str, Any]:
    """Keyword arguments of ``KEY=VALUE`` texts; a value is JSON where it is one, else text."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if name and equals and not value:
            raise UsageError(
                f"{option} is {shown(text)}; write NAME=VALUE, '{name}=\"\"' for an empty text"
            )
        key, value = key_value(text, option)
        found[key] = _value(value)
    return found


def refuse_unknown(given: Iterable[str], *takers: Callable[..., object]) -> None:
    """Refuse keyword arguments that none of the takers has a parameter for.

    Raises:
        UsageError: naming the nearest argument there is.
    """
    parameters = [one for taker in takers for one in inspect.signature(taker).parameters.values()]
    named = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    known = dict.fromkeys(one.name for one in parameters if one.kind in named)
    known.pop("self", None)
    for name in given:
        if name not in known:
            nearest = difflib.get_close_matches(name[:LONGEST_SHOWN], known, n=1)
            advice = f"did you mean {nearest[0]!r}?" if nearest else f"choose {', '.join(known)}"
            raise UsageError(f"there is no argument {shown(name)}; {advice}")


def check_flag(name: str, value: object) -> bool:
    """A flag that is one, numpy's too; a text or a number would silently count as true.

    Raises:
        UsageError: it is anything else.
    """
    if not isinstance(value, bool | np.bool_):
        raise UsageError(f"{name} is {shown(value)}; give True or False")
    return bool(value)


def check_count(name: str, value: object, least: int, most: int = sys.maxsize) -> int:
    """A whole number between two bounds, numpy's too.

    Raises:
        UsageError: on anything else.
    """
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    number = int(value) if whole else least - 1  # type: ignore[call-overload]
    if number < least:
        raise UsageError(f"{name} is {shown(value)}; give {least} or more")
    if number > most:
        raise UsageError(f"{name} is {shown(value)}; give at most {most:,}")
    return number


def check_number(name: str, value: object, least: float, most: float) -> float:
    """A number between two bounds.

    Raises:
        UsageError: on anything else.
    """
    number = float(value) if isinstance(value, numbers.Real) else math.nan
    if isinstance(value, bool) or not least <= number <= most:
        raise UsageError(f"{name} is {shown(value)}; give a number from {least:g} to {most:g}")
    return number


def check_seconds(**times: object) -> None:
    """Refuse times, given by their arguments' names, that are no numbers.

    Raises:
        UsageError: one is anything else.
    """
    for name, value in times.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UsageError(f"{name} is {shown(value)}; give seconds")


def check_choice(name: str, value: object, known: Iterable[str]) -> str:
    """A text that is one of those there are.

    Raises:
        UsageError: naming them.
    """
    there = tuple(known)
    if not isinstance(value, str) or value not in there:
        *others, last = map(repr, there)
        listed = f"{', '.join(others)} or {last}" if others else last
        raise UsageError(f"{name} is {shown(value)}; use {listed}")
    return value


def check_path(name: str, value: object) -> str:
    """A path as text, with its ``~`` filled in; whether anything is there is not looked at.

    Raises:
        UsageError: it is neither text nor a path, or empty, or no path can be like that.
    """
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else value
    if not isinstance(path, str) or not path:
        raise UsageError(f"{name} is {shown(value)}; give a name or a path as text")
    try:
        full = os.path.expanduser(path)
        os.stat(full)
    except ValueError as error:  # a null character, or one that no name on the disk can have
        raise UsageError(f"{name} is {shown(value)}, which no path can be; correct it") from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise UsageError(
                f"{name} is {shown(value)}, too long for a path; correct it"
            ) from error
    if full.startswith("~"):
        raise UsageError(
            f"{name} is {shown(value)}, but there is no such user; write the whole path"
        )
    return full


def check_data(data: object) -> str | tuple[str, ...] | None:
    """A ``data`` argument as text; whether anything is there is not looked at.

    Raises:
        UsageError: it is neither text nor a path nor a list of these, or no path can be like that.
    """
    if data is None:
        return None
    if isinstance(data, str | os.PathLike):
        return check_path("data", data)
    if isinstance(data, list | tuple) and data:
        return tuple(check_path("data", each) for each in data)
    raise UsageError(f"data is {shown(data)}; give a name, a path, a list of files, or None")


def check_split(split: object) -> str:
    """The name of a split; "" for None, which means the default one.

    Raises:
        UsageError: it is no text.
    """
    if isinstance(split, str | None):
        return split or ""
    raise UsageError(f"split is {shown(split)}; give the name of a split, or None")


def offers(value: object, protocol: type) -> bool:
    """Whether an object has all that a protocol names, without asking it anything.

    ``isinstance`` would read its properties, and those of a remote object go to its server.
    """
    names = {
        name
        for base in protocol.__mro__
        if getattr(base, "_is_protocol", False)
        for name in vars(base)
        if not name.startswith("_")
    }
    absent = object()
    return not isinstance(value, type) and all(
        inspect.getattr_static(value, name, absent) is not absent for name in names
    )


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
