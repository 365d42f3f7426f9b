"""What tables call their rows: a name alone, and more where several have the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def labels(names: Sequence[str], *more: Sequence[str]) -> list[str]:
    """One label for each name.

    Args:
        names: the names, in the rows' order.
        more: for each row what is put behind its name while other rows are called the same; the
            second is put there where the first did not suffice, and so on.
    """
    told = list(names)
    for suffixes in more:
        counts = Counter(told)
        told = [
            label + suffix if counts[label] > 1 else label
            for label, suffix in zip(told, suffixes, strict=True)
        ]
    return told
