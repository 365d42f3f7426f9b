"""What a chat model is asked and what it answers: ``ChatRequest``, ``ChatReply``, ``ChatModel``.

Endpoints, local engines and recordings are all chat models, so that one agent plays through any
of them and a recorder can stand before any of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

from agentgym_suite.calls import ToolCall
from agentgym_suite.decoding import Decoding
from agentgym_suite.episodes import TokenTrace
from agentgym_suite.files import json_digest
from agentgym_suite.prompts import Message
from agentgym_suite.spaces import without_surrogates
from agentgym_suite.usage import Usage

FinishReason = Literal["stop", "length", "refusal", "context"]
"""Why a reply ended: by itself, for want of tokens, declined, or the prompt was too long."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One call of a model; equal requests are the same call.

    Attributes:
        messages: the prompt.
        decoding: how the reply is sampled.
        seed: of the sampling, in [0, 2**63).
        tools: functions that the model may call, as OpenAI describes them.
    """

    messages: tuple[Message, ...]
    decoding: Decoding
    seed: int
    tools: tuple[Mapping[str, Any], ...] = ()

    def digest(self, model: str) -> str:
        """What identifies the request among all that a model of that name is asked."""
        return json_digest(
            {
                "model": without_surrogates(model),
                "messages": [
                    {"role": message.role, "content": without_surrogates(message.content)}
                    for message in self.messages
                ],
                "decoding": asdict(self.decoding),
                "seed": self.seed,
                "tools": [dict(tool) for tool in self.tools],
            }
        )


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What a model answered.

    Attributes:
        text: its words; of a refusal or a prompt that is too long, what was said of it.
        tool_calls: the calls that came beside them.
        usage: tokens of the call.
        finish_reason: why it ended.
        tokens: what an engine sampled, if one did.
    """

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    finish_reason: FinishReason = "stop"
    tokens: TokenTrace | None = None


class ChatModel(Protocol):
    """Answers requests, any number at a time."""

    async def complete(self, request: ChatRequest) -> ChatReply:
        """The reply to one request.

        Raises:
            ModelError: the way to the model failed.
            ModelUnusable: no request of this run can be answered.
        """
        ...


class ConnectsModel(Protocol):
    """Opens a model for a run, such as its connections or its weights, and closes it again."""

    def __call__(self) -> AbstractAsyncContextManager[ChatModel]:
        """The model, inside an ``async with``."""
        ...
