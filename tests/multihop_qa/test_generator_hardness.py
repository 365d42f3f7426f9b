"""How hard the embedded world is: too hard for one search, not for following the hops."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest

from agentgym_suite.multihop_qa.generator import DEFAULT_SEED, SIZES
from agentgym_suite.multihop_qa.generator.growing import grow_world
from agentgym_suite.multihop_qa.generator.tables import load_tables
from agentgym_suite.multihop_qa.generator.world import World
from agentgym_suite.multihop_qa.scorers import normalise
from tests.multihop_qa.embedded_world import (
    SPLITS,
    Files,
    Row,
    Search,
    embedded_files,
    gold_passages,
)

STEPS, SEARCHES_A_STEP = 5, 4


@pytest.fixture(scope="module")
def files() -> Files:
    return embedded_files()


@pytest.fixture(scope="module")
def search(files: Files) -> Iterator[Search]:
    search = Search(files.lines("corpus_titles.jsonl"))
    yield search
    search.close()


def test_one_search_with_the_question_seldom_finds_everything(files: Files, search: Search) -> None:
    rows = files.rows("2wiki", "dev")
    found = sum(set(gold_passages(row)) <= set(search.top(row["question"])) for row in rows)
    assert 0.02 * len(rows) < found <= 0.35 * len(rows)


def test_it_is_the_chains_that_one_search_does_not_find(files: Files, search: Search) -> None:
    rows = [row for row in files.rows("2wiki", "dev") if row["type"] == "compositional"]
    found = sum(set(gold_passages(row)) <= set(search.top(row["question"])) for row in rows)
    assert found <= 0.1 * len(rows)


def answer_type(row: Row, world: World) -> str:
    """What kind of thing is asked for: yes or no, a year, a height, a person, a city …"""
    if row["answer_id"] is None:
        return "yes or no"
    number = int(row["answer_id"][1:]) - 1
    if row["answer_id"].startswith("V"):
        return world.relations[world.facts[number].relation].range
    return world.entities[number].kind


@pytest.fixture(scope="module")
def world() -> World:
    return grow_world(load_tables(), SIZES["small"], DEFAULT_SEED)


@pytest.mark.parametrize("split", ["dev", "test"])
def test_the_most_frequent_answer_of_the_right_type_is_seldom_right(
    files: Files, world: World, split: str
) -> None:
    answers: dict[str, Counter[str]] = defaultdict(Counter)
    for row in files.rows("2wiki", "train"):
        answers[answer_type(row, world)][row["answer"]] += 1
    favourites = {kind: counts.most_common(1)[0][0] for kind, counts in answers.items()}
    assert len(favourites) > 12
    assert share_right(favourites, files.rows("2wiki", split), world) < 0.1


@pytest.mark.parametrize("split", SPLITS)
def test_the_most_mentioned_entity_of_the_right_type_is_seldom_right(
    files: Files, world: World, split: str
) -> None:
    favourites = {"yes or no": "no"}
    for kind, numbers in world.kinds.items():
        favourites[kind] = world.entities[max(numbers, key=lambda n: len(world.tellers[n]))].title
    assert share_right(favourites, files.rows("2wiki", split), world) < 0.1


def share_right(favourites: dict[str, str], rows: list[Row], world: World) -> float:
    right = [favourites.get(answer_type(row, world)) == row["answer"] for row in rows]
    return right.count(True) / len(rows)


def play(row: Row, search: Search) -> str:
    """Follow the hops; each query is a name that stands in what was read, and the relation's words.

    It is told the relations, and what the values that it reads are called canonically.
    """
    read = [normalise(row["question"])]
    hops = list(zip(row["evidences"], gold_passages(row), strict=True))
    for _ in range(STEPS - 1):  # the last step is for the answer
        in_reach = [hop for hop in hops if any(normalise(hop[0][0]) in text for text in read)]
        for (subject, relation, _), gold in in_reach[:SEARCHES_A_STEP]:
            if gold in search.top(f"{subject} {relation}"):
                hops = [hop for hop in hops if hop[1] != gold]
                read.append(normalise(gold[1]))
    return "" if hops else str(row["answer"])


@pytest.mark.parametrize("split", SPLITS)
def test_following_the_hops_by_real_searches_answers_every_question(
    files: Files, search: Search, split: str
) -> None:
    rows = files.rows("2wiki", split)
    missed = [row["question"] for row in rows if play(row, search) != row["answer"]]
    assert not missed
