"""What is kept of a step, and the texts that are kept apart for their length."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from agentgym_suite.calls import ToolCall
from agentgym_suite.episodes import Step
from agentgym_suite.json_bounds import as_text, keepable, keepable_number
from agentgym_suite.prompts import Message
from agentgym_suite.usage import Usage


@dataclass(frozen=True, slots=True)
class Bound:
    """What JSON Schema says of a value beside its type: a keyword with its value."""

    keyword: str
    value: int | str


Count = Annotated[int, Bound("minimum", 0)]
"""A whole number from 0, with what JSON Schema says of it."""

Seconds = Annotated[float, Bound("minimum", 0)]
"""A duration."""


@dataclass(frozen=True, slots=True)
class TextReference:
    """A long text kept apart in ``observations.jsonl.gz``.

    Attributes:
        sha256: hex digest of the text's UTF-8 bytes.
        offset: where its gzip member starts in that file, in bytes.
    """

    sha256: str
    offset: Count


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """One message of the prompt."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class StepTokens:
    """Tokens of one model call."""

    prompt: Count
    completion: Count
    cached: Count


@dataclass(frozen=True, slots=True)
class StepLatency:
    """Seconds of one step in the model and in the environment; null if not finite."""

    model: Seconds | None
    env: Seconds | None


@dataclass(frozen=True, slots=True)
class ToolCallRecord:
    """A structured call beside a reply's text.

    Attributes:
        name: the function.
        arguments: its arguments; text where the model wrote no JSON object, or one that cannot
            be kept.
        id: what the model called the call, "" if it did not.
    """

    name: str
    arguments: dict[str, Any] | str
    id: str


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step.

    Attributes:
        i: number of the step, from 0.
        messages: the prompt as rendered; null when it is kept by reference.
        messages_ref: reference to its JSON; null otherwise.
        reply: the agent's reply, as text.
        tool_calls: the calls that came beside the text.
        parsed_action: the action as the environment executed it.
        action_valid: whether reply and action could be read and executed.
        action_error: why not, "" if they could.
        obs: what the agent saw before the step; null when it is kept by reference.
        obs_ref: reference to that text; null otherwise.
        reward: the environment's own reward.
        terminated: whether the step ended the game.
        truncated: whether the horizon ended the episode here.
        state_hash: SHA-256 of the environment's state after the step.
        admissible_n: how many actions were admissible before the step; 0 when open-ended.
        dropped_steps: earlier steps that the prompt's token budget left out.
        cut_characters: characters of the observation that it left out.
        tokens: tokens of the model call.
        latency_s: seconds of the step.
    """

    i: Count
    messages: list[MessageRecord] | None
    messages_ref: TextReference | None
    reply: str
    tool_calls: list[ToolCallRecord]
    parsed_action: str
    action_valid: bool
    action_error: str
    obs: str | None
    obs_ref: TextReference | None
    reward: float | None
    terminated: bool
    truncated: bool
    state_hash: str
    admissible_n: Count
    dropped_steps: Count
    cut_characters: Count
    tokens: StepTokens
    latency_s: StepLatency


Keep = Callable[[str], TextReference | None]
"""Stores a long text apart and returns its reference; None leaves a short one in place."""


def step_record(i: int, step: Step, keep: Keep) -> StepRecord:
    """The record of a step, number ``i`` of its episode."""
    obs, obs_ref = _kept(step.observation, keep)
    messages, messages_ref = _kept_messages(step.messages, keep)
    return StepRecord(
        i=i,
        messages=messages,
        messages_ref=messages_ref,
        reply=step.reply.text,
        tool_calls=[_tool_call_record(call) for call in step.reply.tool_calls],
        parsed_action=step.parsed_action,
        action_valid=step.valid,
        action_error=step.error,
        obs=obs,
        obs_ref=obs_ref,
        reward=finite(step.env_reward),
        terminated=step.terminated,
        truncated=step.truncated,
        state_hash=step.state_hash,
        admissible_n=len(step.admissible),
        dropped_steps=step.dropped_steps,
        cut_characters=step.cut_characters,
        tokens=step_tokens(step.reply.usage),
        latency_s=StepLatency(finite(step.timings.model_s), finite(step.timings.env_s)),
    )


def _tool_call_record(call: ToolCall) -> ToolCallRecord:
    if isinstance(call.arguments, str):
        return ToolCallRecord(call.name, call.arguments, call.id)
    arguments = dict(call.arguments)
    kept = arguments if keepable(arguments) else as_text(arguments)
    return ToolCallRecord(call.name, kept, call.id)


def step_tokens(usage: Usage) -> StepTokens:
    """The tokens of a model call."""
    return StepTokens(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)


def kept_end(steps: tuple[Step, ...], keep: Keep) -> tuple[str | None, TextReference | None]:
    """What the last step returned."""
    return _kept(steps[-1].next_observation, keep) if steps else (None, None)


def _kept(text: str, keep: Keep) -> tuple[str | None, TextReference | None]:
    reference = keep(text)
    return (text, None) if reference is None else (None, reference)


def _kept_messages(
    messages: tuple[Message, ...], keep: Keep
) -> tuple[list[MessageRecord] | None, TextReference | None]:
    if not messages:
        return [], None
    reference = keep(json.dumps([m.as_dict() for m in messages], ensure_ascii=False))
    if reference is not None:
        return None, reference
    return [MessageRecord(m.role, m.content) for m in messages], None


def finite(value: float) -> float | None:
    """A number as records hold it: null where it is not finite, or beyond any sum."""
    return float(value) if keepable_number(value) else None
