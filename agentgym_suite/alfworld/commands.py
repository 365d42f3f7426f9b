"""What a command string may be, beside exactly admissible: other wordings, by choice.

The household's language is free text, so its codec has one tool whose argument is the command.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym_suite.calls import Tool, ToolCall, split_lines

COMMAND = "command"
NOTHING_HAPPENS = "Nothing happens."

_TOOL = Tool(
    COMMAND,
    "Type one command in the household, such as: go to desk 1.",
    "text",
    "The command, word for word as the game knows it.",
)
_PUT = re.compile(r"put (.+?) (?:in/on|in|on) (.+)|move (.+?) to (.+)", re.DOTALL)
_PUT_WORDINGS = ("move {} to {}", "put {} in/on {}", "put {} in {}", "put {} on {}")


class CommandCodec:
    """An action is one command, a tool call ``command(text)`` the same."""

    @property
    def tools(self) -> tuple[dict[str, Any], ...]:
        """The one function schema, a fresh copy."""
        return (copy.deepcopy(_TOOL.schema),)

    def to_action(self, name: str, arguments: Mapping[str, Any]) -> str:
        """The command; line ends inside it become one blank.

        Raises:
            ValueError: on an unknown name, a missing, additional or non-string argument.
        """
        if name != COMMAND:
            raise ValueError(f"'{name}' is not a tool here; use {COMMAND}")
        if set(arguments) != {_TOOL.parameter}:
            raise ValueError(
                f"{name} got the arguments {sorted(arguments)}; give exactly ['{_TOOL.parameter}']"
            )
        text = arguments[_TOOL.parameter]
        if not isinstance(text, str):
            raise ValueError(f"{name}'s {_TOOL.parameter} is {type(text).__name__}; give a string")
        return " ".join(split_lines(text))

    def to_calls(self, action: str) -> list[ToolCall]:
        """One call for each line of the action."""
        return [ToolCall(COMMAND, {_TOOL.parameter: line}) for line in split_lines(action)]


CODEC = CommandCodec()


def normalise(command: str) -> str:
    """Lower case, single blanks, no blank outside, without one final full stop or ``!``."""
    text = " ".join(command.lower().split())
    return text[:-1].rstrip() if text.endswith((".", "!")) else text


def find_command(
    command: str, admissible: Sequence[str], *, normalised: bool, put_alias: bool
) -> str:
    """The admissible command that is meant, or the command itself.

    Args:
        command: as typed.
        admissible: what the game accepts now.
        normalised: whether ``normalise`` may be tried.
        put_alias: whether other wordings of putting something down may be tried.
    """
    tried = [command.strip()]
    if normalised:
        tried.append(normalise(command))
    if put_alias:
        tried += [wording for text in tuple(tried) for wording in _put_wordings(text)]
    return next((text for text in tried if text in admissible), command)


def _put_wordings(command: str) -> list[str]:
    match = _PUT.fullmatch(command)
    if match is None:
        return []
    thing, place = (match[1], match[2]) if match[1] else (match[3], match[4])
    return [wording.format(thing, place) for wording in _PUT_WORDINGS]
