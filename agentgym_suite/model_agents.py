"""The agent that plays through a chat model, and how the agents of a run share one model."""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import gymnasium as gym

from agentgym_suite.agent_sources import StepSeeds
from agentgym_suite.chat import ChatModel, ChatReply, ChatRequest, ConnectsModel
from agentgym_suite.decoding import Decoding
from agentgym_suite.episodes import AgentFactory, EarlierRound, Reply, Turn
from agentgym_suite.errors import ContextTooLong, EmptyReply, ReplyCutOff, ReplyRefused
from agentgym_suite.game import env_id_of, game_of
from agentgym_suite.prompts import Message
from agentgym_suite.reflection import reflection_messages

DEFAULT_MAX_TOKENS = 512


def hashed_seed(env_id: str, seed: int, turn: Turn) -> int:
    """A step's seed where no suite says another one: the episode's with the step, hashed."""
    digest = hashlib.sha256(f"{seed}\x1f{turn.step_index}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


class ModelAgent:
    """Sends each turn's messages to a model and gives its reply.

    Args:
        model: the model, shared with other episodes.
        env: the environment that is played.
        seed: the episode's seed.
        agents: how replies are asked for.
    """

    def __init__(
        self, model: ChatModel, env: gym.Env[str, str], seed: int, agents: ModelAgents
    ) -> None:
        self._model = model
        self._env_id = env_id_of(env)
        self._goal_key = game_of(env).goal_key
        self._seed = seed
        self._agents = agents

    async def act(self, turn: Turn) -> Reply:
        """The model's reply.

        Raises:
            ModelError: it gave none, or there was no way to it.
            ContextTooLong: the prompt is longer than the model takes.
        """
        return await self._ask(turn, turn.messages, with_tools=self._agents.sends_tools)

    async def reflect(self, turn: Turn, earlier: tuple[EarlierRound, ...]) -> Reply:
        """What the model learns from a round that failed, in its own words.

        Raises:
            ModelError: it gave none, or there was no way to it.
            ContextTooLong: the round is longer than the model takes.
        """
        goal = str(turn.info[self._goal_key]) if self._goal_key else ""
        return await self._ask(turn, reflection_messages(goal, turn, earlier), with_tools=False)

    def close(self) -> None:
        """Nothing is held; the model is the run's."""

    async def _ask(self, turn: Turn, messages: tuple[Message, ...], *, with_tools: bool) -> Reply:
        request = ChatRequest(
            messages,
            self._agents.decoding,
            self._agents.step_seed(self._env_id, self._seed, turn),
            turn.tools if with_tools else (),
        )
        asked = time.perf_counter()
        reply = _usable(await self._model.complete(request))
        seconds = time.perf_counter() - asked
        return Reply(reply.text, reply.tool_calls, reply.usage, seconds, reply.tokens)


@dataclass(frozen=True, slots=True)
class ModelAgents:
    """The agents of a run: each episode has its own, and all share one model.

    Attributes:
        connect: opens the model.
        decoding: how replies are sampled.
        sends_tools: whether the environment's functions go with each request.
        step_seed: gives the seed of each reply.
    """

    connect: ConnectsModel
    decoding: Decoding = Decoding(max_tokens=DEFAULT_MAX_TOKENS)
    sends_tools: bool = False
    step_seed: StepSeeds = hashed_seed

    @property
    def config(self) -> Mapping[str, Any]:
        """How replies are sampled."""
        return {"decoding": asdict(self.decoding)}

    def suited(
        self, decoding: Mapping[str, Any], *, sends_tools: bool, step_seed: StepSeeds
    ) -> ModelAgents:
        """The same agents on a suite's terms."""
        return replace(
            self,
            decoding=replace(self.decoding, **decoding),
            sends_tools=sends_tools,
            step_seed=step_seed,
        )

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[AgentFactory]:
        """What makes the agents, while the model is open."""
        async with self.connect() as model:
            yield lambda env, seed: ModelAgent(model, env, seed, self)


def _usable(reply: ChatReply) -> ChatReply:
    """A reply that says something.

    Raises:
        ContextTooLong: the prompt was longer than the model takes.
        ReplyRefused: the model declined.
        ReplyCutOff: the reply ended before it said anything.
        EmptyReply: it said nothing.
    """
    if reply.finish_reason == "context":
        raise ContextTooLong(f"prompt and reply are longer than the model takes ({reply.text})")
    if reply.finish_reason == "refusal":
        words = reply.text or "without a word"
        raise ReplyRefused(f"the model declined to answer ({words})", usage=reply.usage)
    if reply.text.strip() or reply.tool_calls:
        return reply
    if reply.finish_reason == "length":
        raise ReplyCutOff(
            f"all {reply.usage.completion_tokens} tokens were spent before the reply said "
            "anything; raise max_tokens",
            usage=reply.usage,
        )
    raise EmptyReply("the model's reply is empty", usage=reply.usage)
