"""Arguments checked when they are given, before any data are opened."""

from __future__ import annotations

import difflib
import inspect
import numbers
import sys
from collections.abc import Callable, Iterable

from agentgym_suite.errors import UsageError


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
            nearest = difflib.get_close_matches(name, known, n=1)
            advice = f"did you mean {nearest[0]!r}?" if nearest else f"choose {', '.join(known)}"
            raise UsageError(f"there is no argument {name!r}; {advice}")


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
