"""How a world comes into being: entities with their names, then the facts, relation by relation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from agentgym_suite.dice import Dice
from agentgym_suite.files import Progress
from agentgym_suite.multihop_qa.generator.identity import GENERATOR_VERSION
from agentgym_suite.multihop_qa.generator.naming import Name, Names, demonym
from agentgym_suite.multihop_qa.generator.tables import TYPES, Relation, Tables
from agentgym_suite.multihop_qa.generator.values import make_value
from agentgym_suite.multihop_qa.generator.world import Entity, World

_TWINS = 0.042  # so that twice as many have a name like another's
_ALIASED = 0.10
_TRIES = 40
# the parts in life of people, as often as the facts about them need
_ROLES = {
    "writer": 52,
    "director": 44,
    "founder": 46,
    "musician": 34,
    "naturalist": 22,
    "climber": 20,
    "scholar": 22,
    "leader": 26,
}
# first and last year in which something of a type, or a person of a role, begins
_YEARS = {
    "country": (1790, 1958),
    "university": (1802, 1965),
    "company": (1820, 1985),
    "band": (1956, 2012),
    "book": (1815, 2012),
    "film": (1921, 2018),
    "award": (1872, 1996),
    "ship": (1845, 1985),
    "species": (1822, 1975),
    "writer": (1780, 1975),
    "director": (1888, 1975),
    "founder": (1785, 1950),
    "musician": (1932, 1990),
    "naturalist": (1785, 1930),
    "climber": (1820, 1940),
    "scholar": (1765, 1925),
    "leader": (1740, 1920),
}


def grow_world(tables: Tables, scale: int, seed: int, progress: Progress | None = None) -> World:
    """Make a world of ``scale`` times the entities that the tables name for a small one."""
    world = World(dict(tables.relations))
    dice = Dice(GENERATOR_VERSION, seed, "world")
    _populate(world, tables, scale, seed, dice)
    for done, relation in enumerate(tables.relations.values(), start=1):
        _relate(world, relation, dice)
        if progress is not None:
            progress("grow the world", done, len(tables.relations))
    return world


def _populate(world: World, tables: Tables, scale: int, seed: int, dice: Dice) -> None:
    names = Names(tables.names, GENERATOR_VERSION, seed)
    for kind in TYPES:
        made: list[tuple[Entity, Name]] = []
        for _ in range(tables.pages[kind].count * scale):
            gender = dice.pick("fm") if kind == "person" else ""
            role = list(_ROLES)[dice.weighted(tuple(_ROLES.values()))] if kind == "person" else ""
            other = made[dice.below(len(made))] if made and dice.chance(_TWINS) else None
            name = None
            if other is not None and other[0].twin < 0:
                name = names.twin(kind, gender, other[1])
            if name is None:
                other, name = None, names.new(kind, gender)
            entity = Entity(len(world.entities), kind, name.title, name.article, gender, role)
            low, high = _YEARS.get(role or kind, (0, 0))
            entity.year = dice.between(low, high)
            if other is not None:
                entity.twin, other[0].twin = other[0].number, entity.number
            if tables.names[kind].demonym:
                entity.demonyms = (demonym(name.title),)
            world.add(entity)
            made.append((entity, name))
        for entity, name in made:
            if dice.chance(_ALIASED):
                _give_aliases(entity, name, names, dice)


def _give_aliases(entity: Entity, name: Name, names: Names, dice: Dice) -> None:
    words = entity.title.split()
    proposals: list[str] = []
    if entity.kind == "person":
        proposals.append(f"{words[0][0]}. {words[-1]}")
    elif entity.kind in ("university", "company", "award") and len(words) > 2:
        proposals.append("".join(w[0] for w in words if w[0].isupper()))
    elif "word" in name.parts and len(words) > 1 and entity.twin < 0:
        proposals.append(name.parts["word"])  # the short form
    if entity.kind in ("city", "company", "band", "ship") and (not proposals or dice.chance(0.3)):
        entity.former = not proposals
        proposals.append(names.word(entity.kind))
    if not proposals and entity.kind in ("river", "mountain", "region", "country", "university"):
        entity.former = True
        proposals.append(names.word(entity.kind))
    if not proposals:
        proposals.append(" ".join(w for w in words if w not in ("The", "A")))
    entity.aliases = tuple(
        alias for alias in proposals if alias != entity.title and names.claim(alias)
    )


def _relate(world: World, relation: Relation, dice: Dice) -> None:
    domain = [e for e in world.entities if e.kind == relation.domain]
    if relation.is_value:
        for entity in domain:
            if dice.chance(relation.share):
                value = make_value(relation.range, entity.year, dice)
                world.state(relation.name, entity.number, -1, value, entity.number)
        return
    if relation.within:
        pairs = _within(world, relation, dice)
    else:
        pairs = _free(world, relation, domain, dice)
    for subject, target in pairs:
        teller = target if relation.back and dice.chance(relation.back) else subject
        world.state(relation.name, subject, target, None, teller)


def _within(world: World, relation: Relation, dice: Dice) -> list[tuple[int, int]]:
    """One entity of the domain for each of the range that it lies in, as a capital is chosen."""
    inside: dict[int, list[int]] = {}
    for entity in world.entities:
        if entity.kind == relation.domain:
            path = [(step, True) for step in relation.within]
            for end in world.answers(entity.number, path):
                if isinstance(end, int):
                    inside.setdefault(end, []).append(entity.number)
    ends = [e.number for e in world.entities if e.kind == relation.range]
    return [
        (dice.pick(inside[end]), end)
        for end in ends
        if end in inside and dice.chance(relation.share)
    ]


def _free(
    world: World, relation: Relation, domain: Sequence[Entity], dice: Dice
) -> list[tuple[int, int]]:
    """An entity of the range for most of the domain, by role and by what the years allow."""
    targets = [
        e for e in world.entities if e.kind == relation.range and relation.role in ("", e.role)
    ]
    uses: Counter[int] = Counter()
    pairs: list[tuple[int, int]] = []
    turn = dice.shuffled(targets)
    for entity in domain:
        if relation.by not in ("", entity.role) or not dice.chance(relation.share):
            continue
        if relation.symmetric and uses[entity.number]:
            continue
        # every region gets towns before one gets a second: what contains others must not be empty
        first = turn.pop() if turn and relation.name in _FILLED_EVENLY else None
        target = first or _find(entity, relation, targets, uses, dice)
        if target is None:
            continue
        uses[target.number] += 1
        if relation.symmetric:
            uses[entity.number] += 1
        pairs.append((entity.number, target.number))
    return pairs


_FILLED_EVENLY = ("region_in", "city_in")


def _find(
    entity: Entity, relation: Relation, targets: Sequence[Entity], uses: Counter[int], dice: Dice
) -> Entity | None:
    gender = {"father": "m", "mother": "f"}.get(relation.name, "")
    for _ in range(_TRIES):
        target = targets[dice.below(len(targets))]
        if target.number == entity.number or (
            relation.most and uses[target.number] >= relation.most
        ):
            continue
        if gender and target.gender != gender:
            continue
        if relation.years is not None:
            gap = entity.year - target.year
            if not relation.years[0] <= gap <= relation.years[1]:
                continue
        return target
    return None
