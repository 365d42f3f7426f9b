"""Why a command did nothing: a sentence for people and logs, from the game's own words."""

from __future__ import annotations

from os.path import commonprefix
from typing import TYPE_CHECKING

from agentgym_suite.alfworld.twl2 import Terminal

if TYPE_CHECKING:
    from agentgym_suite.alfworld.play import Play

_LONGEST = 200


def why_not(play: Play, command: str) -> str:
    """One sentence; "" for a command that is admissible."""
    text = command.strip()
    if text in play.admissible:
        return ""
    if not text:
        return "the command is empty; type one of the admissible commands"
    if len(text) > _LONGEST:
        return f"a command of {len(text):,} characters, {text[:40]!r}…, is none of this game"
    plain = _plain(text)
    for admissible in play.admissible:
        if _plain(admissible) == plain:
            return f"{text!r} must be typed exactly as {admissible!r}"
    if play.is_idle(text):
        return f"{text!r} would change nothing: what it leads to is already in reach or in effect"
    heads = _heads(play)
    head = next((h for h in heads if _starts(text, h)), None)
    if head is None:
        known = ", ".join(sorted(heads))
        return f"no command of this game starts like {text!r}; commands start with: {known}"
    if _names_nothing(text[len(head) :], play.game.known_names):
        return f"{text!r} names something that this game does not have"
    near = [c for c in play.admissible if _starts(c, head)]
    if not near:
        return f"{text!r} is not possible here and now, nor is anything else with {head!r}"
    best = max(near, key=lambda c: len(commonprefix([c, text])))
    return f"{text!r} is not possible here and now; with {head!r}, {best!r} is, for one"


def _plain(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(".!")


def _starts(text: str, head: str) -> bool:
    return text == head or text.startswith(f"{head} ")


def _names_nothing(rest: str, names: frozenset[str]) -> bool:
    """Whether a number stands in the command that belongs to no name of the game."""
    for name in sorted((n for n in names if n in rest), key=len, reverse=True):
        rest = rest.replace(name, "\n")
    return any(c.isdigit() for c in rest) or ("\n" not in rest and bool(rest.strip()))


def _heads(play: Play) -> list[str]:
    """The words that the commands of this game begin with, the longest first."""
    heads = set()
    for wording in play.game.grammar.wordings:
        first = wording.template.symbols[:1]
        if first and isinstance(first[0], Terminal) and first[0].text.strip():
            heads.add(first[0].text.strip())
    return sorted(heads, key=len, reverse=True)
