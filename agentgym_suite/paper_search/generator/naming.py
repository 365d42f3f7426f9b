"""Names of people, systems and venues, none of which exists."""

from __future__ import annotations

from agentgym_suite.dice import Dice
from agentgym_suite.paper_search.generator.vocabulary import Lexicon

_MOST_AUTHORS = 6
_JOURNALS, _NO_VENUE = 0.12, 0.2
_MIDDLES = 0.4


def author_names(lexicon: Lexicon, dice: Dice) -> list[str]:
    """One to six authors."""
    count = 1 + min(dice.below(_MOST_AUTHORS), dice.below(_MOST_AUTHORS))
    people = lexicon.people
    return [
        f"{dice.pick(people['given_first'])}{dice.pick(people['given_last'])} "
        f"{dice.pick(people['family_first'])}{dice.pick(people['family_last'])}"
        for _ in range(count)
    ]


def system_name(lexicon: Lexicon, dice: Dice) -> str:
    """What the authors call what they made."""
    systems = lexicon.systems
    middle = dice.pick(systems["middle"]) if dice.chance(_MIDDLES) else ""
    name = dice.pick(systems["first"]) + middle + dice.pick(systems["last"])
    return (name.upper() if dice.chance(0.15) else name) + dice.pick(systems["suffixes"])


def venue_name(lexicon: Lexicon, year: int, dice: Dice) -> str:
    """Where a paper came out; "" for those that stayed preprints."""
    if dice.chance(_NO_VENUE):
        return ""
    if dice.chance(_JOURNALS):
        return dice.pick(lexicon.venues["journals"])
    return f"{dice.pick(lexicon.venues['series'])} {year}"
