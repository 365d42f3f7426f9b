"""AgentGym's SearchQA and Academia: replies in Search-R1's tags, our papers by our grammar."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import httpx
import pytest

from agentgym_suite.errors import UnknownTask
from agentgym_suite.multihop_qa.question_set import open_question_set
from agentgym_suite.multihop_qa.questions import Question
from agentgym_suite.prompts import SEARCH_R1_INVALID
from agentgym_suite.servers.agentgym_search import Items
from agentgym_suite.servers.env_specs import Served
from agentgym_suite.servers.problems import Problem
from tests.servers.agentgym_client import Failed, SearchClient, serving

SETTINGS = {
    "reward": "search_r1",
    "scorer": "search_r1",
    "observation_format": "search_r1",
    "max_episode_steps": -1,
}


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    with serving(Served("MultiHopQA-v0"), Served("PaperSearch-v0")) as client:
        yield client


@pytest.fixture
def local() -> Iterator[Any]:
    env = gym.make("MultiHopQA-v0", **SETTINGS)
    yield env
    env.close()


@pytest.mark.parametrize("name", ["searchqa", "academia"])
def test_the_recorded_requests_get_the_recorded_shapes(http: httpx.Client, name: str) -> None:
    assert http.get(f"/{name}/").json() == "ok"
    number = http.post(f"/{name}/create", json={"id": 0}).json()
    assert type(number) is int
    reset = http.post(f"/{name}/reset", json={"id": 11, "env_idx": number}).json()
    assert isinstance(reset, str)
    assert http.get(f"/{name}/observation", params={"env_idx": number}).json() == reset
    action = "<think>so</think><search>river</search>" if name == "searchqa" else "search[river]"
    step = http.post(f"/{name}/step", json={"action": action, "env_idx": number}).json()
    told = ["observation", "reward", "done"]
    assert list(step) == ([*told, "info"] if name == "searchqa" else told)
    assert (step["reward"], step["done"]) == (0.0, False)
    assert step.get("info") is None
    assert http.post(f"/{name}/close", json={"env_idx": number}).json() is True


def test_an_episode_of_searches_and_an_answer_is_the_environments(
    http: httpx.Client, local: Any
) -> None:
    client = SearchClient(http, "searchqa")
    for item in (0, 2_500):
        question, info = local.reset(options={"task_id": item})
        prompt = client.reset(item)
        assert prompt.endswith(f"Question: {question}\n") and "<search> query </search>" in prompt

        observation, *_ = local.step(f"search[{question}]")
        assert observation.startswith("Doc 1(Title: ") and observation.count("\nDoc ") == 2
        told = client.step(f"<think>?</think>\n<search> {question} </search> <answer>no</answer>")
        assert told["observation"] == f"<information>{observation.strip()}</information>"
        assert client.observe() == prompt

        gold = local.unwrapped.state.question.golds[0]
        *_, info = local.step(f"answer[{gold}]")
        last = client.step(f"<think>I have it</think><answer>\n{gold}\n</answer>")
        assert last == {
            "observation": "The answer is right.",
            "reward": info["score"],
            "done": True,
            "info": None,
        }
        assert last["reward"] == 1.0


def test_a_wrong_answer_ends_the_episode(http: httpx.Client) -> None:
    client = SearchClient(http, "searchqa")
    client.reset(3)
    told = client.step("<answer>nobody knows</answer>")
    assert (told["observation"], told["reward"], told["done"]) == (
        "The answer is wrong.",
        0.0,
        True,
    )
    with pytest.raises(Failed, match="is over") as failed:
        client.step("<answer>try again</answer>")
    assert failed.value.status == 409


@pytest.mark.parametrize(
    "reply", ["", "I do not know.", "<search>unclosed", "<SEARCH>x</SEARCH>", "<answer>x</search>"]
)
def test_a_reply_that_cannot_be_read_changes_nothing(http: httpx.Client, reply: str) -> None:
    client = SearchClient(http, "searchqa")
    client.reset(3)
    told = client.step(reply)
    assert told["observation"] == SEARCH_R1_INVALID.strip()
    assert (told["reward"], told["done"]) == (0.0, False)


def test_papers_are_played_by_their_own_grammar(http: httpx.Client) -> None:
    client = SearchClient(http, "academia")
    local: Any = gym.make("PaperSearch-v0", max_episode_steps=-1)
    observation, info = local.reset(options={"task_id": 2_000})
    assert client.reset(2_000) == observation
    oracle = local.unwrapped.policy("oracle")
    done = False
    while not done:
        action = oracle(observation, info)
        observation, _, done, _, info = local.step(action)
        assert client.step(action) == {
            "observation": observation,
            "reward": info["score"],
            "done": done,
        }
        assert client.observe() == observation
    assert info["score"] > 0
    local.close()


def test_without_an_item_one_is_drawn(http: httpx.Client) -> None:
    client = SearchClient(http, "searchqa")
    assert "Question: " in client.reset(None)


def test_an_item_that_does_not_exist_is_an_error(http: httpx.Client) -> None:
    for name in ("searchqa", "academia"):
        client = SearchClient(http, name)
        with pytest.raises(Failed, match="99999") as failed:
            client.reset(99_999)
        assert failed.value.status == 422


# ------------------------------------------------------------------------------- item numbers


def items(stored: dict[tuple[str, str], int], hidden: tuple[str, str] | None = None) -> Items:
    """The numbers of a server that has so many questions of each set and split."""
    ids = [f"{d}/{s}/{n}" for (d, s), rows in stored.items() for n in range(rows)]

    def question(position: int) -> Question:
        dataset, split, number = ids[position].split("/")
        return Question(number, dataset, split, "?", "" if (dataset, split) == hidden else "yes")

    questions: Any = SimpleNamespace(
        dataset="some", tasks=SimpleNamespace(ids=ids), question=question
    )
    return Items(questions)


def test_items_are_rows_of_search_r1s_files_in_the_order_of_agentgym() -> None:
    numbers = items(
        {
            ("hotpotqa", "train"): 90_447,
            ("bamboogle", "test"): 125,
            ("hotpotqa", "dev"): 7_405,
            ("hotpotqa", "test"): 7_405,
        },
        hidden=("hotpotqa", "test"),
    )
    assert numbers.position(130_881) == 0
    assert numbers.position(221_327) == 90_446
    assert numbers.position(51_588) == 90_447
    assert numbers.position(51_712) == 90_571
    assert numbers.position(29_190) == 90_572  # the dev set: the test set has no answers
    assert numbers.position(36_594) == 90_572 + 7_404
    with pytest.raises(Problem, match="item 0 is of nq test"):
        numbers.position(0)
    with pytest.raises(UnknownTask, match="221,327"):
        numbers.position(221_328)


def test_a_part_of_a_set_has_no_items_of_it() -> None:
    part = {("hotpotqa", "dev"): 80, ("musique", "dev"): 4_834}
    assert items(part).position(5) == 5  # tasks by number, as for any other data
    with pytest.raises(Problem, match="musique test, which is not whole here"):
        items(part | {("bamboogle", "test"): 125}).position(49_171)


def test_bamboogle_stands_at_the_end_of_the_tests(shared: Path) -> None:
    file = shared / "data" / "qa" / "bamboogle_125.jsonl"
    questions = open_question_set(file)
    numbers = Items(questions)
    first, last = (json.loads(file.read_text("utf-8").splitlines()[n]) for n in (0, -1))
    assert questions.question(numbers.position(51_588)).question == first["question"]
    assert questions.question(numbers.position(51_712)).question == last["question"]
