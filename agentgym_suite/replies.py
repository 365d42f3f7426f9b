"""A model's reply turned into one action, by named formats.

Only the text of this turn is parsed. Nothing here raises on model text: a reply without a
readable action has ``error`` set and keeps the text itself as the action, which the environment
refuses with feedback, so that the step counts. Every tolerance is a named repair.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentgym_suite.calls import ActionCodec, ToolCall
from agentgym_suite.errors import UsageError
from agentgym_suite.literals import reread
from agentgym_suite.reply_tags import Block, blocks, first_block, search_r1_turn

_MAX_LITERAL = 8192  # longest text read as a Python literal
_FENCE = "```"
_FENCED_LANGUAGE = re.compile(r"[a-zA-Z]*")
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
_CJK = re.compile("[\u4e00-\u9fff]")
_LINE_ENDS = re.compile(r"\r\n|\n|\r")
_SAME_TOOL = {"wiki_search": "search"}  # what the published QA recipes call it
_FULL_WIDTH = str.maketrans("｛｝［］：，＂", '{}[]:,"')


@dataclass(frozen=True, slots=True)
class ParsedAction:
    """What one reply means.

    Attributes:
        action: the action text for ``env.step``.
        thought: the reasoning in front of it, "" if none.
        error: why no action could be read, one sentence; "" if it could.
        span: character offsets (start, end) of the executable part in the reply; (0, 0) if none.
        repairs: the tolerances that were needed, by name.
    """

    action: str
    thought: str = ""
    error: str = ""
    span: tuple[int, int] = (0, 0)
    repairs: tuple[str, ...] = ()


def parse_reply(
    text: str,
    format: str = "raw",
    *,
    codec: ActionCodec | None = None,
    tool_calls: Sequence[ToolCall] = (),
) -> ParsedAction:
    """Read the action out of a reply.

    Args:
        text: the reply's text.
        format: a name of ``REPLY_FORMATS``.
        codec: the environment's codec; the tool-call formats need it.
        tool_calls: structured calls that came beside the text (format "openai").

    Raises:
        UsageError: on an unknown format, or a tool-call format without a codec.
    """
    parser = REPLY_FORMATS.get(format)
    if parser is None:
        raise UsageError(f"reply format {format!r} does not exist; use {', '.join(REPLY_FORMATS)}")
    if codec is None and format in ("hermes", "openai"):
        raise UsageError(f"reply format {format!r} needs the environment's codec; pass codec=")
    return parser(text, codec, tool_calls)


def _raw(text: str, codec: ActionCodec | None, calls: Sequence[ToolCall]) -> ParsedAction:
    return ParsedAction(text, span=(0, len(text)))


def _react(text: str, codec: ActionCodec | None, calls: Sequence[ToolCall]) -> ParsedAction:
    repairs: tuple[str, ...] = ()
    body = text
    if body.rstrip().endswith("</s>"):
        body = body.rstrip()[: -len("</s>")]
        repairs = ("end_token",)
    marker = body.rfind("Action:")
    if marker < 0:
        if "[" in body and codec is not None and _mentions_a_call(body, codec):
            return ParsedAction(
                body.strip(), span=_strip_span(body, 0, len(body)), repairs=(*repairs, "no_marker")
            )
        return ParsedAction(text, error="the reply has no 'Action:' line", repairs=repairs)
    start = marker + len("Action:")
    end = body.find("\nObservation:", start)
    span = _strip_span(body, start, len(body) if end < 0 else end)
    thought = body[:marker].strip()
    if thought.startswith("Thought:"):
        thought = thought[len("Thought:") :].strip()
    if span[0] == span[1]:
        return ParsedAction(text, thought, "the reply's 'Action:' is empty", repairs=repairs)
    return ParsedAction(body[slice(*span)], thought, span=span, repairs=repairs)


def _tags(text: str, codec: ActionCodec | None, calls: Sequence[ToolCall]) -> ParsedAction:
    thought = _thought(text)
    after_thought = _end_of_thought(text)
    block = first_block(text, "action", start=after_thought, any_case=True)
    if block is None:
        return ParsedAction(text, thought, "the reply has no <action>…</action>")
    span = _strip_span(text, *block.inner)
    return ParsedAction(text[slice(*span)], thought, span=span)


def _verl_agent(text: str, codec: ActionCodec | None, calls: Sequence[ToolCall]) -> ParsedAction:
    """Rules of the verl-agent line: both tags, no CJK character, lower-cased action."""
    lowered = text.lower() if len(text.lower()) == len(text) else text
    block = first_block(lowered, "action", any_case=True)
    if block is None:
        return _verl_search(text)
    span = _strip_span(lowered, *block.inner)
    parsed = ParsedAction(lowered[slice(*span)], _thought(text), span=span)
    if "<think>" not in lowered or "</think>" not in lowered:
        return replace(parsed, action=text, error="the reply has no <think>…</think>")
    if _CJK.search(text):
        return replace(parsed, action=text, error="the reply has a Chinese character")
    return parsed


def _verl_search(text: str) -> ParsedAction:
    """The search environment of the verl-agent line: one search or one answer, not both."""
    searches, answers = list(blocks(text, "search")), list(blocks(text, "answer"))
    if not searches and not answers:
        return ParsedAction(text, _thought(text), "the reply has no <action>…</action>")
    parsed = _call_of(text, (searches or answers)[0])
    if len(searches) + len(answers) > 1:
        return replace(parsed, action=text, error="the reply has more than one search or answer")
    return parsed


def _search_r1(text: str, codec: ActionCodec | None, calls: Sequence[ToolCall]) -> ParsedAction:
    block = first_block(search_r1_turn(text), "search", "answer")
    if block is None:
        return ParsedAction(
            text, _thought(text), "the reply has neither <search>…</search> nor <answer>…</answer>"
        )
    return _call_of(text, block)


def _call_of(text: str, block: Block) -> ParsedAction:
    argument = _LINE_ENDS.sub(" ", block.text.strip())
    return ParsedAction(f"{block.tag}[{argument}]", _thought(text), span=block.span)


def _hermes(text: str, codec: ActionCodec | None, calls: Sequence[ToolCall]) -> ParsedAction:
    if codec is None:  # parse_reply has refused this already
        raise UsageError("format 'hermes' needs the environment's codec; pass codec=")
    found = list(blocks(text, "tool_call"))
    lines: list[str] = []
    repairs: list[str] = []
    errors: list[str] = []
    for block in found:
        try:
            value, used = _loads(block.text)
            repairs += used
            lines += _actions_of(value, codec, repairs)
        except ValueError as error:
            errors.append(str(error))
    # behind the calls, or behind the thought: an answer that is only thought of is none
    after = found[-1].span[1] if found else _end_of_thought(text)
    answer = _last_answer(text, after) if _has_tool(codec, "answer") else None
    if answer is not None:
        lines.append(f"answer[{_LINE_ENDS.sub(' ', answer.text.strip())}]")
        found.append(answer)
    thought = text[: found[0].span[0]].strip() if found and found[0] != answer else _thought(text)
    if not lines:
        reason = errors[0] if errors else "the reply has no <tool_call>…</tool_call>"
        return ParsedAction(text, thought, reason, repairs=tuple(repairs))
    span = (found[0].span[0], found[-1].span[1])
    return ParsedAction("\n".join(lines), thought, "; ".join(errors[:1]), span, tuple(repairs))


def _last_answer(text: str, start: int) -> Block | None:
    answers = list(blocks(text, "answer", start=start, any_case=True))
    return answers[-1] if answers else None


def _openai(text: str, codec: ActionCodec | None, calls: Sequence[ToolCall]) -> ParsedAction:
    if codec is None:
        raise UsageError("format 'openai' needs the environment's codec; pass codec=")
    if not calls:
        return ParsedAction(text, error="the reply has no tool call")
    lines: list[str] = []
    repairs: list[str] = []
    errors: list[str] = []
    for call in calls:
        try:
            value = {"name": call.name, "arguments": call.arguments}
            lines += _actions_of(value, codec, repairs)
        except ValueError as error:
            errors.append(str(error))
    if not lines:
        return ParsedAction(text, text.strip(), errors[0], repairs=tuple(repairs))
    return ParsedAction(
        "\n".join(lines), text.strip(), "; ".join(errors[:1]), (0, len(text)), tuple(repairs)
    )


def _actions_of(value: Any, codec: ActionCodec, repairs: list[str]) -> list[str]:
    """The action lines of one ``{"name", "arguments"}`` object; ValueError if it is none."""
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        raise ValueError('the tool call is not an object with "name" and "arguments"')
    arguments = value.get("arguments", {})
    if isinstance(arguments, str):
        arguments, used = _loads(arguments)
        repairs += used
    if not isinstance(arguments, Mapping):
        raise ValueError(f"the arguments of {value['name']} are no object")
    if not all(isinstance(key, str) for key in arguments):
        raise ValueError(f"the arguments of {value['name']} have names that are no strings")
    several = arguments.get("query_list")
    if isinstance(several, Sequence) and not isinstance(several, str):
        if not several:
            raise ValueError("the query_list is empty")
        return [codec.to_action("search", {"query": query}) for query in several]
    name = value["name"]
    if name in _SAME_TOOL and not _has_tool(codec, name):
        name = _SAME_TOOL[name]
    return [codec.to_action(name, arguments)]


def _loads(text: str) -> tuple[Any, list[str]]:
    """JSON, with named repairs: fences, full-width marks, trailing commas, Python literals."""
    candidates: list[tuple[str, list[str]]] = [(text, [])]
    fenced = _unfenced(text)
    if fenced is not None:
        candidates.append((fenced, ["code_fence"]))
    body, used = candidates[-1]
    candidates.append((_TRAILING_COMMA.sub(r"\1", body), [*used, "trailing_comma"]))
    candidates.append((candidates[-1][0].translate(_FULL_WIDTH), [*used, "full_width"]))
    for candidate, repairs in candidates:
        try:
            return json.loads(candidate), repairs
        except (ValueError, RecursionError):
            continue
    if len(body) <= _MAX_LITERAL and "__" not in body:
        try:
            return reread(lambda: ast.literal_eval(body.strip())), [*used, "python_literal"]
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            pass
    raise ValueError("the tool call is not JSON")


def _unfenced(text: str) -> str | None:
    """What is inside a code fence around the whole text; None if there is none."""
    stripped = text.strip()
    inner = stripped.removeprefix(_FENCE).removesuffix(_FENCE)
    if len(stripped) - len(inner) != 2 * len(_FENCE):
        return None
    return _FENCED_LANGUAGE.sub("", inner, count=1).strip()


def _has_tool(codec: ActionCodec, name: str) -> bool:
    return any(tool["function"]["name"] == name for tool in codec.tools)


def _mentions_a_call(text: str, codec: ActionCodec) -> bool:
    return any(f"{tool['function']['name']}[" in text for tool in codec.tools)


def _thought(text: str) -> str:
    block = first_block(text, "think", "analysis", any_case=True)
    return block.text.strip() if block else ""


def _end_of_thought(text: str) -> int:
    block = first_block(text, "think", "analysis", any_case=True)
    return block.span[1] if block else 0


def _strip_span(text: str, start: int, end: int) -> tuple[int, int]:
    inner = text[start:end]
    left = start + len(inner) - len(inner.lstrip())
    return left, max(left, end - (len(inner) - len(inner.rstrip())))


_Parser = Callable[[str, ActionCodec | None, Sequence[ToolCall]], ParsedAction]
REPLY_FORMATS: Mapping[str, _Parser] = {
    "raw": _raw,
    "react": _react,
    "tags": _tags,
    "verl_agent": _verl_agent,
    "search_r1": _search_r1,
    "hermes": _hermes,
    "openai": _openai,
}
