"""What may be given for ``data`` and ``task_types``, checked before any game is opened."""

from __future__ import annotations

import numbers
import os
from collections.abc import Collection, Mapping, Sequence

from agentgym_suite.alfworld.game_layout import find_families
from agentgym_suite.arguments import check_count, check_path, shown
from agentgym_suite.errors import UsageError


def check_places(data: object, name: str = "data") -> tuple[str, ...]:
    """The places that ``data`` names, as texts: one, or those of a list.

    Args:
        data: what was given: a name, a path, or a list of these.
        name: how the argument is called, for the sentence.

    Raises:
        UsageError: it is anything else, or a device, a pipe or a socket.
    """
    if isinstance(data, str | os.PathLike):
        return (_place(name, data),)
    if not isinstance(data, Sequence) or isinstance(data, bytes | bytearray | memoryview | range):
        raise UsageError(f"{name} is {shown(data)}; give a name or a path as text, or a list")
    return tuple(_place(name, place) for place in data)


def check_families(task_types: object) -> tuple[str, ...]:
    """The long names of the families that ``task_types`` keeps; None keeps all.

    Raises:
        UsageError: it is neither a number, a text nor a list of these, or names no family.
    """
    if task_types is None:
        return find_families(None)
    listed = isinstance(task_types, Collection) and not isinstance(
        task_types, str | bytes | Mapping
    )
    keys = list(task_types) if listed else [task_types]  # type: ignore[call-overload]
    for key in keys:
        if isinstance(key, bool) or not isinstance(key, str | numbers.Integral):
            raise UsageError(
                f"task_types has {shown(key)}; give numbers, names or labels of families"
            )
        if not isinstance(key, str):
            check_count("task_types", key, 1)
    return find_families(keys)


def _place(name: str, place: object) -> str:
    path = check_path(name, place)
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise UsageError(f"{name} is {shown(place)}, neither a file nor a folder; correct the path")
    return path
