"""The layout of one scene: its receptacles, where they stand and from where they are reached.

All games of a scene share its layout, so that a split can have seen rooms or rooms of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentgym_suite.alfworld.generator.naming import Point, spot_id, thing_id
from agentgym_suite.alfworld.generator.quirks import Quirks
from agentgym_suite.alfworld.generator.tables import (
    RECEPTACLE_COUNTS,
    FurnitureRow,
    ReceptacleKind,
    RoomKind,
    Tables,
)
from agentgym_suite.dice import Dice

_MOST_AT_ONE_SPOT = 5
_ROOM_HALF_WIDTH = 480  # centimetres
_SURFACES_WITHOUT_DOOR = ("Cabinet", "Drawer", "Safe")


@dataclass(frozen=True, slots=True)
class Receptacle:
    """One receptacle of a room; its kind is what the rules see, its id what players see."""

    id: str
    kind: ReceptacleKind
    point: Point
    spot: str
    openable: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """A furnished room. ``occupied`` are the locations that are taken."""

    room: RoomKind
    scene: int
    size: str
    receptacles: tuple[Receptacle, ...]
    occupied: frozenset[str]


def lay_out(
    tables: Tables, room: RoomKind, scene: int, size: str, quirks: Quirks, dice: Dice
) -> Layout:
    """Furnish a scene."""
    receptacles: list[Receptacle] = []
    spots: list[str] = []
    ids: set[str] = set()
    for name in _choose_furniture(room, size, dice):
        kind = tables.receptacles[name]
        shares = bool(spots) and dice.chance(quirks.shared_spot)
        if not (shares and spots.count(spots[-1]) < _MOST_AT_ONE_SPOT):
            spots.append(free_spot(dice, frozenset(spots)))
        else:
            spots.append(spots[-1])
        point, identifier = _stand(kind, ids, dice)
        ids.add(identifier.lower())
        if name == "BathtubBasin" and dice.chance(quirks.sink_like_bathtub):
            kind = tables.receptacles["SinkBasin"]
        doorless = name in _SURFACES_WITHOUT_DOOR and dice.chance(quirks.no_door)
        openable = kind.has_door and not doorless
        receptacles.append(Receptacle(identifier, kind, point, spots[-1], openable))
    return Layout(room, scene, size, tuple(receptacles), frozenset(spots))


def free_spot(dice: Dice, occupied: frozenset[str] | set[str]) -> str:
    """A location that nothing else is at."""
    while True:
        x, z = dice.between(-16, 16), dice.between(-16, 16)
        spot = spot_id(x, z, dice.between(0, 3), dice.pick((0, 30, 45, 60)))
        if spot not in occupied:
            return spot


def _choose_furniture(room: RoomKind, size: str, dice: Dice) -> list[str]:
    """The kinds of the receptacles, those alike beside each other."""
    total = dice.between(*RECEPTACLE_COUNTS[size])
    counts = {row.kind: row.always for row in room.furniture}

    def room_left(row: FurnitureRow) -> bool:
        return counts[row.kind] < row.most[size]

    while sum(counts.values()) < total:
        rows = [row for row in room.furniture if row.weight and room_left(row)]
        counts[rows[dice.weighted([row.weight for row in rows])].kind] += 1
    return [kind for kind, count in counts.items() for _ in range(count)]


def _stand(kind: ReceptacleKind, ids: set[str], dice: Dice) -> tuple[Point, str]:
    name, suffix = (kind.fixture, kind.name) if kind.fixture else (kind.name, "")
    while True:
        x = dice.between(-_ROOM_HALF_WIDTH, _ROOM_HALF_WIDTH)
        z = dice.between(-_ROOM_HALF_WIDTH, _ROOM_HALF_WIDTH)
        point = (x, max(0, kind.height + dice.between(-15, 15)), z)
        identifier = thing_id(name, point, suffix)
        if identifier.lower() not in ids:
            return point, identifier
