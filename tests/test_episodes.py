from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from agentgym_suite.agents import AGENTS, ReplayAgent, agent_factory
from agentgym_suite.env import TextEnv, Transition
from agentgym_suite.episodes import (
    EpisodeRequest,
    PlaySettings,
    Reply,
    Turn,
)
from agentgym_suite.errors import ServerUnreachable, StepTimeout, UsageError
from agentgym_suite.playing import classify, run_episode
from agentgym_suite.prompts import StepPrompt
from agentgym_suite.rewards import reward_preset
from tests.counting import CountingEnv

REQUEST = EpisodeRequest("count-6", seed=3, trial=1, group_id="g")


class Saying:
    """Says the same thing each turn and remembers its turns."""

    def __init__(self, text: str) -> None:
        self.text, self.turns, self.closed = text, [], 0  # type: ignore[var-annotated]

    def act(self, turn: Turn) -> Reply:
        self.turns.append(turn)
        return Reply(self.text)

    def close(self) -> None:
        self.closed += 1


def play(agent: Any, **settings: Any):
    return run_episode(CountingEnv(), lambda env, seed: agent, REQUEST, PlaySettings(**settings))


def test_the_oracle_succeeds_and_every_step_is_recorded() -> None:
    episode = run_episode(CountingEnv(), agent_factory("oracle"), REQUEST)
    assert (episode.success, episode.score, episode.outcome) == (True, 1.0, "success")
    assert (episode.task_id, episode.trial, episode.seed, episode.group_id) == (
        "count-6",
        1,
        3,
        "g",
    )
    assert [step.action for step in episode.steps] == ["add[3]", "add[3]", "add[1]"]
    first, second, last = episode.steps
    assert first.next_observation == second.observation and last.terminated
    assert first.admissible and first.valid and first.span == (0, len("add[3]"))
    assert len({step.state_hash for step in episode.steps}) == 3
    assert episode.metrics["total"] == 7.0 and "data_digest" in episode.provenance


def test_the_random_agent_repeats_with_its_seed() -> None:
    def actions(seed: int) -> list[str]:
        request = EpisodeRequest("count-19", seed=seed)
        return [s.action for s in run_episode(CountingEnv(), AGENTS["random"], request).steps]

    assert actions(1) == actions(1)
    assert len({tuple(actions(seed)) for seed in range(10)}) > 1


def test_replay_gives_the_recorded_actions_and_names_a_short_recording() -> None:
    agent = ReplayAgent({"count-6": ["add[3]", "add[3]"]})
    episode = play(agent)
    assert [s.action for s in episode.steps] == ["add[3]", "add[3]"]
    assert episode.failure is not None and "has 2 actions" in episode.failure.message


def test_step_bound_is_truncation_with_the_score_reached() -> None:
    episode = play(Saying("add[1]"), max_steps=2)
    assert (episode.outcome, len(episode.steps), episode.success) == ("truncated_steps", 2, False)


def test_an_unreadable_reply_is_a_counted_invalid_step() -> None:
    episode = play(Saying("let me think"), reply_format="tags", max_steps=1)
    (step,) = episode.steps
    assert not step.valid and "<action>" in step.error and step.action == "let me think"


def test_a_parsed_reply_plays_and_shapes_the_reward() -> None:
    agent = Saying("<think>t</think><action>add[7]</action>")
    episode = play(agent, reply_format="tags", reward=reward_preset("verl_agent"))
    (step,) = episode.steps
    assert (step.env_reward, step.reward, step.action) == (1.0, 10.0, "add[7]")
    assert agent.text[slice(*step.span)] == "add[7]"


def test_turns_carry_messages_history_and_tools() -> None:
    agent = Saying("say[hello]")
    play(agent, max_steps=3, prompt=StepPrompt("compact"))
    last = agent.turns[-1]
    assert last.step_index == 2 and len(last.history) == 2 and last.tools
    assert "did: say[hello] | say[hello]" in last.messages[0].content
    assert agent.closed == 1


def test_a_broken_environment_is_an_env_failure_with_the_steps_before_it() -> None:
    class Breaking(Saying):
        def act(self, turn: Turn) -> Reply:
            return Reply("add[1]" if turn.step_index == 0 else "add[boom]")

    agent = Breaking("")
    episode = play(agent)
    assert episode.failure is not None and episode.outcome == "error" and episode.score == 0.0
    assert (episode.failure.kind, episode.failure.origin) == ("env_exception", "env")
    assert "the machine broke" in episode.failure.message and len(episode.steps) == 1
    assert agent.closed == 1


def test_a_broken_agent_is_an_agent_failure_and_still_closed() -> None:
    class Broken(Saying):
        def act(self, turn: Turn) -> Reply:
            raise KeyError("weights")

    agent = Broken("")
    failure = play(agent).failure
    assert failure is not None and (failure.kind, failure.origin) == ("agent_exception", "agent")
    assert agent.closed == 1


def test_an_agent_that_returns_no_reply_is_an_agent_failure() -> None:
    class Wordless(Saying):
        def act(self, turn: Turn) -> Any:
            return "add[1]"

    failure = play(Wordless("")).failure
    assert failure is not None and failure.origin == "agent" and "str" in failure.message


def test_an_asynchronous_agent_without_a_loop_is_an_agent_failure() -> None:
    class Later(Saying):
        def act(self, turn: Turn) -> Awaitable[Reply]:  # type: ignore[override]
            async def answer() -> Reply:
                return Reply("add[1]")

            self.answer = answer()
            return self.answer

    agent = Later("")
    failure = play(agent).failure
    agent.answer.close()
    assert failure is not None and failure.origin == "agent"


def test_a_giant_reply_is_a_counted_invalid_step() -> None:
    episode = play(Saying("x" * (2 << 20)), max_steps=2)
    assert episode.failure is None and len(episode.steps) == 2
    assert "2,097,152 characters" in episode.steps[0].error and not episode.steps[0].valid


@pytest.mark.parametrize("raised", [SystemExit(3), GeneratorExit(), asyncio.CancelledError()])
def test_whatever_an_agent_raises_stays_in_its_episode(raised: BaseException) -> None:
    class Leaving(Saying):
        def act(self, turn: Turn) -> Reply:
            raise raised

    failure = play(Leaving("")).failure
    assert failure is not None and failure.kind == "agent_exception"
    assert type(raised).__name__ in failure.message and "act, line" in failure.message


def test_an_error_without_words_is_still_told() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no words")

    assert classify(Mute(), "agent").message == "Mute"


def test_a_non_finite_reward_is_a_broken_environment() -> None:
    class Unbounded(CountingEnv):
        def _play(self, action: str) -> Transition:
            return Transition("", float("nan"))

    episode = run_episode(Unbounded(), lambda env, seed: Saying("add[1]"), REQUEST)
    assert episode.failure is not None and "count-6" in episode.failure.message


def test_a_wrong_request_raises_instead_of_being_filed() -> None:
    with pytest.raises(UsageError, match="count-99"):
        run_episode(CountingEnv(), agent_factory("oracle"), EpisodeRequest("count-99", 0))
    with pytest.raises(UsageError, match="random, oracle, scripted"):
        agent_factory("genius")


@pytest.mark.parametrize(
    ("error", "phase", "kind", "origin"),
    [
        (MemoryError(), "env", "oom", "infra"),
        (ConnectionResetError(), "agent", "connection", "infra"),
        (ServerUnreachable("gone"), "env", "connection", "infra"),
        (StepTimeout("slow"), "env", "env_timeout", "env"),
        (ValueError(), "agent", "agent_exception", "agent"),
        (ValueError(), "env", "env_exception", "env"),
    ],
)
def test_failures_are_classified(error: Exception, phase: str, kind: str, origin: str) -> None:
    failure = classify(error, phase)
    assert (failure.kind, failure.origin) == (kind, origin)


def test_an_agent_that_cannot_close_is_a_failure_of_its_episode_only() -> None:
    class Clinging(Saying):
        def close(self) -> None:
            raise OSError("still busy")

    failure = play(Clinging("add[7]")).failure
    assert failure is not None and "still busy" in failure.message and failure.origin == "agent"


def test_a_prompt_beyond_its_budget_is_a_context_overflow_of_the_model() -> None:
    prompt = StepPrompt("compact", token_budget=2, counter=len, truncation="error")
    episode = play(Saying("add[1]"), prompt=prompt)
    assert episode.outcome == "truncated_context" and episode.failure is not None
    assert (episode.failure.kind, episode.failure.origin) == ("context_overflow", "model")


def test_what_the_budget_took_stands_in_the_step() -> None:
    prompt = StepPrompt("compact", history_length=-1, token_budget=60, counter=len)
    episode = play(Saying("say[" + "word " * 8 + "]"), prompt=prompt, max_steps=3)
    assert episode.steps[0].dropped_steps == 0 and episode.steps[2].dropped_steps > 0


def test_wrong_settings_are_refused_before_anything_is_played() -> None:
    with pytest.raises(UsageError, match="raw, react"):
        PlaySettings(reply_format="xml")
    with pytest.raises(UsageError, match="max_steps"):
        PlaySettings(max_steps=0)


def test_an_environment_without_its_hooks_cannot_be_made() -> None:
    class Hollow(CountingEnv):
        _play = TextEnv._play

    with pytest.raises(TypeError, match="_play"):
        Hollow()
