from __future__ import annotations

import hashlib
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym_suite.data import canonical_json
from agentgym_suite.errors import DataDamaged, RetrievalError, UsageError
from agentgym_suite.indexes.passages import Passage
from agentgym_suite.multihop_qa import make
from agentgym_suite.multihop_qa.env import MultiHopQAEnv
from agentgym_suite.multihop_qa.question_set import QuestionSet
from agentgym_suite.multihop_qa.questions import Question
from agentgym_suite.multihop_qa.reward import QAReward
from tests.multihop_qa.small_encyclopedia import WordIndex, small_env, small_questions

METRICS = {
    "em",
    "f1",
    "search_calls",
    "valid_calls",
    "repeated_calls",
    "malformed_calls",
    "refused_calls",
    "format_reward",
    "answer_reward",
    "passages",
    "support_recall",
    "support_known",
    "hops",
    "invalid_actions",
    "characters_cut",
}


def statuses(info: dict[str, Any]) -> list[str]:
    return [call["status"] for call in json.loads(info["calls"])]


def test_gymnasiums_checker_finds_nothing(questions: QuestionSet) -> None:
    check_env(MultiHopQAEnv(questions=questions, passages=WordIndex()), skip_render_check=True)


def test_the_searches_of_a_step_are_one_batch_and_equal_to_one_by_one(
    questions: QuestionSet,
) -> None:
    together, alone = WordIndex(), WordIndex()
    env = small_env(questions, passages=together)
    env.step("search[Tessaly]\nsearch[tessaly]\nsearch[Morne]\njunk\nsearch[zzz]\nanswer[x]")
    assert together.asked == [(("Tessaly", "Morne", "zzz"), 5)]
    twin = small_env(questions, passages=alone, horizon=9)
    for query in ("Tessaly", "Morne", "zzz"):
        twin.step(f"search[{query}]")
    assert len(alone.asked) == 3
    assert env.state.passages == twin.state.passages and env.state.queries == twin.state.queries


def test_a_step_without_a_fresh_search_asks_the_index_nothing(questions: QuestionSet) -> None:
    index = WordIndex()
    env = small_env(questions, passages=index, horizon=9)
    env.step("search[a]")
    for action in ("search[A]", "junk", "", "search[]", "answer[x]\nsearch[b]"):
        env.step(action)
    assert len(index.asked) == 1


def test_results_are_told_by_search(questions: QuestionSet) -> None:
    env = small_env(questions, top_k=2)
    info = env.step("search[Tessaly]\nsearch[zzz]\nsearch[Tessaly]")[4]
    results = json.loads(info["last_results"])
    assert [[one["id"] for one in found] for found in results] == [["p1", "p3"], []]
    assert results[0][0] == {"id": "p1", "title": "Odrin Vale", "score": 1.0}
    assert json.loads(info["calls"])[0]["new_ids"] == ["p1", "p3"]
    assert statuses(info) == ["ok", "empty", "repeated"]
    again = env.step("search[Tessaly town]")[4]
    assert json.loads(again["calls"])[0]["new_ids"] == []  # p3 is known, p6 says the same as p3
    assert json.loads(env.step("junk")[4]["last_results"]) == []


def test_queries_are_equal_after_case_blanks_and_compatibility_forms(
    questions: QuestionSet,
) -> None:
    env = small_env(questions)
    env.step("search[The ﬁne Town]")
    for query in ("the fine town", "THE  FINE\tTOWN", "the fine\u3000town"):
        assert statuses(env.step(f"search[{query}]")[4]) == ["repeated"]
    assert statuses(env.step("search[the fine towns]")[4]) == ["empty"]


def test_refused_and_repeated_searches_do_not_enter_the_history(questions: QuestionSet) -> None:
    env = small_env(questions)
    env.step("\n".join(f"search[q{i % 5}]" for i in (0, 0, 1, 2, 3, 4)))
    assert env.state.queries == ["q0", "q1", "q2"]


@pytest.mark.parametrize(
    ("action", "status"),
    [
        ("search[" + "a" * 2048 + "]", "empty"),
        ("search[" + "a" * 2049 + "]", "malformed"),
        ("answer[" + "a" * 1024 + "]", "ok"),
        ("answer[" + "a" * 1025 + "]", "malformed"),
    ],
)
def test_arguments_have_bounds(questions: QuestionSet, action: str, status: str) -> None:
    info = small_env(questions).step(action)[4]
    assert statuses(info) == [status]
    assert ("characters; use at most" in info["action_error"]) is (status == "malformed")


def test_ten_thousand_malformed_lines_are_bounded_work(questions: QuestionSet) -> None:
    env = small_env(questions)
    observation, reward, _, _, info = env.step("\n".join("x" for _ in range(8_000)))
    assert reward == 0.0 and len(statuses(info)) == 5
    assert info["metrics"]["malformed_calls"] == 8_000.0
    assert "7,996 more lines are malformed" in observation
    many = env.step("x\n" * 10_000)
    assert "20,000 characters" in many[4]["action_error"] and len(many[4]["calls"]) < 300
    assert env.step("y" * 1_000_000)[4]["action_valid"] is False


def test_an_invalid_action_changes_only_the_feedback_and_the_step(questions: QuestionSet) -> None:
    env = small_env(questions)
    _, _, _, _, before = env.step("search[Tessaly]")
    for action in ("junk", "search[]", "search[TESSALY]", "x" * 20_000):
        observation, reward, terminated, _, after = env.step(action)
        assert (reward, terminated, after["action_valid"]) == (0.0, False, False)
        assert after["action_error"] and after["action_error"][:40] in observation
        for key in ("passages", "search_calls", "valid_calls", "format_reward", "support_recall"):
            assert after["metrics"][key] == before["metrics"][key]


def test_a_step_with_one_good_call_is_valid(questions: QuestionSet) -> None:
    info = small_env(questions).step("junk\nsearch[zzz]")[4]
    assert info["action_valid"] and info["action_error"] == ""


def test_info_and_metrics_have_fixed_keys(questions: QuestionSet) -> None:
    env = small_env(questions)
    _, first = env.reset(options={"task_id": "small/train/q2"})
    infos = [first, *(env.step(a)[4] for a in ("search[a]", "junk", "", "answer[x]"))]
    for info in infos:
        assert tuple(info) == env.info_keys and set(info["metrics"]) == METRICS
        assert (
            json.loads(info["calls"]) is not None and json.loads(info["last_results"]) is not None
        )
    assert first["calls"] == first["last_results"] == "[]"
    assert first["metrics"]["support_known"] == first["metrics"]["support_recall"] == 0.0


def test_golds_are_told_after_the_end_alone(questions: QuestionSet) -> None:
    env = small_env(questions, horizon=2)
    secret = env.state.question.golds
    told: list[Any] = [env._observation]
    for action in ("search[zzz]", "junk"):
        told.append(env.step(action))
    assert told[1][4]["golds"] == "" and json.loads(told[2][4]["golds"]) == list(secret)
    env = small_env(questions)
    info = env.step("answer[wrong]")[4]
    assert json.loads(info["golds"]) == list(secret) and info["answered"]
    assert small_env(questions, horizon=None).step("junk")[4]["golds"] == ""
    assert "Morne" not in json.dumps(told[:2], default=str)


def test_support_recall_counts_titles_found(questions: QuestionSet) -> None:
    env = small_env(questions, top_k=1)
    recalls = [env.step(f"search[{q}]")[4]["metrics"]["support_recall"] for q in ("Odrin", "town")]
    assert recalls == [0.5, 1.0]


def test_provenance_names_data_index_numbers_and_split(questions: QuestionSet) -> None:
    env = MultiHopQAEnv(
        questions=questions, passages=WordIndex(), scorer="musique", reward="search_r1"
    )
    told = json.loads(env.reset(options={"task_id": "small/train/q1"})[1]["provenance"])
    assert told["dataset"] == "small" and told["split"] == "train"
    assert told["data_digest"] == questions.digest and told["index_digest"] == "sha256:words"
    assert told["index"] == {
        "digest": "sha256:words",
        "kind": "word-index",
        "rows": 6,
        "encoder": {"name": "words"},
    }
    assert told["encoder"] == {"name": "words"} and told["scorer"] == "musique"
    assert (told["top_k"], told["max_calls"], told["first_search"]) == (3, 1, False)
    assert told["reward"] == {
        "preset": "search_r1",
        **QAReward(format_reward=0.0, format_cap=None, final_answer_only=True).numbers(),
    }
    assert told["passage_policy"] == "keep_newest" and told["observation_format"] == "state"
    assert json.loads(env.reset(seed=1)[1]["provenance"])["split"] == "dev"


def test_the_state_hash_is_that_of_the_specification(questions: QuestionSet) -> None:
    env = small_env(questions)
    info = env.step("search[Grey Lantern]")[4]
    state = {
        "task": "small/train/q1",
        "step": 1,
        "history": ["Grey Lantern"],
        "passages": ["p1", "p2"],
        "answer": None,
    }
    assert info["state_hash"] == hashlib.sha256(canonical_json(state).encode()).hexdigest()
    assert env.step("answer[]")[4]["state_hash"] != info["state_hash"]


LINES = st.sampled_from(
    ["search[Tessaly]", "Search[ Morne ]", "search[tessaly]", "search[zzz]", "junk", "", "search[]",
     "answer[Morne]", "answer[no]", "x search[a]", "click[a]", "search[a]]"]
)  # fmt: skip
ACTIONS = st.lists(LINES | st.text(max_size=6), max_size=7).map("\n".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.lists(ACTIONS, min_size=1, max_size=5), st.sampled_from(["paper", "steppo", "search_r1"]))
def test_parsed_actions_replay_exactly(
    questions: QuestionSet, actions: list[str], reward: str
) -> None:
    env, twin = (small_env(questions, reward=reward) for _ in range(2))
    for action in actions:
        left = env.step(action.encode("utf-8", "replace").decode("utf-8"))
        right = twin.step(left[4]["parsed_action"])
        same = ("calls", "metrics", "state_hash", "action_valid", "action_error", "last_results")
        assert left[:4] == right[:4]
        assert {key: left[4][key] for key in same} == {key: right[4][key] for key in same}
        assert left[1] == pytest.approx(sum(c["reward"] for c in json.loads(left[4]["calls"])))
        if left[2]:
            break


def test_a_failing_index_is_an_error_and_changes_nothing(questions: QuestionSet) -> None:
    index = WordIndex()
    env = small_env(questions, passages=index)
    index.broken = True
    with pytest.raises(RetrievalError, match="gone"):
        env.step("search[Tessaly]")
    assert not env.state.queries and not env.state.passages
    index.broken = False
    assert env.step("search[Tessaly]")[4]["step"] == 1


def test_an_empty_question_is_refused_with_its_id(folder: Path) -> None:
    empty = small_questions(folder, [Question("e1", "small", "dev", " ", "x")])
    env = MultiHopQAEnv(questions=empty, passages=WordIndex())
    with pytest.raises(DataDamaged, match="small/dev/e1 has an empty question"):
        env.reset(seed=1)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"topk": 3}, "top_k"),
        ({"top_k": 0}, "1 or more"),
        ({"top_k": 2.5}, "top_k"),
        ({"top_k": "3"}, "top_k"),
        ({"max_calls": True}, "max_calls"),
        ({"max_calls": 101}, "at most 100"),
        ({"first_search": 1}, "True or False"),
        ({"scorer": "f1"}, "hotpot, 2wiki, musique, search_r1"),
        ({"reward": "ppo"}, "paper, steppo, search_r1"),
        ({"observation_format": "chat"}, "'state', 'steppo', 'search_r1', 'verl' or 'skyrl'"),
        ({"passage_policy": "none"}, "'keep_newest' or 'keep_first'"),
        ({"index": 3}, "fts5, dense, hybrid"),
        ({"index": " "}, "fts5, dense, hybrid"),
        ({"questions": 3}, "questions is 3"),
        ({"passages": 3}, "passages is 3"),
        ({"passages": WordIndex}, "passages is"),
        ({"render_mode": "human"}, "ansi"),
        ({"reward": "steppo", "observation_format": "verl"}, "first_search=False"),
    ],
)
def test_wrong_arguments_name_what_there_is(wrong: dict[str, Any], named: str) -> None:
    for maker in (MultiHopQAEnv, make):
        with pytest.raises(UsageError, match=named):
            maker(**wrong)


def test_what_overrides_a_preset(questions: QuestionSet) -> None:
    env = small_env(questions, reward="steppo", first_search=False, passage_policy="keep_newest")
    assert not env.state.queries
    assert json.loads(env.reset(seed=1)[1]["provenance"])["passage_policy"] == "keep_newest"
    env = small_env(questions, reward="steppo", first_search=False, observation_format="verl")
    assert env._observation == env.state.question.question


def test_given_parts_stay_the_callers_and_own_ones_are_closed(
    questions: QuestionSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = WordIndex()
    small_env(questions, passages=given).close()
    assert not given.closed
    own = WordIndex()
    monkeypatch.setattr("agentgym_suite.multihop_qa.env.open_passages", lambda *_: own)
    env = small_env(questions, passages=None)
    env.close()
    env.close()
    assert own.closed == 1
    env.reset(seed=1)  # opens again


def test_pickles_by_its_arguments(questions: QuestionSet) -> None:
    env = MultiHopQAEnv(questions=questions, passages=WordIndex(), reward=QAReward(golds="answer"))
    twin = pickle.loads(pickle.dumps(env))
    assert twin.reset(seed=4)[0] == env.reset(seed=4)[0]
    assert twin.step("search[town]")[:4] == env.step("search[town]")[:4]


def test_random_actions_are_examples_and_never_refused(questions: QuestionSet) -> None:
    rng = np.random.Generator(np.random.PCG64(0))
    for seed in range(20):
        env = small_env(questions, reward="search_r1", horizon=8)
        for _ in range(8):
            action = env.random_action(rng)
            assert action in env.action_space.examples
            _, _, terminated, _, info = env.step(action)
            assert info["action_valid"], (seed, info["action_error"])
            if terminated:
                break


def test_a_long_observation_holds_its_passages_and_its_queries(folder: Path) -> None:
    rows = [Passage(f"p{n}", f"T{n}", f"{n} word " * 400) for n in range(60)]
    env = small_env(
        small_questions(folder), passages=WordIndex(rows), top_k=20, passage_chars=5_000
    )
    observation, *_, info = env.step("search[word]\nsearch[word 30]\nsearch[T40 word]")
    assert len(observation) <= 32_768 + 1_000 and info["metrics"]["characters_cut"] == 0.0
    assert observation in env.observation_space


def test_the_default_split_is_dev_or_the_one_that_is_reported(
    questions: QuestionSet, folder: Path
) -> None:
    def split_of(data: QuestionSet) -> object:
        return MultiHopQAEnv(questions=data, passages=WordIndex()).reset(seed=1)[1]["split"]

    assert split_of(questions) == "dev"
    assert split_of(small_questions(folder, [Question("t", "nq", "test", "q?", "x")])) == "test"


@pytest.mark.parametrize(
    ("file", "rows", "least"),
    [("hotpot_distractor_dev100.json", 80, 0.85), ("musique_100.jsonl", 70, 0.45)],
)
def test_official_files_are_indexed_and_played(
    shared: Path, fresh_home: Path, file: str, rows: int, least: float
) -> None:
    env = MultiHopQAEnv(shared / "data" / "qa" / file)
    env.horizon = 5
    policy = env.policy("oracle")
    right = 0
    for task_id in env.tasks:
        observation, info = env.reset(options={"task_id": task_id})
        while not info["answered"] and info["steps_left"]:
            observation, *_, info = env.step(policy(observation, info))
            assert observation in env.observation_space and not info["metrics"]["characters_cut"]
        right += info["success"]
    assert len(env.tasks) == rows and right / rows >= least


@pytest.mark.parametrize("name", ["data", "index"])
def test_a_path_that_cannot_be_one_is_a_short_sentence(name: str) -> None:
    for value in ("x" * 100_000, "a\0b", ["y" * 100_000], 7, {}):
        with pytest.raises(UsageError, match=f"^{name} is ") as told:
            MultiHopQAEnv(**{name: value})  # type: ignore[arg-type]
        assert len(str(told.value)) < 400


@pytest.mark.parametrize("split", [0, [], {}, False])
def test_a_split_that_is_no_text_is_refused(split: Any) -> None:
    with pytest.raises(UsageError, match="split is .*give the name of a split"):
        MultiHopQAEnv(split=split)


def test_numbers_of_numpy_are_numbers(questions: QuestionSet) -> None:
    env = small_env(questions, passage_chars=np.int64(3), observation_chars=np.int32(100))
    _, info = env.reset(seed=0)
    assert json.loads(info["provenance"])["passage_chars"] == 3
