"""The suite as a plugin of veRL: loaded by ``import verl`` where both are installed.

Puts the suite's names into veRL's registries, each beginning with ``agentgym_``: advantage
estimators, policy losses, and the agent loop. veRL's estimators are told neither trajectories nor
values, and its losses one micro-batch: the trainer of ``verl_trainer`` goes without both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from agentgym_suite.errors import MissingExtra, UsageError
from agentgym_suite.trainers.algorithm import Algorithm
from agentgym_suite.trainers.batch import StepBatch, collate
from agentgym_suite.trainers.losses import clipped_surrogate
from agentgym_suite.trainers.ratios import (
    clip_active,
    importance_ratio,
    log_ratio,
    mean_log_ratio,
    out_of_range,
    token_log_ratios,
)
from agentgym_suite.trainers.registry import ALGORITHMS, algorithm_spec
from agentgym_suite.trainers.returns import token_means
from agentgym_suite.trainers.rows import StepRow
from agentgym_suite.trainers.stats import ALONE
from agentgym_suite.trainers.verl_settings import LOOP, PREFIX, verl_configuration

try:
    from verl.experimental.agent_loop.agent_loop import register as register_agent_loop
    from verl.trainer.ppo.core_algos import agg_loss, register_adv_est, register_policy_loss
except ImportError as error:
    raise MissingExtra("verl", "training through veRL") from error

Estimates = tuple[Tensor, Tensor]
UNCLIPPED = ("sapo_ar", "opsd", "opd", "grpo_opsd", "st_ppo")
"""Algorithms whose loss is more than a clipped surrogate: not among the policy losses."""


def estimator(name: str) -> Callable[..., Estimates]:
    """An algorithm's advantages as veRL asks for them: each row is a trajectory of one step.

    Args:
        name: in the suite's registry.

    Returns:
        A function of ``token_level_rewards`` and ``response_mask`` ``[N, R]``, ``index`` (the
        groups' names) and ``config`` (veRL's section ``algorithm``). The score of a row is the
        sum of its rewards.
    """

    def advantages(
        token_level_rewards: Tensor,
        response_mask: Tensor,
        config: Mapping[str, Any] | None = None,
        index: Sequence[Any] | None = None,
        **_: Any,
    ) -> Estimates:
        algorithm = _configured(name, config)
        needs = algorithm.needs
        if needs.critic != "none" or needs.teacher != "none" or needs.value_tokens:
            raise UsageError(
                f"{PREFIX}{name} needs what veRL's estimators are not given; set "
                "trainer.v1.trainer_mode=agentgym"
            )
        batch = _one_step_each(token_level_rewards, response_mask, index)
        targets = algorithm.prepare(batch, ALONE).batch.targets
        assert targets is not None
        found = targets.advantages.to(token_level_rewards)
        return found, found

    return advantages


def policy_loss(name: str) -> Callable[..., tuple[Tensor, dict[str, Any]]]:
    """An algorithm's ratio under veRL's clipping and aggregation; KL and entropy are veRL's.

    Widths are ``actor.clip_ratio_low``, ``clip_ratio_high`` and, where the algorithm clips from
    below, ``clip_ratio_c``. The centre of an action-aware ratio is that of the micro-batch.

    Args:
        name: in the suite's registry.
    """
    spec = algorithm_spec(name)
    settings = spec.config.preset()
    of_actions = spec.algorithm(settings).one_ratio_an_action

    def loss(
        old_log_prob: Tensor,
        log_prob: Tensor,
        advantages: Tensor,
        response_mask: Tensor,
        loss_agg_mode: str = "token-mean",
        config: Any = None,
        rollout_is_weights: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        mask = response_mask.bool()
        z = token_log_ratios(log_prob, old_log_prob, mask)
        mu = mean_log_ratio(float(z.detach().double().sum()), float(mask.sum()))
        ratio = importance_ratio(
            log_ratio(z, mask, settings.ratio, mu=mu, alpha=settings.ratio_alpha)
        )
        credit = token_means(advantages, mask).unsqueeze(1) if of_actions else advantages
        low, high = config.clip_ratio_low, config.clip_ratio_high
        dual = config.clip_ratio_c if settings.dual_clip else 0.0
        surrogate = clipped_surrogate(ratio, credit, low, high, dual).expand(mask.shape)
        if rollout_is_weights is not None:
            surrogate = surrogate * rollout_is_weights
        total = agg_loss(-surrogate, mask, loss_agg_mode, **config.global_batch_info)
        with torch.no_grad():
            active = clip_active(ratio, credit, low, high).expand(mask.shape)[mask]
            outside = out_of_range(ratio, low, high).expand(mask.shape)[mask]
            numbers = {
                "actor/pg_clipfrac": active.float().mean().item(),
                "actor/out_of_range": outside.float().mean().item(),
                "actor/ppo_kl": -mu,
            }
        return total, numbers

    return loss


def register() -> None:
    """Put every name into veRL's registries."""
    from agentgym_suite.trainers.verl_loop import EpisodeLoop

    register_agent_loop(LOOP)(EpisodeLoop)
    for name in ALGORITHMS:
        register_adv_est(PREFIX + name)(estimator(name))
        if name not in UNCLIPPED:
            register_policy_loss(PREFIX + name)(policy_loss(name))


def _configured(name: str, config: Mapping[str, Any] | None) -> Algorithm:
    """The algorithm of veRL's section; what diverges from the reference is veRL's to penalise."""
    section = None if config is None else config.get("agentgym")
    given = verl_configuration({"adv_estimator": PREFIX + name, "agentgym": section})
    return algorithm_spec(name).algorithm(replace(given.settings, kl_coef=0.0))


def _one_step_each(rewards: Tensor, mask: Tensor, index: Sequence[Any] | None) -> StepBatch:
    scores = rewards.double().sum(1).tolist()
    return collate(
        [
            StepRow(
                prompt_ids=(0,),
                response_ids=(0,) * len(flags),
                response_mask=tuple(map(int, flags)),
                rollout_logprobs=(0.0,) * len(flags),
                reward=score,
                group_id=str(number if index is None else index[number]),
                trajectory_id=str(number),
                step_index=0,
                n_steps=1,
                terminated=True,
            )
            for number, (score, flags) in enumerate(zip(scores, mask.tolist(), strict=True))
        ]
    )


register()
