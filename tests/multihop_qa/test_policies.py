from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentgym_suite.agents import AGENTS
from agentgym_suite.episodes import Episode, EpisodeRequest
from agentgym_suite.indexes.passages import Passage
from agentgym_suite.multihop_qa.question_set import QuestionSet
from agentgym_suite.multihop_qa.questions import Question
from agentgym_suite.playing import run_episode
from tests.multihop_qa.small_encyclopedia import (
    PASSAGES,
    QUESTIONS,
    WordIndex,
    small_env,
    small_questions,
)


def play(questions: QuestionSet, agent: str, task: str, **kwargs: Any) -> Episode:
    env = small_env(questions, task, **kwargs)
    return run_episode(env, AGENTS[agent], EpisodeRequest(task, seed=1))


def test_the_oracle_follows_the_hops(questions: QuestionSet) -> None:
    episode = play(questions, "oracle", "small/train/q1", top_k=1)
    assert episode.success and episode.score == 1.0
    assert all(step.valid for step in episode.steps)
    first, *_, last = (step.action for step in episode.steps)
    assert first.startswith("search[Grey Lantern wrote]") and "Tessaly" not in first
    assert last == "answer[Morne]"


def test_the_oracle_asks_only_for_what_it_has_read(questions: QuestionSet) -> None:
    env = small_env(questions)
    policy = env.policy("oracle")
    observation, info = env.reset(options={"task_id": "small/train/q1"})
    read = env.state.question.question
    while not env.state.answered:
        action = policy(observation, info)
        for name in ("Odrin Vale", "Tessaly", "Morne"):
            assert name not in action or name in read
        observation, *_, info = env.step(action)
        read += " ".join(f"{s.passage.title} {s.passage.text}" for s in env.state.passages)


def test_the_oracle_does_not_answer_what_it_has_not_found(folder: Path) -> None:
    questions = small_questions(folder, QUESTIONS)
    without = [passage for passage in PASSAGES if "Morne" not in passage.title + passage.text]
    episode = play(questions, "oracle", "small/train/q1", passages=WordIndex(without))
    assert not episode.success and episode.steps[-1].action == "answer[unknown]"
    assert len(episode.steps) <= 5


@pytest.mark.parametrize("task", ["small/train/q2", "small/dev/q3"])
def test_the_oracle_searches_the_question_where_no_fact_is_known(
    questions: QuestionSet, task: str
) -> None:
    episode = play(questions, "oracle", task)
    assert episode.success and [step.action[:7] for step in episode.steps] == ["search[", "answer["]


def test_the_oracle_answers_in_the_last_step_and_plays_one_search_a_step(
    questions: QuestionSet,
) -> None:
    short = play(questions, "oracle", "small/train/q1", horizon=1)
    assert [step.action for step in short.steps] == ["answer[unknown]"]
    slow = play(questions, "oracle", "small/train/q1", reward="search_r1", horizon=8)
    assert slow.success


def test_the_oracle_says_yes_once_its_facts_are_found(folder: Path) -> None:
    question = Question(
        "y1", "small", "dev", "Are Tessaly and Harrow on one river?", "no",
        evidences=(("Tessaly", "river", "Morne"), ("Harrow", "kind", "port")),
    )  # fmt: skip
    episode = play(small_questions(folder, [question]), "oracle", "small/dev/y1")
    assert episode.success and len(episode.steps) == 2


def test_the_script_searches_its_titles_and_answers_with_a_name(questions: QuestionSet) -> None:
    for format in ("state", "search_r1"):
        episode = play(questions, "scripted", "small/train/q1", observation_format=format)
        actions = [step.action for step in episode.steps]
        assert actions[0] == f"search[{QUESTIONS[0].question}]"
        assert actions[1].startswith("search[Odrin Vale]\n") and len(actions) == 3
        assert actions[2].startswith("answer[") and episode.failure is None
    assert play(questions, "scripted", "small/dev/q3").success


def test_the_script_answers_even_when_nothing_is_found(questions: QuestionSet) -> None:
    nothing = WordIndex([Passage("x", "zz", "zz")])
    episode = play(questions, "scripted", "small/train/q1", passages=nothing)
    assert [step.action for step in episode.steps][1:] == ["answer[unknown]"]
