"""TASPO's weights: the properties they are made for, and every way out."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from agentgym_suite.trainers.batch import StepBatch, collate
from agentgym_suite.trainers.credit import (
    CreditSettings,
    action_shifts,
    token_weights,
    turn_weights,
)
from agentgym_suite.trainers.registry import make_algorithm
from agentgym_suite.trainers.returns import token_means
from agentgym_suite.trainers.rows import StepRow
from agentgym_suite.trainers.stats import OneRank
from tests.trainers.small_batches import mixed_batch, mixed_rows, row, with_frozen_columns
from tests.trainers.toy_policy import update

ALONE = OneRank()
shift = st.floats(-6, 6)
turns = st.lists(
    st.one_of(st.none(), st.lists(shift, min_size=1, max_size=5)), min_size=2, max_size=8
)
advantages = st.floats(-3, 3).filter(lambda a: abs(a) > 1e-3)
ranges = st.floats(0, 0.99)


@given(turns, advantages, ranges)
def test_weights_are_bounded_and_of_mean_one(
    shifts: list[list[float] | None], advantage: float, width: float
) -> None:
    credited = turn_weights(advantage, shifts, CreditSettings(weight_range=width))
    assert all(1 - width - 1e-12 <= w <= 1 + width + 1e-12 for w in credited.weights)
    assert abs(math.fsum(credited.weights) / len(shifts) - 1) <= 1e-12
    changed = [advantage * w for w in credited.weights]
    assert all((a > 0) == (advantage > 0) for a in changed)
    assert all(abs(a - advantage) <= width * abs(advantage) + 1e-12 for a in changed)


@given(turns, advantages)
def test_turns_that_cannot_be_scored_weigh_one(
    shifts: list[list[float] | None], advantage: float
) -> None:
    credited = turn_weights(advantage, shifts, CreditSettings())
    for line, weight in zip(shifts, credited.weights, strict=True):
        assert line is not None or weight == 1.0
    scorable = sum(line is not None for line in shifts)
    assert (credited.fallback == "too_few_scorable") == (scorable < 2)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=6), advantages, st.floats(-0.9, 0.9))
def test_one_constant_on_every_score_changes_nothing(
    scores: list[float], advantage: float, constant: float
) -> None:
    plain = turn_weights(advantage, [[s] for s in scores], CreditSettings())
    moved = turn_weights(advantage, [[s + constant] for s in scores], CreditSettings())
    assert moved.weights == pytest.approx(plain.weights, abs=1e-12)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=6, unique=True), advantages)
def test_a_better_supported_action_gets_more_praise_and_less_blame(
    scores: list[float], advantage: float
) -> None:
    best, worst = scores.index(max(scores)), scores.index(min(scores))
    assume(max(scores) - min(scores) > 1e-6)
    weights = turn_weights(advantage, [[s] for s in scores], CreditSettings()).weights
    assert (weights[best] > weights[worst]) == (advantage > 0)


@given(st.lists(shift, min_size=1, max_size=6), shift)
def test_one_token_moves_a_score_by_no_more_than_the_clip_allows(
    tokens: list[float], other: float
) -> None:
    settings = CreditSettings(temperature=1e6, weight_range=0.9)  # tanh is the identity here

    def score(line: list[float]) -> float:
        credited = turn_weights(1.0, [line, [0.0]], settings)
        return 2e6 * credited.squashed[0]  # the difference of the two turns' means

    moved = [other, *tokens[1:]]
    assert abs(score(moved) - score(tokens)) <= 2 * 2.0 / len(tokens) + 1e-6


@pytest.mark.parametrize("settings", [{}, {"strict_all_turns": True}])
def test_without_advantage_all_weights_are_one(settings: dict[str, Any]) -> None:
    credited = turn_weights(0.0, [[1.0], [2.0]], CreditSettings(**settings))
    assert credited.weights == (1.0, 1.0) and credited.fallback == "zero_advantage"


@pytest.mark.parametrize("bad", [[], [math.nan], [math.inf, 0.0]])
def test_a_turn_without_finite_shifts_is_not_scorable(bad: list[float]) -> None:
    shifts = [[0.5], bad, [-0.5]]
    credited = turn_weights(1.0, shifts, CreditSettings())
    assert credited.weights[1] == 1.0 and set(credited.squashed) == {0, 2}


def test_the_public_code_scores_a_turn_by_its_finite_tokens_and_all_turns_or_none() -> None:
    strict = CreditSettings(strict_all_turns=True)
    for bad in (None, [], [math.nan], [-math.inf]):
        credited = turn_weights(1.0, [[0.5], bad, [-0.5]], strict)
        assert credited.weights == (1.0, 1.0, 1.0) and credited.fallback == "too_few_scorable"
    partly = turn_weights(1.0, [[0.5], [math.inf, 0.1], [-0.5]], strict)
    assert partly == turn_weights(1.0, [[0.5], [0.1], [-0.5]], strict)
    assert partly.fallback == ""


def test_the_clip_of_shifts_can_be_left_away() -> None:
    near, far = [[2.0], [0.0]], [[5.0], [0.0]]
    clipped = CreditSettings(temperature=5.0)
    assert turn_weights(1.0, near, clipped).weights == turn_weights(1.0, far, clipped).weights
    free = replace(clipped, shift_clip=None)
    assert turn_weights(1.0, near, free).weights != turn_weights(1.0, far, free).weights


def test_small_centred_scores_can_be_left_out() -> None:
    shifts = [[0.02], [0.0], [0.01]]
    assert turn_weights(1.0, shifts, CreditSettings(min_shift=0.05)).weights == (1.0,) * 3
    assert turn_weights(1.0, shifts, CreditSettings()).weights != (1.0,) * 3


@given(turns, advantages)
def test_weights_of_tokens_have_mean_one_over_action_tokens(
    shifts: list[list[float] | None], advantage: float
) -> None:
    weights, fallback = token_weights(advantage, shifts, CreditSettings())
    flat = [w for line in weights if line is not None for w in line]
    if fallback:
        assert not flat
    else:
        assert abs(math.fsum(flat) / len(flat) - 1) <= 1e-12
        assert [w is None for w in weights] == [s is None for s in shifts]


def scored_batch(rows: list[StepRow], teacher: float = -0.5) -> StepBatch:
    batch = with_frozen_columns(collate(rows))
    return batch.with_columns(
        teacher_logprobs=torch.full(batch.response_mask.shape, teacher).double()
    )


def test_shifts_are_taken_on_action_tokens_alone() -> None:
    played = row("g/0", 0, 1, 4, mask=(1, 1, 1, 0), action_mask=(0, 1, 1, 1), pi_text="- look")
    batch = scored_batch([played])
    assert batch.old_logprobs is not None
    (found,) = action_shifts(batch)
    wanted = (-0.5 - batch.old_logprobs[0, 1:3]).tolist()
    assert found == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("changes", [{"pi_text": ""}, {"action_mask": ()}, {"action_mask": (0, 0)}])
def test_rows_that_cannot_be_scored(changes: dict[str, Any]) -> None:
    played = row("g/0", 0, 1, 2, action_mask=(1, 1), pi_text="- look")
    assert action_shifts(scored_batch([played])) != [None]
    assert action_shifts(scored_batch([replace(played, **changes)])) == [None]
    assert action_shifts(scored_batch([played], teacher=math.nan)) == [None]


def test_without_range_taspo_is_grpo_with_the_nested_mean_bit_for_bit() -> None:
    same: dict[str, Any] = {"aggregation": "traj-nested", "kl_coef": 0.01, "entropy_coef": 1e-3}
    grpo = make_algorithm("grpo", **same)
    for settings in ({"weight_range": 0.0}, {"pi_source": "none"}):
        taspo = make_algorithm("taspo", **settings)
        results = []
        for algorithm in (taspo, grpo):
            batch = algorithm.prepare(mixed_batch(), ALONE).batch
            results.append(update(algorithm, batch, [range(len(batch))]))
        assert torch.equal(results[0].loss, results[1].loss)
        assert torch.equal(results[0].gradient, results[1].gradient)


def test_the_balance_of_turns_and_trajectories_stays_in_every_fallback() -> None:
    untold = [replace(r, pi_text="") for r in mixed_rows()]
    batch = with_frozen_columns(collate(untold))
    ready = make_algorithm("taspo").prepare(batch, ALONE)
    told = make_algorithm("taspo").prepare(mixed_batch(), ALONE)
    assert ready.batch.targets is not None and told.batch.targets is not None
    assert torch.equal(ready.batch.targets.row_weights, told.batch.targets.row_weights)
    assert ready.batch.targets.row_weights.unique().numel() > 1
    assert ready.metrics["credit/coverage"] == 0.0
    assert ready.metrics["credit/no_privileged_text"] == len(batch.trajectories())


@pytest.mark.parametrize("allocation", ["action", "token"])
def test_what_is_logged_of_the_weights(allocation: str) -> None:
    metrics = make_algorithm("taspo", allocation=allocation).prepare(mixed_batch(), ALONE).metrics
    assert metrics["credit/sign_flips"] == 0.0
    assert metrics["credit/mean_error"] <= 1e-12
    assert metrics["credit/weight_mean"] == pytest.approx(1.0)
    assert 0.6 <= metrics["credit/weight_min"] < 1 < metrics["credit/weight_max"] <= 1.4
    assert metrics["credit/coverage"] == pytest.approx(5 / 6)
    counted = sum(
        metrics[f"credit/{name}"]
        for name in ("no_privileged_text", "zero_advantage", "too_few_scorable")
    )
    assert counted + metrics["credit/active"] * 6 == pytest.approx(6)


def test_a_trajectory_keeps_the_mean_of_its_advantage() -> None:
    batch = mixed_batch()
    plain = make_algorithm("taspo", weight_range=0.0).prepare(batch, ALONE).batch.targets
    weighted = make_algorithm("taspo").prepare(batch, ALONE).batch.targets
    assert plain is not None and weighted is not None
    for chain in batch.trajectories():
        places = [n for n in chain if batch.is_action[n]]
        if len(places) < len(chain):
            continue  # a step without tokens weighs one and shows no advantage
        before = token_means(plain.advantages, batch.response_mask)[places]
        after = token_means(weighted.advantages, batch.response_mask)[places]
        assert float(after.mean()) == pytest.approx(float(before.mean()), abs=1e-12)
