from __future__ import annotations

import json
from typing import Any

import pytest

from agentgym_suite.call_results import total_reward
from agentgym_suite.errors import UsageError
from agentgym_suite.multihop_qa.question_set import QuestionSet
from agentgym_suite.multihop_qa.questions import Question
from agentgym_suite.multihop_qa.reward import QA_PRESETS, QAReward, find_preset
from tests.multihop_qa.small_encyclopedia import small_env


def test_the_presets_are_the_table_of_the_specification() -> None:
    paper, steppo, search_r1 = (QA_PRESETS[name] for name in ("paper", "steppo", "search_r1"))
    assert paper.reward == QAReward(
        answer_reward=1.0,
        wrong_answer_reward=0.0,
        golds="all",
        format_reward=0.1,
        format_cap=0.5,
        malformed_reward=0.0,
        repeats_are_searched=False,
        free_text_answers=False,
        final_answer_only=False,
    )
    assert (paper.top_k, paper.max_calls, paper.first_search) == (5, 4, False)
    assert paper.passage_policy == "keep_newest"
    assert steppo.reward == QAReward(
        golds="answer",
        format_reward=0.0,
        format_cap=None,
        repeats_are_searched=True,
        free_text_answers=True,
    )
    assert (steppo.top_k, steppo.max_calls, steppo.first_search) == (5, 4, True)
    assert steppo.passage_policy == "keep_first"
    assert search_r1.reward == QAReward(format_reward=0.0, format_cap=None, final_answer_only=True)
    assert (search_r1.top_k, search_r1.max_calls, search_r1.first_search) == (3, 1, False)


def test_format_rewards_are_tenths_up_to_the_cap() -> None:
    reward = QAReward()
    assert [reward.format_paid(n) for n in range(7)] == [0.1] * 5 + [0.0] * 2
    assert QAReward(format_cap=0.25).format_paid(2) == 0.05
    assert QAReward(format_cap=None).format_paid(100) == 0.1
    assert total_reward([0.1, 0.1, 0.1]) == 0.3


def test_golds_are_all_or_the_first() -> None:
    question = Question("1", "d", "dev", "q?", "a", ("b", "c"))
    assert QAReward().golds_of(question) == ("a", "b", "c")
    assert QAReward(golds="answer").golds_of(question) == ("a",)
    assert QAReward().golds_of(Question("1", "d", "test", "q?", "")) == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {"answer_reward": float("nan")},
        {"format_reward": float("inf")},
        {"format_cap": -0.1},
        {"format_reward": None},
        {"malformed_reward": "0"},
        {"answer_reward": True},
        {"golds": "some"},
        {"final_answer_only": 1},
    ],
)
def test_a_reward_is_checked_when_it_is_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"{next(iter(wrong))} is"):
        QAReward(**wrong)


def test_an_unknown_preset_names_those_there_are() -> None:
    for wrong in ("papper", None, 3, {"answer_reward": 1.0}):
        with pytest.raises(UsageError, match="paper, steppo, search_r1"):
            find_preset(wrong)  # type: ignore[arg-type]
    assert find_preset(QAReward(answer_reward=2.0))[0] == "custom"


def played(questions: QuestionSet, *actions: str, **kwargs: Any) -> list[Any]:
    env = small_env(questions, **kwargs)
    return [env.step(action) for action in actions]


# One test a row of the table, each over the three presets.
PRESETS = ("paper", "steppo", "search_r1")


def test_a_right_answer_is_paid_one_and_a_wrong_one_nothing(questions: QuestionSet) -> None:
    for preset in PRESETS:
        for answer, paid in (("the morne", 1.0), ("Harrow", 0.0)):
            (step,) = played(questions, f"answer[{answer}]", reward=preset)
            assert step[1] == paid and step[2] and step[4]["score"] == paid
            assert step[4]["metrics"]["answer_reward"] == paid


def test_an_alias_is_paid_except_by_steppo_and_always_scores(questions: QuestionSet) -> None:
    for preset, paid in zip(PRESETS, (1.0, 0.0, 1.0), strict=True):
        (step,) = played(questions, "answer[The Morne River]", reward=preset)
        assert step[1] == paid
        assert step[4]["score"] == 1.0 and step[4]["success"]


def test_a_search_is_paid_by_paper_alone(questions: QuestionSet) -> None:
    for preset, paid in zip(PRESETS, (0.1, 0.0, 0.0), strict=True):
        for query in ("Tessaly", "zzz"):
            (step,) = played(questions, f"search[{query}]", reward=preset)
            assert step[1] == paid and step[4]["metrics"]["format_reward"] == paid


def test_the_format_reward_of_an_episode_is_capped(questions: QuestionSet) -> None:
    actions = ["\n".join(f"search[q{i} {n}]" for i in range(4)) for n in range(4)]
    steps = played(questions, *actions)
    assert [step[1] for step in steps] == [0.4, 0.1, 0.0, 0.0]
    assert steps[-1][4]["metrics"]["format_reward"] == 0.5
    assert steps[-1][4]["metrics"]["valid_calls"] == 16.0


def test_refused_repeated_and_malformed_calls_are_paid_nothing(questions: QuestionSet) -> None:
    (_, bad) = played(questions, "search[a]", "search[A ]\njunk\nsearch[]")
    assert bad[1] == 0.0 and not bad[4]["action_valid"]
    assert bad[4]["action_error"] == "'A' was searched before; search anew"
    assert [call["status"] for call in json.loads(bad[4]["calls"])] == [
        "repeated",
        "malformed",
        "malformed",
    ]


def test_free_text_is_malformed_except_in_steppo(questions: QuestionSet) -> None:
    for preset in ("paper", "search_r1"):
        (step,) = played(questions, "The Morne", reward=preset)
        assert not step[2] and not step[4]["action_valid"] and step[1] == 0.0
    for text, answer in (
        (" Morne\n", "Morne"),
        ("I say <Answer>x</Answer> <ANSWER> Morne\n</ANSWER>.", "Morne"),
        ("so\nmorne", "so\nmorne"),
        ("", ""),
        ("<answer>Morne", "<answer>Morne"),
    ):
        env = small_env(questions, reward="steppo")
        _, reward, terminated, _, info = env.step(text)
        assert terminated and info["answer"] == answer and info["action_valid"]
        assert reward == info["score"] == float(answer == "Morne")
        twin = small_env(questions, reward="steppo")
        assert twin.step(info["parsed_action"])[:3] == (
            env.render() or twin._observation,
            reward,
            True,
        )


def test_steppo_takes_calls_as_calls(questions: QuestionSet) -> None:
    (step,) = played(questions, "I think:\nsearch[Tessaly]\nmore", reward="steppo")
    assert not step[2] and step[4]["metrics"]["malformed_calls"] == 2.0
    (empty,) = played(questions, "search[]", reward="steppo")
    assert not empty[2] and not empty[4]["action_valid"]


def test_steppo_searches_the_question_first_and_repeats_again(questions: QuestionSet) -> None:
    env = small_env(questions, reward="steppo")
    assert env.state.queries == [env.state.question.question] and env.state.passages
    info = env.step("search[Tessaly]\nsearch[Tessaly]")[4]
    assert [call["status"] for call in json.loads(info["calls"])] == ["ok", "ok"]
    assert env.state.queries[1:] == ["Tessaly", "Tessaly"]
    assert info["metrics"]["repeated_calls"] == 0.0 and info["metrics"]["search_calls"] == 2.0


def test_search_r1_takes_only_an_answer_in_the_last_step(questions: QuestionSet) -> None:
    env = small_env(questions, reward="search_r1", horizon=2)
    observation = env.step("search[Tessaly]")[0]
    assert observation.endswith("Calls:\nanswer[short answer]: ends the episode\nSteps left: 1")
    info = env.step("search[Morne]")[4]
    assert not info["action_valid"] and info["metrics"]["refused_calls"] == 1.0
    assert info["action_error"] == "call 1 of 1 refused: the last step takes an answer only"
    for horizon in (1, None):
        last = small_env(questions, reward="search_r1", horizon=horizon)
        assert last.step("answer[Morne]")[1] == 1.0
    assert small_env(questions, reward="search_r1", horizon=None).step("search[a]")[4][
        "action_valid"
    ]


def test_search_r1_shows_three_passages_and_takes_one_search(questions: QuestionSet) -> None:
    (step,) = played(questions, "search[town river Morne]\nsearch[b]", reward="search_r1")
    assert [len(found) for found in json.loads(step[4]["last_results"])] == [3]
    assert [call["status"] for call in json.loads(step[4]["calls"])] == ["ok", "over_limit"]
    (wide,) = played(questions, "search[town river Morne novel]", reward="search_r1", top_k=5)
    assert len(json.loads(wide[4]["last_results"])[0]) == 5


def test_a_malformed_line_is_paid_for_at_most_so_often_as_calls_are_allowed(
    questions: QuestionSet,
) -> None:
    reward = QAReward(malformed_reward=-0.5)
    (step,) = played(questions, "junk\n" * 3_000, reward=reward)
    assert step[1] == -2.0 and step[4]["metrics"]["malformed_calls"] == 3_000.0


def test_an_answer_without_words_never_scores_and_golds_without_words_are_compared_raw(
    questions: QuestionSet,
) -> None:
    for answer in ("", "The", "!", "a an"):
        (step,) = played(questions, f"answer[{answer}]")
        assert step[2] and step[1] == step[4]["score"] == 0.0
    for answer, right in (("the", 1.0), (" THE ", 1.0), ("!", 0.0), ("", 0.0)):
        (step,) = played(questions, f"answer[{answer}]", task="small/dev/q4")
        assert step[1] == step[4]["score"] == right


def test_the_step_reward_is_the_sum_of_its_calls(questions: QuestionSet) -> None:
    (step,) = played(questions, "search[a]\nsearch[Tessaly]\njunk\nanswer[Morne]")
    parts = [call["reward"] for call in json.loads(step[4]["calls"])]
    assert parts == [0.1, 0.1, 0.0, 1.0] and step[1] == 1.2
