r"""The action grammar ``name[argument]``, one call per line, and its codec to tool calls.

An argument runs from the first ``[`` to the last ``]`` of its line, so nested brackets survive.
Only ``\n``, ``\r\n`` and ``\r`` end a line; other separators of Unicode are text.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

_LINE_ENDS = re.compile(r"\r\n|\n|\r")
_CALL = re.compile(r"([A-Za-z]+)\[(.*)\]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Call:
    """One well-formed call: a lower-case name and its stripped argument."""

    name: str
    argument: str


@dataclass(frozen=True, slots=True)
class Malformed:
    """A line that is no call, with the reason in one sentence."""

    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A structured call as chat models return it: a function name and JSON arguments.

    The arguments are text where a model wrote none that are a JSON object.
    """

    name: str
    arguments: Mapping[str, Any] | str
    id: str = ""


def split_lines(text: str) -> list[str]:
    r"""The lines of a text, ended by ``\n``, ``\r\n`` or ``\r`` only."""
    return _LINE_ENDS.split(text)


def parse_calls(
    text: str, *, names: Iterable[str] = (), limits: Mapping[str, int] | None = None
) -> list[Call | Malformed]:
    """Every non-empty line of ``text`` as a call, or as a malformed line with its reason.

    Args:
        text: the action.
        names: the legal call names; empty means any.
        limits: longest argument per call name, in characters.
    """
    legal = tuple(names)
    return [
        _parse_line(stripped, legal, limits or {})
        for line in split_lines(text)
        if (stripped := line.strip())
    ]


def _parse_line(line: str, names: tuple[str, ...], limits: Mapping[str, int]) -> Call | Malformed:
    match = _CALL.fullmatch(line)
    if match is None:
        return Malformed(line, f"'{line[:80]}' is not a call; write name[argument]")
    name, argument = match[1].lower(), match[2].strip()
    if names and name not in names:
        return Malformed(line, f"'{name}' is not a call here; use {', '.join(names)}")
    longest = limits.get(name)
    if longest is not None and len(argument) > longest:
        return Malformed(
            line, f"the argument of {name} has {len(argument)} characters; use at most {longest}"
        )
    return Call(name, argument)


def format_calls(calls: Iterable[Call | Malformed]) -> str:
    """The canonical text of calls, one per line; malformed lines are kept as they are."""
    return "\n".join(
        f"{call.name}[{call.argument}]" if isinstance(call, Call) else call.text for call in calls
    )


class ActionCodec(Protocol):
    """Maps an environment's action string to tool calls and back."""

    @property
    def tools(self) -> tuple[dict[str, Any], ...]:
        """OpenAI-style function schemas, fresh copies."""
        ...

    def to_action(self, name: str, arguments: Mapping[str, Any]) -> str:
        """The action text of one tool call."""
        ...

    def to_calls(self, action: str) -> list[ToolCall]:
        """The tool calls of an action, in order."""
        ...


@dataclass(frozen=True, slots=True)
class Tool:
    """One call of an environment's grammar as a function with at most one string parameter."""

    name: str
    description: str
    parameter: str = ""
    parameter_description: str = ""

    @property
    def schema(self) -> dict[str, Any]:
        """The OpenAI-style function schema."""
        properties = (
            {self.parameter: {"type": "string", "description": self.parameter_description}}
            if self.parameter
            else {}
        )
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": {
                    "type": "object",
                    "properties": properties,
                    "required": list(properties),
                    "additionalProperties": False,
                },
            },
        }


class CallCodec:
    """The codec of environments whose actions are ``name[argument]`` calls."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}

    @property
    def tools(self) -> tuple[dict[str, Any], ...]:
        """OpenAI-style function schemas, fresh copies."""
        return tuple(copy.deepcopy(tool.schema) for tool in self._tools.values())

    def to_action(self, name: str, arguments: Mapping[str, Any]) -> str:
        """``name[argument]``; line ends inside the argument become one blank.

        Raises:
            ValueError: on an unknown name, a missing, additional or non-string argument.
        """
        tool = self._tools.get(name)
        if tool is None:
            raise ValueError(f"'{name}' is not a tool here; use {', '.join(self._tools)}")
        expected = {tool.parameter} if tool.parameter else set()
        if set(arguments) != expected:
            raise ValueError(
                f"{name} got the arguments {sorted(arguments)}; give exactly {sorted(expected)}"
            )
        if not tool.parameter:
            return f"{name}[]"
        value = arguments[tool.parameter]
        if not isinstance(value, str):
            raise ValueError(f"{name}'s {tool.parameter} is {type(value).__name__}; give a string")
        return f"{name}[{_LINE_ENDS.sub(' ', value)}]"

    def to_calls(self, action: str) -> list[ToolCall]:
        """The tool calls whose actions, joined by line ends, are ``action``.

        Raises:
            ValueError: if a line is no call of this environment.
        """
        calls = []
        for line in split_lines(action):
            name, bracket, rest = line.partition("[")
            tool = self._tools.get(name)
            if tool is None or not bracket or not rest.endswith("]"):
                raise ValueError(f"'{line[:80]}' is not a call of {', '.join(self._tools)}")
            argument = rest[:-1]
            if argument and not tool.parameter:
                raise ValueError(f"'{line[:80]}' has an argument, {name} takes none")
            calls.append(ToolCall(name, {tool.parameter: argument} if tool.parameter else {}))
        return calls
