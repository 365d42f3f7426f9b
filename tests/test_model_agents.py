"""Agents that play through a chat model: what it is asked, and what becomes of its replies."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentgym_suite  # noqa: F401  (registers the environments)
from agentgym_suite.calls import ToolCall
from agentgym_suite.cassettes import Cassette, RecordedModel, RecordingModel
from agentgym_suite.chat import ChatReply, ChatRequest
from agentgym_suite.decoding import Decoding
from agentgym_suite.episodes import Episode, EpisodeRequest, PlaySettings
from agentgym_suite.errors import (
    ContextTooLong,
    DataDamaged,
    DataMissing,
    ModelUnreachable,
    ModelUnusable,
)
from agentgym_suite.game import env_id_of
from agentgym_suite.model_agents import ModelAgents
from agentgym_suite.prompts import Message, StepPrompt
from agentgym_suite.rollouts import run_episodes
from agentgym_suite.usage import Usage
from tests.counting import CountingEnv

Answer = Callable[[ChatRequest], ChatReply]
TOOLS = PlaySettings(StepPrompt("tools"), "openai")
REACT = PlaySettings(StepPrompt("react"), "react")


class ScriptedModel:
    """Answers by a function and remembers what it was asked."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[ChatRequest] = []
        self.open = 0

    async def complete(self, request: ChatRequest) -> ChatReply:
        assert self.open == 1
        self.requests.append(request)
        return self.answer(request)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[ScriptedModel]:
        self.open += 1
        yield self
        self.open -= 1


def play(
    connect: Any, settings: PlaySettings, tasks: Sequence[str] = ("count-1",), **changes: Any
) -> list[Episode]:
    agents = ModelAgents(connect, sends_tools=settings.reply_format == "openai", **changes)

    async def collect() -> list[Episode]:
        async with agents.opened() as make_agent:
            requests = [EpisodeRequest(task, seed=i) for i, task in enumerate(tasks)]
            episodes = run_episodes(CountingEnv, make_agent, requests, settings=settings)
            return [episode async for episode in episodes]

    return sorted(asyncio.run(collect()), key=lambda episode: episode.task_id)


def adds(request: ChatRequest) -> ChatReply:
    return ChatReply("Thought: one more\nAction: add[1]", usage=Usage(10, 5, 2))


def test_a_model_plays_with_the_prompt_s_messages_and_a_seed_for_each_step() -> None:
    model = ScriptedModel(adds)
    (episode,) = play(model.connect, REACT, decoding=Decoding(0.5, 0.9, 32))
    assert episode.success and [s.action for s in episode.steps] == ["add[1]"] * 2
    assert [r.messages for r in model.requests] == [s.messages for s in episode.steps]
    assert {r.decoding for r in model.requests} == {Decoding(0.5, 0.9, 32)}
    expected = [
        int.from_bytes(hashlib.sha256(f"0\x1f{i}".encode()).digest()[:8], "big") >> 1
        for i in (0, 1)
    ]
    assert [r.seed for r in model.requests] == expected
    assert all(r.tools == () for r in model.requests)
    assert episode.steps[0].reply.usage == Usage(10, 5, 2) and model.open == 0


def test_tool_calls_are_sent_for_and_played() -> None:
    model = ScriptedModel(lambda r: ChatReply("", (ToolCall("add", {"n": "2"}, "t"),)))
    (episode,) = play(model.connect, TOOLS)
    assert episode.success and episode.steps[0].action == "add[2]"
    assert [t["function"]["name"] for t in model.requests[0].tools] == ["add", "say"]
    assert episode.steps[0].reply.tool_calls[0].id == "t"


def test_arguments_that_are_no_json_are_a_bad_action() -> None:
    replies = iter([ToolCall("add", '{"n": "2"'), ToolCall("add", '{"n": "2",}')])
    model = ScriptedModel(lambda r: ChatReply("", (next(replies),)))
    (episode,) = play(model.connect, TOOLS)
    assert [(s.valid, s.error) for s in episode.steps][0] == (False, "the tool call is not JSON")
    assert episode.success  # the second one is mended


@pytest.mark.parametrize(
    ("reply", "kind", "origin"),
    [
        (ChatReply(""), "empty_reply", "model"),
        (ChatReply(" \n"), "empty_reply", "model"),
        (ChatReply("", finish_reason="length"), "max_tokens", "model"),
        (ChatReply("I must not", finish_reason="refusal"), "refusal", "model"),
        (ChatReply("4096 tokens", finish_reason="context"), "context_overflow", "model"),
    ],
)
def test_a_reply_that_says_nothing_is_the_model_s_failure(
    reply: ChatReply, kind: str, origin: str
) -> None:
    (episode,) = play(ScriptedModel(lambda r: reply).connect, REACT)
    assert episode.failure is not None and episode.score == 0.0
    assert (episode.failure.kind, episode.failure.origin) == (kind, origin)
    assert episode.outcome == ("truncated_context" if kind == "context_overflow" else "error")


def test_a_reply_that_was_cut_off_in_the_middle_is_played() -> None:
    model = ScriptedModel(lambda r: ChatReply("Action: add[2]", finish_reason="length"))
    assert play(model.connect, REACT)[0].success


def test_a_way_to_the_model_that_is_lost_is_no_failure_of_the_model() -> None:
    def lost(request: ChatRequest) -> ChatReply:
        raise ModelUnreachable("no way")

    (episode,) = play(ScriptedModel(lost).connect, REACT)
    assert episode.failure is not None
    assert (episode.failure.kind, episode.failure.origin) == ("connection", "infra")


def test_a_model_that_cannot_be_asked_ends_everything() -> None:
    def refuse(request: ChatRequest) -> ChatReply:
        raise ModelUnusable("wrong key; check it")

    model = ScriptedModel(refuse)
    with pytest.raises(ModelUnusable, match="wrong key"):
        play(model.connect, REACT, [f"count-{i}" for i in range(5)])


def test_a_prompt_over_its_budget_is_no_failure_of_the_way() -> None:
    settings = replace(REACT, prompt=StepPrompt("react", token_budget=5))
    (episode,) = play(ScriptedModel(adds).connect, settings)
    assert episode.failure is not None and episode.failure.kind == "context_overflow"
    assert ContextTooLong.__name__ in episode.failure.message


def test_a_reply_that_cannot_be_read_is_told_why_in_the_next_prompt() -> None:
    replies = iter(["I think.", "Action: add[2]"])
    model = ScriptedModel(lambda r: ChatReply(next(replies)))
    (episode,) = play(model.connect, REACT)
    unread, _ = episode.steps
    assert episode.success and not unread.valid and "Action:" in unread.error
    first, second = (request.messages[-1].content for request in model.requests)
    assert unread.error not in first and f"carried out:\n{unread.error}" in second


@pytest.mark.parametrize(
    "reply",
    [
        ChatReply("", usage=Usage(1000, 0, 10)),
        ChatReply("", usage=Usage(1000, 99), finish_reason="length"),
        ChatReply("no", usage=Usage(1000, 3), finish_reason="refusal"),
    ],
)
def test_the_tokens_of_a_reply_that_says_nothing_are_kept(reply: ChatReply) -> None:
    (episode,) = play(ScriptedModel(lambda r: reply).connect, REACT)
    assert episode.failure is not None and episode.failure.usage == reply.usage


def test_an_environment_elsewhere_is_known_by_its_id() -> None:
    env = CountingEnv()
    assert env_id_of(env) == ""
    env.env_id = "Counting-v7"  # type: ignore[attr-defined]
    assert env_id_of(env) == "Counting-v7"
    assert env_id_of(gym.make("WebShop-v0")) == "WebShop-v0"


# ------------------------------------------------------------------ reflection


def learns(request: ChatRequest) -> ChatReply:
    """Overshoots in its first round and knows better once it has reflected."""
    said = "\n".join(message.content for message in request.messages)
    if "The task is not solved" in said:
        return ChatReply("Add 2, not 3.", usage=Usage(7, 4, 0))
    return ChatReply("Action: add[2]" if "Add 2, not 3." in said else "Action: add[3]")


def test_a_reflection_on_a_failed_round_is_in_the_prompts_of_the_next() -> None:
    model = ScriptedModel(learns)
    (episode,) = play(model.connect, replace(REACT, max_rounds=3))
    assert episode.success and [s.action for s in episode.steps] == ["add[2]"]
    (played,) = episode.earlier
    assert [s.action for s in played.steps] == ["add[3]"]
    assert (played.score, played.outcome) == (0.0, "failure")
    assert (played.reflection.text, played.reflection.usage) == ("Add 2, not 3.", Usage(7, 4, 0))
    first, asked, second = model.requests
    assert "Add 2" not in str(first.messages) and "- Add 2, not 3." in second.messages[1].content
    assert "Action: add[3]" in asked.messages[1].content and asked.tools == ()


def test_rounds_are_bounded_and_the_last_one_counts() -> None:
    model = ScriptedModel(
        lambda r: ChatReply("Again." if "not solved" in str(r.messages) else "Action: add[9]")
    )
    (episode,) = play(model.connect, replace(REACT, max_rounds=5))
    assert not episode.success and len(episode.earlier) == 4 and len(episode.steps) == 1
    shown = model.requests[-1].messages[1].content
    assert shown.count("- Again.") == 3  # the latest three are remembered


def test_a_success_is_not_reflected_on_and_without_reflections_none_is_asked_for() -> None:
    model = ScriptedModel(adds)
    assert play(model.connect, replace(REACT, max_rounds=4))[0].earlier == ()
    failing = ScriptedModel(lambda r: ChatReply("Action: add[9]"))
    assert play(failing.connect, REACT)[0].earlier == ()
    assert len(failing.requests) == 1


def test_a_failure_while_reflecting_keeps_the_rounds() -> None:
    model = ScriptedModel(
        lambda r: ChatReply("" if "not solved" in str(r.messages) else "Action: add[9]")
    )
    (episode,) = play(model.connect, replace(REACT, max_rounds=3))
    assert episode.failure is not None and episode.failure.kind == "empty_reply"
    assert [s.action for s in episode.steps] == ["add[9]"]


# ------------------------------------------------------------------ cassettes


def recorded(tmp_path: Path, answer: Answer, tasks: Sequence[str]) -> tuple[Path, ScriptedModel]:
    path, model = tmp_path / "tape" / "replies.jsonl", ScriptedModel(answer)
    play(RecordedModel(model.connect, "tiny", path).connect, REACT, tasks)
    return path, model


TASKS = [f"count-{i}" for i in range(6)]


def test_a_recording_plays_the_same_episodes_without_the_model(tmp_path: Path) -> None:
    path, model = recorded(tmp_path, learns, TASKS)
    settings = replace(REACT, max_rounds=2)
    live = play(RecordedModel(model.connect, "tiny", path).connect, settings, TASKS)
    again = play(Cassette.read(path).connect, settings, TASKS)
    assert again == live and any(episode.earlier for episode in live)


def test_equal_runs_leave_equal_cassettes(tmp_path: Path) -> None:
    one, _ = recorded(tmp_path / "a", learns, TASKS)
    two, _ = recorded(tmp_path / "b", learns, TASKS)
    assert one.read_bytes() == two.read_bytes()


def test_what_is_recorded_is_not_asked_again(tmp_path: Path) -> None:
    path, first = recorded(tmp_path, learns, TASKS)
    before = path.read_bytes()
    second = ScriptedModel(lambda r: pytest.fail("asked again"))
    play(RecordedModel(second.connect, "tiny", path).connect, REACT, TASKS)
    assert path.read_bytes() == before and first.requests and not second.requests


def test_every_kind_of_reply_survives(tmp_path: Path) -> None:
    replies = [
        ChatReply("\ud800 half", (ToolCall("add", {"n": "é"}, "t"), ToolCall("x", "{"))),
        ChatReply("no", finish_reason="refusal", usage=Usage(3, 2, 1)),
        ChatReply("", finish_reason="context"),
    ]
    requests = [ChatRequest((Message("user", "a"),), Decoding(), i) for i in range(3)]
    given = dict(zip(requests, replies, strict=True))
    path = tmp_path / "c.jsonl"

    async def ask(connect: Any) -> list[ChatReply]:
        async with connect() as model:
            return [await model.complete(request) for request in requests]

    model = ScriptedModel(given.__getitem__)
    assert asyncio.run(ask(RecordedModel(model.connect, "m", path).connect)) == replies
    assert asyncio.run(ask(Cassette.read(path).connect)) == replies


CALLS = st.builds(
    ToolCall,
    st.text(max_size=5),
    st.text(max_size=9) | st.dictionaries(st.text(max_size=3), st.text(max_size=5), max_size=2),
    st.text(max_size=3),
)
REPLIES = st.builds(
    ChatReply,
    st.text(st.characters(), max_size=20),
    st.lists(CALLS, max_size=2).map(tuple),
    st.builds(Usage, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)),
    st.sampled_from(["stop", "length", "refusal", "context"]),
)


@given(st.lists(REPLIES, max_size=4), st.text(max_size=5))
def test_any_reply_comes_back_as_it_was(replies: list[ChatReply], model: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c.jsonl"
        kept = {f"sha256:{i}": reply for i, reply in enumerate(replies)}
        RecordingModel(ScriptedModel(adds), model, path, dict(kept)).write()
        cassette = Cassette.read(path)
    assert (cassette.replies, cassette.model) == (kept, model)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 2},
        {"decoding": Decoding(0.1)},
        {"messages": (Message("system", "a"),)},
        {"tools": ({"type": "function"},)},
    ],
)
def test_another_request_is_a_miss_that_names_its_digest(tmp_path: Path, change: Any) -> None:
    request = ChatRequest((Message("user", "a"),), Decoding(), 1)
    path = tmp_path / "c.jsonl"

    async def ask(connect: Any, asked: ChatRequest) -> ChatReply:
        async with connect() as model:
            return await model.complete(asked)  # type: ignore[no-any-return]

    asyncio.run(ask(RecordedModel(ScriptedModel(adds).connect, "m", path).connect, request))
    other = replace(request, **change)
    with pytest.raises(ModelUnusable, match=other.digest("m")):
        asyncio.run(ask(Cassette.read(path).connect, other))


def test_a_cassette_is_of_one_model(tmp_path: Path) -> None:
    path, model = recorded(tmp_path, adds, ["count-0"])
    with pytest.raises(ModelUnusable, match="holds replies of tiny, not of large"):
        RecordedModel(model.connect, "large", path)


def test_a_killed_recorder_leaves_what_can_be_gone_on_with(tmp_path: Path) -> None:
    path, _ = recorded(tmp_path, adds, TASKS)
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    assert len(Cassette.read(path).replies) == len(whole.splitlines()) - 2
    model = ScriptedModel(adds)
    play(RecordedModel(model.connect, "tiny", path).connect, REACT, TASKS)
    assert path.read_bytes() == whole and len(model.requests) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}\n",
        "no json\n",
        '{"cassette": 2, "model": "m"}\n',
        '{"cassette": 1, "model": "m"}\n7\n',
    ],
)
def test_what_is_no_cassette_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(text)
    with pytest.raises(DataDamaged, match="record it again"):
        Cassette.read(path)
    with pytest.raises(DataMissing, match="no cassette"):
        Cassette.read(tmp_path / "none.jsonl")
