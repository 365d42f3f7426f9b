"""Every rule of a step in its order, and what the presets make of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.errors import RetrievalError, UsageError
from agentgym_suite.paper_search.query_set import QuerySet
from agentgym_suite.paper_search.reward import (
    PAPER_PRESETS,
    Outcome,
    PaperReward,
    Payment,
    find_preset,
    pay,
)
from tests.paper_search.handmade import (
    BARE,
    BEACON,
    EMBER,
    GLOW,
    LANTERN,
    LAST,
    LATE,
    MOSS,
    OLD_YEAR,
    TORCH,
    WICK,
    TableSelector,
    TableSource,
    handmade_env,
    outcomes,
)

SCORES = {
    LANTERN: 0.9, BEACON: 0.8, GLOW: 0.7, WICK: 0.6, EMBER: 0.5, TORCH: 0.4, MOSS[0]: 0.009,
    MOSS[1]: 0.01,
}  # fmt: skip
FOUND = {
    "lanterns": [LANTERN, BEACON, GLOW, BARE],
    "again": [LANTERN, LANTERN],
    "low": [MOSS[0]],
    "floor": [MOSS[0], MOSS[1]],
    "late": [LATE, LAST],
    **{f"moss {n}": [MOSS[n]] for n in range(2, 9)},
}
BARE_REWARD = PaperReward(format_reward=0.0)
FOUR = ("ok", 2.4)  # the best three of four: 0.9 + 0.8 + 0.7


def played(queries: QuerySet, *actions: str, **kwargs: Any) -> list[tuple[str, float]]:
    kwargs.setdefault("papers", TableSource(FOUND))
    kwargs.setdefault("selector", TableSelector(SCORES))
    kwargs.setdefault("reward", BARE_REWARD)
    env = handmade_env(queries, horizon=None, **kwargs)
    for action in actions:
        _, reward, _, _, info = env.step(action)
        assert reward == pytest.approx(sum(paid for _, paid in outcomes(info)), abs=1e-12)
    return outcomes(info)


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        # search: 1 a query that was used
        (["search[lanterns]\nsearch[Lanterns ]"], [FOUR, ("repeated", -0.5)]),
        (["search[lanterns]", "search[ＬＡＮＴＥＲＮＳ]"], [("repeated", -0.5)]),
        (["search[lanterns]", "search[low]", "search[lanterns]"], [("repeated", -0.5)]),
        # 2 it is used up although nothing came back
        (["search[zzz]\nsearch[zzz]"], [("empty", 0.0), ("repeated", -0.5)]),
        # 3 what is in the pool is no candidate, and twice in one list counts once
        (["search[again]\nsearch[lanterns]"], [("ok", 0.9), ("ok", 1.8)]),
        (["search[lanterns]\nsearch[again]"], [FOUR, ("ok", 0.0)]),
        # 5 scores below the floor do not enter
        (["search[low]"], [("ok", 0.0)]),
        (["search[floor]"], [("ok", 0.01)]),
        (["search[low]\nexpand[" + MOSS[0] + "]"], [("ok", 0.0), ("unknown_id", -0.5)]),
        # 6 the three best are paid
        (["search[lanterns]"], [FOUR]),
        # the date comes before everything
        (["search[late]"], [("ok", 0.3)]),
        ([f"search[late]\nexpand[{LATE}]"], [("ok", 0.3), ("unknown_id", -0.5)]),
        # expand: 1 no id, not in the pool, expanded before under whatever spelling
        ([f"expand[{LANTERN}]"], [("unknown_id", -0.5)]),
        (["search[lanterns]\nexpand[GPT]"], [FOUR, ("unknown_id", -0.5)]),
        ([f"search[lanterns]\nexpand[{TORCH}]"], [FOUR, ("unknown_id", -0.5)]),
        (
            [f"search[lanterns]\nexpand[{LANTERN}]\nexpand[https://arxiv.org/abs/{LANTERN}v7]"],
            [FOUR, ("ok", 1.5), ("already_expanded", -0.5)],
        ),
        ([f"search[lanterns]\nexpand[{LANTERN}]", f"expand[arXiv:{LANTERN}]"],
         [("already_expanded", -0.5)]),
        # 2 it is marked although nothing comes back
        ([f"search[late]\nexpand[{LAST}]\nexpand[{LAST}]"],
         [("ok", 0.3), ("empty", 0.0), ("already_expanded", -0.5)]),
        # 3 an earlier call of the same step is visible, and has the credit of what both find
        ([f"search[lanterns]\nexpand[{LANTERN}]"], [FOUR, ("ok", 1.5)]),
        ([f"search[again]\nexpand[{LANTERN}]\nsearch[lanterns]"],
         [("ok", 0.9), ("ok", 2.1), ("ok", 0.3)]),
        ([f"search[again]\nexpand[{LANTERN}]\nexpand[{GLOW}]"],
         [("ok", 0.9), ("ok", 2.1), ("ok", 0.0)]),
        ([f"expand[{LANTERN}]\nsearch[again]\nexpand[{LANTERN}]"],
         [("unknown_id", -0.5), ("ok", 0.9), ("ok", 2.1)]),
        # malformed lines, an empty argument, an empty action
        ([""], [("malformed", -0.5)]),
        (["search[]"], [("malformed", -0.5)]),
        (["expand[ ]\njunk\nfinish[now]\nclick[x]\nx search[a]"], [("malformed", -0.5)] * 5),
        (["junk\nsearch[lanterns]"], [("malformed", -0.5), FOUR]),
        # the end, and what is behind it
        (["finish[]"], [("ok", 0.0)]),
        (["search[again]\nFINISH[]\nsearch[lanterns]"],
         [("ok", 0.9), ("ok", 0.0), ("after_end", 0.0)]),
        # over the limit: no reward, no penalty, no trace
        (["\n".join(f"search[moss {n}]" for n in range(2, 8))],
         [("ok", 0.3)] * 5 + [("over_limit", 0.0)]),
        (["\n".join(f"search[moss {n}]" for n in range(2, 8)), "search[moss 7]"], [("ok", 0.3)]),
        (["\n".join([f"search[moss {n}]" for n in range(2, 7)] + ["finish[]"])],
         [("ok", 0.3)] * 5 + [("ok", 0.0)]),
    ],
)  # fmt: skip
def test_every_rule_in_its_order(
    queries: QuerySet, actions: list[str], expected: list[tuple[str, float]]
) -> None:
    told = played(queries, *actions)
    assert [status for status, _ in told] == [status for status, _ in expected]
    assert [paid for _, paid in told] == pytest.approx([paid for _, paid in expected])


def test_an_expansion_skips_itself_the_future_and_papers_without_abstract(
    queries: QuerySet,
) -> None:
    selector = TableSelector()
    env = handmade_env(queries, papers=TableSource(FOUND), selector=selector)
    info = env.step(f"search[again]\nexpand[{LANTERN}]")[4]
    new = json.loads(info["calls"])[1]["new_ids"]
    assert new == [BEACON, GLOW, TORCH, WICK, EMBER, OLD_YEAR]  # citing first, no BARE, no LATE
    assert selector.asked == [
        ("Which papers study lantern parsing?", (LANTERN,)),
        ("Which papers study lantern parsing?", tuple(new)),
    ]


def test_a_search_scores_papers_without_abstract(queries: QuerySet) -> None:
    env = handmade_env(queries, papers=TableSource(FOUND))
    env.step("search[lanterns]")
    assert BARE in env.state.pool


def test_limits_reach_the_source(queries: QuerySet) -> None:
    source = TableSource(FOUND)
    env = handmade_env(
        queries, papers=source, search_top_k=2, citations_limit=1, references_limit=0
    )
    env.step(f"search[lanterns]\nsearch[again]\nexpand[{LANTERN}]")
    assert source.asked == [
        ("search", ("lanterns", "again"), 2, 20241001),
        ("citing", LANTERN, 1, 20241001),
    ]
    assert [entry.id for entry in env.state.pool] == [LANTERN, BEACON]


def test_costs_are_paid_only_by_calls_that_add_papers(queries: QuerySet) -> None:
    costly = PaperReward(format_reward=0.0, search_cost=0.1, expand_cost=0.05)
    told = played(
        queries,
        f"search[lanterns]\nsearch[zzz]\nsearch[low]\nexpand[{LANTERN}]\nexpand[{BEACON}]",
        reward=costly,
    )
    assert [paid for _, paid in told] == pytest.approx([2.3, 0.0, 0.0, 1.45, 0.0])


def test_paperscout_counts_accepted_papers(queries: QuerySet) -> None:
    told = played(
        queries, f"search[late]\nsearch[lanterns]\nexpand[{LANTERN}]", reward="paperscout"
    )
    assert [paid for _, paid in told] == pytest.approx([-0.1, 2.9, 2.95])


def test_the_best_three_may_be_those_of_the_step(queries: QuerySet) -> None:
    whole = PaperReward(format_reward=0.0, top_k_scope="step", search_cost=0.1)
    action = f"search[again]\nexpand[{LANTERN}]\nsearch[moss 2]"
    assert [paid for _, paid in played(queries, action, reward=whole)] == pytest.approx(
        [0.8, 1.5, -0.1]
    )
    ties = [Outcome("search", "ok", (0.5, 0.5)), Outcome("search", "ok", (0.5, 0.5))]
    paid = pay(ties, PaperReward(top_k_scope="step"), paid_before=9, most_penalties=5)
    assert [payment.papers for payment in paid] == [1.0, 0.5]


def test_format_rewards_are_tenths_up_to_the_cap_for_calls_that_were_carried_out(
    queries: QuerySet,
) -> None:
    env = handmade_env(queries, papers=TableSource(FOUND), selector=TableSelector(rest=0.0))
    rewards = [
        env.step(action)[1]
        for action in ("search[zzz]\nsearch[lanterns]", "finish[x]\nsearch[zzz]")
    ]
    assert rewards == [0.2, -1.0]
    info = env.step("\n".join(f"search[y{n}]" for n in range(5)))[4]
    assert [paid for _, paid in outcomes(info)] == [0.1, 0.1, 0.1, 0.0, 0.0]
    assert outcomes(env.step("search[more]\nfinish[]")[4]) == [("empty", 0.0), ("ok", 0.0)]


def test_no_step_of_the_paper_is_worse_than_five_penalties(queries: QuerySet) -> None:
    for action in ("x\n" * 2_000, "\n".join(["expand[a]"] * 9), "x\n" * 5 + "expand[a]\n" * 5):
        assert handmade_env(queries).step(action)[1] == -2.5
    mixed = outcomes(handmade_env(queries).step("expand[a]\n" * 4 + "x\n" * 4)[4])
    assert [paid for _, paid in mixed] == [-0.5] * 5 + [0.0] * 3


STATUS = st.sampled_from(
    ["ok", "empty", "repeated", "malformed", "unknown_id", "already_expanded", "over_limit",
     "after_end"]
)  # fmt: skip
OUTCOMES = st.builds(
    lambda status, kept: Outcome("search", status, tuple(kept) if status == "ok" else ()),
    STATUS,
    st.lists(st.floats(0.01, 1.0), max_size=6),
)


@given(st.lists(OUTCOMES, max_size=12), st.integers(0, 30))
def test_payments_stay_in_their_bounds(done: list[Outcome], before: int) -> None:
    paid = pay(done, PaperReward(), paid_before=before, most_penalties=5)
    assert len(paid) == len(done)
    assert -2.5 <= sum(payment.penalty for payment in paid) <= 0.0
    assert 0.0 <= sum(payment.format for payment in paid) <= 0.5
    for payment, outcome in zip(paid, done, strict=True):
        assert 0.0 <= payment.papers <= 3.0
        assert payment.papers == pytest.approx(sum(sorted(outcome.kept)[-3:]))
        assert payment.total == 0.0 or outcome.status not in ("over_limit", "after_end")


def test_parts_are_told(queries: QuerySet) -> None:
    costly = PaperReward(search_cost=0.1)
    env = handmade_env(
        queries, papers=TableSource(FOUND), selector=TableSelector(SCORES), reward=costly
    )
    calls = json.loads(env.step("search[lanterns]\njunk")[4]["calls"])
    assert calls[0]["parts"] == {"papers": 2.4, "cost": -0.1, "format": 0.1, "penalty": 0.0}
    assert calls[0]["reward"] == 2.4 and calls[1]["parts"]["penalty"] == -0.5


# --- presets


def test_the_presets_are_the_table_of_the_specification() -> None:
    paper, steppo, scout = (PAPER_PRESETS[name] for name in ("paper", "steppo", "paperscout"))
    assert paper.reward == PaperReward(
        format_reward=0.1, format_cap=0.5, top_k_reward=3, top_k_scope="call", search_cost=0.0,
        expand_cost=0.0, accepted_from=None, score_floor=0.01, repeat_penalty=-0.5,
        invalid_expand_penalty=-0.5, malformed_penalty=-0.5, exact_repeats=False,
        no_call_ends=False, selector_failure="error", backend_failure="error",
    )  # fmt: skip
    assert steppo.reward == PaperReward(
        format_reward=0.0, format_cap=None, malformed_penalty=0.0, exact_repeats=True,
        no_call_ends=True, selector_failure="zero", backend_failure="empty",
    )  # fmt: skip
    assert scout.reward == PaperReward(
        format_reward=0.0, format_cap=None, search_cost=0.1, expand_cost=0.05, accepted_from=0.4,
        malformed_penalty=0.0, selector_failure="zero", backend_failure="empty",
    )  # fmt: skip
    assert (paper.pool_order, steppo.pool_order, scout.pool_order) == ("id", "steppo", "id")


def test_steppo_compares_queries_by_their_characters(queries: QuerySet) -> None:
    told = played(queries, "search[low]\nsearch[LOW]\nsearch[low]", reward="steppo")
    assert told == [("ok", 0.0), ("empty", 0.0), ("repeated", -0.5)]


def test_steppo_pays_nothing_for_malformed_lines(queries: QuerySet) -> None:
    told = played(queries, "junk\nsearch[]\nsearch[lanterns]", reward="steppo")
    assert told == [("malformed", 0.0), ("malformed", 0.0), ("ok", pytest.approx(2.4))]


@pytest.mark.parametrize("action", ["", "I am done.", "junk\n\nmore"])
def test_steppo_ends_at_an_action_without_a_call(queries: QuerySet, action: str) -> None:
    env = handmade_env(queries, reward="steppo")
    _, reward, terminated, _, info = env.step(action)
    assert (reward, terminated, info["action_valid"]) == (0.0, True, True)
    assert info["parsed_action"] == "finish[]" and outcomes(info) == [("ok", 0.0)]
    assert not handmade_env(queries).step(action)[2]
    assert not handmade_env(queries, reward="steppo").step("search[]")[2]  # a call, if malformed


def test_a_failing_selector_is_an_error_or_scores_nothing(queries: QuerySet) -> None:
    for reward, error in (("paper", True), ("steppo", False), ("paperscout", False)):
        selector = TableSelector(SCORES)
        source = TableSource(FOUND)
        env = handmade_env(queries, papers=source, selector=selector, reward=reward)
        selector.broken = True
        if error:
            with pytest.raises(RetrievalError, match="selector is gone"):
                env.step("search[lanterns]")
            assert not env.state.history and not len(env.state.pool)
        else:
            assert outcomes(env.step("search[lanterns]")[4]) == [("ok", 0.0)]
            assert not len(env.state.pool)


def test_a_failing_index_is_an_error_or_finds_nothing(queries: QuerySet) -> None:
    for reward, error in (("paper", True), ("steppo", False), ("paperscout", False)):
        env = handmade_env(
            queries, papers=TableSource(FOUND), selector=TableSelector(SCORES), reward=reward
        )
        if error:
            with pytest.raises(RetrievalError, match="index is gone"):
                env.step("search[lanterns]\nsearch[unreachable]")
            assert not len(env.state.pool) and not env.state.history
            continue
        told = outcomes(env.step("search[lanterns]\nsearch[unreachable]\nsearch[unreachable]")[4])
        assert [status for status, _ in told] == ["ok", "empty", "repeated"]
        env.papers.broken = True  # type: ignore[attr-defined]
        told = outcomes(env.step(f"expand[{LANTERN}]\nexpand[{LANTERN}]")[4])
        assert told == [("empty", 0.0), ("already_expanded", -0.5)]


def test_a_failure_in_the_middle_of_a_step_changes_nothing(queries: QuerySet) -> None:
    source = TableSource(FOUND)
    env = handmade_env(queries, papers=source)
    _, _, _, _, before = env.step("search[again]")
    source.broken = True
    with pytest.raises(RetrievalError):
        env.step(f"junk\nexpand[{LANTERN}]")
    source.broken = False
    assert not any(entry.expanded for entry in env.state.pool)
    after = env.step("junk")[4]
    assert after["metrics"]["expand_calls"] == 0.0 and after["metrics"]["malformed_calls"] == 1.0
    assert after["pool"] == before["pool"] and after["step"] == 2


@pytest.mark.parametrize("scores", [[], [0.1, 0.2, 0.3], [float("nan")]])
def test_a_selector_that_miscounts_is_an_error(queries: QuerySet, scores: list[float]) -> None:
    class Odd(TableSelector):
        def score(self, query: str, papers: Any) -> list[float]:
            return scores

    env = handmade_env(queries, papers=TableSource(FOUND), selector=Odd())
    with pytest.raises(RetrievalError, match="the selector table gave .*mend it"):
        env.step("search[again]")


@pytest.mark.parametrize(
    "wrong",
    [
        {"format_reward": float("nan")}, {"format_cap": -0.1}, {"top_k_reward": 1.5},
        {"top_k_reward": -1}, {"top_k_scope": "episode"}, {"search_cost": None},
        {"exact_repeats": 1}, {"selector_failure": "ignore"}, {"repeat_penalty": True},
        {"accepted_from": "0.4"}, {"backend_failure": None},
    ],
)  # fmt: skip
def test_wrong_numbers_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(
        UsageError, match=f"{next(iter(wrong))} is .*; give (a |True or False|'.*' or ')"
    ):
        PaperReward(**wrong)


def test_presets_are_found_by_name() -> None:
    assert find_preset("paper") == ("paper", PAPER_PRESETS["paper"])
    own = PaperReward(search_cost=0.2)
    assert find_preset(own)[0] == "custom" and find_preset(own)[1].reward is own
    with pytest.raises(UsageError, match="paper, steppo, paperscout"):
        find_preset("ppo")
    assert Payment(papers=0.1, format=0.2).total == 0.3
    assert json.dumps(own.numbers())
