"""Mistakes that training code elsewhere has made, each kept out by a test of its own."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.advantages import centred_advantages, group_advantages
from agentgym_suite.trainers.algorithm import Algorithm, PolicyOutputs, Sums
from agentgym_suite.trainers.batch import StepBatch, Targets, collate
from agentgym_suite.trainers.config import AlgorithmConfig
from agentgym_suite.trainers.losses import full_divergence
from agentgym_suite.trainers.ratios import log_ratio
from agentgym_suite.trainers.registry import ALGORITHMS, make_algorithm
from agentgym_suite.trainers.returns import step_gae, token_rewards
from agentgym_suite.trainers.stats import OneRank, whiten
from agentgym_suite.trainers.value_basis import (
    restricted_entropy,
    restricted_logprobs,
    value_margin,
)
from tests.trainers.small_batches import mixed_batch, mixed_rows, row, with_frozen_columns
from tests.trainers.toy_policy import outputs, start, sums_of, update

ALONE = OneRank()
ALL = list(ALGORITHMS)


def targets_of(algorithm: Algorithm, batch: StepBatch) -> Targets:
    targets = algorithm.prepare(batch, ALONE).batch.targets
    assert targets is not None
    return targets


def test_02_a_centre_of_a_micro_batch_is_another_one() -> None:
    """What the exact scope is for: the inexact one depends on the split."""
    totals = {}
    for scope in ("minibatch", "microbatch"):
        algorithm = make_algorithm("capo", mu_scope=scope, clip_low=0.05, clip_high=0.05)
        batch = algorithm.prepare(mixed_batch(), ALONE).batch
        n = len(batch)
        one = update(algorithm, batch, [range(n)]).loss
        two = update(algorithm, batch, [range(4), range(4, n)]).loss
        totals[scope] = abs(float(one - two))
    assert totals["minibatch"] < 1e-12 < 1e-6 < totals["microbatch"]


def test_03_no_gradient_runs_through_the_centre() -> None:
    z = torch.tensor([[0.02, -0.01, 0.03, 0.0]], dtype=torch.float64, requires_grad=True)
    mask = torch.ones(1, 4, dtype=torch.bool)
    log_w = log_ratio(z, mask, "action_aware", mu=float(z.detach().mean()))
    (gradient,) = torch.autograd.grad(log_w.sum(), z)
    assert gradient.tolist() == [[0.5] * 4]  # 1/√L


def test_03_no_gradient_runs_through_old_or_reference_log_probabilities() -> None:
    algorithm = make_algorithm("grpo", kl_coef=0.1)
    batch = algorithm.prepare(mixed_batch(), ALONE).batch
    assert batch.old_logprobs is not None and batch.ref_logprobs is not None
    old, ref = batch.old_logprobs.requires_grad_(), batch.ref_logprobs.requires_grad_()
    fresh = torch.zeros_like(old).requires_grad_()
    total = algorithm.loss(
        batch.with_columns(old_logprobs=old, ref_logprobs=ref),
        PolicyOutputs(logprobs=fresh - 1.0),
        algorithm.count(batch),
    ).total
    grads = torch.autograd.grad(total, [fresh, old, ref], allow_unused=True)
    assert grads[0] is not None and grads[1:] == (None, None)


def prefix_model(ids: tuple[int, ...]) -> list[float]:
    """A causal stand-in: what it says at a position depends on everything up to it."""
    hashed, said = 0, []
    for token in ids:
        hashed = (hashed * 31 + token) % 1009
        said.append(float(hashed))
    return said


def test_04_v_is_read_before_the_response_and_q_behind_it() -> None:
    one = row("g/0", 0, 1, 3)
    other = replace(one, response_ids=(99, 41, 42))
    said, else_said = (prefix_model(r.prompt_ids + r.response_ids) for r in (one, other))
    assert said[one.b_v] == else_said[other.b_v]
    assert said[one.b_v + 1] != else_said[other.b_v + 1]  # off by one would show
    assert said[one.b_q] != else_said[other.b_q]
    assert one.b_q == len(said) - 1


def test_05_the_critic_learns_raw_advantages() -> None:
    batch = mixed_batch()
    assert batch.v_old is not None
    algorithm = make_algorithm("capo")
    raw = step_gae(batch, batch.rewards, 0.99, 1.0)
    targets = targets_of(algorithm, batch)
    torch.testing.assert_close(targets.values, raw + batch.v_old, rtol=0, atol=1e-12)
    kept = batch.is_action
    assert float(targets.advantages.sum(1)[kept].std()) != pytest.approx(float(raw[kept].std()))


def test_06_advantages_run_inside_trajectories_whatever_the_order_of_rows() -> None:
    rows = [row("a/0", 0, 2, 1), row("a/0", 1, 2, 1, reward=1.0)]
    alien = [row("b/0", 0, 1, 1, reward=50.0)]
    alone = collate(rows).with_columns(v_old=torch.zeros(2, dtype=torch.float64))
    wanted = step_gae(alone, alone.rewards, 0.5, 1.0).tolist()
    mixed = collate([rows[1], alien[0], rows[0]])
    mixed = mixed.with_columns(v_old=torch.zeros(3, dtype=torch.float64))
    found = step_gae(mixed, mixed.rewards, 0.5, 1.0).tolist()
    assert [found[2], found[0]] == wanted == [0.5, 1.0]


def longer(batch: StepBatch, number: int, count: int) -> StepBatch:
    """The same batch with one response repeated to more tokens."""
    rows = list(batch.rows)
    played = rows[number]
    rows[number] = replace(
        played,
        response_ids=played.response_ids * count,
        response_mask=played.response_mask * count,
        rollout_logprobs=played.rollout_logprobs * count,
        action_mask=played.action_mask * count,
    )
    return with_frozen_columns(collate(rows))


@pytest.mark.parametrize("name", ["capo", "sapo_ar"])
def test_08_steps_count_once_however_long_they_are(name: str) -> None:
    algorithm, batch = make_algorithm(name), mixed_batch()
    short = targets_of(algorithm, batch).advantages
    long = targets_of(algorithm, longer(batch, 3, 6)).advantages
    for number in range(len(batch)):
        if batch.is_action[number]:
            assert long[number].abs().max().item() == pytest.approx(
                short[number].abs().max().item(), rel=1e-12
            )


def test_08_tokens_count_where_tokens_are_meant() -> None:
    algorithm, batch = make_algorithm("reinforce_pp_baseline", returns="score"), mixed_batch()
    short = targets_of(algorithm, batch).advantages
    long = targets_of(algorithm, longer(batch, 3, 6)).advantages
    assert long[0, 0].item() != pytest.approx(short[0, 0].item(), rel=1e-6)


def test_09_pads_count_in_no_statistic() -> None:
    values = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    padded = torch.cat([values, torch.zeros(4, dtype=torch.float64)])
    mask = torch.tensor([True] * 3 + [False] * 4)
    whitened = whiten(padded, mask, ALONE)
    assert torch.equal(whitened[:3], whiten(values, mask[:3], ALONE))
    assert not whitened[3:].any()
    algorithm = make_algorithm("grpo")
    batch = mixed_batch()
    assert algorithm.count(batch.with_pads(9)) == algorithm.count(batch)


@pytest.mark.parametrize("name", ALL)
def test_10_the_engines_log_probabilities_enter_no_loss(name: str) -> None:
    algorithm = make_algorithm(name)
    batch = algorithm.prepare(mixed_batch(), ALONE).batch
    other = replace(batch, rollout_logprobs=batch.rollout_logprobs * 3 - 1)
    one = update(algorithm, batch, [range(len(batch))])
    two = update(algorithm, other, [range(len(batch))])
    assert torch.equal(one.gradient, two.gradient) and torch.equal(one.loss, two.loss)


def test_11_the_policy_never_moves_the_value_logits() -> None:
    logits = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(0)).double()
    logits.requires_grad_()
    ids = torch.tensor([[0, 1, 2], [3, 4, 5]])
    logprobs = restricted_logprobs(logits, (6, 7), 0.7).gather(-1, ids.unsqueeze(-1)).squeeze(-1)
    entropy = restricted_entropy(logits, (6, 7), 0.7)
    (gradient,) = torch.autograd.grad(logprobs.sum() - 0.1 * entropy.sum(), logits)
    assert torch.isfinite(gradient).all()
    assert not gradient[..., 6:].any() and gradient[..., :6].abs().min() > 0
    kept = restricted_logprobs(logits.detach(), (6, 7))[..., :6]
    torch.testing.assert_close(kept.exp().sum(-1), torch.ones(2, 3, dtype=torch.float64))


def test_11_a_softmax_with_minus_infinity_would_have_nan_gradients_in_its_entropy() -> None:
    logits = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    logprobs = restricted_logprobs(logits, (3,))
    p = logprobs.exp()
    naive = -torch.where(p > 0, p * logprobs, torch.zeros_like(p)).sum()
    (bad,) = torch.autograd.grad(naive, logits)
    (good,) = torch.autograd.grad(restricted_entropy(logits, (3,)), logits)
    assert bad.isnan().any() and torch.isfinite(good).all()


def test_12_a_saturated_read_out_is_reported_and_has_no_gradient() -> None:
    algorithm = make_algorithm("sapo_ar", kl_coef=0.0, entropy_coef=0.0)
    batch = algorithm.prepare(mixed_batch(), ALONE).batch
    theta = start()
    said = outputs(batch, theta)
    assert said.v_margin is not None
    far = torch.full((len(batch),), 9.0, dtype=torch.float64, requires_grad=True)
    sums = sums_of(algorithm, [batch], theta, ALONE)
    loss = algorithm.loss(batch, replace(said, v_margin=far), sums)
    assert loss.metrics["sat_v"] == 1.0 and loss.metrics["sat_q"] < 1.0
    (gradient,) = torch.autograd.grad(loss.total, far)
    assert not gradient.any()


def test_12_normalised_targets_stay_in_range_and_the_cut_is_reported() -> None:
    algorithm = make_algorithm("sapo_ar", reward_scale=1000.0)
    ready = algorithm.prepare(mixed_batch(), ALONE)
    targets = ready.batch.targets
    assert targets is not None and targets.values is not None and targets.q_values is not None
    assert targets.values.abs().max() <= 1 and targets.q_values.abs().max() <= 1
    assert ready.metrics["value/targets_clipped"] > 0.3


def test_12_an_invalid_action_is_not_punished_twice() -> None:
    with pytest.raises(UsageError, match="punished twice"):
        make_algorithm("sapo_ar", invalid_penalty=0.1)
    make_algorithm("sapo_ar", invalid_penalty=0.1, c_inv=0.0)


def test_13_the_penalty_for_invalid_actions_reaches_no_value_target() -> None:
    batch = mixed_batch()
    assert any(not r.valid_action for r in batch.rows)
    mild = targets_of(make_algorithm("sapo_ar", c_inv=0.0), batch)
    hard = targets_of(make_algorithm("sapo_ar", c_inv=5.0), batch)
    assert mild.values is not None and hard.values is not None
    assert mild.q_values is not None and hard.q_values is not None
    assert torch.equal(mild.values, hard.values) and torch.equal(mild.q_values, hard.q_values)
    assert not torch.equal(mild.advantages, hard.advantages)


def test_13_changing_the_reward_changes_no_q_of_its_own_state() -> None:
    """Rewards enter targets alone: the frozen read-outs are inputs and stay what they were."""
    rows = mixed_rows()
    rows[0] = replace(rows[0], reward=rows[0].reward + 1.0)
    one, other = mixed_batch(), with_frozen_columns(collate(rows))
    assert one.q_old is not None and other.q_old is not None
    assert torch.equal(one.q_old, other.q_old)


def test_15_at_the_frozen_weights_every_ratio_is_one_and_nothing_is_clipped() -> None:
    zero = torch.zeros(7, dtype=torch.float64, requires_grad=True)
    for name in ALL:
        algorithm = make_algorithm(name)
        batch = algorithm.prepare(mixed_batch(), ALONE).batch
        sums = sums_of(algorithm, [batch], zero, ALONE)
        loss = algorithm.loss(batch, outputs(batch, zero), sums)
        assert loss.ratio_range == (1.0, 1.0), name
        assert loss.metrics["clip/out_of_range"] == loss.metrics["clip/active"] == 0.0


@pytest.mark.parametrize("scores", [[0.3] * 3, [0.1] * 7, [1 / 3] * 5, [1e6 + 0.1] * 6])
@pytest.mark.parametrize("divide", [True, False])
def test_16_equal_rewards_give_exactly_nothing(scores: list[float], divide: bool) -> None:
    rows = [row(f"g/{n}", 0, 1, 1, reward=score) for n, score in enumerate(scores)]
    batch = collate(rows)
    assert not group_advantages(batch, batch.rewards, ALONE, divide=divide).any()
    assert not centred_advantages(batch, batch.rewards, ALONE).any()
    whitened = whiten(batch.rewards, torch.ones(len(rows), dtype=torch.bool), ALONE)
    assert not whitened.any()


def test_16_equal_sums_of_unequal_steps_give_exactly_nothing() -> None:
    rows = [row("g/0", n, 3, 1, reward=0.1) for n in range(3)] + [row("g/1", 0, 1, 1, reward=0.3)]
    batch = collate(rows)
    assert not group_advantages(batch, batch.rewards, ALONE).any()


def test_17_the_sampled_difference_ignores_the_teacher_and_its_policy_gradient_does_not() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(5, generator=generator, dtype=torch.float64, requires_grad=True)
    teacher = torch.log_softmax(torch.randn(5, generator=generator, dtype=torch.float64), 0)
    logprobs = torch.log_softmax(logits, 0)
    p = logprobs.detach().exp()

    def expected(per_sample: Tensor) -> Tensor:
        (gradient,) = torch.autograd.grad((p * per_sample).sum(), logits, retain_graph=True)
        return gradient

    naive = expected(logprobs - teacher)
    told = expected(-(teacher - logprobs.detach()) * logprobs)
    (full,) = torch.autograd.grad(
        full_divergence(logits, teacher, "reverse_kl"), logits, retain_graph=True
    )
    torch.testing.assert_close(naive, torch.zeros(5, dtype=torch.float64), rtol=0, atol=1e-12)
    torch.testing.assert_close(told, full, rtol=1e-10, atol=1e-12)
    assert full.abs().max() > 1e-2


@pytest.mark.parametrize("name", ALL)
def test_18_forced_tokens_are_never_trained(name: str) -> None:
    algorithm = make_algorithm(name)
    batch = algorithm.prepare(mixed_batch(), ALONE).batch
    assert batch.old_logprobs is not None
    said = outputs(batch, start())
    free = said.logprobs.detach().nan_to_num(0.0).requires_grad_()
    divergence = (free - 1.0) ** 2 if algorithm.needs.divergence != "none" else None
    sums = sums_of(algorithm, [batch], start(), ALONE)
    loss = algorithm.loss(batch, replace(said, logprobs=free, divergence=divergence), sums)
    (gradient,) = torch.autograd.grad(loss.total, free)
    assert not gradient[~batch.response_mask].any()
    assert gradient[batch.response_mask].any()


@pytest.mark.parametrize("name", ALL)
def test_18_the_mask_is_not_upside_down(name: str) -> None:
    """Every sampled token that has an advantage, a divergence or a teacher is trained."""
    wide = {} if name in ("opsd", "opd") else {"clip_low": 1.0, "clip_high": 9.0}
    algorithm = make_algorithm(name, kl_coef=0.1, **wide)
    batch = algorithm.prepare(mixed_batch(), ALONE).batch
    said = outputs(batch, start())
    free = said.logprobs.detach().nan_to_num(0.0).requires_grad_()
    sums = sums_of(algorithm, [batch], start(), ALONE)
    (gradient,) = torch.autograd.grad(
        algorithm.loss(batch, replace(said, logprobs=free), sums).total, free
    )
    assert (gradient[batch.response_mask] != 0).all()


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ALL)
def test_19_what_stands_outside_the_masks_is_never_read(name: str, poison: float) -> None:
    algorithm = make_algorithm(name)
    batch = algorithm.prepare(mixed_batch(width=8), ALONE).batch

    def poisoned(tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else tensor.masked_fill(~batch.response_mask, poison)

    foul = batch.with_columns(
        **{
            column: poisoned(getattr(batch, column))
            for column in ("old_logprobs", "ref_logprobs", "token_values")
        }
    )
    foul = replace(
        foul, rollout_logprobs=foul.rollout_logprobs.masked_fill(~foul.response_mask, poison)
    )
    one = update(algorithm, batch, [range(len(batch))])
    other = update(algorithm, foul, [range(len(batch))])
    assert torch.equal(one.gradient, other.gradient)
    assert torch.equal(one.critic_gradient, other.critic_gradient)
    again = algorithm.prepare(foul.with_targets(None), ALONE).batch.targets
    assert again is not None and batch.targets is not None
    assert torch.equal(again.advantages, batch.targets.advantages)


@pytest.mark.parametrize("name", ALL)
def test_19_a_mini_batch_of_one_action(name: str) -> None:
    algorithm = make_algorithm(name)
    batch = algorithm.prepare(mixed_batch(), ALONE).batch
    result = update(algorithm, batch, [[0]])
    assert torch.isfinite(result.loss).all() and torch.isfinite(result.gradient).all()


@pytest.mark.parametrize("name", ALL)
def test_19_a_batch_of_one_row_with_one_token(name: str) -> None:
    algorithm = make_algorithm(name)
    batch = with_frozen_columns(collate([row("g/0", 0, 1, 1, reward=1.0, pi_text="- look")]))
    ready = algorithm.prepare(batch, ALONE)
    assert torch.isfinite(update(algorithm, ready.batch, [[0]]).gradient).all()
    assert all(math.isfinite(value) for value in ready.metrics.values())


@pytest.mark.parametrize("name", ALL)
def test_19_a_batch_in_which_nothing_was_sampled(name: str) -> None:
    algorithm = make_algorithm(name)
    batch = with_frozen_columns(collate([row("g/0", 0, 1, 0), row("g/1", 0, 1, 0, reward=1.0)]))
    ready = algorithm.prepare(batch, ALONE).batch
    result = update(algorithm, ready, [[0, 1]])
    assert torch.isfinite(result.loss).all() and torch.isfinite(result.gradient).all()


def test_19_a_group_of_one_has_no_advantage() -> None:
    batch = with_frozen_columns(collate([row("g/0", 0, 1, 2, reward=1.0)]))
    for name in ("grpo", "rloo", "gspo", "dapo", "gigpo", "taspo", "reinforce_pp_baseline"):
        assert not targets_of(make_algorithm(name), batch).advantages.any(), name


def test_19_a_row_without_tokens_keeps_its_reward_and_value_in_time() -> None:
    rows = [row("g/0", 0, 3, 2), row("g/0", 1, 3, 0, reward=0.5), row("g/0", 2, 3, 2, reward=1.0)]
    values = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    batch = collate(rows).with_columns(v_old=values)
    steps = step_gae(batch, batch.rewards, 0.5, 1.0)
    assert steps.tolist() == pytest.approx([0.5 * 0.5 + 0.25 - 0.1, 0.5 + 0.5 - 0.2, 0.7])
    assert make_algorithm("capo").count(batch) == Sums(rows=3.0, actions=2.0, tokens=4.0)


def with_an_empty_step() -> StepBatch:
    """Three steps, nothing sampled in the second; V = Q = 0 before."""
    rows = [row("g/0", 0, 3, 2), row("g/0", 1, 3, 0), row("g/0", 2, 3, 1, reward=1.0)]
    zeros = torch.zeros(3, dtype=torch.float64)
    batch = collate(rows).with_columns(v_old=zeros, q_old=zeros)
    return batch.with_columns(old_logprobs=torch.zeros(3, 2, dtype=torch.float64))


def test_19_an_empty_step_has_a_state_that_the_critic_learns() -> None:
    algorithm = make_algorithm("capo", gamma=1.0)
    batch = algorithm.prepare(with_an_empty_step(), ALONE).batch
    values = torch.tensor([0.5, 0.4, 0.3], dtype=torch.float64)  # within the clip, targets 1
    loss = algorithm.critic_loss(batch, values, algorithm.count(batch)).total
    assert float(loss) == pytest.approx(0.5 * (0.25 + 0.36 + 0.49) / 3)


def test_19_an_empty_step_is_no_action_in_statistics() -> None:
    algorithm = make_algorithm("capo", gamma=0.5)
    targets = targets_of(algorithm, with_an_empty_step())  # raw advantages 0.25, 0.5, 1
    low, high = targets.advantages[0, 0].item(), targets.advantages[2, 0].item()
    assert (low, high) == pytest.approx((-(0.5**0.5), 0.5**0.5), abs=1e-6)


def test_19_an_empty_step_has_no_q_of_its_own() -> None:
    settings = {"kl_coef": 0.0, "entropy_coef": 0.0, "r_max": 1.0, "value_temperature": 1.0}
    algorithm = make_algorithm("sapo_ar", q_clip=2.0, value_clip=2.0, **settings)
    batch = algorithm.prepare(with_an_empty_step(), ALONE).batch
    nothing = torch.zeros(3, dtype=torch.float64)
    said = PolicyOutputs(
        logprobs=torch.zeros(3, 2, dtype=torch.float64),
        v_margin=nothing,
        q_margin=torch.tensor([0.0, 9.0, 0.4], dtype=torch.float64),
    )
    metrics = algorithm.loss(batch, said, algorithm.count(batch)).metrics
    assert metrics["loss/q"] == pytest.approx(0.5 * (0.0 + 0.6**2) / 2)
    targets = [(0.95 * 0.95) ** (2 - n) for n in range(3)]  # λ-returns where V was 0
    assert metrics["loss/v"] == pytest.approx(0.5 * sum(y * y for y in targets) / 3)


def test_19_the_reward_of_a_row_without_tokens_goes_to_the_token_before_it() -> None:
    rows = [
        row("g/0", 0, 4, 0, reward=8.0),  # nothing was sampled yet: nothing to credit
        row("g/0", 1, 4, 2, reward=1.0),
        row("g/0", 2, 4, 0, reward=0.25),
        row("g/0", 3, 4, 1, reward=0.5),
    ]
    placed = token_rewards(collate(rows), AlgorithmConfig())
    assert placed.tolist() == [[0, 0], [0, 1.25], [0, 0], [0.5, 0]]


@pytest.mark.parametrize("name", ALL)
def test_20_ranks_that_average_gradients_multiply_by_their_number(name: str) -> None:
    algorithm = make_algorithm(name)
    batch = algorithm.prepare(mixed_batch(), ALONE).batch
    numbers = list(range(len(batch)))
    one = update(algorithm, batch, [numbers]).gradient
    shares = []
    sums = sums_of(algorithm, [batch], start(), ALONE)
    for mine in (numbers[:5], numbers[5:]):
        theta, part = start(), batch.select(mine)
        loss = algorithm.loss(part, outputs(part, theta), sums).total * 2
        shares.append(torch.autograd.grad(loss, theta)[0])
    torch.testing.assert_close((shares[0] + shares[1]) / 2, one, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["capo", "grpo", "ppo", "taspo", "reinforce_pp", "gigpo"])
def test_every_step_of_a_trajectory_has_an_advantage(name: str) -> None:
    """Elsewhere the last step's mask was copied to the others, and only one row was trained."""
    targets = targets_of(make_algorithm(name), mixed_batch())
    batch = mixed_batch()
    dead = {
        r.trajectory_id
        for n, r in enumerate(batch.rows)
        if r.group_id in ("a", "b") and batch.is_action[n] and not targets.advantages[n].any()
    }
    alive = {r.trajectory_id for n, r in enumerate(batch.rows) if targets.advantages[n].any()}
    assert alive and not dead & alive


def test_a_missing_column_is_named() -> None:
    bare = collate(mixed_rows())
    with pytest.raises(UsageError, match="no v_old"):
        make_algorithm("capo").prepare(bare, ALONE)
    with pytest.raises(UsageError, match="no token_values"):
        make_algorithm("ppo").prepare(bare, ALONE)
    with pytest.raises(UsageError, match="no old_logprobs"):
        make_algorithm("taspo").prepare(bare, ALONE)
    algorithm = make_algorithm("grpo")
    ready = algorithm.prepare(bare, ALONE).batch
    nothing = PolicyOutputs(logprobs=torch.zeros(bare.response_mask.shape))
    with pytest.raises(UsageError, match="no old_logprobs"):
        algorithm.loss(ready, nothing, algorithm.count(ready))
    with pytest.raises(UsageError, match="no targets"):
        algorithm.loss(mixed_batch(), nothing, algorithm.count(ready))
    with pytest.raises(UsageError, match="grpo has no critic"):
        algorithm.critic_loss(ready, torch.zeros(len(ready)), Sums())
    with pytest.raises(UsageError, match="grpo has no value tokens"):
        algorithm.read_out(torch.zeros(2))
    capo = make_algorithm("capo")
    with pytest.raises(UsageError, match="values have shape"):
        batch = capo.prepare(mixed_batch(), ALONE).batch
        capo.critic_loss(batch, torch.zeros(batch.response_mask.shape), Sums())


def test_log_probabilities_of_another_shape_or_too_narrow_are_refused() -> None:
    algorithm = make_algorithm("grpo", kl_coef=0.0)
    batch = algorithm.prepare(mixed_batch(), ALONE).batch
    n, width = batch.response_mask.shape
    wide = PolicyOutputs(logprobs=torch.zeros(n, width + 1))
    with pytest.raises(UsageError, match=rf"have shape \({n}, {width + 1}\); the micro-batch"):
        algorithm.loss(batch, wide, algorithm.count(batch))
    narrow = PolicyOutputs(logprobs=torch.zeros(n, width, dtype=torch.bfloat16))
    with pytest.raises(UsageError, match="are torch.bfloat16; take the log-softmax in float32"):
        algorithm.loss(batch, narrow, algorithm.count(batch))


def test_margins_are_differences_of_raw_logits() -> None:
    logits = torch.arange(8.0).reshape(1, 8)
    assert value_margin(logits, (7, 2)).tolist() == [5.0]
