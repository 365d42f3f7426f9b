"""Every equation against vectors computed twice elsewhere, in float64 and float32."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from agentgym_suite.trainers.advantages import group_advantages, leave_one_out_advantages
from agentgym_suite.trainers.batch import StepBatch, collate
from agentgym_suite.trainers.credit import CreditSettings, turn_weights
from agentgym_suite.trainers.losses import (
    aggregate,
    clipped_away,
    clipped_surrogate,
    distillation_advantages,
    full_divergence,
)
from agentgym_suite.trainers.ratios import (
    clip_active,
    importance_ratio,
    log_ratio,
    mean_log_ratio,
    out_of_range,
)
from agentgym_suite.trainers.returns import gae, token_returns
from agentgym_suite.trainers.stats import OneRank, whiten
from agentgym_suite.trainers.value_basis import (
    normalised_targets,
    read_out,
    restricted_entropy,
    restricted_logprobs,
    sarsa_targets,
    value_margin,
)
from tests.trainers.ragged import mask_of, padded
from tests.trainers.small_batches import row

Vectors = dict[str, Any]
ALONE = OneRank()


@pytest.fixture(params=[torch.float64, torch.float32], ids=["float64", "float32"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    kind: torch.dtype = request.param
    return kind


def same(value: Any, expected: Any) -> None:
    """Equal within 1e-12, or 1e-6 in float32."""
    value = value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)
    atol = 1e-12 if value.dtype == torch.float64 else 1e-6
    wanted = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(value.detach().double(), wanted, rtol=0, atol=atol)


def test_the_file_holds_all_the_vectors(vectors: Vectors) -> None:
    assert len(vectors) == 18


def test_capo_gae(vectors: Vectors, dtype: torch.dtype) -> None:
    given, wanted = vectors["capo_gae"]["inputs"], vectors["capo_gae"]["outputs"]
    for lam, name in ((1.0, "lam1"), (0.95, "lam095")):
        steps = gae(given["r"], given["v"], gamma=given["gamma"], lam=lam)
        same(steps, wanted[f"adv_{name}"])
        returns = torch.tensor(steps, dtype=dtype) + torch.tensor(given["v"], dtype=dtype)
        same(returns, wanted[f"returns_{name}"])
    raw = torch.tensor(wanted["adv_lam1"], dtype=torch.float64)
    whitened = whiten(raw, torch.ones(4, dtype=torch.bool), ALONE)
    same(whitened.to(dtype), wanted["whitened_lam1_unbiased"])


def capo(
    z: Tensor, mask: Tensor, adv: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor, float]:
    mu = mean_log_ratio(float(z.detach().double().sum()), float(mask.sum()))
    log_w = log_ratio(z, mask, "action_aware", mu=mu)
    w = importance_ratio(log_w)
    surrogate = clipped_surrogate(w, adv.unsqueeze(1), eps, eps)
    rows = float(len(mask))
    loss = -aggregate(surrogate, mask, "action-mean", tokens=float(mask.sum()), rows=rows)
    return log_w, w, surrogate, loss, mu


def test_capo_ratio(vectors: Vectors, dtype: torch.dtype) -> None:
    given, wanted = vectors["capo_ratio"]["inputs"], vectors["capo_ratio"]["outputs"]
    z, mask = padded(given["z"], dtype).requires_grad_(), mask_of(given["z"])
    adv, eps = torch.tensor(given["adv"], dtype=dtype), given["eps"]
    log_w, w, surrogate, loss, mu = capo(z, mask, adv, eps)
    same(torch.tensor(mu, dtype=dtype), wanted["mu"])
    same(log_w.squeeze(1), wanted["log_w"])
    same(w.squeeze(1), wanted["w"])
    same(surrogate.squeeze(1), wanted["surrogate"])
    same(loss, wanted["loss"])
    (gradient,) = torch.autograd.grad(loss, z)
    for number, expected in enumerate(wanted["dloss_dz_per_token"]):
        same(gradient[number][mask[number]], [expected] * int(mask[number].sum()))
    for kind, name in (("product", "log_w_prod"), ("mean", "log_w_mean"), ("sqrt", "log_w_sqrt")):
        same(log_ratio(z, mask, kind).squeeze(1), wanted[name])  # type: ignore[arg-type]
    w = w.squeeze(1).detach()
    assert out_of_range(w, eps, eps).tolist() == wanted["out_of_range"]
    assert clip_active(w, adv, eps, eps).tolist() == wanted["clip_active"]


def test_capo_ratio_eps_sweep(vectors: Vectors, dtype: torch.dtype) -> None:
    given = vectors["capo_ratio_eps_sweep"]["inputs"]
    z, mask = padded(given["z"], dtype).requires_grad_(), mask_of(given["z"])
    adv = torch.tensor(given["adv"], dtype=dtype)
    for case in vectors["capo_ratio_eps_sweep"]["outputs"]:
        eps = case["eps"]
        _, w, surrogate, loss, _ = capo(z, mask, adv, eps)
        same(surrogate.squeeze(1), case["surrogate"])
        same(loss, case["loss"])
        assert clip_active(w.squeeze(1), adv, eps, eps).tolist() == case["active"]
        (gradient,) = torch.autograd.grad(loss, z)
        for number, expected in enumerate(case["dloss_dz_per_token"]):
            same(gradient[number][mask[number]], [expected] * int(mask[number].sum()))


def test_capo_ratio_identity(vectors: Vectors, dtype: torch.dtype) -> None:
    given, wanted = vectors["capo_ratio_identity"]["inputs"], vectors["capo_ratio_identity"]
    z, mask = padded(given["z"], dtype), mask_of(given["z"])
    _, w, _, _, mu = capo(z, mask, torch.ones(2, dtype=dtype), 0.1)
    assert w.squeeze(1).tolist() == wanted["outputs"]["w"] and mu == wanted["outputs"]["mu"]


def test_sapo_readout(vectors: Vectors, dtype: torch.dtype) -> None:
    given, wanted = vectors["sapo_readout"]["inputs"], vectors["sapo_readout"]["outputs"]
    logits = torch.tensor(given["logits"], dtype=dtype, requires_grad=True)
    ids = (given["w_plus"], given["w_minus"])
    same(read_out(value_margin(logits, ids), 1.0), wanted["p_tau1"])
    p = read_out(value_margin(logits, ids), 4.0)
    same(p, wanted["p_tau4"])
    same(given["Rmax"] * p, wanted["V_tau4"])
    same(read_out(value_margin(logits + 8.0, ids), 4.0), wanted["shift_invariant"])
    (inside,) = torch.autograd.grad(p, logits)
    same(inside[ids[0]], wanted["dp_dlogit_plus_tau4"])
    (dead,) = torch.autograd.grad(read_out(value_margin(logits, ids), 1.0), logits)
    same(dead[ids[0]], wanted["dp_dlogit_plus_tau1_saturated"])
    logprobs = restricted_logprobs(logits, ids)
    expected = [-float("inf") if x is None else x for x in wanted["restricted_logprobs"]]
    same(logprobs, expected)
    same(restricted_entropy(logits, ids), wanted["restricted_entropy"])


def test_sapo_targets(vectors: Vectors, dtype: torch.dtype) -> None:
    given, wanted = vectors["sapo_targets"]["inputs"], vectors["sapo_targets"]["outputs"]
    r, v, q = given["r"], given["V"], given["Q"]
    steps = gae(r, v, gamma=given["gamma"], lam=given["lam"])
    same(steps, wanted["adv"])
    y_v = torch.tensor(steps, dtype=dtype) + torch.tensor(v, dtype=dtype)
    y_q = torch.tensor(sarsa_targets(r, q, given["gamma"]), dtype=dtype)
    same(y_v, wanted["yV"])
    same(y_q, wanted["yQ"])
    same(normalised_targets(y_v, 10.0), wanted["yV_norm"])
    same(normalised_targets(y_q, 10.0), wanted["yQ_norm_clipped"])
    same(y_q / 10.0, wanted["yQ_norm"])


def test_sapo_batchnorm(vectors: Vectors) -> None:
    given, wanted = vectors["sapo_batchnorm"]["inputs"], vectors["sapo_batchnorm"]["outputs"]
    adv = torch.tensor(given["adv"], dtype=torch.float64)
    pre = adv - given["c_inv"] * torch.tensor(given["invalid"], dtype=torch.float64)
    same(pre, wanted["pre"])
    every = torch.ones(4, dtype=torch.bool)
    same(whiten(pre, every, ALONE), wanted["norm_unbiased"])
    same(whiten(pre, every, ALONE, spread="biased"), wanted["norm_biased"])
    same(whiten(pre[:1], every[:1], ALONE), [wanted["single_turn_batch"]])


def taspo_settings(given: dict[str, Any]) -> CreditSettings:
    return CreditSettings(
        shift_clip=given["c"], temperature=given["tau"], weight_range=given["eps_w"]
    )


@pytest.mark.parametrize("name", ["taspo_pos", "taspo_zero"])
def test_taspo(vectors: Vectors, name: str) -> None:
    given, wanted = vectors[name]["inputs"], vectors[name]["outputs"]
    shifts = [
        line if flag else None for line, flag in zip(given["delta"], given["scorable"], strict=True)
    ]
    credited = turn_weights(given["A"], shifts, taspo_settings(given))
    same(list(credited.weights), wanted["w"])
    assert {str(turn) for turn in credited.squashed} == set(wanted["q"])
    for turn, q in credited.squashed.items():
        same(q, wanted["q"][str(turn)])
    same([given["A"] * w for w in credited.weights], wanted["adv"])
    same(sum(credited.weights) / len(credited.weights), wanted["mean_w"])


@pytest.mark.parametrize("shift", [0.0, 1.0, -7.5])
def test_taspo_fallback_one_scorable(vectors: Vectors, shift: float) -> None:
    given = vectors["taspo_fallback_one_scorable"]["inputs"]
    shifts = [[shift] if flag else None for flag in given["scorable"]]
    credited = turn_weights(given["A"], shifts, CreditSettings())
    assert list(credited.weights) == vectors["taspo_fallback_one_scorable"]["outputs"]["w"]


def one_step_batch(rewards: list[float], groups: list[str]) -> StepBatch:
    return collate(
        [
            row(f"{n}", 0, 1, 1, group=group, reward=reward)
            for n, (reward, group) in enumerate(zip(rewards, groups, strict=True))
        ]
    )


def test_grpo(vectors: Vectors) -> None:
    given, wanted = vectors["grpo"]["inputs"], vectors["grpo"]["outputs"]
    batch = one_step_batch(given["R"], given["group"])
    same(group_advantages(batch, batch.rewards, ALONE), wanted["unbiased"])
    biased = group_advantages(batch, batch.rewards, ALONE, spread="biased")
    same(biased, wanted["biased"])
    same(group_advantages(batch, batch.rewards, ALONE, divide=False), wanted["no_std"])


def test_grpo_zero_std(vectors: Vectors) -> None:
    given, wanted = vectors["grpo_zero_std"]["inputs"], vectors["grpo_zero_std"]["outputs"]
    batch = one_step_batch(given["R"], given["group"])
    assert group_advantages(batch, batch.rewards, ALONE).tolist() == wanted["adv"]


def test_rloo(vectors: Vectors) -> None:
    given, wanted = vectors["rloo"]["inputs"], vectors["rloo"]["outputs"]
    batch = one_step_batch(given["R"], given["group"])
    same(leave_one_out_advantages(batch, batch.rewards, ALONE), wanted["adv"])


def test_reinforce_pp(vectors: Vectors) -> None:
    given, wanted = vectors["reinforce_pp"]["inputs"], vectors["reinforce_pp"]["outputs"]
    batch = collate([row(f"{n}", 0, 1, 4, mask=mask) for n, mask in enumerate(given["mask"])])
    rewards = torch.tensor(given["token_rewards"], dtype=torch.float64)
    returns = token_returns(batch, rewards, given["gamma"])
    same(returns, wanted["returns"])
    same(whiten(returns, batch.response_mask, ALONE), wanted["adv"])


def test_gspo(vectors: Vectors, dtype: torch.dtype) -> None:
    given, wanted = vectors["gspo"]["inputs"], vectors["gspo"]["outputs"]
    z, mask = padded(given["z"], dtype).requires_grad_(), mask_of(given["z"])
    s = importance_ratio(log_ratio(z, mask, "mean"))
    same(s.squeeze(1), wanted["s"])
    adv = torch.tensor(given["adv"], dtype=dtype).unsqueeze(1)
    surrogate = clipped_surrogate(s, adv, given["eps_low"], given["eps_high"])
    same(surrogate.squeeze(1), wanted["surrogate"])
    loss = -aggregate(surrogate, mask, "seq-mean-token-mean", tokens=6, rows=2)
    same(loss, wanted["loss"])
    (gradient,) = torch.autograd.grad(loss, z)
    same(gradient.sum(1), wanted["dloss_dz"])


def test_st_ppo(vectors: Vectors, dtype: torch.dtype) -> None:
    given, wanted = vectors["st_ppo"]["inputs"], vectors["st_ppo"]["outputs"]
    z, mask, eps = padded(given["z"], dtype), mask_of(given["z"]), given["eps"]
    adv = padded(given["token_adv"], dtype)
    w = importance_ratio(log_ratio(z, mask, "mean"))
    same(w.squeeze(1), wanted["turn_ratio"])
    surrogate = clipped_surrogate(w, adv, eps, eps)
    same(-surrogate[mask], wanted["token_loss"])
    same(-aggregate(surrogate, mask, "token-mean", tokens=6, rows=3), wanted["loss"])
    active = clip_active(w, adv, eps, eps)[mask]
    assert active.int().tolist() == wanted["clipped_token"]
    same(active.double().mean(), wanted["clip_frac"])
    bias = aggregate(clipped_away(w, adv, eps, eps), mask, "token-mean", tokens=6, rows=3)
    same(bias, wanted["bias_term"])


def test_loss_agg(vectors: Vectors, dtype: torch.dtype) -> None:
    given, wanted = vectors["loss_agg"]["inputs"], vectors["loss_agg"]["outputs"]
    losses, mask = padded(given["token_loss"], dtype), mask_of(given["token_loss"])
    for mode, name in (
        ("token-mean", "token_mean"),
        ("seq-mean-token-mean", "seq_mean_token_mean"),
        ("seq-mean-token-sum", "seq_mean_token_sum"),
        ("dr-grpo", "dr_grpo"),
    ):
        constant = given["dr_norm"]
        value = aggregate(losses, mask, mode, tokens=4, rows=2, dr_constant=constant)  # type: ignore[arg-type]
        same(value, wanted[name])


def test_opsd(vectors: Vectors, dtype: torch.dtype) -> None:
    given, wanted = vectors["opsd"]["inputs"], vectors["opsd"]["outputs"]
    student = torch.tensor(given["student"], dtype=dtype).log()
    teacher = torch.tensor(given["teacher"], dtype=dtype).log()
    same(full_divergence(student, teacher, "reverse_kl"), wanted["reverse_kl_full"])
    same(full_divergence(student, teacher, "forward_kl"), wanted["forward_kl_full"])
    same(full_divergence(student, teacher, "jsd"), wanted["jsd_half"])
    sampled = given["sampled"]
    advantage = distillation_advantages(
        student[sampled].reshape(1, 1),
        teacher[sampled].reshape(1, 1),
        torch.ones(1, 1, dtype=torch.bool),
    )
    same(advantage.squeeze(), wanted["sampled_advantage"])
