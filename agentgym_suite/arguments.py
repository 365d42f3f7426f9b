"""Arguments of environments as people type them: ``--set KEY=VALUE``."""

from __future__ import annotations

import json
from collections.abc import Iterable
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


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
