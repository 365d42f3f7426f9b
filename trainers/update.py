"""One optimizer step: a mini-batch in micro-batches whose shares add up to one loss.

Denominators and the sums of log-ratios belong to the whole mini-batch and are known before the
first backward. Nothing is averaged over micro-batches, so how rows are cut changes no gradient.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from agentgym_suite.errors import TrainingError, UsageError
from agentgym_suite.trainers.algorithm import Algorithm, Loss, PolicyOutputs, Sums
from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.logprobs import Forward, policy_outputs
from agentgym_suite.trainers.minibatch import microbatches
from agentgym_suite.trainers.models import boundary_values, token_values
from agentgym_suite.trainers.reading import full
from agentgym_suite.trainers.stats import Reducer, added
from agentgym_suite.trainers.teachers import Teacher

_LARGEST_RATE = 1e30


@dataclass(slots=True)
class Learner:
    """A network with its optimizer and the schedule of its learning rate.

    Attributes:
        model: what learns.
        optimizer: over its parameters.
        learning_rate: after the warm-up.
        warmup: optimizer steps over which the rate rises from 0.
        grad_clip: largest norm of the gradient.
        steps: optimizer steps taken.
    """

    model: Any
    optimizer: torch.optim.Optimizer
    learning_rate: float
    warmup: int = 0
    grad_clip: float = 1.0
    steps: int = 0

    @classmethod
    def make(
        cls, model: Any, learning_rate: float, *, warmup: int, grad_clip: float, decay: float
    ) -> Learner:
        """AdamW with betas (0.9, 0.999) over the parameters that have gradients.

        Raises:
            UsageError: a learning rate that no weight could be moved by.
        """
        if learning_rate > _LARGEST_RATE:
            raise UsageError(
                f"a learning rate is {learning_rate}, which moves weights out of float32; give a "
                "smaller one"
            )
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        optimizer = torch.optim.AdamW(
            weights, lr=learning_rate, betas=(0.9, 0.999), weight_decay=decay
        )
        return cls(model, optimizer, learning_rate, warmup, grad_clip)

    def step(self) -> float:
        """Apply the gradient; the norm it had.

        Raises:
            TrainingError: it is not finite, and the weights are as they were; or the weights are
                not finite behind the step.
        """
        weights = [weight for group in self.optimizer.param_groups for weight in group["params"]]
        norm = float(full(torch.nn.utils.clip_grad_norm_(weights, self.grad_clip)))
        if not math.isfinite(norm):
            self.optimizer.zero_grad(set_to_none=True)
            raise TrainingError(
                f"the gradient of optimizer step {self.steps + 1} has norm {norm}, and the step "
                "is not taken; lower the learning rate, or go on from an earlier checkpoint"
            )
        self.steps += 1
        rate = self.learning_rate * min(1.0, self.steps / max(1, self.warmup))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            size = float(full(torch.nn.utils.get_total_norm(weights)))
        if not math.isfinite(size):  # a checkpoint of these would push out a good one
            raise TrainingError(
                f"the weights have norm {size} after optimizer step {self.steps}; lower "
                "learning_rate or weight_decay, and go on from the last checkpoint"
            )
        return norm


@dataclass(slots=True)
class Tally:
    """Metrics of an iteration's mini-batches: means, and the range of the ratio."""

    values: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    ratio_min: float = math.inf
    ratio_max: float = -math.inf

    def add(self, metrics: Mapping[str, float]) -> None:
        """One mini-batch's numbers."""
        for name, value in metrics.items():
            self.values[name].append(value)

    def ratios(self, ranges: Iterable[tuple[float, float]]) -> None:
        """The ranges of micro-batches' ratios."""
        for low, high in ranges:
            self.ratio_min = min(self.ratio_min, low)
            self.ratio_max = max(self.ratio_max, high)

    def summary(self) -> dict[str, float]:
        """Mean of each metric over the mini-batches."""
        found = {name: math.fsum(line) / len(line) for name, line in self.values.items()}
        if self.ratio_min <= self.ratio_max:
            found |= {"ratio/min": self.ratio_min, "ratio/max": self.ratio_max}
        return found


def update_policy(
    learner: Learner,
    minibatch: StepBatch,
    algorithm: Algorithm,
    forward: Forward,
    reducer: Reducer,
    *,
    most_tokens: int,
    tally: Tally,
    teacher: Teacher | None = None,
) -> None:
    """One step of the policy on a prepared mini-batch.

    Args:
        learner: the policy.
        minibatch: with targets.
        algorithm: what it learns by.
        forward: how the policy is read.
        reducer: sums over ranks.
        most_tokens: padded tokens of a micro-batch.
        tally: takes the metrics.
        teacher: whose distributions the algorithm compares with, where it does.

    Raises:
        TrainingError: a loss or the gradient is not finite; the step is not taken.
    """
    needs, model = algorithm.needs, learner.model
    micros, sums = _counted(
        learner,
        minibatch,
        algorithm,
        most_tokens,
        reducer,
        merge_append_only=forward.merge_append_only,
    )

    def read(micro: StepBatch) -> PolicyOutputs:
        return policy_outputs(model, micro, forward, teacher=teacher)

    only: PolicyOutputs | None = None
    if needs.log_ratio_pass:
        if len(micros) == 1 and not needs.clip_bias_pass:
            only = read(micros[0])
            sums += algorithm.measure(micros[0], only)
        else:
            with torch.no_grad():
                for micro in micros:
                    sums += algorithm.measure(micro, read(micro))
    sums = sums.reduced(reducer)
    if needs.clip_bias_pass:
        for micro in micros:
            algorithm.clip_bias(micro, read(micro), sums).backward()
        sums = sums.with_clip_bias_norm(_gradient_norm(learner))
        learner.optimizer.zero_grad(set_to_none=True)

    def share(micro: StepBatch) -> Loss:
        return algorithm.loss(micro, read(micro) if only is None else only, sums)

    _descend(learner, micros, share, reducer, tally, "grad/policy")


def update_critic(
    learner: Learner,
    minibatch: StepBatch,
    algorithm: Algorithm,
    reducer: Reducer,
    *,
    most_tokens: int,
    tally: Tally,
    merge_append_only: bool = False,
) -> None:
    """One step of the critic on a prepared mini-batch; ``merge_append_only`` as in ``Forward``.

    Raises:
        TrainingError: a loss or the gradient is not finite; the step is not taken.
    """
    critic = learner.model
    micros, sums = _counted(
        learner, minibatch, algorithm, most_tokens, reducer, merge_append_only=merge_append_only
    )
    sums = sums.reduced(reducer)

    def share(micro: StepBatch) -> Loss:
        if algorithm.needs.critic == "boundary":
            prompts = [row.prompt_ids for row in micro.rows]
            values = boundary_values(critic, prompts, merge_append_only=merge_append_only)
        else:
            values = token_values(critic, micro, merge_append_only=merge_append_only)
        return algorithm.critic_loss(micro, values, sums)

    _descend(learner, micros, share, reducer, tally, "grad/critic")


def _counted(
    learner: Learner,
    minibatch: StepBatch,
    algorithm: Algorithm,
    most_tokens: int,
    reducer: Reducer,
    *,
    merge_append_only: bool,
) -> tuple[list[StepBatch], Sums]:
    """The micro-batches where the network is, and what they count together on this rank."""
    device, dtype = learner.model.device, _loss_dtype(learner.model)
    found = microbatches(minibatch, most_tokens, reducer, merge_append_only=merge_append_only)
    micros = [micro.to(device, dtype) for micro in found]
    return micros, sum((algorithm.count(micro) for micro in micros), Sums())


def _descend(
    learner: Learner,
    micros: Sequence[StepBatch],
    share: Callable[[StepBatch], Loss],
    reducer: Reducer,
    tally: Tally,
    norm_name: str,
) -> None:
    metrics: dict[str, float] = defaultdict(float)
    ranges: list[tuple[float, float]] = []
    for micro in micros:
        loss = share(micro)
        if not math.isfinite(float(loss.total.detach())):
            learner.optimizer.zero_grad(set_to_none=True)
            rows = ", ".join(f"{row.trajectory_id}#{row.step_index}" for row in micro.rows)
            raise TrainingError(
                f"the loss of optimizer step {learner.steps + 1} is "
                f"{float(loss.total.detach())} over the rows {rows}, and the step is not taken; "
                "lower the learning rate, or go on from an earlier checkpoint"
            )
        loss.total.backward()
        if loss.ratio_range is not None:
            ranges.append(loss.ratio_range)
        for name, value in loss.metrics.items():
            metrics[name] += value
    norm = learner.step()
    tally.ratios(reducer.gather(ranges))
    tally.add(added(metrics, reducer) | {norm_name: norm})


def _gradient_norm(learner: Learner) -> float:
    gradients = [
        weight.grad
        for group in learner.optimizer.param_groups
        for weight in group["params"]
        if weight.grad is not None
    ]
    return float(full(torch.nn.utils.get_total_norm(gradients)))


def _loss_dtype(model: Any) -> torch.dtype:
    """Losses are computed in float32, or wider where the model is."""
    return torch.float64 if model.dtype == torch.float64 else torch.float32
