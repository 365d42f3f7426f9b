"""Distillation on sampled tokens: its weights against engine mismatch, its clip, its mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from agentgym_suite.trainers.algorithm import PolicyOutputs
from agentgym_suite.trainers.registry import make_algorithm
from agentgym_suite.trainers.stats import OneRank
from tests.trainers.small_batches import mixed_batch

ALONE = OneRank()


@pytest.mark.parametrize("name", ["opsd", "opd", "grpo_opsd"])
def test_tokens_of_a_distillation_weigh_against_engine_mismatch(name: str) -> None:
    sampled: dict[str, Any] = {} if name == "grpo_opsd" else {"objective": "sampled"}
    batch = mixed_batch()
    z = 0.05 * torch.linspace(-1, 1, batch.response_mask.numel()).reshape(batch.response_mask.shape)

    def gradient(cap: float) -> torch.Tensor:
        algorithm = make_algorithm(name, mismatch_cap=cap, kl_coef=0.0, **sampled)
        ready = algorithm.prepare(batch, ALONE).batch
        if name == "grpo_opsd" and ready.targets is not None:  # the gated term alone
            still = torch.zeros_like(ready.targets.advantages)
            ready = ready.with_targets(replace(ready.targets, advantages=still))
        assert ready.old_logprobs is not None
        logprobs = (ready.old_logprobs + z).requires_grad_()
        loss = algorithm.loss(ready, PolicyOutputs(logprobs=logprobs), algorithm.count(ready))
        return torch.autograd.grad(loss.total, logprobs)[0]

    weighed, plain = gradient(1.5), gradient(0.0)
    assert batch.old_logprobs is not None
    mask = batch.response_mask & (plain != 0)
    weights = (batch.old_logprobs - batch.rollout_logprobs).exp().clamp(max=1.5)
    assert mask.any()
    torch.testing.assert_close(weighed[mask], (plain * weights)[mask])


def test_the_clip_of_a_distillation_is_counted_by_the_teachers_advantages() -> None:
    algorithm = make_algorithm("opsd", objective="sampled", clip_low=0.1, clip_high=0.1)
    ready = algorithm.prepare(mixed_batch(), ALONE).batch
    assert ready.old_logprobs is not None and ready.teacher_logprobs is not None
    outputs = PolicyOutputs(logprobs=ready.old_logprobs + 0.5)
    found = algorithm.loss(ready, outputs, algorithm.count(ready)).metrics
    gains = int(((ready.teacher_logprobs > outputs.logprobs) & ready.response_mask).sum())
    assert found["clip/out_of_range"] == 1.0
    assert found["clip/active"] == gains / int(ready.response_mask.sum()) > 0
