"""Switched off, an algorithm is the one it was built on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from agentgym_suite.trainers.batch import StepBatch, collate
from agentgym_suite.trainers.ratios import log_ratio
from agentgym_suite.trainers.registry import make_algorithm
from agentgym_suite.trainers.returns import token_means
from agentgym_suite.trainers.rows import StepRow, pad_row
from agentgym_suite.trainers.stats import OneRank
from tests.trainers.ragged import mask_of, padded
from tests.trainers.small_batches import mixed_batch, mixed_rows, row, with_frozen_columns
from tests.trainers.toy_policy import Update, outputs, start, update

ALONE = OneRank()
LINES = [[0.02, -0.01, 0.03, 0.0], [-0.05], [0.3, -0.1]]


def step(name: str, batch: StepBatch | None = None, **settings: Any) -> Update:
    algorithm = make_algorithm(name, **settings)
    ready = algorithm.prepare(batch if batch is not None else mixed_batch(), ALONE).batch
    return update(algorithm, ready, [range(len(ready))])


def same(one: Update, other: Update) -> None:
    torch.testing.assert_close(one.loss, other.loss, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(one.gradient, other.gradient, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("alpha", "kind"), [(0.0, "product"), (0.5, "sqrt"), (1.0, "mean")])
def test_the_family_of_powers_holds_its_named_members(alpha: float, kind: Any) -> None:
    z, mask = padded(LINES), mask_of(LINES)
    torch.testing.assert_close(
        log_ratio(z, mask, "power", alpha=alpha), log_ratio(z, mask, kind), rtol=1e-15, atol=0
    )


def test_an_action_aware_ratio_without_centre_is_the_square_root_one() -> None:
    z, mask = padded(LINES), mask_of(LINES)
    assert torch.equal(log_ratio(z, mask, "action_aware"), log_ratio(z, mask, "sqrt"))


@pytest.mark.parametrize("mu", [-3.0, 0.0, 0.7])
def test_an_action_of_one_token_has_its_own_ratio_whatever_the_centre(mu: float) -> None:
    z, mask = padded([[-0.05], [0.3]]), mask_of([[1.0], [1.0]])
    assert torch.equal(log_ratio(z, mask, "action_aware", mu=mu), z)


@pytest.mark.parametrize("length", [1, 4, 100])
def test_equal_log_ratios_keep_their_value_at_every_length(length: int) -> None:
    z = torch.full((1, length), 0.01, dtype=torch.float64)
    mask = torch.ones(1, length, dtype=torch.bool)
    found = log_ratio(z, mask, "action_aware", mu=0.01)
    assert found.item() == pytest.approx(0.01, abs=1e-12)


def test_sapo_without_value_losses_is_its_policy_loss() -> None:
    off = {"value_coef": 0.0, "q_coef": 0.0, "kl_coef": 0.0, "entropy_coef": 0.0}
    bare = step("sapo_ar", **off)
    assert set(bare.metrics) >= {"loss/policy"} and "loss/v" not in bare.metrics
    assert float(bare.loss) == pytest.approx(bare.metrics["loss/policy"], abs=1e-15)


def test_grpo_opsd_without_its_term_is_grpo() -> None:
    same(step("grpo_opsd", distillation_coef=0.0), step("grpo"))


def test_dapo_with_an_even_clip_is_grpo_without_divergence_and_dual_clip() -> None:
    same(step("dapo", clip_high=0.2), step("grpo", kl_coef=0.0, dual_clip=0.0))


def test_gigpo_without_its_step_term_is_grpo() -> None:
    same(step("gigpo", step_weight=0.0), step("grpo"))


def test_st_ppo_without_correction_is_turn_ppo_and_with_token_ratios_ppo() -> None:
    same(step("st_ppo", clip_bias_correction=False), step("turn_ppo"))
    same(step("turn_ppo", ratio="token"), step("ppo"))


@pytest.mark.parametrize(("norm", "scale"), [(0.0, 1.0), (0.5, 1.0), (4.0, 0.25)])
def test_st_ppo_scales_the_policys_term_alone(norm: float, scale: float) -> None:
    algorithm = make_algorithm("st_ppo", kl_coef=0.5)
    batch = algorithm.prepare(mixed_batch(), ALONE).batch
    theta = start()
    sums = algorithm.count(batch).with_clip_bias_norm(norm)
    loss = algorithm.loss(batch, outputs(batch, theta), sums)
    wanted = scale * loss.metrics["loss/policy"] + 0.5 * loss.metrics["loss/kl"]
    assert loss.metrics["loss/total"] == pytest.approx(wanted, rel=1e-12)


def test_discounted_returns_without_discount_and_step_rewards_are_the_score() -> None:
    rows = [replace(r, reward=r.reward if r.is_last else 0.0) for r in mixed_rows()]
    batch = with_frozen_columns(collate(rows))
    tokens = step("reinforce_pp_baseline", batch, returns="discounted_tokens", gamma=1.0)
    same(tokens, step("reinforce_pp_baseline", batch, returns="score"))


def test_without_group_division_the_switch_is_obeyed() -> None:
    """Elsewhere one of two implementations ignored it."""
    for name in ("grpo", "gigpo", "gspo", "dapo", "taspo", "grpo_opsd"):
        divided = make_algorithm(name).prepare(mixed_batch(), ALONE).batch.targets
        plain = make_algorithm(name, norm_by_std=False).prepare(mixed_batch(), ALONE).batch.targets
        assert divided is not None and plain is not None
        assert not torch.equal(divided.advantages, plain.advantages), name


def test_a_penalty_in_the_advantage_stands_outside_the_normalisation() -> None:
    batch = mixed_batch()
    settings: dict[str, Any] = {"invalid_penalty": 0.02, "invalid_penalty_place": "advantage"}
    plain = make_algorithm("grpo").prepare(batch, ALONE).batch.targets
    punished = make_algorithm("grpo", **settings).prepare(batch, ALONE).batch.targets
    assert plain is not None and punished is not None
    mask = batch.response_mask
    gap = token_means(plain.advantages - punished.advantages, mask)[batch.is_action]
    invalid = torch.tensor([not r.valid_action for r in batch.rows])[batch.is_action]
    torch.testing.assert_close(gap, 0.02 * invalid.double(), rtol=0, atol=1e-12)


def test_a_divergence_in_the_reward_leaves_the_loss() -> None:
    settings: dict[str, Any] = {"kl_coef": 0.5, "kl_place": "reward", "kl_estimator": "k1"}
    found = step("reinforce_pp", **settings)
    assert "loss/kl" not in found.metrics
    assert not torch.equal(found.gradient, step("reinforce_pp", kl_coef=0.0).gradient)


def test_a_truncated_end_is_terminal_unless_told_otherwise() -> None:
    rows = [row("g/0", 0, 1, 1, reward=1.0, terminated=False, truncated=True)]
    batch = collate(rows).with_columns(
        v_old=torch.tensor([0.25], dtype=torch.float64),
        q_old=torch.tensor([0.5], dtype=torch.float64),
    )
    capo = make_algorithm("capo", adv_whiten="none", gamma=0.5)
    assert capo.prepare(batch, ALONE).batch.targets.values.tolist() == [1.0]  # type: ignore[union-attr]
    bootstrapped = batch.with_columns(bootstrap=torch.tensor([4.0], dtype=torch.float64))
    assert capo.prepare(bootstrapped, ALONE).batch.targets.values.tolist() == [3.0]  # type: ignore[union-attr]
    sapo = make_algorithm("sapo_ar", gamma=0.5)
    targets = sapo.prepare(bootstrapped, ALONE).batch.targets
    assert targets is not None and targets.values is not None and targets.q_values is not None
    assert targets.values.tolist() == targets.q_values.tolist() == [0.3]


def test_a_rank_with_pads_alone_can_prepare() -> None:
    pads: list[StepRow] = [pad_row(), pad_row()]
    batch = with_frozen_columns(collate(pads))
    for name in (
        "capo",
        "sapo_ar",
        "taspo",
        "ppo",
        "grpo",
        "rloo",
        "gigpo",
        "reinforce_pp",
        "opsd",
    ):
        targets = make_algorithm(name).prepare(batch, ALONE).batch.targets
        assert targets is not None and not targets.advantages.any(), name
