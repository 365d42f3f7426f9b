"""Arguments of environments: typed as ``--set KEY=VALUE``, and refused where there is none such."""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Callable, Iterable
from typing import Any

from agentgym_suite.errors import UsageError


def key_value(text: str, option: str) -> tuple[str, str]:
    """The two sides of ``KEY=VALUE``.

    Raises:
        UsageError: one of them is missing.
    """
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise UsageError(f"{option} is {text!r}; write NAME=VALUE")
    return key, value


def settings(texts: Iterable[str], option: str = "--set") -> dict[str, Any]:
    """Keyword arguments of ``KEY=VALUE`` texts; a value is JSON where it is one, else text."""
    return {key: _value(value) for key, value in (key_value(text, option) for text in texts)}


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


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
