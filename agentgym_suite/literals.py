"""Python literals, such as the header of an array file, read in any thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")

_ATTEMPTS = 100


def reread(read: Callable[[], Value]) -> Value:
    """What ``read`` gives, asked again where the interpreter took threads for a nested literal.

    CPython before 3.11.8 counts the depth of all literals that are being read in one number, and
    raises ``SystemError`` where another thread has changed it (gh-106905). The same text is read
    well a moment later, so that what is played doesn't hang on who else is reading.

    Raises:
        SystemError: it fails again and again.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return read()
        except SystemError:
            continue
    return read()
