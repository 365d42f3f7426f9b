"""A chat model over a token engine: conversations to ids, what was sampled back to words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

from agentgym_suite.chat import ChatReply, ChatRequest
from agentgym_suite.engines.tokens import ChatTokenizer, Generated, Sampling
from agentgym_suite.episodes import TokenTrace
from agentgym_suite.errors import ContextTooLong
from agentgym_suite.model_agents import DEFAULT_MAX_TOKENS
from agentgym_suite.usage import Usage

EngineName = Literal["transformers", "vllm"]


class GeneratesOne(Protocol):
    """An engine that episodes share: it collects what they ask for into one running batch."""

    async def generate_one(
        self, prompt_ids: Sequence[int], sampling: Sampling, seed: int
    ) -> Generated:
        """The reply to one prompt."""
        ...


class EngineModel:
    """A model whose weights are here.

    Args:
        engine: samples; shared by all episodes.
        tokenizer: writes conversations in the model's chat format.
        max_new_tokens: most tokens of a reply where the decoding does not say.
    """

    def __init__(
        self,
        engine: GeneratesOne,
        tokenizer: ChatTokenizer,
        *,
        max_new_tokens: int = DEFAULT_MAX_TOKENS,
    ) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._max_new_tokens = max_new_tokens

    async def complete(self, request: ChatRequest) -> ChatReply:
        """The reply, with what was sampled as ids.

        Raises:
            UsageError: the model has no chat format, or refuses these messages.
            EngineError: the engine failed.
        """
        decoding = request.decoding
        prompt = self._tokenizer.chat_ids(request.messages, request.tools)
        sampling = Sampling(
            decoding.temperature,
            decoding.top_p,
            decoding.max_tokens or self._max_new_tokens,
            self._tokenizer.stop_ids,
        )
        try:
            sampled = await self._engine.generate_one(prompt, sampling, request.seed)
        except ContextTooLong as error:
            return ChatReply(str(error), finish_reason="context")
        return ChatReply(
            self._tokenizer.text(sampled.ids),
            usage=Usage(len(prompt), len(sampled.ids)),
            finish_reason=sampled.finish_reason,
            tokens=TokenTrace(
                prompt_ids=tuple(prompt),
                response_ids=sampled.ids,
                logprobs=sampled.logprobs,
                mask=(1,) * len(sampled.ids),
                finish_reason=sampled.finish_reason,
                policy_version=sampled.policy_version,
            ),
        )


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model whose weights are loaded for a run and given back after it.

    Attributes:
        model: a folder that transformers has saved, a GGUF file, or ``owner/name`` on the hub.
        policy_version: what the weights are called in every step.
        engine: what samples.
        device: as torch names it, for transformers; "auto" is CUDA where there is one.
        dtype: of the weights; "auto" leaves it to the engine.
    """

    model: str
    policy_version: str
    engine: EngineName = "transformers"
    device: str = "auto"
    dtype: str = "auto"

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[EngineModel]:
        """The loaded model.

        Raises:
            MissingExtra: the engine is not installed.
            UsageError: there is no such model.
            EngineError: it cannot be loaded.
        """
        from agentgym_suite.engines.batching import BatchingEngine
        from agentgym_suite.engines.opening import open_engine

        engine = await asyncio.to_thread(
            open_engine,
            self.engine,
            self.model,
            policy_version=self.policy_version,
            dtype=self.dtype,
            device=self.device,
        )
        front = BatchingEngine(engine)
        try:
            yield EngineModel(front, engine.tokenizer)
        finally:
            await asyncio.to_thread(front.close)
