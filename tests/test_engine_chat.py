"""A chat model over a token engine: ids in, ids out, nothing tokenised twice."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agentgym_suite.chat import ChatRequest
from agentgym_suite.decoding import Decoding
from agentgym_suite.engine_chat import EngineModel
from agentgym_suite.engines.tokens import Generated, Sampling
from agentgym_suite.episodes import EpisodeRequest, PlaySettings, TokenTrace
from agentgym_suite.errors import ContextTooLong, EngineError
from agentgym_suite.model_agents import ModelAgents
from agentgym_suite.prompts import Message, StepPrompt
from agentgym_suite.rollouts import run_episodes
from agentgym_suite.usage import Usage
from tests.counting import CountingEnv

END = 0


class Letters:
    """One id a character; 0 ends a reply."""

    stop_ids = (END,)

    def chat_ids(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()
    ) -> list[int]:
        said = "".join(f"<{m.role}>{m.content}" for m in messages)
        return [ord(c) for c in said + "".join(tool["function"]["name"] for tool in tools)]

    def text(self, ids: Sequence[int]) -> str:
        return "".join(chr(i) for i in ids if i != END)


class Scripted:
    """Says the same to everything."""

    def __init__(self, text: str = "add[1]", finish_reason: Any = "stop") -> None:
        self.ids = (*map(ord, text), END)
        self.finish_reason = finish_reason
        self.asked: list[tuple[list[int], Sampling, int]] = []

    async def generate_one(
        self, prompt_ids: Sequence[int], sampling: Sampling, seed: int
    ) -> Generated:
        self.asked.append((list(prompt_ids), sampling, seed))
        if len(prompt_ids) + sampling.max_new_tokens > 4000:
            raise ContextTooLong("5000 tokens exceed the window of 4000")
        if self.finish_reason == "broken":
            raise EngineError("out of order")
        logprobs = tuple(-0.5 for _ in self.ids)
        return Generated(self.ids, logprobs, self.finish_reason, "v7")


def ask(engine: Scripted, request: ChatRequest) -> Any:
    return asyncio.run(EngineModel(engine, Letters()).complete(request))


REQUEST = ChatRequest((Message("user", "go"),), Decoding(0.7, 0.9, 33), 5)


def test_a_request_is_sampled_as_it_says() -> None:
    engine = Scripted()
    reply = ask(engine, REQUEST)
    prompt = [ord(c) for c in "<user>go"]
    assert engine.asked == [(prompt, Sampling(0.7, 0.9, 33, (END,)), 5)]
    assert (reply.text, reply.usage, reply.finish_reason) == ("add[1]", Usage(8, 7), "stop")
    assert reply.tokens == TokenTrace(
        tuple(prompt), engine.ids, (-0.5,) * 7, (1,) * 7, "stop", "v7"
    )


def test_tools_go_into_the_prompt_and_most_tokens_have_a_default() -> None:
    engine = Scripted()
    tool = {"type": "function", "function": {"name": "add"}}
    ask(engine, ChatRequest(REQUEST.messages, Decoding(), 5, (tool,)))
    prompt, sampling, _ = engine.asked[0]
    assert "".join(map(chr, prompt)).endswith("goadd") and sampling.max_new_tokens == 512


def test_a_prompt_beyond_the_window_and_a_cut_reply_are_told() -> None:
    long = ChatRequest((Message("user", "x" * 5000),), Decoding(), 5)
    assert ask(Scripted(), long).finish_reason == "context"
    assert ask(Scripted(finish_reason="length"), REQUEST).finish_reason == "length"
    with pytest.raises(EngineError, match="out of order"):
        ask(Scripted(finish_reason="broken"), REQUEST)


def test_an_episode_keeps_what_was_sampled() -> None:
    engine = Scripted()

    @asynccontextmanager
    async def connect() -> Any:
        yield EngineModel(engine, Letters())

    async def play() -> Any:
        settings = PlaySettings(StepPrompt("compact"))
        async with ModelAgents(connect, Decoding(1.0, 1.0, 16)).opened() as make_agent:
            requests = [EpisodeRequest("count-2", seed=3)]
            episodes = run_episodes(CountingEnv, make_agent, requests, settings=settings)
            return [episode async for episode in episodes]

    (episode,) = asyncio.run(play())
    assert episode.success and len(episode.steps) == 3
    assert all(s.tokens is not None and s.tokens.policy_version == "v7" for s in episode.steps)
    assert [list(s.tokens.prompt_ids) for s in episode.steps] == [a[0] for a in engine.asked]
    assert len({seed for _, _, seed in engine.asked}) == 3
