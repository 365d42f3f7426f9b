"""Which values read from JSON may be kept: those that can be written and read again anywhere."""

from __future__ import annotations

import json
import math
from typing import Any

MOST_LEVELS = 32
"""Levels of lists and objects in one another that a kept value may have."""

LARGEST_NUMBER = 2**63
"""Numbers that are kept lie below it: seeds do, and sums of such numbers are finite."""

UNWRITABLE = "(arguments that JSON cannot hold)"


def keepable(value: Any, levels: int = MOST_LEVELS) -> bool:
    """Whether a value is JSON of few levels with finite numbers of at most 64 bits."""
    if isinstance(value, dict):
        return levels > 0 and all(
            isinstance(name, str) and keepable(item, levels - 1) for name, item in value.items()
        )
    if isinstance(value, list | tuple):
        return levels > 0 and all(keepable(item, levels - 1) for item in value)
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return True
    return isinstance(value, int | float) and keepable_number(value)


def keepable_number(value: float) -> bool:
    """Whether a number is finite, and no larger than 64 bits hold."""
    if isinstance(value, int):
        return -LARGEST_NUMBER <= value < LARGEST_NUMBER
    return math.isfinite(value) and abs(value) <= LARGEST_NUMBER


def as_text(value: Any) -> str:
    """A value that is not kept as it is, as the text it would be; a sentence where it has none."""
    try:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return UNWRITABLE
