"""How customers ask: the instructions of goals, in everyday sentences."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_suite.dice import Dice

_SYNTHETIC = (
    "Please find {query} that offer {features}",
    "I am shopping for {query}, and they should have {features}",
    "Show me {query} described as {features}",
    "Help me choose {query}: {features}",
    "My list says {query} with {features}",
    "Could you pick {query} for me, ideally {features}",
    "I would love some {query} known for {features}",
    "We are out of {query} and want {features}",
)
_HUMAN = (
    "i need {item}{options}, and it has to be {features}.",
    "can you get me {item} that is {features}{options}?",
    "hi there, my sister asked for {item}{options}. she cares about {features}.",
    "looking for {features} {query}{options}.",
    "i want to order {item}{options}; please make sure about {features}.",
    "it is time to replace my old one, so find {item} with {features}{options}.",
    "could you help me buy {item}{options}? {features} would be great.",
    "we are looking at {query}. the ones for us are {features}{options}.",
    "i'm after {item} - {features} matters most to me{options}.",
    "please search {query} for my dad{options}, he prefers {features}.",
    "where can i find {features} {query}{options}",
    "i saw {item} at a friend's place and now want one too, {features}{options}.",
    "birthday present wanted: {item}{options}, must be {features}!",
    "let's buy {item}{options}. only if it says {features}.",
    "for the new flat i need {item}, {features}, nothing fancy{options}.",
    "{features} {query}{options} please",
)
# how a chosen value is said, by the words its group's name begins with
_SPOKEN = {
    "color": (" in {}", ", color {}", " in the {} color", ", {} if possible"),
    "size": (" in size {}", ", {} size", ", the size should be {}", " ({})"),
    "flavor": (" in {} flavor", ", {} flavored", " that taste of {}"),
    "scent": (" with the {} scent", ", {} scented", " that smells of {}"),
    "fit": (" with a {} fit", ", {} fit"),
    "style": (", the {} style", ", {} version"),
}
_ANY_SPOKEN = (", {}", " ({})")


def synthetic_instruction(query: str, features: Sequence[str], dice: Dice) -> str:
    """A sentence naming query and features; the goal list adds options and price to its end."""
    return dice.pick(_SYNTHETIC).format(query=query, features=_listed(features))


def human_instruction(
    query: str, item: str, features: Sequence[str], options: Sequence[tuple[str, str]], dice: Dice
) -> str:
    """A customer's request for ``item`` with features and chosen (group, value) options."""
    said = ""
    for group, value in options:
        forms = _SPOKEN.get(group.split(" ")[0], _ANY_SPOKEN)
        said += dice.pick(forms).format(value)
    form = dice.pick(_HUMAN)
    return form.format(query=query, item=_one(item), features=_listed(features), options=said)


def _listed(features: Sequence[str]) -> str:
    if len(features) == 1:
        return features[0]
    return ", ".join(features[:-1]) + " and " + features[-1]


def _one(item: str) -> str:
    if item.endswith("s") and not item.endswith("ss"):
        return f"some {item}"
    return f"an {item}" if item[0] in "aeio" else f"a {item}"
