"""What an action string says: ``search[keywords]`` or ``click[element]``.

Two grammars: the original's, whose greedy pattern decides what a bracket or a line end does, and
the mended one (name up to the first ``[``, argument up to the last ``]``).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from agentgym_suite.calls import CallCodec, Tool

SEARCH = "search"
CLICK = "click"

CODEC = CallCodec(
    (
        Tool(SEARCH, "Search the shop for products.", "keywords", "Words to search for."),
        Tool(CLICK, "Click an element of the current page.", "element", "Text of the element."),
    )
)

_HOW = "write search[keywords] or click[element]"
_SHOWN = 80


class ParsedCall(NamedTuple):
    """One action, understood or not.

    Attributes:
        name: ``"search"``, ``"click"``, or ``""`` when the action was not understood.
        argument: the argument in lower case.
        error: why it was not understood, one sentence; ``""`` if it was.
    """

    name: Literal["search", "click", ""]
    argument: str
    error: str = ""

    @property
    def text(self) -> str:
        """The call in canonical form; parsing it again gives the same call."""
        return f"{self.name}[{self.argument}]"


def parse_action(action: str, *, strict: bool = True) -> ParsedCall:
    """Read an action.

    Args:
        action: any text.
        strict: read it as the original did; otherwise outer white space and the case of the name do
            not matter, brackets may stand in the argument, and a blank search is refused.
    """
    return _parse_strict(action) if strict else _parse_lenient(action)


def _parse_strict(action: str) -> ParsedCall:
    # The original matches (.+)\[(.+)\] from the start; plain searching gives the same groups
    # without the pattern's quadratic time on a long run of brackets.
    line = action.partition("\n")[0]
    end = line.rfind("]")
    start = line.rfind("[", 1, end - 1) if end > 2 else -1
    if start < 0:
        return _refused(action, "")
    name = line[:start]
    if name == SEARCH:
        return ParsedCall("search", line[start + 1 : end].lower())
    if name == CLICK:
        return ParsedCall("click", line[start + 1 : end].lower())
    return _refused(action, name)


def _parse_lenient(action: str) -> ParsedCall:
    text = action.strip()
    start = text.find("[")
    end = text.rfind("]")
    if start < 1 or end < start:
        return _refused(action, "")
    name = text[:start].strip().lower()
    argument = text[start + 1 : end].lower()
    if name == SEARCH:
        if not argument.strip():
            return ParsedCall("", "", "the search has no words; write search[keywords]")
        return ParsedCall("search", argument)
    if name == CLICK:
        if not argument:
            return ParsedCall("", "", "the click names no element; write click[element]")
        return ParsedCall("click", argument)
    return _refused(action, name)


def _refused(action: str, name: str) -> ParsedCall:
    if not action.strip():
        return ParsedCall("", "", f"the action is empty; {_HOW}")
    return ParsedCall("", "", f"{shown(name or action)} is not an action here; {_HOW}")


def shown(text: str) -> str:
    """A text of the agent as error messages quote it: on one line, not too long."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
