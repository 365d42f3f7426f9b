"""Printed numbers of the papers' equations, to their printed digits."""

from __future__ import annotations

import math

import pytest
import torch

from agentgym_suite.trainers.advantages import (
    centred_advantages,
    group_advantages,
    leave_one_out_advantages,
    state_advantages,
)
from agentgym_suite.trainers.algorithm import PolicyOutputs
from agentgym_suite.trainers.batch import collate
from agentgym_suite.trainers.config import AlgorithmConfig
from agentgym_suite.trainers.credit import CreditSettings, turn_weights
from agentgym_suite.trainers.length_metrics import length_metrics
from agentgym_suite.trainers.losses import aggregate, clipped_surrogate, gated_distillation
from agentgym_suite.trainers.ratios import importance_ratio, log_ratio, mean_log_ratio
from agentgym_suite.trainers.registry import make_algorithm
from agentgym_suite.trainers.returns import gae, token_gae, token_rewards
from agentgym_suite.trainers.stats import OneRank, whiten
from agentgym_suite.trainers.value_basis import read_out, sarsa_targets
from tests.trainers.ragged import mask_of, padded
from tests.trainers.small_batches import row

ALONE = OneRank()


def test_action_gae() -> None:
    r, v = [0, 0.1, -0.5, 1], [0.4, 0.5, 0.3, 0.6]
    assert gae(r, v, gamma=0.99, lam=1.0) == pytest.approx([0.179249, 0.0851, 0.19, 0.4])
    wanted = [0.14867725055, 0.0570731, 0.1702, 0.4]
    assert gae(r, v, gamma=0.99, lam=0.95) == pytest.approx(wanted, abs=1e-12)


Z = [
    [0.02, -0.01, 0.03, 0.0],
    [-0.05],
    [0.001, 0.002, -0.004, 0.003, 0, -0.001, 0.002, 0.004, -0.002],
]


def test_the_action_aware_ratio() -> None:
    z, mask = padded(Z), mask_of(Z)
    mu = mean_log_ratio(float(z.sum()), float(mask.sum()))
    assert mu == pytest.approx(-3.571429e-4, abs=5e-11)
    log_w = log_ratio(z, mask, "action_aware", mu=mu).squeeze(1)
    assert log_w.tolist() == pytest.approx([0.02035714, -0.05, 0.00238095], abs=5e-9)


@pytest.mark.parametrize(
    ("eps", "loss"),
    [(0.001, -0.3675), (0.01, -0.37423838), (0.03, -0.38418793), (0.1, -0.38856773)],
)
def test_capos_loss(eps: float, loss: float) -> None:
    z, mask = padded(Z), mask_of(Z)
    mu = mean_log_ratio(float(z.sum()), float(mask.sum()))
    w = importance_ratio(log_ratio(z, mask, "action_aware", mu=mu))
    adv = torch.tensor([[1.5], [-0.7], [0.3]], dtype=torch.float64)
    surrogate = clipped_surrogate(w, adv, eps, eps)
    value = -aggregate(surrogate, mask, "action-mean", tokens=14, rows=3)
    assert float(value) == pytest.approx(loss, abs=5e-9)


@pytest.mark.parametrize(
    ("mode", "value"),
    [
        ("token-mean", 2.5),
        ("seq-mean-token-mean", 3.0),
        ("seq-mean-token-sum", 5.0),
        ("dr-grpo", 1.25),
        ("action-mean", 3.0),
    ],
)
def test_aggregation(mode: str, value: float) -> None:
    losses = [[1.0, 2.0, 3.0], [4.0]]
    total = aggregate(
        padded(losses),
        mask_of(losses),
        mode,  # type: ignore[arg-type]
        tokens=4,
        rows=2,
        dr_constant=4,
    )
    assert float(total) == value


@pytest.mark.parametrize(
    ("rewards", "scope", "wanted"),
    [
        ((0.0, 1.0), "trajectory", [0.4372, 0.51, 0.5]),
        ((0.0, 1.0), "row", [-0.146, -0.3, 0.5]),
        ((0.5, 1.0), "trajectory", [0.7972, 1.01, 0.5]),
    ],
)
def test_token_gae(rewards: tuple[float, float], scope: str, wanted: list[float]) -> None:
    rows = [row("g/0", 0, 2, 2, reward=rewards[0]), row("g/0", 1, 2, 1, reward=rewards[1])]
    values = torch.tensor([[0.2, 0.3], [0.5, 0.0]], dtype=torch.float64)
    batch = collate(rows).with_columns(token_values=values)
    steps = token_gae(batch, token_rewards(batch, AlgorithmConfig()), 0.9, 0.8, scope)  # type: ignore[arg-type]
    assert steps[batch.response_mask].tolist() == pytest.approx(wanted, abs=1e-12)


def test_sapos_read_out_and_targets() -> None:
    margin = torch.tensor(1.8, dtype=torch.float64)
    assert 10 * float(read_out(margin, 4.0)) == pytest.approx(4.5)
    assert float(read_out(margin, 1.0)) == 1.0
    adv = gae([0, 0, 10], [4, 5, 6], gamma=0.95, lam=0.95)
    assert adv == pytest.approx([4.639775, 4.31, 4])
    assert [a + v for a, v in zip(adv, [4, 5, 6], strict=True)] == pytest.approx(
        [8.639775, 9.31, 10]
    )
    assert sarsa_targets([0, 0, 10], [4.5, 5.5, 8], 0.95) == pytest.approx([5.225, 7.6, 10])
    turns = torch.tensor([2, -1.1, 0.5, 2.9], dtype=torch.float64)
    wanted = [0.5268539, -1.2388186, -0.3275038, 1.0394685]
    normalised = whiten(turns, torch.ones(4, dtype=torch.bool), ALONE)
    assert normalised.tolist() == pytest.approx(wanted, abs=5e-8)


def test_taspos_weights() -> None:
    shifts = [[0.1, 0.3, 5.0], [-0.4, -0.2], [0.0], None]
    credited = turn_weights(1.2, shifts, CreditSettings())
    wanted = [1.18396268, 0.86695551, 0.94908181, 1.0]
    assert list(credited.weights) == pytest.approx(wanted, abs=5e-9)
    assert sum(credited.weights) == pytest.approx(4, abs=1e-12)


def test_group_advantages() -> None:
    rewards, groups = [1.0, 0.0, 0.0, 1.0, 0.5], "aaabb"
    rows = [
        row(f"{n}", 0, 1, 1, group=g, reward=r)
        for n, (r, g) in enumerate(zip(rewards, groups, strict=True))
    ]
    batch = collate(rows)
    plain = group_advantages(batch, batch.rewards, ALONE)
    wanted = [1.15469854, -0.57734927, -0.57734927, 0.70710478, -0.70710478]
    assert plain.tolist() == pytest.approx(wanted, abs=5e-9)
    centred = centred_advantages(batch, batch.rewards, ALONE)
    assert centred.tolist() == pytest.approx([2 / 3, -1 / 3, -1 / 3, 0.25, -0.25])
    others = leave_one_out_advantages(batch, batch.rewards, ALONE)
    assert others.tolist() == pytest.approx([1, -0.5, -0.5, 0.5, -0.5])


def test_grpo_of_several_steps_sums_their_rewards() -> None:
    rows = [
        row("g/0", 0, 2, 1, reward=0.25),
        row("g/0", 1, 2, 1, reward=0.75),
        row("g/1", 0, 1, 1, reward=0.0),
    ]
    batch = collate(rows)
    advantages = group_advantages(batch, batch.rewards, ALONE, divide=False)
    assert advantages.tolist() == pytest.approx([0.5, 0.5, -0.5])


def test_gigpos_states() -> None:
    rows = [
        row("g/0", 0, 2, 1, anchor="hall"),
        row("g/0", 1, 2, 1, anchor="kitchen", reward=1.0),
        row("g/1", 0, 1, 1, anchor="hall", reward=0.0),
        row("h/0", 0, 1, 1, anchor="hall", reward=9.0),
    ]
    batch = collate(rows)
    returns = torch.tensor([0.95, 1.0, 0.0, 9.0], dtype=torch.float64)
    mean = state_advantages(batch, returns, ALONE, divide=False)
    assert mean.tolist() == pytest.approx([0.475, 0.0, -0.475, 0.0])
    divided = state_advantages(batch, returns, ALONE)
    deviation = 0.95 / 2**0.5
    assert divided[0].item() == pytest.approx(0.475 / (deviation + 1e-6))


def test_gigpo_counts_rows_as_its_public_code_does() -> None:
    rows = [row("g/0", n, 3, 1, reward=float(n == 2)) for n in range(3)] + [row("g/1", 0, 1, 1)]
    batch = collate(rows)
    by_rows = group_advantages(batch, batch.rewards, ALONE, divide=False, statistics="rows")
    assert by_rows.tolist() == pytest.approx([0.25, 0.25, 0.25, -0.75])


def test_gated_distillation() -> None:
    teacher = torch.tensor([[-0.2, -1.5, -0.7]], dtype=torch.float64)
    student = torch.tensor([[-0.5, -1.0, -0.7]], dtype=torch.float64, requires_grad=True)
    scored = torch.ones(1, 3, dtype=torch.bool)
    loss = gated_distillation(student, teacher, scored, 5.0).sum() / 3
    assert loss.item() == pytest.approx(0.06911442, abs=5e-9)
    (gradient,) = torch.autograd.grad(loss, student)
    gate = [0.8176, 0.0759, 0.5]
    assert (-3 * gradient[0]).tolist() == pytest.approx(gate, abs=5e-5)


def test_gated_distillation_is_a_mean_over_tokens_that_the_teacher_scored() -> None:
    rows = [row("g/0", 0, 1, 3, reward=1.0), row("g/1", 0, 1, 3)]
    student = torch.tensor([[-0.5, -1.0, -0.7], [-0.1, -0.2, -0.3]], dtype=torch.float64)
    nobody = [float("nan")] * 3
    teacher = torch.tensor([[-0.2, -1.5, -0.7], nobody], dtype=torch.float64)
    batch = collate(rows).with_columns(old_logprobs=student, teacher_logprobs=teacher)
    algorithm = make_algorithm("grpo_opsd", kl_coef=0.0)
    ready = algorithm.prepare(batch, ALONE).batch
    said = PolicyOutputs(logprobs=student)
    metrics = algorithm.loss(ready, said, algorithm.count(ready)).metrics
    assert metrics["loss/distillation"] == pytest.approx(0.06911442, abs=5e-9)
    assert metrics["loss/total"] == pytest.approx(
        metrics["loss/policy"] + 0.01 * metrics["loss/distillation"], abs=1e-15
    )


@pytest.mark.parametrize("steps", [(2, 1), (1, 3)])
def test_the_nested_mean_is_one_over_trajectories(steps: tuple[int, int]) -> None:
    rows = [
        row(f"g/{t}", n, k, 1 + n, reward=float(t)) for t, k in enumerate(steps) for n in range(k)
    ]
    batch = collate(rows)
    algorithm = make_algorithm("grpo", aggregation="traj-nested", kl_coef=0.0)
    ready = algorithm.prepare(batch, ALONE).batch
    assert ready.targets is not None
    x = torch.arange(batch.response_mask.numel(), dtype=torch.float64).reshape(
        batch.response_mask.shape
    )
    value = aggregate(
        x,
        batch.response_mask,
        "traj-nested",
        tokens=0,
        rows=len(rows),
        row_weights=ready.targets.row_weights,
    )
    means = [x[n][batch.response_mask[n]].mean().item() for n in range(len(rows))]
    by_trajectory = [sum(means[n] for n in chain) / len(chain) for chain in batch.trajectories()]
    assert float(value) == pytest.approx(sum(by_trajectory) / len(by_trajectory))


def test_ppo_as_the_public_code_has_it_gives_every_row_the_whole_episode() -> None:
    rows = [row("g/0", 0, 2, 2, reward=0.25), row("g/0", 1, 2, 1, reward=0.75)]
    values = torch.tensor([[0.2, 0.3], [0.5, 0.0]], dtype=torch.float64)
    batch = collate(rows).with_columns(token_values=values)
    algorithm = make_algorithm("ppo", "public_code", adv_whiten="none", kl_coef=0.0)
    targets = algorithm.prepare(batch, ALONE).batch.targets
    assert targets is not None and targets.values is not None
    assert targets.advantages[batch.response_mask].tolist() == pytest.approx([0.8, 0.7, 0.5])
    assert targets.values.tolist() == [[1.0, 1.0], [1.0, 0.0]]


def test_a_whole_trajectory_has_one_ratio_in_gspos_other_reading() -> None:
    rows = [row("g/0", 0, 2, 2), row("g/0", 1, 2, 1, reward=1.0), row("g/1", 0, 1, 1)]
    z = torch.tensor([[0.01, 0.02], [0.06, 0.0], [0.05, 0.0]], dtype=torch.float64)
    old = torch.zeros_like(z)
    batch = collate(rows).with_columns(old_logprobs=old)
    algorithm = make_algorithm(
        "gspo", gspo_scope="trajectory", kl_coef=0.0, clip_low=0.2, clip_high=0.2
    )
    ready = algorithm.prepare(batch, ALONE).batch
    logprobs = z.clone().requires_grad_()
    outputs = PolicyOutputs(logprobs=logprobs)
    sums = algorithm.count(ready) + algorithm.measure(ready, outputs)
    loss = algorithm.loss(ready, outputs, sums).total
    a = math.sqrt(0.5) / (1 + 1e-6 / math.sqrt(0.5)) * 1.0
    one, other = math.exp(0.03), math.exp(0.05)
    assert loss.item() == pytest.approx(-(one * a - other * a) / 2, abs=1e-12)
    (gradient,) = torch.autograd.grad(loss, logprobs)
    wanted = [[-one * a / 6, -one * a / 6], [-one * a / 6, 0.0], [other * a / 2, 0.0]]
    torch.testing.assert_close(gradient, torch.tensor(wanted, dtype=torch.float64))


def test_ratios_by_length() -> None:
    z = padded([[0.1], [0.2, -0.1, 0.3, 0.2]])
    mask = mask_of([[0.1], [0.2, -0.1, 0.3, 0.2]])
    ratio = torch.tensor([[1.5], [1.05]], dtype=torch.float64)
    adv = torch.tensor([[1.0], [1.0]], dtype=torch.float64)
    found = length_metrics(z, mask, ratio, adv, mu=0.1, low=0.2, high=0.2, actions=4.0)
    assert found["length/1+/share"] == found["length/4+/share"] == 0.25
    assert found["length/1+/square"] == pytest.approx(0.0)
    assert found["length/4+/sum"] == pytest.approx((0.6 - 0.4) / 4)
    assert found["length/4+/square"] == pytest.approx((0.6 - 0.4) ** 2 / 4)
    assert found["length/1+/active"] == found["length/1+/out_of_range"] == 0.25
    assert found["length/4+/active"] == 0.0
    assert not any(value for name, value in found.items() if name.startswith("length/16"))
