"""Records of trajectories: how they are shortened, and what counts as a quote of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.trajectory_traces import (
    FieldCaps,
    Trace,
    TraceGroup,
    TraceStep,
    collapsed,
    compact_trace,
    field_caps,
    shortened,
    supports,
)
from tests.trainers.traced import LONG, group, step, trace


@pytest.mark.parametrize(
    ("steps", "caps"),
    [
        (50, FieldCaps(1200, 80, 68)),
        (10, FieldCaps(1200, 320, 380)),
        (1, FieldCaps(1200, 320, 5240)),
        (0, FieldCaps(1200, 320, 5240)),
        (10_000, FieldCaps(1200, 80, 50)),
    ],
)
def test_the_budget_of_a_trajectory_is_shared_by_its_steps(steps: int, caps: FieldCaps) -> None:
    assert field_caps(steps, 12_000) == caps


def test_small_budgets_keep_a_least_length_of_every_field() -> None:
    assert field_caps(4, 100) == FieldCaps(300, 83, 83)


def test_a_long_field_keeps_its_beginning_and_its_end() -> None:
    assert shortened("abcdefghijklmnopqrst", 16) == "abcde ... opqrst"
    assert shortened("abcdefghijklmnopqrst", 17) == "abcdef ... opqrst"
    assert shortened("abcdefghijklmnopqrst", 15) == "abcdefghijklmno"
    assert shortened("abcdefghijklmnopqrst", 20) == "abcdefghijklmnopqrst"
    assert shortened(" a \n\t b ", 3) == "a b"


@given(st.text(), st.integers(0, 60))
def test_a_shortened_text_has_the_length_of_its_cap(text: str, cap: int) -> None:
    short = shortened(text, cap)
    assert len(short) == min(cap, len(collapsed(text)))
    front, joint, back = short.partition(" ... ")
    assert collapsed(text).startswith(front)
    assert not joint or collapsed(text).endswith(back) or " ... " in collapsed(text)


def test_every_step_is_kept_and_none_but_successes_tell_that_they_are_done() -> None:
    long = Trace("t", "x" * 5000, tuple(step("p" * 500, "a" * 500, "q" * 500) for _ in range(50)))
    compact = compact_trace(long, with_done=False)
    assert len(compact["task"]) == 1200  # type: ignore[arg-type]
    steps = compact["steps"]
    assert isinstance(steps, list) and [one["step"] for one in steps] == list(range(50))
    assert {len(one["action"]) for one in steps} == {80}
    assert {len(one["pre"]) for one in steps} == {68} == {len(one["post"]) for one in steps}
    assert "done" not in steps[0] and "admissible" not in steps[0]
    last = compact_trace(group().traces[0], with_done=True)["steps"]
    assert isinstance(last, list) and [one["done"] for one in last] == [False, False, False, True]


def test_a_quote_is_looked_up_in_the_record_as_it_was_whatever_its_whitespace() -> None:
    assert supports(LONG, "holds a mug 1.")  # the record has a line end and a tab there
    assert supports("a b", " a\n b\t")
    assert supports(LONG, "dust dust dust Far behind lies a key 7.")
    assert not supports(LONG, "")
    assert not supports(LONG, " \n")
    assert not supports("The mug", "the mug")


def test_a_quote_over_a_cut_is_none_though_the_shortened_text_has_it() -> None:
    cut = shortened(LONG, 100)
    quote = cut[40:60]
    assert " ... " in quote and quote in cut
    assert not supports(LONG, quote)
    taken_away = collapsed(LONG)[900:930]
    assert supports(LONG, taken_away)


def test_a_trace_of_an_episode_cannot_tell_its_outcome() -> None:
    fields = set(Trace.__slots__) | set(TraceStep.__slots__)
    assert not fields & {"verified_success", "episode_reward", "reward", "success", "score"}


def test_groups_that_do_not_fit_are_refused() -> None:
    one = trace("a", step("p", "x", "q"))
    with pytest.raises(UsageError, match="2 traces, 1 outcomes and 2 rewards"):
        TraceGroup("g", (one, trace("b")), (1.0,), (1.0, 0.0))
    with pytest.raises(UsageError, match="two trajectories of one name"):
        TraceGroup("g", (one, one), (1.0, 0.0), (1.0, 0.0))
    with pytest.raises(UsageError, match="finite"):
        TraceGroup("g", (one,), (1.0,), (math.nan,))


def test_success_begins_at_one_half() -> None:
    assert [one.traj_uid for one in group((0.5, 0.49, 1.0)).successes] == ["a", "c"]
