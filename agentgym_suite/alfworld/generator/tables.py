"""The tables a household is drawn from: kinds of objects, of receptacles and of rooms."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

ROOM_NAMES = ("kitchen", "living_room", "bedroom", "bathroom")
SIZES = ("small", "medium", "large")
RECEPTACLE_COUNTS = {"small": (6, 10), "medium": (18, 26), "large": (40, 54)}
OBJECT_COUNTS = {"small": (19, 26), "medium": (36, 48), "large": (58, 74)}


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """A kind of object: what can be done with it and whether a task may ask for it."""

    name: str
    traits: frozenset[str]
    wanted: bool


@dataclass(frozen=True, slots=True)
class ReceptacleKind:
    """A kind of receptacle: the kinds of objects it accepts, and how readily they are put there."""

    name: str
    accepts: frozenset[str]
    weight: float
    height: int
    has_door: bool
    fixture: str | None


@dataclass(frozen=True, slots=True)
class FurnitureRow:
    """How many of one kind of receptacle stand in a room of one kind."""

    kind: str
    always: int
    most: Mapping[str, int]
    weight: float


@dataclass(frozen=True, slots=True)
class RoomKind:
    """A kind of room: its scene numbers, its furniture, its fixtures and what is kept in it."""

    name: str
    scenes: range
    furniture: tuple[FurnitureRow, ...]
    fixtures: tuple[tuple[str, int, int], ...]
    stock: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tables:
    """All tables of the generator, keyed by name."""

    objects: Mapping[str, ObjectKind]
    receptacles: Mapping[str, ReceptacleKind]
    rooms: Mapping[str, RoomKind]


def load_tables() -> Tables:
    """Read the tables that lie beside this module."""
    groups = _read("objects")["group"]
    objects = {
        name: ObjectKind(name, frozenset(group["traits"].split()), group.get("goal", True))
        for group in groups
        for name in group["kinds"].split()
    }
    members = {group["name"]: group["kinds"].split() for group in groups}
    receptacles = {
        name: ReceptacleKind(
            name=name,
            accepts=frozenset(
                kind for word in row["accepts"].split() for kind in members.get(word, [word])
            ),
            weight=row.get("weight", 1),
            height=row["height"],
            has_door=row.get("openable", False),
            fixture=row.get("basin_of"),
        )
        for name, row in _read("receptacles").items()
    }
    rooms = {name: _room(name, _read(name)) for name in ROOM_NAMES}
    return Tables(objects, receptacles, rooms)


def _room(name: str, table: dict[str, Any]) -> RoomKind:
    first, last = table["scenes"]
    return RoomKind(
        name=name,
        scenes=range(first, last + 1),
        furniture=tuple(
            FurnitureRow(kind, always, dict(zip(SIZES, most, strict=True)), weight)
            for kind, (always, most, weight) in table["furniture"].items()
        ),
        fixtures=tuple((kind, low, high) for kind, (low, high) in table["fixtures"].items()),
        stock=tuple(table["stock"]["kinds"].split()),
    )


def _read(name: str) -> dict[str, Any]:
    table = files(__package__).joinpath("rooms", f"{name}.toml")
    return tomllib.loads(table.read_text(encoding="utf-8"))
