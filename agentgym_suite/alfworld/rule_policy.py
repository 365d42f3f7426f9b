"""A baseline that knows nothing but what an agent reads: search place by place, act when it can.

It decides from the admissible commands and from the kind of task in ``info``; it looks into no
state and keeps only what it did itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_TREATMENTS = {
    "pick_clean_then_place_in_recep": ("clean", ("sinkbasin", "bathtubbasin")),
    "pick_heat_then_place_in_recep": ("heat", ("microwave",)),
    "pick_cool_then_place_in_recep": ("cool", ("fridge",)),
}
_LOOK = "look_at_obj_in_light"
_TAKE = re.compile(r"take (.+ \d+) from (.+)")
_DOWN = re.compile(r"(?:move|put) (.+ \d+) (?:to|in/on) (.+)")


class RulePolicy:
    """Plays one episode; begins anew whenever it is shown the start of one."""

    def __init__(self) -> None:
        self._begin()

    def __call__(self, observation: str, info: Mapping[str, Any]) -> str:
        """The next command."""
        if info["step"] == 0:
            self._begin()
        commands = info["admissible_actions"]
        command = next(self._wishes(info, commands), commands[0] if commands else "look")
        self._note(command)
        return command

    def _begin(self) -> None:
        self._here = ""
        self._visited: set[str] = set()
        self._opened: set[str] = set()
        self._placed: set[str] = set()
        self._holding = ""
        self._treated = ""
        self._lamp_at = ""
        self._home = ""

    def _wishes(self, info: Mapping[str, Any], commands: tuple[str, ...]) -> Iterator[str]:
        """Commands by how much they are wanted now; all are admissible."""
        target, place = info["object"].lower(), info["receptacle"].lower()
        verb, appliances = _TREATMENTS.get(info["task_type"], ("", ()))
        looking = info["task_type"] == _LOOK
        lamps = [c for c in commands if looking and c.startswith(f"use {place} ")]
        if lamps:
            self._lamp_at = self._here
        if not self._holding:
            yield from (c for c in commands if self._takes(c, target, place))
        elif looking:
            yield from lamps
            yield from (c for c in commands if c == f"go to {self._lamp_at}")
        elif verb and self._treated != self._holding:
            yield from (c for c in commands if c.startswith(f"{verb} {self._holding} "))
            yield from self._toward(commands, appliances)
        else:
            yield from (c for c in commands if self._puts_down(c, place))
            yield from (c for c in self._opening(commands) if _base(c[5:]) == place)
            yield from (c for c in commands if c == f"go to {self._home}")
            yield from self._toward(commands, (place,))
        yield from self._opening(commands)
        yield from (c for c in commands if c.startswith("go to ") and c[6:] not in self._visited)
        yield from (c for c in commands if c.startswith("go to "))

    def _takes(self, command: str, target: str, place: str) -> bool:
        match = _TAKE.fullmatch(command)
        if match is None or _base(match[1]) != target:
            return False
        return match[1] not in self._placed or _base(match[2]) != place

    def _puts_down(self, command: str, place: str) -> bool:
        match = _DOWN.fullmatch(command)
        if match is None or match[1] != self._holding or _base(match[2]) != place:
            return False
        return self._home in ("", match[2])

    def _opening(self, commands: Iterable[str]) -> Iterator[str]:
        return (c for c in commands if c.startswith("open ") and c[5:] not in self._opened)

    def _toward(self, commands: Iterable[str], names: Iterable[str]) -> Iterator[str]:
        wanted = tuple(names)
        return (c for c in commands if c.startswith("go to ") and _base(c[6:]) in wanted)

    def _note(self, command: str) -> None:
        verb, _, rest = command.partition(" ")
        if command.startswith("go to "):
            self._here = command[6:]
            self._visited.add(self._here)
        elif verb == "open":
            self._opened.add(rest)
        elif verb in ("clean", "heat", "cool"):
            self._treated = self._holding
        elif match := _TAKE.fullmatch(command):
            self._holding, self._treated = match[1], ""
        elif match := _DOWN.fullmatch(command):
            self._placed.add(match[1])
            self._holding, self._home = "", match[2]


def _base(name: str) -> str:
    """A name without its number."""
    return name.rpartition(" ")[0]
