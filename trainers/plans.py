"""``Plan``: what an iteration computes and keeps, as plain numbers that estimates are made from."""

from __future__ import annotations

import math
from dataclasses import dataclass

from agentgym_suite.trainers.algorithm import Needs
from agentgym_suite.trainers.architectures import ALL_LINEAR, Architecture


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One training, as far as its memory and time depend on it.

    Attributes:
        policy: what is trained; critic and reference are of its size.
        teacher: another model that is distilled from, or None.
        needs: of the algorithm.
        processes: that share weights and trajectories.
        sharded: weights lie in float32, in shares where there are several processes, and layers
            compute in a copy; without it a process has them once, in the dtype it computes in.
        element_size: bytes of a number that layers compute with: 2 or 4.
        recompute: layers keep their inputs alone for the backward pass.
        adapter_rank: of LoRA; 0 trains all weights.
        adapter_targets: the linear maps that it lies beside.
        trajectories: of an iteration, in all processes.
        steps: of a trajectory, in the mean.
        prompt, reply: tokens of a row, in the mean.
        longest_prompt, longest_reply: most tokens of a row.
        hint: further tokens of a prompt with privileged information.
        concurrency: most episodes at once in a process.
        minibatch_rows: of an optimizer step, in all processes.
        epochs: passes over the rows.
        micro_tokens: padded tokens of a micro-batch.
        most_logits: logits that exist at a time, in numbers.
        host: the device is a processor.
        own_engine: the engine of the process has weights of its own.
        served: servers sample, with memory of their own.
        ahead: how many iterations rollouts may run ahead.
    """

    policy: Architecture
    needs: Needs
    trajectories: int
    steps: float
    prompt: float
    reply: float
    longest_prompt: int
    longest_reply: int
    minibatch_rows: int
    micro_tokens: int
    teacher: Architecture | None = None
    processes: int = 1
    sharded: bool = False
    element_size: int = 4
    recompute: bool = False
    adapter_rank: int = 0
    adapter_targets: str = ALL_LINEAR
    hint: int = 0
    concurrency: int = 256
    epochs: int = 1
    most_logits: int = 1 << 23
    host: bool = False
    own_engine: bool = False
    served: bool = False
    ahead: int = 0

    @property
    def kept_element_size(self) -> int:
        """Bytes of a weight where it lies."""
        return 4 if self.sharded else self.element_size

    @property
    def adapter_parameters(self) -> int:
        """Weights of the adapter of a network; 0 without one."""
        if not self.adapter_rank:
            return 0
        shapes = self.policy.adapter_shapes(self.adapter_targets)
        return self.policy.layers * self.adapter_rank * sum(map(sum, shapes))

    @property
    def rows(self) -> float:
        """Rows of an iteration in one process."""
        return self.trajectories * self.steps / self.processes

    @property
    def running(self) -> int:
        """Episodes at once in one process."""
        return min(self.concurrency, math.ceil(self.trajectories / self.processes))

    @property
    def micro_rows(self) -> int:
        """Rows of the largest micro-batch, all of them as long as any."""
        longest = self.longest_prompt + self.longest_reply
        share = math.ceil(self.minibatch_rows / self.processes)
        return max(1, min(self.micro_tokens // longest, share))

    @property
    def micro_batches(self) -> int:
        """Of an optimizer step, in one process."""
        return math.ceil(self.minibatch_rows / self.processes / self.micro_rows)

    @property
    def optimizer_steps(self) -> int:
        """Of an iteration."""
        every_row = self.trajectories * self.steps
        return self.epochs * math.ceil(every_row / self.minibatch_rows)
