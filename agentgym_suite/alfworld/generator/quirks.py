"""How often a generated game has the oddities of the official ones.

The rates follow counts over the 4,027 official games. An oddity of a room is drawn once for its
scene, one of a game anew for every game.
"""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Quirks:
    """Probabilities of oddities.

    Attributes:
        shared_spot: a receptacle is reached from the same spot as the one before it.
        no_door: a cabinet, drawer or safe cannot be opened and is an open surface.
        sink_like_bathtub: a bathtub basin is of the kind in which things can be washed.
        two_places: a game has objects that lie in two receptacles at once.
        stale_spot: a game has an object whose noted location is not its receptacle's.
        cold_things: a game with a stocked fridge has things in it that are cool already.
        contents: a game has a container with something inside it.
        on_floor: an object lies in no receptacle, so that it can be neither seen nor taken.
        cracked_egg: a game's eggs have the longer id of broken ones.
        basin_fixture: a sink lies in its own basin and is listed there.
        lamp_in_reach: a floor lamp stands on a receptacle and can be used.
        repeated_facts: a game states some facts twice.
    """

    shared_spot: float = 0.08
    no_door: float = 0.17
    sink_like_bathtub: float = 0.1
    two_places: float = 0.39
    stale_spot: float = 0.03
    cold_things: float = 0.3
    contents: float = 0.23
    on_floor: float = 0.04
    cracked_egg: float = 0.1
    basin_fixture: float = 0.15
    lamp_in_reach: float = 0.08
    repeated_facts: float = 0.9


LIKE_THE_OFFICIAL_GAMES = Quirks()
NO_QUIRKS = Quirks(**{quirk.name: 0.0 for quirk in fields(Quirks)})
