from __future__ import annotations

import hashlib
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym_suite.data import canonical_json
from agentgym_suite.errors import DataDamaged, UsageError
from agentgym_suite.paper_search import make
from agentgym_suite.paper_search.env import PaperSearchEnv
from agentgym_suite.paper_search.query_set import QuerySet
from agentgym_suite.paper_search.reward import PaperReward
from tests.paper_search.handmade import (
    BARE,
    BEACON,
    GLOW,
    LANTERN,
    LAST,
    LATE,
    MOSS,
    QUERIES,
    QUESTION,
    SURVEY,
    WICK,
    TableSelector,
    TableSource,
    handmade_env,
    handmade_queries,
    outcomes,
)

METRICS = {
    "f1_all", "recall_all", "precision_all", "f1_all_t0", "recall_all_t0", "crawler_recall",
    "recall_20", "recall_50", "recall_100", "search_calls", "expand_calls", "repeated_calls",
    "malformed_calls", "refused_calls", "invalid_expands", "pool_size", "new_papers", "expanded",
    "invalid_actions", "characters_cut",
}  # fmt: skip
FOUND = {
    "lanterns": [LANTERN, BEACON, GLOW, BARE, LATE, LAST],
    "moss": list(MOSS),
    "light": [SURVEY, LANTERN],
}


def found_env(queries: QuerySet, task: str = QUESTION, **kwargs: Any) -> PaperSearchEnv:
    return handmade_env(queries, task, papers=TableSource(FOUND), **kwargs)


def test_gymnasiums_checker_finds_nothing(queries: QuerySet) -> None:
    env = PaperSearchEnv(queries=queries, papers=TableSource(FOUND), selector=TableSelector())
    check_env(env, skip_render_check=True)


def test_the_searches_of_a_step_are_one_batch_and_equal_to_one_by_one(queries: QuerySet) -> None:
    together, alone = TableSource(FOUND), TableSource(FOUND)
    env = handmade_env(queries, papers=together)
    env.step("search[lanterns]\nsearch[LANTERNS]\nsearch[moss]\njunk\nsearch[zzz]\nfinish[]")
    assert [each[1] for each in together.asked] == [("lanterns", "moss", "zzz")]
    twin = handmade_env(queries, papers=alone, horizon=9)
    for query in ("lanterns", "moss", "zzz"):
        twin.step(f"search[{query}]")
    assert len(alone.asked) == 3
    assert [replace(entry, step=1) for entry in twin.state.pool] == list(env.state.pool)
    assert env.state.history == twin.state.history


def test_the_pool_tells_where_papers_came_from(queries: QuerySet) -> None:
    env = found_env(queries)
    env.step("search[lanterns]")
    env.step(f"expand[arXiv:{LANTERN}v2]")
    told = {entry.id: (entry.source, entry.origin, entry.step) for entry in env.state.pool}
    assert told[BEACON] == ("search", "lanterns", 1)
    assert told[WICK] == ("expand", LANTERN, 2)
    assert env.state.history == [("search", "lanterns"), ("expand", LANTERN)]


def test_dates_hide_papers_in_searches_and_expansions(queries: QuerySet) -> None:
    for cutoff, late, last in (
        ("query", False, True), (None, True, True), (20241001, False, True),
        ("2024-10-01", False, True), (20240930, False, False), ("2024-10", False, True),
        (20241002, True, True),
    ):  # fmt: skip
        env = found_env(queries, date_cutoff=cutoff)
        info = env.step(f"search[lanterns]\nexpand[{LANTERN}]")[4]
        assert (LATE in env.state.pool, LAST in env.state.pool) == (late, last), cutoff
        assert info["date_cutoff"] == (
            "20241001" if cutoff in ("query", "2024-10-01") else str(cutoff or "")
        )


def test_a_source_that_shows_the_future_is_not_believed(queries: QuerySet) -> None:
    class Careless(TableSource):
        def search_papers(self, queries: Any, k: int, before: int | None) -> Any:
            return super().search_papers(queries, k, None)

    env = handmade_env(queries, papers=Careless(FOUND))
    env.step("search[lanterns]")
    assert LATE not in env.state.pool and LAST in env.state.pool


def test_a_month_as_cutoff_hides_that_month(queries: QuerySet) -> None:
    env = found_env(queries, "small/test/q3")
    assert env.step("search[light]")[4]["date_cutoff"] == "2020-05"
    assert [entry.id for entry in env.state.pool] == [LANTERN]


def test_score_and_success_follow_the_delivered_papers(queries: QuerySet) -> None:
    scores = {LANTERN: 0.9, BEACON: 0.5, WICK: 0.49, GLOW: 0.7}
    env = found_env(queries, selector=TableSelector(scores, rest=0.02))
    info = env.step("search[lanterns]")[4]
    assert info["score"] == pytest.approx(2 / 3) == info["metrics"]["f1_all"]
    assert info["metrics"]["precision_all"] == pytest.approx(2 / 3)
    assert info["success"] is True
    info = env.step(f"expand[{LANTERN}]")[4]
    assert info["metrics"]["recall_all"] == pytest.approx(2 / 3)
    assert info["metrics"]["recall_all_t0"] == info["metrics"]["crawler_recall"] == 1.0
    strict = found_env(queries, selector=TableSelector(scores), success_f1=0.7)
    assert strict.step("search[lanterns]")[4]["success"] is False
    low = found_env(queries, selector=TableSelector(scores), deliver_threshold=0.95)
    assert low.step("search[lanterns]")[4]["score"] == 0.0


def test_missing_gold_counts_in_recall_and_titles_stand_in_for_ids(queries: QuerySet) -> None:
    source = TableSource({"a": [MOSS[0], WICK, GLOW]})
    env = handmade_env(queries, "small/test/q2", papers=source)
    assert env.step("search[a]")[4]["metrics"]["crawler_recall"] == pytest.approx(3 / 5)


def test_metrics_count_every_kind_of_call(queries: QuerySet) -> None:
    env = found_env(queries, max_calls=4)
    metrics = env.step(
        f"search[lanterns]\nsearch[lanterns]\njunk\nexpand[{LANTERN}]\nexpand[GPT]\nsearch[moss]\n"
        "finish[]\nsearch[x]"
    )[4]["metrics"]
    counts = {name: metrics[name] for name in METRICS if name.endswith(("calls", "expands"))}
    assert counts == {
        "search_calls": 1.0, "expand_calls": 1.0, "repeated_calls": 1.0, "malformed_calls": 1.0,
        "refused_calls": 2.0, "invalid_expands": 1.0,
    }  # fmt: skip
    assert (metrics["pool_size"], metrics["new_papers"], metrics["expanded"]) == (9.0, 8.0, 1.0)


def test_ten_thousand_malformed_lines_are_bounded_work(queries: QuerySet) -> None:
    env = found_env(queries)
    observation, reward, _, _, info = env.step("\n".join("x" for _ in range(8_000)))
    assert reward == -2.5 and len(outcomes(info)) == 6
    assert info["metrics"]["malformed_calls"] == 8_000.0
    assert "7,995 more lines are malformed" in observation
    many = env.step("x\n" * 10_000)
    assert "20,000 characters" in many[4]["action_error"] and many[1] == -0.5
    assert env.step("y" * 1_000_000)[4]["action_valid"] is False


def test_an_invalid_action_changes_only_the_feedback_and_the_step(queries: QuerySet) -> None:
    env = found_env(queries, horizon=20)
    _, _, _, _, before = env.step(f"search[lanterns]\nexpand[{GLOW}]")
    for action in ("junk", "", "search[LANTERNS]", f"expand[{GLOW}v1]", "expand[x]", "x" * 20_000):
        observation, reward, terminated, _, after = env.step(action)
        assert (reward, terminated, after["action_valid"]) == (-0.5, False, False)
        assert after["action_error"] and after["action_error"][:40] in observation
        assert after["pool"] == before["pool"]
        for key in ("search_calls", "expand_calls", "pool_size", "expanded", "f1_all"):
            assert after["metrics"][key] == before["metrics"][key]


@pytest.mark.parametrize(
    ("action", "status"),
    [
        ("search[" + "a" * 2048 + "]", "empty"),
        ("search[" + "a" * 2049 + "]", "malformed"),
        ("expand[" + "a" * 256 + "]", "unknown_id"),
        ("expand[" + "a" * 257 + "]", "malformed"),
        ("finish[x]", "malformed"),
        ("search[what is [x] in y[0]]", "empty"),
    ],
)
def test_arguments_have_bounds(queries: QuerySet, action: str, status: str) -> None:
    info = found_env(queries).step(action)[4]
    assert [told for told, _ in outcomes(info)] == [status]


def test_info_and_metrics_have_fixed_keys(queries: QuerySet) -> None:
    env = found_env(queries)
    _, first = env.reset(options={"task_id": QUESTION})
    actions = ("search[lanterns]", "junk", "", f"expand[{LANTERN}]\nfinish[]")
    for info in [first, *(env.step(action)[4] for action in actions)]:
        assert tuple(info) == env.info_keys and set(info["metrics"]) == METRICS
        assert {key: type(value) for key, value in info.items()} == {
            key: type(value) for key, value in first.items()
        }
        assert isinstance(json.loads(info["pool"]), list)
    assert first["calls"] == first["pool"] == "[]" and first["golds"] == ""
    assert first["query"] == QUERIES[0].query and first["task_family"] == "broad"


def test_the_pool_in_info_is_best_first_with_four_decimals(queries: QuerySet) -> None:
    env = found_env(queries, selector=TableSelector({BEACON: 0.123456}, rest=0.1))
    pool = json.loads(env.step("search[lanterns]")[4]["pool"])
    assert pool[0] == {"id": BEACON, "score": 0.1235}
    assert [each["id"] for each in pool[1:]] == sorted([LANTERN, GLOW, BARE, LAST])


def test_golds_are_told_after_the_end_alone(queries: QuerySet) -> None:
    env = found_env(queries, horizon=2)
    infos = [env.step(action)[4] for action in ("search[zzz]", "junk")]
    assert [info["golds"] for info in infos] == ["", json.dumps([LANTERN, BEACON, WICK])]
    env = found_env(queries)
    started = env.reset(options={"task_id": QUESTION})
    assert not any(gold in json.dumps(started, default=str) for gold in (LANTERN, BEACON, WICK))
    assert json.loads(env.step("finish[]")[4]["golds"]) == [LANTERN, BEACON, WICK]
    assert found_env(queries, horizon=None).step("junk")[4]["golds"] == ""


def test_provenance_names_data_index_selector_and_numbers(queries: QuerySet) -> None:
    env = PaperSearchEnv(
        queries=queries, papers=TableSource(FOUND), selector=TableSelector(), reward="paperscout",
        search_top_k=np.int64(7), date_cutoff=20240101,
    )  # fmt: skip
    told = json.loads(env.reset(options={"task_id": QUESTION})[1]["provenance"])
    assert (told["dataset"], told["split"]) == ("small", "train")
    assert told["data_digest"] == queries.digest and told["index_digest"] == "sha256:table"
    assert told["index"] == {"digest": "sha256:table", "kind": "table", "papers": 30}
    assert (told["retrieval"], told["encoder"]) == ("sparse", "")
    assert told["selector"] == {"name": "table", "digest": "sha256:scores"}
    assert told["reward"]["preset"] == "paperscout" and told["reward"]["search_cost"] == 0.1
    assert (told["search_top_k"], told["date_cutoff"]) == (7, "20240101")
    assert (told["deliver_threshold"], told["pool_order"]) == (0.5, "id")
    assert json.loads(env.reset(seed=1)[1]["provenance"])["split"] == "test"


def test_the_oracle_selector_is_labelled_and_takes_the_annotation(queries: QuerySet) -> None:
    env = found_env(queries, selector="oracle")
    told = json.loads(env.reset(options={"task_id": QUESTION})[1]["provenance"])
    assert told["selector"] == {"name": "oracle", "digest": ""}
    assert outcomes(env.step("search[lanterns]")[4]) == [("ok", 2.1)]
    assert [entry.id for entry in env.state.pool] == [LANTERN, BEACON]
    env.reset(options={"task_id": "small/test/q2"})
    env.step("search[moss]\nsearch[lanterns]")
    assert [entry.id for entry in env.state.pool] == [MOSS[0], MOSS[1]]


def test_the_state_hash_is_that_of_the_specification(queries: QuerySet) -> None:
    env = found_env(queries, selector=TableSelector({LANTERN: 0.666, GLOW: 0.7}, rest=0.0))
    info = env.step(f"search[lanterns]\nexpand[{GLOW}]")[4]
    state = {
        "task": QUESTION,
        "step": 1,
        "history": [["search", "lanterns"], ["expand", GLOW]],
        "pool": [[LANTERN, "0.67", False], [GLOW, "0.70", True]],
        "finished": False,
    }
    assert info["state_hash"] == hashlib.sha256(canonical_json(state).encode()).hexdigest()
    near = found_env(queries, selector=TableSelector({LANTERN: 0.667, GLOW: 0.7}, rest=0.0))
    twin = near.step(f"search[lanterns]\nexpand[{GLOW}]")[4]
    assert twin["state_hash"] == info["state_hash"] and twin["pool"] != info["pool"]
    assert env.step("finish[]")[4]["state_hash"] != near.step("junk")[4]["state_hash"]


LINES = st.sampled_from(
    ["search[lanterns]", "Search[ moss ]", "search[LANTERNS]", "search[zzz]", "junk", "",
     "search[]", f"expand[{LANTERN}]", f"expand[arXiv:{LANTERN}v2]", f"expand[{GLOW}]",
     "expand[nothing]", "finish[]", "x search[a]", "click[a]", "search[a]]", "finish[a]"]
)  # fmt: skip
ACTIONS = st.lists(LINES | st.text(max_size=6), max_size=8).map("\n".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.lists(ACTIONS, min_size=1, max_size=5), st.sampled_from(["paper", "steppo"]))
def test_parsed_actions_replay_exactly(queries: QuerySet, actions: list[str], reward: str) -> None:
    env, twin = (found_env(queries, reward=reward) for _ in range(2))
    for action in actions:
        left = env.step(action.encode("utf-8", "replace").decode("utf-8"))
        right = twin.step(left[4]["parsed_action"])
        same = ("calls", "metrics", "state_hash", "action_valid", "action_error", "pool")
        assert left[:4] == right[:4]
        assert {key: left[4][key] for key in same} == {key: right[4][key] for key in same}
        assert left[1] == pytest.approx(sum(paid for _, paid in outcomes(left[4])))
        assert left[1] >= -2.5
        if left[2]:
            break


def test_an_empty_query_is_refused_with_its_id(tmp_path: Path) -> None:
    empty = handmade_queries(tmp_path / "queries", [replace(QUERIES[1], query=" ")])
    env = PaperSearchEnv(queries=empty, papers=TableSource(), selector="oracle")
    with pytest.raises(DataDamaged, match="small/test/q2 has an empty query"):
        env.reset(seed=1)
    with pytest.raises(UsageError, match="call reset"):
        env.state  # noqa: B018


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"topk": 3}, "topk"),
        ({"max_calls": 0}, "max_calls"),
        ({"max_calls": True}, "max_calls"),
        ({"search_top_k": 2.5}, "search_top_k"),
        ({"citations_limit": -1}, "citations_limit"),
        ({"references_limit": 2_000}, "references_limit"),
        ({"deliver_threshold": 1.5}, "deliver_threshold"),
        ({"success_f1": "0.5"}, "success_f1"),
        ({"date_cutoff": "yesterday"}, "date_cutoff"),
        ({"date_cutoff": 20241301}, "date_cutoff"),
        ({"date_cutoff": True}, "date_cutoff"),
        ({"date_cutoff": ""}, "date_cutoff"),
        ({"date_cutoff": 1.5}, "date_cutoff"),
        ({"retrieval": "bm25"}, "'sparse', 'dense' or 'hybrid'"),
        ({"selector": "gpt"}, "lexical"),
        ({"selector": ""}, "lexical"),
        ({"selector": 3}, "name of a selector"),
        ({"selector": TableSelector}, "the class TableSelector"),
        ({"selector": "local"}, "local:MODEL"),
        ({"selector": "local:"}, "local:MODEL"),
        ({"selector": "lexical:x"}, "lexical"),
        ({"queries": 3}, "queries is 3"),
        ({"queries": QuerySet}, "queries is"),
        ({"papers": 3}, "papers is 3"),
        ({"papers": TableSource}, "papers is"),
        ({"date_cutoff": "20190101T99"}, "date_cutoff"),
        ({"reward": "ppo"}, "paper, steppo, paperscout"),
        ({"pool_order": "score"}, "steppo"),
        ({"pool_threshold": -1}, "pool_threshold"),
        ({"observation_format": "chat"}, "steppo"),
        ({"index": 3}, "http address"),
        ({"index": " "}, "http address"),
        ({"render_mode": "human"}, "ansi"),
    ],
)
def test_wrong_arguments_name_what_there_is(wrong: dict[str, Any], named: str) -> None:
    for maker in (PaperSearchEnv, make):
        with pytest.raises(UsageError, match=named):
            maker(**wrong)


def test_given_parts_stay_the_callers_and_own_ones_are_closed(
    queries: QuerySet, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = TableSource(FOUND)
    handmade_env(queries, papers=given).close()
    assert not given.closed
    own = TableSource(FOUND)
    monkeypatch.setattr("agentgym_suite.paper_search.env.open_source", lambda *_: own)
    env = handmade_env(queries, papers=None)
    env.close()
    env.close()
    assert own.closed == 1
    env.reset(seed=1)  # opens again


def test_pickles_by_its_arguments(queries: QuerySet) -> None:
    env = PaperSearchEnv(
        queries=queries, papers=TableSource(FOUND), selector=TableSelector(),
        reward=PaperReward(search_cost=0.1),
    )  # fmt: skip
    twin = pickle.loads(pickle.dumps(env))
    assert twin.reset(seed=4)[0] == env.reset(seed=4)[0]
    assert twin.step("search[moss]")[:4] == env.step("search[moss]")[:4]


def test_random_actions_are_never_refused(queries: QuerySet) -> None:
    rng = np.random.Generator(np.random.PCG64(0))
    expanded = 0
    for _ in range(20):
        env = found_env(queries, horizon=8)
        env.step("search[lanterns]")
        for _ in range(7):
            action = env.random_action(rng)
            expanded += action.startswith("expand[")
            _, _, terminated, _, info = env.step(action)
            assert info["action_valid"], info["action_error"]
            if terminated:
                break
    assert expanded


def test_a_long_observation_is_whole(queries: QuerySet) -> None:
    source = TableSource(FOUND | {f"q{n:04}" * 400: [MOSS[n % 19]] for n in range(25)})
    env = handmade_env(queries, papers=source)
    for step in range(5):
        lines = (f"search[{f'q{n:04}' * 400}]" for n in range(5 * step, 5 * step + 5))
        observation, *_, info = env.step("\n".join(lines))
    assert info["metrics"]["characters_cut"] == 0.0 and observation in env.observation_space
