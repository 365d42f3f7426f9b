"""Arguments checked when they are given, before any data are opened."""

from __future__ import annotations

import numbers
import sys

from agentgym_suite.arguments import refuse_unknown
from agentgym_suite.errors import UsageError

__all__ = ["check_count", "refuse_unknown"]


def check_count(name: str, value: object, least: int, *, optional: bool = False) -> None:
    """Refuse what is not a whole number of at least so much, or more than any index can be.

    Args:
        name: the argument's name, for the sentence.
        value: what was given.
        least: the least value.
        optional: whether None is fine, too.

    Raises:
        UsageError: on anything else.
    """
    if value is None and optional:
        return
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or int(value) < least:  # type: ignore[call-overload]
        raise UsageError(
            f"{name} is {value!r}; give {least} or more{', or None' if optional else ''}"
        )
    if int(value) > sys.maxsize:  # type: ignore[call-overload]
        raise UsageError(f"{name} is {value!r}; give at most {sys.maxsize}")
