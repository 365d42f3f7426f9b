"""The suite's names in veRL's registries, and its functions beside veRL's own on the same numbers.

``make test-verl`` runs these in an environment of their own; elsewhere they skip.
"""

from __future__ import annotations

from typing import Any

import pytest

import tests.trainers.verl_on_cpu  # noqa: F401  # isort: skip  # skips without veRL

import numpy as np
import torch
from omegaconf import OmegaConf
from torch import Tensor
from verl.trainer.ppo import core_algos
from verl.workers.config import ActorConfig

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.algorithm import PolicyOutputs, Sums
from agentgym_suite.trainers.batch import StepBatch, collate
from agentgym_suite.trainers.losses import (
    Aggregation,
    aggregate,
    clipped_surrogate,
    clipped_value_loss,
    sampled_kl,
)
from agentgym_suite.trainers.ratios import importance_ratio, log_ratio, token_log_ratios
from agentgym_suite.trainers.registry import ALGORITHMS, make_algorithm
from agentgym_suite.trainers.returns import token_gae, token_returns
from agentgym_suite.trainers.rows import StepRow
from agentgym_suite.trainers.stats import OneRank, whiten
from agentgym_suite.trainers.verl_plugin import UNCLIPPED
from agentgym_suite.trainers.verl_settings import PREFIX

pytestmark = pytest.mark.filterwarnings("ignore")  # veRL's own, and those of what it imports

GROUPS = ("a", "a", "a", "b", "b", "b", "c", "c")
ROWS, WIDTH = len(GROUPS), 6
CLOSE = {"atol": 1e-6, "rtol": 1e-5}


def drawn(seed: int = 0) -> dict[str, Tensor]:
    """Ragged rows without forced tokens, as float32: veRL's own width."""
    dice = torch.Generator().manual_seed(seed)

    def noise(scale: float = 1.0) -> Tensor:
        return scale * torch.randn(ROWS, WIDTH, generator=dice)

    lengths = torch.randint(1, WIDTH + 1, (ROWS, 1), generator=dice)
    mask = (torch.arange(WIDTH) < lengths).float()
    rewards = torch.zeros(ROWS, WIDTH)
    rewards[torch.arange(ROWS), lengths[:, 0] - 1] = torch.rand(ROWS, generator=dice)
    old = -torch.rand(ROWS, WIDTH, generator=dice) - 0.5
    return {
        "mask": mask,
        "rewards": rewards,
        "old": old,
        "now": old + noise(0.3),
        "ref": old + noise(0.3),
        "values": noise(),
        "old_values": noise(),
        "returns": noise(),
        "advantages": noise() * mask,
    }


def one_step_each(found: dict[str, Tensor]) -> StepBatch:
    rewards = found["rewards"].double().sum(1).tolist()
    batch = collate(
        [
            StepRow(
                prompt_ids=(1,),
                response_ids=(2,) * int(flags.sum()),
                response_mask=(1,) * int(flags.sum()),
                rollout_logprobs=(-1.0,) * int(flags.sum()),
                reward=reward,
                group_id=group,
                trajectory_id=f"{group}/{number}",
                step_index=0,
                n_steps=1,
                terminated=True,
            )
            for number, (group, reward, flags) in enumerate(
                zip(GROUPS, rewards, found["mask"], strict=True)
            )
        ],
        width=WIDTH,
    )
    return batch.with_columns(
        old_logprobs=found["old"].double(), token_values=found["values"].double()
    )


def actor(**changes: Any) -> ActorConfig:
    given = {"clip_ratio_low": 0.1, "clip_ratio_high": 0.2, "clip_ratio_c": 3.0, **changes}
    return ActorConfig(
        strategy="fsdp",
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=1,
        use_torch_compile=False,
        **given,
    )


def test_every_name_of_the_suite_is_prefixed_and_nothing_of_verl_is_replaced() -> None:
    estimators = set(core_algos.ADV_ESTIMATOR_REGISTRY)
    losses = set(core_algos.POLICY_LOSS_REGISTRY)
    assert {PREFIX + name for name in ALGORITHMS} <= estimators
    assert {PREFIX + name for name in ALGORITHMS if name not in UNCLIPPED} <= losses
    foreign = core_algos.POLICY_LOSS_REGISTRY["sapo"]
    assert foreign.__module__ == core_algos.__name__
    assert core_algos.ADV_ESTIMATOR_REGISTRY["grpo"].__module__ == core_algos.__name__


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("grpo", "grpo"),
        ("rloo", "rloo"),
        ("reinforce_pp", "reinforce_plus_plus"),
        ("reinforce_pp_baseline", "reinforce_plus_plus_baseline"),
    ],
)
def test_estimators_called_through_the_registry_equal_verls(ours: str, theirs: str) -> None:
    found, index = drawn(), np.array(GROUPS, dtype=object)
    config = OmegaConf.create({"gamma": 1.0, "agentgym": {"preset": "public_code"}})
    given = {
        "token_level_rewards": found["rewards"],
        "response_mask": found["mask"],
        "index": index,
        "config": config,
    }
    advantages, _ = core_algos.get_adv_estimator_fn(PREFIX + ours)(**given)
    expected, _ = core_algos.get_adv_estimator_fn(theirs)(**given)
    assert advantages.dtype == torch.float32
    torch.testing.assert_close(advantages, expected * found["mask"], **CLOSE)


@pytest.mark.parametrize("name", ["grpo", "rloo", "gigpo", "dapo", "reinforce_pp_baseline"])
def test_estimators_called_through_the_registry_equal_ours(name: str) -> None:
    found = drawn(1)
    advantages, _ = core_algos.get_adv_estimator_fn(PREFIX + name)(
        token_level_rewards=found["rewards"],
        response_mask=found["mask"],
        index=np.array(GROUPS, dtype=object),
    )
    targets = make_algorithm(name).prepare(one_step_each(found), OneRank()).batch.targets
    assert targets is not None
    torch.testing.assert_close(advantages, targets.advantages.float(), **CLOSE)
    assert advantages.abs().sum() > 0


@pytest.mark.parametrize("name", ["capo", "ppo", "taspo", "sapo_ar"])
def test_an_estimator_that_lacks_its_inputs_names_the_trainer(name: str) -> None:
    found = drawn()
    with pytest.raises(UsageError, match="trainer_mode=agentgym"):
        core_algos.get_adv_estimator_fn(PREFIX + name)(
            token_level_rewards=found["rewards"], response_mask=found["mask"], index=GROUPS
        )


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name not in UNCLIPPED])
def test_losses_called_through_the_registry_equal_ours(name: str) -> None:
    """One micro-batch that is the mini-batch; widths and aggregation as veRL's section says."""
    found = drawn(2)
    now = found["now"].clone().requires_grad_()
    mode: Aggregation = "seq-mean-token-mean"
    loss, numbers = core_algos.get_policy_loss_fn(PREFIX + name)(
        old_log_prob=found["old"],
        log_prob=now,
        advantages=found["advantages"],
        response_mask=found["mask"].bool(),
        loss_agg_mode=mode,
        config=actor(),
        rollout_is_weights=None,
    )
    loss.backward()

    dual = 3.0 if make_algorithm(name).config.dual_clip else 0.0
    algorithm = make_algorithm(
        name,
        clip_low=0.1,
        clip_high=0.2,
        dual_clip=dual,
        aggregation=mode,
        kl_coef=0.0,
        entropy_coef=0.0,
    )
    batch = one_step_each(found)
    targets = make_algorithm("grpo").prepare(batch, OneRank()).batch.targets
    assert targets is not None
    micro = batch.with_targets(
        type(targets)(advantages=found["advantages"].double(), row_weights=targets.row_weights)
    )
    mine = found["now"].double().requires_grad_()
    outputs = PolicyOutputs(logprobs=mine)
    sums: Sums = algorithm.count(micro) + algorithm.measure(micro, outputs)
    share = algorithm.loss(micro, outputs, sums)
    share.total.backward()
    torch.testing.assert_close(loss.double(), share.total, **CLOSE)
    assert now.grad is not None and mine.grad is not None
    torch.testing.assert_close(now.grad.double(), mine.grad, **CLOSE)
    if algorithm.config.ratio == "token":
        assert numbers["actor/pg_clipfrac"] == pytest.approx(share.metrics["clip/active"])
        assert numbers["actor/out_of_range"] == pytest.approx(share.metrics["clip/out_of_range"])


@pytest.mark.parametrize(("ours", "theirs"), [("grpo", "vanilla"), ("gspo", "gspo")])
@pytest.mark.parametrize("mode", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum"])
def test_losses_equal_verls(ours: str, theirs: str, mode: str) -> None:
    found = drawn(3)
    # one advantage a row: where a ratio is a row's, ours clips the row's mean advantage
    per_row = found["advantages"][:, :1].expand(ROWS, WIDTH) * found["mask"]
    losses, gradients = [], []
    for name in (PREFIX + ours, theirs):
        now = found["now"].clone().requires_grad_()
        loss, _ = core_algos.get_policy_loss_fn(name)(
            old_log_prob=found["old"],
            log_prob=now,
            advantages=per_row,
            response_mask=found["mask"].bool(),
            loss_agg_mode=mode,
            config=actor(),
            rollout_is_weights=None,
        )
        loss.backward()
        losses.append(loss.detach())
        gradients.append(now.grad)
    torch.testing.assert_close(losses[0], losses[1], **CLOSE)
    torch.testing.assert_close(gradients[0], gradients[1], **CLOSE)


def test_dual_clip_equals_verls() -> None:
    found = drawn(4)
    far = (found["old"] + 3 * (found["now"] - found["old"])).requires_grad_()
    config = actor(clip_ratio_c=1.2)
    theirs, numbers = core_algos.compute_policy_loss_vanilla(
        found["old"], far, found["advantages"], found["mask"].bool(), "token-mean", config
    )
    mask = found["mask"].bool()
    ratio = importance_ratio(log_ratio(token_log_ratios(far, found["old"], mask), mask, "token"))
    surrogate = clipped_surrogate(ratio, found["advantages"], 0.1, 0.2, 1.2)
    ours = -aggregate(surrogate, mask, "token-mean", tokens=float(mask.sum()), rows=ROWS)
    assert numbers["actor/pg_clipfrac_lower"] > 0
    torch.testing.assert_close(ours, theirs, **CLOSE)


@pytest.mark.parametrize("kind", ["k1", "k2", "k3"])
def test_kl_estimators_equal_verls(kind: Any) -> None:
    found = drawn(5)
    mask = found["mask"].bool()
    ours = sampled_kl(found["now"], found["ref"], mask, kind)
    theirs = core_algos.kl_penalty(found["now"], found["ref"], kind)
    torch.testing.assert_close(ours, theirs * found["mask"], **CLOSE)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("token-mean", "token-mean"),
        ("seq-mean-token-mean", "seq-mean-token-mean"),
        ("seq-mean-token-sum", "seq-mean-token-sum"),
        ("dr-grpo", "seq-mean-token-sum-norm"),
    ],
)
def test_aggregations_equal_verls(ours: Aggregation, theirs: str) -> None:
    found = drawn(6)
    mask = found["mask"].bool()
    tokens = float(mask.sum())
    mine = aggregate(found["values"], mask, ours, tokens=tokens, rows=ROWS, dr_constant=WIDTH)
    torch.testing.assert_close(mine, core_algos.agg_loss(found["values"], mask, theirs), **CLOSE)


def test_gae_equals_verls() -> None:
    found = drawn(7)
    batch = one_step_each(found)
    mask = batch.response_mask
    raw = token_gae(batch, found["rewards"].double(), 0.9, 0.8, scope="row")
    advantages, returns = core_algos.compute_gae_advantage_return(
        found["rewards"], found["values"], found["mask"], 0.9, 0.8
    )
    mine = (raw + found["values"].double()) * mask
    torch.testing.assert_close(mine.float(), returns * found["mask"], **CLOSE)
    torch.testing.assert_close(
        whiten(raw, mask, OneRank()).float(), advantages * found["mask"], **CLOSE
    )


def test_token_returns_equal_verls_reinforce_plus_plus() -> None:
    found = drawn(8)
    rewards = found["rewards"] + 0.1 * found["values"] * found["mask"]  # one on every token
    batch = one_step_each(found)
    config = OmegaConf.create({"gamma": 0.9})
    theirs, _ = core_algos.compute_reinforce_plus_plus_outcome_advantage(
        rewards, found["mask"], config=config
    )
    returns = token_returns(batch, rewards.double(), 0.9, scope="row")
    mine = whiten(returns, batch.response_mask, OneRank())
    torch.testing.assert_close(mine.float(), theirs * found["mask"], **CLOSE)


def test_the_clipped_value_loss_equals_verls() -> None:
    found = drawn(9)
    mask = found["mask"].bool()
    theirs, _ = core_algos.compute_value_loss(
        found["values"], found["returns"], found["old_values"], mask, 0.5
    )
    mine = clipped_value_loss(found["values"], found["old_values"], found["returns"], 0.5)
    tokens = float(mask.sum())
    total = aggregate(mine, mask, "token-mean", tokens=tokens, rows=ROWS)
    torch.testing.assert_close(total, theirs, **CLOSE)
