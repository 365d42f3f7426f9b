"""A generated game as PDDL: its objects, the facts at the start and the goal."""

from __future__ import annotations

from collections.abc import Iterator

from agentgym_suite.alfworld.generator.layout import Layout
from agentgym_suite.alfworld.generator.placement import Placement
from agentgym_suite.alfworld.generator.quirks import Quirks
from agentgym_suite.alfworld.generator.tasks import Task
from agentgym_suite.dice import Dice

_TRAITS = {
    "take": "pickupable",
    "clean": "cleanable",
    "heat": "heatable",
    "cool": "coolable",
    "slice": "sliceable",
    "toggle": "toggleable",
    "hold": "isReceptacleObject",
}
# Kinds that the domain itself declares.
_CONSTANTS = frozenset(
    ("FridgeType", "MicrowaveType", "SinkBasinType", "ButterKnifeType", "KnifeType")
)


def write_problem(
    name: str,
    layout: Layout,
    placement: Placement,
    task: Task,
    quirks: Quirks,
    dice: Dice,
) -> str:
    """The text of a game's problem."""
    facts = list(_facts(layout, placement))
    if dice.chance(quirks.repeated_facts):
        facts += [dice.pick(facts) for _ in range(dice.between(1, 3))]
    lines = [f"(define (problem {name})", "  (:domain household)", "  (:objects"]
    lines += (f"    {group}" for group in _declarations(layout, placement))
    lines += ["  )", "  (:init"]
    lines += (f"    ({fact})" for fact in facts)
    lines += ["  )", "  (:goal", f"{task.goal}))", ""]
    return "\n".join(lines)


def _declarations(layout: Layout, placement: Placement) -> Iterator[str]:
    spots = {spot: None for spot in (placement.start, *(r.spot for r in layout.receptacles))}
    spots.update((thing.spot, None) for thing in placement.things)
    otypes = {f"{thing.kind.name}Type": None for thing in placement.things}
    rtypes = {f"{r.kind.name}Type": None for r in layout.receptacles}
    yield "agent1 - agent"
    yield from (f"{spot} - location" for spot in spots)
    yield from (f"{name} - otype" for name in otypes if name not in _CONSTANTS)
    yield from (f"{name} - rtype" for name in rtypes if name not in _CONSTANTS)
    yield from (f"{receptacle.id} - receptacle" for receptacle in layout.receptacles)
    yield from (f"{thing.id} - object" for thing in placement.things)


def _facts(layout: Layout, placement: Placement) -> Iterator[str]:
    yield f"atLocation agent1 {placement.start}"
    for receptacle in layout.receptacles:
        yield f"receptacleAtLocation {receptacle.id} {receptacle.spot}"
        yield f"receptacleType {receptacle.id} {receptacle.kind.name}Type"
        if receptacle.openable:
            yield f"openable {receptacle.id}"
    for thing in placement.things:
        yield f"objectType {thing.id} {thing.kind.name}Type"
        yield f"objectAtLocation {thing.id} {thing.spot}"
        yield from (f"inReceptacle {thing.id} {home.id}" for home in thing.homes)
        if thing.inside is not None:
            yield f"inReceptacleObject {thing.id} {thing.inside.id}"
        if thing.cool:
            yield f"isCool {thing.id}"
        yield from (f"{p} {thing.id}" for trait, p in _TRAITS.items() if trait in thing.kind.traits)
    kinds = dict.fromkeys(thing.kind.name for thing in placement.things)
    for place in dict.fromkeys(receptacle.kind for receptacle in layout.receptacles):
        yield from (f"canContain {place.name}Type {k}Type" for k in kinds if k in place.accepts)
