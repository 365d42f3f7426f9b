"""Why a command did nothing: a sentence for people and logs, from the game's own words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from os.path import commonprefix

from agentgym_suite.alfworld.grammars import Wording
from agentgym_suite.alfworld.twl2 import Terminal

_LONGEST = 200


def explain_refusal(
    command: str,
    admissible: Sequence[str],
    *,
    is_idle: Callable[[str], bool],
    wordings: Iterable[Wording],
    names: frozenset[str],
) -> str:
    """One sentence; "" for a command that is admissible.

    Args:
        command: as typed.
        admissible: what does something now.
        is_idle: whether a command fails only because it would change nothing.
        wordings: how the game words its commands.
        names: of everything in the game.
    """
    text = command.strip()
    if text in admissible:
        return ""
    if not text:
        return "the command is empty; type one of the admissible commands"
    if len(text) > _LONGEST:
        return f"a command of {len(text):,} characters, {text[:40]!r}…, is none of this game"
    plain = _plain(text)
    for exact in admissible:
        if exact.strip() == text:  # the original lists such a command, too, and never matches it
            return f"{exact!r} cannot be typed: blanks around a command are not looked at"
        if _plain(exact) == plain:
            return f"{text!r} must be typed exactly as {exact!r}"
    if is_idle(text):
        return f"{text!r} would change nothing: what it leads to is already in reach or in effect"
    heads = _heads(wordings)
    head = next((h for h in heads if _starts(text, h)), None)
    if head is None:
        known = ", ".join(sorted(heads))
        return f"no command of this game starts like {text!r}; commands start with: {known}"
    if _names_nothing(text[len(head) :], names):
        return f"{text!r} names something that this game does not have"
    near = [c for c in admissible if _starts(c, head)]
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


def _heads(wordings: Iterable[Wording]) -> list[str]:
    """The words that the commands of this game begin with, the longest first."""
    heads = set()
    for wording in wordings:
        first = wording.template.symbols[:1]
        if first and isinstance(first[0], Terminal) and first[0].text.strip():
            heads.add(first[0].text.strip())
    return sorted(heads, key=len, reverse=True)
