"""The objects of one game: which there are, and where they lie before anyone moves them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentgym_suite.alfworld.generator.layout import Layout, Receptacle, free_spot
from agentgym_suite.alfworld.generator.naming import Point, thing_id
from agentgym_suite.alfworld.generator.quirks import Quirks
from agentgym_suite.alfworld.generator.tables import OBJECT_COUNTS, ObjectKind, Tables
from agentgym_suite.alfworld.generator.tasks import Task
from agentgym_suite.dice import Dice

_COUNTS_OF_A_KIND = (1, 2, 3)
_COUNT_WEIGHTS = (35, 45, 20)
_REACH = 25  # centimetres between a receptacle's middle and what lies in it


@dataclass(slots=True)
class Thing:
    """One object: in how many receptacles it lies, and the location noted for it."""

    id: str
    kind: ObjectKind
    homes: tuple[Receptacle, ...]
    spot: str
    cool: bool = False
    inside: Thing | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """The objects of a game and where its agent begins."""

    things: tuple[Thing, ...]
    start: str


def place_objects(
    tables: Tables, layout: Layout, task: Task, quirks: Quirks, dice: Dice
) -> Placement:
    """Fill a room so that the task is open and can be done."""
    return _Mover(tables, layout, task, quirks, dice).fill()


class _Mover:
    def __init__(
        self, tables: Tables, layout: Layout, task: Task, quirks: Quirks, dice: Dice
    ) -> None:
        self._tables = tables
        self._layout = layout
        self._task = task
        self._quirks = quirks
        self._dice = dice
        self._things: list[Thing] = []
        self._ids: set[str] = set()
        self._spots = set(layout.occupied)
        self._cracked = dice.chance(quirks.cracked_egg)

    def fill(self) -> Placement:
        total = self._dice.between(*OBJECT_COUNTS[self._layout.size])
        self._place_task()
        self._place_fixtures(total // 3)
        self._place_stock(total)
        self._add_oddities()
        start = self._new_spot()
        return Placement(tuple(self._dice.shuffled(self._things)), start)

    # --- what there is

    def _place_task(self) -> None:
        family, thing = self._task.family, self._task.thing
        homes = self._homes_of(thing)
        for _ in range(family.count):
            self._place(thing, homes, evenly=True)
        if self._dice.chance(0.3):
            lost = self._dice.chance(4 * self._quirks.on_floor)
            self._place(thing, [] if lost else homes, evenly=True)
        if family.needs_lamp:
            self._place(self._task.place, self._homes_of(self._task.place))

    def _place_fixtures(self, most: int) -> None:
        for receptacle in self._layout.receptacles:
            base = receptacle.id.split("_bar_")[0]
            if base in self._tables.objects:  # the sink around a basin
                inside = self._dice.chance(self._quirks.basin_fixture)
                homes = (receptacle,) if inside else ()
                self._add(base, homes, receptacle.point)
        for name, low, high in self._dice.shuffled(self._layout.room.fixtures):
            if name == self._task.place:
                continue
            for _ in range(self._dice.between(low, high)):
                if len(self._things) < most:
                    self._place(name, self._homes_of(name))

    def _place_stock(self, total: int) -> None:
        kinds = [name for name in self._layout.room.stock if name != self._task.thing]
        while len(self._things) < total:
            for name in self._dice.shuffled(kinds):
                homes = self._homes_of(name)
                if not homes and not self._quirks.on_floor:
                    continue
                count = _COUNTS_OF_A_KIND[self._dice.weighted(_COUNT_WEIGHTS)]
                for _ in range(min(count, total - len(self._things))):
                    on_floor = self._dice.chance(self._quirks.on_floor)
                    self._place(name, [] if on_floor else homes)

    # --- where it lies

    def _homes_of(self, name: str) -> list[Receptacle]:
        """Receptacles in which a thing may lie at the start: none that the task asks for."""
        return [
            receptacle
            for receptacle in self._layout.receptacles
            if name in receptacle.kind.accepts
            and not (name == self._task.thing and receptacle.kind.name == self._task.place)
        ]

    def _place(self, name: str, homes: Sequence[Receptacle], *, evenly: bool = False) -> None:
        if not homes:
            lamp = name == "FloorLamp" and self._dice.chance(self._quirks.lamp_in_reach)
            if not lamp:
                self._add(name, (), None)
                return
            homes = [r for r in self._layout.receptacles if not r.openable]
        weights = [1 if evenly else receptacle.kind.weight for receptacle in homes]
        home = homes[self._dice.weighted(weights)]
        self._add(name, (home,), home.point)

    def _add(self, name: str, homes: tuple[Receptacle, ...], near: Point | None) -> None:
        suffix = "EggCracked_0" if name == "Egg" and self._cracked else ""
        while True:
            identifier = thing_id(name, self._point(near), suffix)
            if identifier.lower() not in self._ids:
                break
        self._ids.add(identifier.lower())
        spot = homes[0].spot if homes else self._new_spot()
        self._things.append(Thing(identifier, self._tables.objects[name], homes, spot))

    def _point(self, near: Point | None) -> Point:
        between = self._dice.between
        if near is None:
            return between(-480, 480), between(0, 160), between(-480, 480)
        x, height, z = near
        return (
            x + between(-_REACH, _REACH),
            height + between(0, 20),
            z + between(-_REACH, _REACH),
        )

    def _new_spot(self) -> str:
        spot = free_spot(self._dice, self._spots)
        self._spots.add(spot)
        return spot

    # --- oddities

    def _add_oddities(self) -> None:
        dice, quirks = self._dice, self._quirks
        if dice.chance(quirks.two_places):
            for thing in self._some(self._movable(), dice.between(1, 3)):
                self._double(thing, self._homes_of(thing.kind.name))
            if self._task.family.verb and dice.chance(0.2):
                self._double_wanted()
        if dice.chance(quirks.stale_spot):
            for thing in self._some(self._movable(), dice.between(1, 2)):
                thing.spot = dice.pick(self._layout.receptacles).spot
        if dice.chance(quirks.cold_things):
            for thing in self._movable():
                in_fridge = thing.homes[0].kind.name == "Fridge" and "cool" in thing.kind.traits
                if in_fridge and thing.kind.name != self._task.thing:
                    thing.cool = dice.chance(0.6)
        if dice.chance(quirks.contents):
            self._fill_containers()

    def _movable(self) -> list[Thing]:
        return [thing for thing in self._things if thing.homes and "take" in thing.kind.traits]

    def _some(self, things: Iterable[Thing], count: int) -> list[Thing]:
        return self._dice.shuffled(list(things))[:count]

    def _double_wanted(self) -> None:
        """Let a thing lie where the task ends, too: it is not clean, hot or cool there yet."""
        name, place = self._task.thing, self._task.place
        goals = [r for r in self._layout.receptacles if r.kind.name == place]
        self._double(next(t for t in self._things if t.kind.name == name and t.homes), goals)

    def _double(self, thing: Thing, homes: Sequence[Receptacle]) -> None:
        others = [receptacle for receptacle in homes if receptacle not in thing.homes]
        beside = [receptacle for receptacle in others if receptacle.spot == thing.spot]
        if others:
            choice = beside if beside and self._dice.chance(0.5) else others
            thing.homes = (thing.homes[0], self._dice.pick(choice))

    def _fill_containers(self) -> None:
        outers = [thing for thing in self._movable() if "hold" in thing.kind.traits]
        for outer in self._some(outers, 2):
            inner = [
                thing
                for thing in self._movable()
                if thing is not outer
                and thing.homes[0] is outer.homes[0]
                and thing.inside is None
                and outer.inside is None
                and not any(other.inside is thing for other in self._things)
            ]
            if inner:
                self._dice.pick(inner).inside = outer
