"""One optimizer step: how rows are cut into micro-batches changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch

from agentgym_suite.trainers.batch import StepBatch, collate
from agentgym_suite.trainers.logprobs import Forward
from agentgym_suite.trainers.models import make_critic
from agentgym_suite.trainers.passes import (
    critic_pass,
    old_policy_pass,
    reference_pass,
)
from agentgym_suite.trainers.registry import make_algorithm
from agentgym_suite.trainers.stats import OneRank
from agentgym_suite.trainers.update import (
    Learner,
    Tally,
    update_critic,
    update_policy,
)
from tests.engines.small_policy import VOCABULARY, small_module
from tests.trainers.small_batches import mixed_rows

VALUE_IDS = (VOCABULARY - 2, VOCABULARY - 1)
NAMES = ("capo", "sapo_ar", "ppo", "grpo", "rloo", "gspo", "st_ppo", "reinforce_pp_baseline")


def forward_of(name: str) -> Forward:
    reads = name == "sapo_ar"
    return Forward(
        banned_ids=VALUE_IDS, value_ids=VALUE_IDS if reads else None, entropy=True, most_logits=300
    )


def prepared(name: str, algorithm: Any, critic: Any) -> StepBatch:
    """A batch whose old policy is another one, so that ratios differ from 1."""
    forward = forward_of(name)
    batch = old_policy_pass(
        collate(mixed_rows()), small_module(seed=5).double(), algorithm, forward, 400
    )
    batch = reference_pass(batch, small_module(seed=6).double(), forward, 400)
    if algorithm.needs.critic != "none":
        batch = critic_pass(batch, critic, algorithm.needs.critic, 400)
    found: StepBatch = algorithm.prepare(batch, OneRank()).batch
    return found


def learned(name: str, most_tokens: int, order: int = 1) -> tuple[Any, Any, dict[str, float]]:
    """Policy and critic after one step, and the metrics."""
    algorithm = make_algorithm(name, kl_coef=0.1, clip_low=0.2, clip_high=0.3)
    policy = small_module().double()
    critic = make_critic(policy)
    torch.nn.init.normal_(critic.score.weight, generator=torch.Generator().manual_seed(0))
    batch = prepared(name, algorithm, critic)
    batch = batch.select(list(range(len(batch)))[::order])
    tally = Tally()
    learners = [Learner.make(m, 1e-3, warmup=0, grad_clip=1e9, decay=0.0) for m in (policy, critic)]
    for learner in learners:  # plain descent: AdamW would hide the size of a gradient
        weights = learner.optimizer.param_groups[0]["params"]
        learner.optimizer = torch.optim.SGD(weights, lr=1e-3)
    given = {"most_tokens": most_tokens, "tally": tally}
    update_policy(learners[0], batch, algorithm, forward_of(name), OneRank(), **given)
    if algorithm.needs.critic != "none":
        update_critic(learners[1], batch, algorithm, OneRank(), **given)
    return policy, critic, tally.summary()


@pytest.mark.parametrize("name", NAMES)
def test_a_step_does_not_depend_on_how_its_rows_are_cut_or_ordered(name: str) -> None:
    whole_policy, whole_critic, whole = learned(name, 10_000)
    for most_tokens, order in ((10_000, -1), (60, 1), (20, -1)):
        policy, critic, metrics = learned(name, most_tokens, order)
        for one, other in ((whole_policy, policy), (whole_critic, critic)):
            for a, b in zip(one.parameters(), other.parameters(), strict=True):
                # norms of this architecture compute in float32 whatever the model's dtype
                torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)
        assert metrics == pytest.approx(whole, rel=1e-4, abs=1e-6)


def test_ratios_are_logged_where_they_differ_from_one() -> None:
    _, _, metrics = learned("capo", 60)
    assert metrics["ratio/min"] < 1 < metrics["ratio/max"]
    assert 0 < metrics["clip/out_of_range"] <= 1
    assert metrics["grad/policy"] > 0 and metrics["grad/critic"] > 0
