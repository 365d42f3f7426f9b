"""veRL's training workers with the suite's losses: sums of a whole mini-batch, then micro-batches.

veRL hands a loss one micro-batch. What belongs to the mini-batch (denominators over real rows, the
mean log-ratio of CAPO, the sequences of GSPO) is summed before its first backward, over all ranks,
and lies in every micro-batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from verl.utils import tensordict_utils as tu
from verl.utils.device import get_device_name
from verl.utils.metric import Metric
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker
from verl.workers.utils.padding import no_padding_2_padding

from agentgym_suite.trainers.algorithm import Algorithm, Loss, PolicyOutputs, Sums
from agentgym_suite.trainers.stats import AllRanks
from agentgym_suite.trainers.verl_rows import micro_batch

SUMS = "agentgym_sums"
Reported = tuple[Tensor, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class PolicyLoss:
    """The policy's whole loss, in the place of veRL's ``ppo_loss``."""

    algorithm: Algorithm

    def __call__(self, model_output: dict[str, Any], data: Any, dp_group: Any = None) -> Reported:
        """The share of a micro-batch, times the ranks over which veRL averages gradients."""
        outputs = _policy_outputs(model_output, data)
        share = self.algorithm.loss(micro_batch(data), outputs, tu.get(data, SUMS))
        return _reported(share, data, "actor")


@dataclass(frozen=True, slots=True)
class CriticLoss:
    """The critic's loss, in the place of veRL's ``value_loss``."""

    algorithm: Algorithm

    def __call__(self, model_output: dict[str, Any], data: Any, dp_group: Any = None) -> Reported:
        """The share of a micro-batch: V at the last prompt token, or before each token."""
        boundary = self.algorithm.needs.critic == "boundary"
        values = no_padding_2_padding(model_output["values"], data).float()
        share = self.algorithm.critic_loss(
            micro_batch(data, boundary=boundary),
            values[:, 0] if boundary else values,
            tu.get(data, SUMS),
        )
        return _reported(share, data, "critic")


class _Measure:
    """A loss that learns nothing and sums log-ratios."""

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        self.sums = Sums()

    def __call__(self, model_output: dict[str, Any], data: Any, dp_group: Any = None) -> Reported:
        outputs = _policy_outputs(model_output, data)
        self.sums += self._algorithm.measure(micro_batch(data), outputs)
        return outputs.logprobs.new_zeros(()), {}


class StepWorker(TrainingWorker):  # type: ignore[misc]
    """A training worker that sums over a mini-batch before it learns from it."""

    loss_fn: Any  # what the trainer has set

    def train_batch(self, data: Any) -> Any:
        """One optimizer step on the rank's share of a mini-batch."""
        tu.assign_non_tensor(data, **{SUMS: self._sums(data)})
        return super().train_batch(data)

    def _sums(self, data: Any) -> Sums:
        loss = self.loss_fn
        sums: Sums = loss.algorithm.count(micro_batch(data))
        if isinstance(loss, PolicyLoss) and loss.algorithm.needs.log_ratio_pass:
            measure = _Measure(loss.algorithm)
            seen = data.clone(recurse=False)
            tu.assign_non_tensor(seen, compute_loss=True)
            self.loss_fn = measure
            try:
                self.infer_batch(seen)
            finally:
                self.loss_fn = loss
            sums += measure.sums
        group = self.engine.get_data_parallel_group()
        return sums.reduced(AllRanks(group, get_device_name()))


class StepActor(ActorRolloutRefWorker):  # type: ignore[misc]
    """veRL's actor, rollout and reference with that worker as its actor."""

    actor_worker_cls = StepWorker


def _policy_outputs(model_output: dict[str, Any], data: Any) -> PolicyOutputs:
    entropy = model_output.get("entropy")
    return PolicyOutputs(
        logprobs=no_padding_2_padding(model_output["log_probs"], data).float(),
        entropy=None if entropy is None else no_padding_2_padding(entropy, data).float(),
    )


def _reported(share: Loss, data: Any, part: str) -> Reported:
    # veRL means over ranks what it sums over micro-batches, gradients and numbers alike
    ranks = data["dp_size"]
    metrics = {
        f"{part}/{name}": Metric("sum", torch.tensor(value * ranks))
        for name, value in share.metrics.items()
    }
    return share.total * ranks, metrics
