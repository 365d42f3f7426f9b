"""``Algorithm``: the small protocol between the training loop and what it learns by.

The loop calls, in this order:

1. once an iteration, on the host in float64: ``prepare(batch)`` with the columns that ``needs``
   names filled in. It returns the batch with ``targets`` (advantages, value targets), constants
   of every loss that follows.
2. for each optimizer mini-batch: ``count`` on every micro-batch of it, the results added, then
   reduced over ranks: the denominators. They depend on masks alone, not on the model.
3. if ``needs.log_ratio_pass``: ``measure`` on every micro-batch with outputs of a forward without
   gradient, added to the counts before the reduction. One micro-batch on one rank may use the
   outputs of its only forward.
4. if ``needs.clip_bias_pass``: the gradient of the summed ``clip_bias`` and its global norm, kept
   with ``Sums.with_clip_bias_norm``; the gradient itself is thrown away.
5. ``loss`` (and ``critic_loss``) on every micro-batch, backward on ``total``. The totals of all
   micro-batches of all ranks **add up** to the loss of the mini-batch, so nothing is averaged
   again; where gradients are averaged over R ranks, multiply ``total`` by R.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal, Protocol

import torch
from torch import Tensor

from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.config import AlgorithmConfig
from agentgym_suite.trainers.losses import Divergence
from agentgym_suite.trainers.stats import Reducer


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What the loop must provide.

    Attributes:
        critic: a value network: none, one value at the last prompt token (fills ``v_old``), or
            one before each response token (fills ``token_values``).
        group: several rollouts of one task, all of them or none in the batch.
        reference: ``ref_logprobs``.
        teacher: fills ``teacher_logprobs``: the frozen rollout weights with the privileged text
            in the prompt, or another model; rows without a teacher are NaN.
        teacher_of_uniform_groups: whether the teacher's scores say anything in a group whose
            trajectories all earned the same, and have no advantage.
        divergence: ``PolicyOutputs.divergence`` to the teacher over the whole vocabulary.
        value_tokens: V and Q are read from the policy's own logits of two reserved ids, which
            are banned everywhere else; fills ``v_old``, ``q_old`` (through ``read_out``) and
            ``PolicyOutputs.v_margin``, ``q_margin``.
        entropy: ``PolicyOutputs.entropy``.
        bootstrap: V at ``next_prompt_ids`` of truncated trajectories; fills ``bootstrap``.
        log_ratio_pass: ``measure`` before ``loss``.
        clip_bias_pass: ``clip_bias`` before ``loss``.
        resample_uniform_groups: how often a group whose rewards are all equal is drawn again.
    """

    critic: Literal["none", "boundary", "token"] = "none"
    group: bool = False
    reference: bool = False
    teacher: Literal["none", "privileged", "model"] = "none"
    teacher_of_uniform_groups: bool = True
    divergence: Divergence | Literal["none"] = "none"
    value_tokens: bool = False
    entropy: bool = False
    bootstrap: bool = False
    log_ratio_pass: bool = False
    clip_bias_pass: bool = False
    resample_uniform_groups: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOutputs:
    """What the policy's forward says of a micro-batch; n rows, R response columns.

    Attributes:
        logprobs: log π_θ of the response ids ``[n, R]`` at the sampling temperature, float32 or
            wider, over the vocabulary without banned ids; anything outside the mask.
        entropy: of the same distribution ``[n, R]``.
        divergence: to the teacher's distribution ``[n, R]``, see ``Needs.divergence``.
        v_margin: raw logit of the positive value token minus the negative one at ``b_v`` ``[n]``.
        q_margin: the same at ``b_q``.
    """

    logprobs: Tensor
    entropy: Tensor | None = None
    divergence: Tensor | None = None
    v_margin: Tensor | None = None
    q_margin: Tensor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Sums over a whole mini-batch, all micro-batches and ranks: the denominators of its losses.

    Attributes:
        rows: real rows.
        actions: real rows in which something was sampled.
        tokens: sampled tokens.
        teacher_tokens: sampled tokens that a teacher scored.
        log_ratio: Σ z over sampled tokens (z = current minus old log-probability).
        by_trajectory: Σ z and number of tokens of each trajectory, where a ratio needs them.
        clip_bias_norm: norm of the gradient of ``clip_bias``.
    """

    rows: float = 0.0
    actions: float = 0.0
    tokens: float = 0.0
    teacher_tokens: float = 0.0
    log_ratio: float = 0.0
    by_trajectory: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    clip_bias_norm: float = 0.0

    def __add__(self, other: Sums) -> Sums:
        merged = dict(self.by_trajectory)
        for name, (total, count) in other.by_trajectory.items():
            before = merged.get(name, (0.0, 0.0))
            merged[name] = (before[0] + total, before[1] + count)
        added = {name: getattr(self, name) + getattr(other, name) for name in _ADDED}
        return Sums(**added, by_trajectory=merged, clip_bias_norm=self.clip_bias_norm)

    def reduced(self, reducer: Reducer) -> Sums:
        """The same over all ranks; every rank must call it."""
        local = torch.tensor([getattr(self, name) for name in _ADDED], dtype=torch.float64)
        totals = dict(zip(_ADDED, reducer.sum(local).tolist(), strict=True))
        alone = Sums(**totals)
        for name, value in reducer.gather(tuple(self.by_trajectory.items())):
            alone += Sums(by_trajectory={name: value})
        return alone

    def with_clip_bias_norm(self, norm: float) -> Sums:
        """The sums with the global norm of the gradient of ``clip_bias``."""
        return replace(self, clip_bias_norm=norm)


_ADDED = tuple(
    item.name for item in fields(Sums) if item.name not in ("by_trajectory", "clip_bias_norm")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The share that one micro-batch has in its mini-batch's loss.

    Attributes:
        total: scalar to call backward on; shares add up.
        metrics: detached numbers that add up in the same way.
        ratio_range: least and largest importance ratio, None without a ratio.
    """

    total: Tensor
    metrics: Mapping[str, float]
    ratio_range: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A batch with targets, and what to log of the iteration."""

    batch: StepBatch
    metrics: Mapping[str, float]


class Algorithm(Protocol):
    """How an iteration becomes targets and a micro-batch becomes a loss; holds no state."""

    @property
    def name(self) -> str:
        """Its name in the registry."""
        ...

    @property
    def config(self) -> AlgorithmConfig:
        """Every switch, resolved."""
        ...

    @property
    def needs(self) -> Needs:
        """What the loop must provide."""
        ...

    def read_out(self, margins: Tensor) -> Tensor:
        """Frozen values, in units of reward, from the margins of the value tokens ``[N]``.

        Raises:
            UsageError: the algorithm has no value tokens.
        """
        ...

    def prepare(self, batch: StepBatch, reducer: Reducer) -> Prepared:
        """Targets of whole trajectories, once an iteration.

        A trajectory lies on one rank, with all its rows; a group may be spread over ranks. Every
        rank must call it.

        Raises:
            UsageError: a column that ``needs`` names is missing.
        """
        ...

    def count(self, micro: StepBatch) -> Sums:
        """The denominators' share of a micro-batch; needs no model."""
        ...

    def measure(self, micro: StepBatch, outputs: PolicyOutputs) -> Sums:
        """Sums of log-ratios of a micro-batch, without the counts; carries no gradient."""
        ...

    def clip_bias(self, micro: StepBatch, outputs: PolicyOutputs, sums: Sums) -> Tensor:
        """Scalar whose gradient is what clipping takes away, a share of the mini-batch's."""
        ...

    def loss(self, micro: StepBatch, outputs: PolicyOutputs, sums: Sums) -> Loss:
        """The policy's loss on a micro-batch, as a share of its mini-batch.

        Raises:
            UsageError: no targets, or an output that ``needs`` names is missing.
        """
        ...

    def critic_loss(self, micro: StepBatch, values: Tensor, sums: Sums) -> Loss:
        """The critic's loss: ``values`` is ``[n]`` (boundary) or ``[n, R]`` (token).

        Raises:
            UsageError: the algorithm has no critic.
        """
        ...
