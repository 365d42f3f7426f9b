"""Identifiers in the official scheme, and the names that players see for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

# a place in centimetres: x, height, z
Point = tuple[int, int, int]


def thing_id(name: str, point: Point, suffix: str = "") -> str:
    """The id of an object or receptacle, as ``Mug_bar__plus_00_dot_59_bar_…``."""
    parts = [name, *map(_coordinate, point), *([suffix] if suffix else [])]
    return "_bar_".join(parts)


def spot_id(x: int, z: int, turn: int, tilt: int) -> str:
    """The id of a location, as ``loc_bar__minus_4_bar_8_bar_1_bar_45``."""
    parts = ["loc", *(str(n).replace("-", "_minus_") for n in (x, z, turn, tilt))]
    return "_bar_".join(parts)


def display_names(ids: Iterable[str]) -> dict[str, str]:
    """Number the ids of each base name: the first in sorted order gets the highest number."""
    names: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for identifier in sorted(ids, key=str.lower, reverse=True):
        base = identifier.lower().split("_bar_")[0]
        if "basin" in identifier.lower():
            base += "basin"
        seen[base] += 1
        names[identifier] = f"{base} {seen[base]}"
    return names


def _coordinate(centimetres: int) -> str:
    sign = "_minus_" if centimetres < 0 else "_plus_"
    metres, rest = divmod(abs(centimetres), 100)
    return f"{sign}{metres:02d}_dot_{rest:02d}"
