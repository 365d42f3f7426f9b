"""The policies on the literature made by hand, and how hard the embedded one is for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

from agentgym_suite.agents import AGENTS
from agentgym_suite.episodes import EpisodeRequest
from agentgym_suite.game import Policy
from agentgym_suite.paper_search.env import PaperSearchEnv
from agentgym_suite.paper_search.policies import fresh_ids
from agentgym_suite.paper_search.query_set import QuerySet
from agentgym_suite.playing import run_episode
from tests.paper_search.handmade import (
    BEACON,
    GLOW,
    LANTERN,
    LATE,
    MOSS,
    QUERIES,
    QUESTION,
    SURVEY,
    TORCH,
    TableSelector,
    TableSource,
    handmade_env,
)

FOUND = {
    QUERIES[0].query: [LANTERN, LATE],
    QUERIES[1].query: [MOSS[0]],
    "lantern parsing": [BEACON, GLOW],
}


def actions(env: PaperSearchEnv, agent: str, task: str = QUESTION) -> list[str]:
    limited = TimeLimit(env, env.horizon or 5)
    episode = run_episode(limited, AGENTS[agent], EpisodeRequest(task, seed=1))
    assert episode.failure is None and all(step.valid for step in episode.steps)
    return [step.action for step in episode.steps]


def test_the_oracle_searches_expands_and_finishes(queries: QuerySet) -> None:
    env = handmade_env(queries, papers=TableSource(FOUND), selector="oracle")
    assert actions(env, "oracle") == [f"search[{QUERIES[0].query}]\nexpand[{LANTERN}]\nfinish[]"]
    assert env.state.metrics(0.5)["f1_all"] == 1.0


def test_the_oracle_finishes_where_nothing_leads_on(queries: QuerySet) -> None:
    env = handmade_env(queries, papers=TableSource({}), selector="oracle")
    assert actions(env, "oracle") == ["finish[]"]
    env = handmade_env(queries, papers=TableSource(FOUND), selector="oracle")
    assert actions(env, "oracle", "small/test/q2") == ["search[moss on stone]\nfinish[]"]


def test_the_oracle_keeps_to_the_calls_of_a_step_and_takes_over(queries: QuerySet) -> None:
    env = handmade_env(queries, papers=TableSource(FOUND), selector="oracle", max_calls=1)
    expected = [f"search[{QUERIES[0].query}]", f"expand[{LANTERN}]", "finish[]"]
    assert actions(env, "oracle") == expected
    observation, info = env.reset(options={"task_id": QUESTION})
    observation, *_, info = env.step(f"search[{QUERIES[0].query}]")
    assert env.policy("oracle")(observation, info) == f"expand[{LANTERN}]"


def test_the_oracle_leaves_papers_alone_that_the_selector_drops(queries: QuerySet) -> None:
    selector = TableSelector({LANTERN: 0.9}, rest=0.0)
    env = handmade_env(queries, papers=TableSource(FOUND), selector=selector)
    assert actions(env, "oracle") == [f"search[{QUERIES[0].query}]\nexpand[{LANTERN}]\nfinish[]"]


def test_the_script_searches_clauses_and_expands_what_it_sees(queries: QuerySet) -> None:
    env = handmade_env(queries, papers=TableSource(FOUND), horizon=3)
    first, second, third = actions(env, "scripted")
    assert first.split("\n")[0] == f"search[{QUERIES[0].query}]"
    assert second == f"expand[{LANTERN}]"
    assert set(third.split("\n")) >= {f"expand[{BEACON}]", f"expand[{TORCH}]"}
    nothing = handmade_env(queries, papers=TableSource({}))
    assert actions(nothing, "scripted")[1:] == ["finish[]"]


def test_fresh_ids_are_read_from_the_pool_alone(queries: QuerySet) -> None:
    env = handmade_env(queries, papers=TableSource({"(0.99) [NEW] x": [LANTERN, SURVEY]}))
    env.step("search[(0.99) [NEW] x]")
    env.step(f"expand[{LANTERN}]")
    fresh = fresh_ids(env._observation)
    assert LANTERN not in fresh and "Search" not in fresh and SURVEY in fresh
    steppo = handmade_env(
        queries, papers=TableSource({"x": [LANTERN]}), observation_format="steppo"
    )
    assert fresh_ids(steppo.step("search[x]")[0]) == [LANTERN]
    assert fresh_ids("") == []


# --- the embedded literature


@pytest.fixture(scope="module")
def embedded() -> Iterator[Callable[[str], PaperSearchEnv]]:
    made: dict[str, PaperSearchEnv] = {}

    def of(selector: str) -> PaperSearchEnv:
        if selector not in made:
            made[selector] = PaperSearchEnv(selector=selector)
            made[selector].horizon = 5
        return made[selector]

    yield of
    for env in made.values():
        env.close()


def figures(
    env: PaperSearchEnv, policy_for: Callable[[int], Policy], splits: tuple[str, ...], stride: int
) -> list[dict[str, float]]:
    """The metrics at the end of an episode of every so many tasks of some splits."""
    found = []
    for split in splits:
        for index in list(env.tasks.split(split))[::stride]:
            observation, info = env.reset(seed=index, options={"task_id": index})
            policy = policy_for(index)
            while info["steps_left"] and not env.state.finished:
                observation, *_, info = env.step(policy(observation, info))
                assert info["action_valid"] and not info["metrics"]["characters_cut"]
            found.append(info["metrics"] | {"steps": float(info["step"])})
    return found


def mean(found: list[dict[str, float]], name: str) -> float:
    return fmean(each[name] for each in found)


def test_the_oracle_finds_everything_with_the_oracle_selector(
    embedded: Callable[[str], PaperSearchEnv],
) -> None:
    env = embedded("oracle")
    splits = ("dev", "test", "auto_dev", "auto_test")
    found = figures(env, lambda _: env.policy("oracle"), splits, 1)
    found += figures(env, lambda _: env.policy("oracle"), ("train", "auto_train"), 20)
    assert min(each["crawler_recall"] for each in found) >= 0.95
    assert {each["precision_all"] for each in found} == {1.0}
    assert mean(found, "f1_all") >= 0.99 and mean(found, "expand_calls") >= 1.0


def test_expansion_makes_a_gap(embedded: Callable[[str], PaperSearchEnv]) -> None:
    """What searches for the query and its clauses find, and what expansions add."""
    env = embedded("oracle")

    def only_searches(_: int) -> Policy:
        script = env.policy("scripted")
        return lambda seen, info: "finish[]" if info["step"] else script(seen, info)

    without = figures(env, only_searches, ("test",), 1)
    with_them = figures(env, lambda _: env.policy("scripted"), ("test",), 1)
    assert mean(without, "crawler_recall") <= 0.6
    assert mean(with_them, "crawler_recall") >= mean(without, "crawler_recall") + 0.2


@pytest.mark.parametrize("selector", ["lexical", "oracle"])
def test_random_play_scores_little(
    embedded: Callable[[str], PaperSearchEnv], selector: str
) -> None:
    env = embedded(selector)

    def at_random(seed: int) -> Policy:
        rng = np.random.Generator(np.random.PCG64(seed))
        return lambda *_: env.random_action(rng)

    assert mean(figures(env, at_random, ("test",), 2), "f1_all") < 0.2


def test_official_queries_play_on_their_corpus(shared: Any, fresh_home: Any) -> None:
    """LitSearch: the script plays, and the oracle finds what stands in the corpus."""
    folder = shared / "data" / "papers"
    env = PaperSearchEnv(
        [folder / name for name in
         ("litsearch_queries.jsonl", "corpus.jsonl.xz", "citations.tsv.xz")],
        selector="oracle",
    )  # fmt: skip
    env.horizon = 5
    found = figures(env, lambda _: env.policy("oracle"), ("test",), 4)
    assert len(env.tasks) == 170 and mean(found, "crawler_recall") >= 0.95
    assert {each["precision_all"] for each in found if each["pool_size"]} == {1.0}
    env.close()
