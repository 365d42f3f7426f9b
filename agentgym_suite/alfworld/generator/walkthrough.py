"""The solution of a generated game, reasoned out from where everything was put.

The resident below knows the rules of the household in its own terms: what it says is checked
against the engine, which knows them only from the game file.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentgym_suite.alfworld.generator.layout import Layout, Receptacle
from agentgym_suite.alfworld.generator.placement import Placement, Thing
from agentgym_suite.alfworld.generator.tasks import Task


def solve(
    layout: Layout, placement: Placement, task: Task, names: Mapping[str, str], put_command: str
) -> tuple[str, ...] | None:
    """The commands that win a game, up to the one that does; None if the task is not open.

    Args:
        layout: the room.
        placement: its objects.
        task: what is wanted.
        names: the displayed name of each id.
        put_command: the command for putting down, with the fields ``{o}`` and ``{r}``.
    """
    resident = _Resident(layout, placement, task, names, put_command)
    if resident.done():
        return None
    resident.work()
    return tuple(resident.commands[: resident.won_after]) if resident.won_after else None


class _Resident:
    """Someone who does the task, and notes after which command it was done."""

    def __init__(
        self,
        layout: Layout,
        placement: Placement,
        task: Task,
        names: Mapping[str, str],
        put_command: str,
    ) -> None:
        self.commands: list[str] = []
        self.won_after = 0
        self._layout = layout
        self._task = task
        self._names = names
        self._put_command = put_command
        self._things = placement.things
        self._spot = placement.start
        self._held: Thing | None = None
        self._lit: Thing | None = None
        self._open: set[str] = set()
        self._treated: set[str] = set()
        self._lies = {(t.id, home.id) for t in placement.things for home in t.homes}

    def work(self) -> None:
        """Do the task."""
        family = self._task.family
        wanted = [t for t in self._things if t.kind.name == self._task.thing and t.homes]
        goals = [r for r in self._layout.receptacles if r.kind.name == self._task.place]
        for thing in wanted[: family.count]:
            self._take(thing)
            if family.verb:
                appliance = next(
                    r for r in self._layout.receptacles if r.kind.name == family.appliance
                )
                self._go(appliance)
                self._treated.add(thing.id)
                self._say(f"{family.verb} {self._name(thing)} with {self._name(appliance)}")
            if family.needs_lamp:
                self._light()
            else:
                self._put(thing, goals[0])

    def done(self) -> bool:
        """Whether the task is done as things are."""
        task = self._task
        if task.family.needs_lamp:
            lamp, held = self._lit, self._held
            return (
                lamp is not None
                and held is not None
                and held.kind.name == task.thing
                and any(home.spot == self._spot for home in lamp.homes)
            )
        right = {
            thing.id
            for thing in self._things
            if thing.kind.name == task.thing and (not task.family.verb or thing.id in self._treated)
        }
        return any(
            sum((thing, place.id) in self._lies for thing in right) >= task.family.count
            for place in self._layout.receptacles
            if place.kind.name == task.place
        )

    def _take(self, thing: Thing) -> None:
        # the way with the fewest commands: here, or through no door
        place = min(thing.homes, key=lambda home: (home.spot != self._spot) + self._shut(home))
        self._go(place)
        self._open_door(place)
        self._lies.discard((thing.id, place.id))
        self._held = thing
        self._say(f"take {self._name(thing)} from {self._name(place)}")

    def _put(self, thing: Thing, place: Receptacle) -> None:
        self._go(place)
        self._open_door(place)
        self._lies.add((thing.id, place.id))
        self._held = None
        self._say(self._put_command.format(o=self._name(thing), r=self._name(place)))

    def _light(self) -> None:
        lamp = next(t for t in self._things if t.kind.name == self._task.place and t.homes)
        self._go(lamp.homes[0])
        self._lit = lamp
        self._say(f"use {self._name(lamp)}")

    def _go(self, place: Receptacle) -> None:
        if place.spot != self._spot:
            self._spot = place.spot
            self._say(f"go to {self._name(place)}")

    def _open_door(self, place: Receptacle) -> None:
        if self._shut(place):
            self._open.add(place.id)
            self._say(f"open {self._name(place)}")

    def _shut(self, place: Receptacle) -> bool:
        return place.openable and place.id not in self._open

    def _say(self, command: str) -> None:
        self.commands.append(command)
        if not self.won_after and self.done():
            self.won_after = len(self.commands)

    def _name(self, item: Thing | Receptacle) -> str:
        return self._names[item.id]
