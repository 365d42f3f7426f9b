"""What OpenAI-compatible chat endpoints answer, read without trust in its form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentgym_suite.calls import ToolCall
from agentgym_suite.chat import ChatReply, FinishReason
from agentgym_suite.json_bounds import as_text, keepable
from agentgym_suite.usage import Usage

_MOST_TOKENS = 2**53  # a larger number is no count
_SHORTEST_SECRET = 8  # characters of a key
_CONTEXT_CODES = ("context_length_exceeded", "exceed_context_size_error")
_CONTEXT_WORDS = ("context length", "context size", "context window", "max_model_len")
_FILTER_CODES = ("content_filter", "content_policy_violation")


class MalformedAnswer(ValueError):
    """An answer that is no chat completion; its text says why."""


def read_completion(body: bytes) -> ChatReply:
    """The reply in the body of a successful answer.

    Raises:
        MalformedAnswer: it holds none.
    """
    answer = _parsed(body)
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices:
        raise MalformedAnswer("it has no choices")
    choice = choices[0]
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(message, Mapping):
        raise MalformedAnswer("its first choice has no message")
    usage = _usage(answer.get("usage"))
    text = _text(message.get("content"))
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal and not text:
        return ChatReply(refusal, usage=usage, finish_reason="refusal")
    reason = _finish_reason(choice.get("finish_reason"))
    return ChatReply(text, _tool_calls(message.get("tool_calls")), usage, reason)


def read_refused_request(status: int, body: bytes) -> ChatReply | None:
    """The reply that an error stands for: a prompt too long, or one that a filter stopped.

    Returns:
        None where the error is about something else.
    """
    if status not in (400, 413, 422):
        return None
    code, said = _error(body)
    message = one_line(said)
    lowered = message.lower()
    if code in _CONTEXT_CODES or any(words in lowered for words in _CONTEXT_WORDS):
        return ChatReply(message, finish_reason="context")
    if code in _FILTER_CODES:
        return ChatReply(message, finish_reason="refusal")
    return None


def error_words(body: bytes) -> str:
    """What the body of an error says, on one line; "" where it says nothing."""
    return one_line(_error(body)[1])


def one_line(text: str) -> str:
    """A server's words as a message holds them: what no terminal shows is replaced."""
    line = " ".join(text.split())
    return line if line.isprintable() else "".join(c if c.isprintable() else "�" for c in line)


def without_key(reply: ChatReply, key: str) -> ChatReply:
    """A reply in which a server may have repeated the key that it was asked with.

    A key of a few characters is no secret but a placeholder, which a reply may hold as a word.
    """
    if len(key) < _SHORTEST_SECRET:
        return reply

    def masked(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(key, "…")
        if isinstance(value, dict):
            return {masked(name): masked(item) for name, item in value.items()}
        return [masked(item) for item in value] if isinstance(value, list) else value

    calls = tuple(
        ToolCall(masked(call.name), masked(call.arguments), masked(call.id))
        for call in reply.tool_calls
    )
    return replace(reply, text=masked(reply.text), tool_calls=calls)


def _error(body: bytes) -> tuple[str, str]:
    """Code and message of an error, in OpenAI's form or in those of servers that are like it."""
    try:
        answer = _parsed(body)
    except MalformedAnswer:
        return "", ""
    error = answer.get("error", answer.get("detail", answer))
    if isinstance(error, str):
        return "", error
    if not isinstance(error, Mapping):
        return "", ""
    codes = (error.get("code"), error.get("type"))
    code = next((code for code in codes if isinstance(code, str)), "")
    message = error.get("message")
    return code, message if isinstance(message, str) else ""


def _parsed(body: bytes) -> Mapping[str, Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedAnswer("it is not JSON") from error
    if not isinstance(answer, dict):
        raise MalformedAnswer("it is no JSON object")
    return answer


def _text(content: Any) -> str:
    """The words of a message, which some servers give in parts."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "".join(text for text in texts if isinstance(text, str))
    raise MalformedAnswer("the content of its message is no text")


def _tool_calls(calls: Any) -> tuple[ToolCall, ...]:
    if calls is None:
        return ()
    if not isinstance(calls, list):
        raise MalformedAnswer("the tool calls of its message are no list")
    return tuple(map(_tool_call, calls))


def _tool_call(call: Any) -> ToolCall:
    function = call.get("function") if isinstance(call, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(name, str):
        raise MalformedAnswer("a tool call of its message names no function")
    number = call.get("id")
    return ToolCall(
        name, _arguments(function.get("arguments")), number if isinstance(number, str) else ""
    )


def _arguments(arguments: Any) -> Mapping[str, Any] | str:
    """The arguments as an object that can be kept; the text itself where they are none."""
    if arguments is None:
        return {}
    if isinstance(arguments, str):
        try:
            value = json.loads(arguments, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            return arguments
        return value if isinstance(value, dict) and keepable(value) else arguments
    fits = isinstance(arguments, dict) and keepable(arguments)
    return arguments if fits else as_text(arguments)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _usage(usage: Any) -> Usage:
    if not isinstance(usage, Mapping):
        return Usage()
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else 0
    prompt, of_it = _count(usage.get("prompt_tokens")), _count(cached)
    completion = _count(usage.get("completion_tokens"))
    return Usage(prompt, completion, of_it if of_it <= prompt else 0)


def _count(value: Any) -> int:
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_TOKENS
    return value if fits else 0


def _finish_reason(value: Any) -> FinishReason:
    if value == "length":
        return "length"
    return "refusal" if value == "content_filter" else "stop"
