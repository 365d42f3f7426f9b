"""The six families of tasks: what each asks for, in words and as a goal."""

from __future__ import annotations

from dataclasses import dataclass
from string import Template

from agentgym_suite.alfworld.generator.layout import Layout
from agentgym_suite.alfworld.generator.tables import Tables
from agentgym_suite.dice import Dice

_PUT_ONE = """\
    (exists (?r - receptacle ?o - object)
      (and
        (objectType ?o ${thing}Type)
        (receptacleType ?r ${place}Type)$state
        (inReceptacle ?o ?r)))"""

_PUT_TWO = """\
    (exists (?r - receptacle ?o1 - object ?o2 - object)
      (and
        (receptacleType ?r ${place}Type)
        (objectType ?o1 ${thing}Type)
        (objectType ?o2 ${thing}Type)
        (not (= ?o1 ?o2))
        (inReceptacle ?o1 ?r)
        (inReceptacle ?o2 ?r)))"""

_LOOK = """\
    (and
      (exists (?a - agent ?o - object)
        (and (holds ?a ?o) (objectType ?o ${thing}Type)))
      (exists (?a - agent ?l - location ?r - receptacle ?lamp - object)
        (and
          (atLocation ?a ?l)
          (receptacleAtLocation ?r ?l)
          (inReceptacle ?lamp ?r)
          (objectType ?lamp ${place}Type)
          (toggleable ?lamp)
          (isToggled ?lamp))))"""


@dataclass(frozen=True, slots=True)
class Family:
    """A family of tasks.

    Attributes:
        name: the official name, as in the folder names.
        rooms: the kinds of rooms it is played in.
        sentences: the two goal sentences.
        description: how a person might ask for it, for traj_data.json.
        goal: the goal condition.
        verb: what must be done to the object on the way, if anything.
        appliance: the kind of receptacle that does it.
        state: the fact that says it was done.
        count: how many objects are wanted.
    """

    name: str
    rooms: tuple[str, ...]
    sentences: tuple[str, str]
    description: str
    goal: str
    verb: str = ""
    appliance: str = ""
    state: str = ""
    count: int = 1

    @property
    def needs_lamp(self) -> bool:
        """Whether the task ends under a lamp instead of at a receptacle."""
        return self.goal is _LOOK


_ANY_ROOM = ("kitchen", "living_room", "bedroom", "bathroom")
FAMILIES = {
    family.name: family
    for family in (
        Family(
            "pick_and_place_simple",
            _ANY_ROOM,
            ("put a $thing in $place.", "put some $thing on $place."),
            "Bring the $thing over to the $place.",
            _PUT_ONE,
        ),
        Family(
            "look_at_obj_in_light",
            ("living_room", "bedroom"),
            ("look at $thing under the $place.", "examine the $thing with the $place."),
            "Hold the $thing up to the light of the $place.",
            _LOOK,
        ),
        Family(
            "pick_clean_then_place_in_recep",
            ("kitchen", "bathroom"),
            ("put a clean $thing in $place.", "clean some $thing and put it in $place."),
            "Wash the $thing, then leave it at the $place.",
            _PUT_ONE,
            verb="clean",
            appliance="SinkBasin",
            state="isClean",
        ),
        Family(
            "pick_heat_then_place_in_recep",
            ("kitchen",),
            ("put a hot $thing in $place.", "heat some $thing and put it in $place."),
            "Warm the $thing up, then leave it at the $place.",
            _PUT_ONE,
            verb="heat",
            appliance="Microwave",
            state="isHot",
        ),
        Family(
            "pick_cool_then_place_in_recep",
            ("kitchen",),
            ("put a cool $thing in $place.", "cool some $thing and put it in $place."),
            "Chill the $thing, then leave it at the $place.",
            _PUT_ONE,
            verb="cool",
            appliance="Fridge",
            state="isCool",
        ),
        Family(
            "pick_two_obj_and_place",
            _ANY_ROOM,
            ("put two $thing in $place.", "find two $thing and put them in $place."),
            "Gather two of the $thing at the $place.",
            _PUT_TWO,
            count=2,
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Task:
    """One task: a family, the kind of object it is about, and the place or lamp it ends at."""

    family: Family
    thing: str
    place: str
    sentence: str

    @property
    def description(self) -> str:
        """How a person might ask for it."""
        return _fill(self.family.description, self.thing.lower(), self.place.lower())

    @property
    def goal(self) -> str:
        """The goal condition in PDDL."""
        state = f"\n        ({self.family.state} ?o)" if self.family.state else ""
        return _fill(self.family.goal, self.thing, self.place, state)


def draw_task(tables: Tables, layout: Layout, family: Family, dice: Dice) -> Task:
    """A task of the family that the layout allows."""
    places = [] if family.needs_lamp else [r.kind.name for r in layout.receptacles]
    choices: list[tuple[str, str]] = []
    for name in layout.room.stock:
        kind = tables.objects[name]
        homes = {r.kind.name for r in layout.receptacles if name in r.kind.accepts}
        if not kind.wanted or family.verb and family.verb not in kind.traits:
            continue
        if family.needs_lamp and homes:
            choices.append((name, "DeskLamp"))
        # there must be somewhere else to find it, and treating it is not yet putting it there
        choices += [
            (name, place)
            for place in dict.fromkeys(places)
            if place in homes and len(homes) > 1 and place != family.appliance
        ]
    thing = dice.pick(list(dict.fromkeys(name for name, _ in choices)))
    place = dice.pick([place for name, place in choices if name == thing])
    sentence = _fill(dice.pick(family.sentences), thing.lower(), place.lower())
    return Task(family, thing, place, sentence)


def _fill(text: str, thing: str, place: str, state: str = "") -> str:
    return Template(text).substitute(thing=thing, place=place, state=state)
