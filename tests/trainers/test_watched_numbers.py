"""What tells of a training that goes wrong: values that are not finite, numbers, sentences."""

from __future__ import annotations

import math

import pytest
import torch

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.collector import repeated_share
from agentgym_suite.trainers.grpo import Grpo, GrpoConfig
from agentgym_suite.trainers.iteration_notes import iteration_notes
from agentgym_suite.trainers.policy_gradient import Credit
from agentgym_suite.trainers.registry import make_algorithm
from agentgym_suite.trainers.run_settings import RunSettings
from agentgym_suite.trainers.stats import OneRank, Reducer
from agentgym_suite.trainers.taspo import Taspo, TaspoConfig
from tests.trainers.small_batches import mixed_batch

ALONE = OneRank()


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("capo", "v_old"),
        ("ppo", "token_values"),
        ("sapo_ar", "v_old"),
        ("sapo_ar", "q_old"),
        ("grpo", "old_logprobs"),
        ("grpo", "ref_logprobs"),
    ],
)
def test_a_frozen_value_that_is_not_finite_is_named_before_it_spreads(
    name: str, column: str
) -> None:
    batch = mixed_batch()
    broken = getattr(batch, column).clone()
    broken[4] = math.nan
    played = batch.rows[4]
    sentence = f"{column} of row 4 .trajectory {played.trajectory_id!r}, step \\d.* is not finite"
    with pytest.raises(UsageError, match=sentence):
        make_algorithm(name).prepare(batch.with_columns(**{column: broken}), ALONE)


def test_an_advantage_that_is_not_finite_is_named() -> None:
    class Broken(Grpo):
        def credit(self, batch: StepBatch, reducer: Reducer) -> Credit:
            found = super().credit(batch, reducer).advantages.clone()
            found[4] = math.inf
            return Credit(advantages=found)

    with pytest.raises(UsageError, match="the advantage of row 4 .* is not finite"):
        Broken(GrpoConfig()).prepare(mixed_batch(), ALONE)


def test_sign_flips_of_all_ranks_are_counted() -> None:
    class Twice(OneRank):
        def sum(self, values: torch.Tensor) -> torch.Tensor:
            return 2 * values

    class Flipping(Taspo):
        def _weights(
            self, batch: StepBatch, outcome: torch.Tensor, reducer: Reducer
        ) -> tuple[torch.Tensor, dict[str, float]]:
            return -torch.ones(batch.response_mask.shape, dtype=torch.float64), {}

    batch = mixed_batch()
    alone, both = (
        Flipping(TaspoConfig()).credit(batch, reducer).metrics["credit/sign_flips"]
        for reducer in (ALONE, Twice())
    )
    assert both == 2 * alone > 0


def test_entropy_is_logged_without_a_bonus() -> None:
    batch = mixed_batch()
    drawn = torch.rand(batch.response_mask.shape, generator=torch.Generator().manual_seed(1))
    told = batch.with_columns(old_entropy=drawn.double())
    assert told.old_entropy is not None
    found = make_algorithm("grpo").prepare(told, ALONE).metrics["entropy"]
    assert found == pytest.approx(float(told.old_entropy[batch.response_mask].mean()))


@pytest.mark.parametrize(
    ("ids", "share"),
    [((), 0.0), ((7, 7), 0.0), ((1, 2, 3, 4), 0.0), ((7,) * 12, 0.9), ((1, 2, 1, 2, 1), 1 / 3)],
)
def test_a_reply_that_repeats_itself(ids: tuple[int, ...], share: float) -> None:
    assert repeated_share(ids) == pytest.approx(share)


def test_r_max_far_from_what_a_success_earns_is_told() -> None:
    batch = mixed_batch()
    earned = make_algorithm("sapo_ar", r_max=1.0).prepare(batch, ALONE).metrics
    far = make_algorithm("sapo_ar", r_max=1e3).prepare(batch, ALONE).metrics
    assert far["value/largest_target"] < 0.01 < 0.5 < earned["value/largest_target"]
    run = RunSettings()
    won = {"rollout/success": 0.25}
    assert "r_max" not in iteration_notes({**earned, **won}, run)
    assert "r_max" not in iteration_notes({**far, "rollout/success": 0.0}, run)
    assert "set r_max to what a success earns" in iteration_notes({**far, **won}, run)["r_max"]
