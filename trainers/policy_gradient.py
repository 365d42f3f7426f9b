"""``PolicyGradient``: what all algorithms share, with the credit left to each of them.

An algorithm says how a batch becomes advantages (``credit``); ratio, clipping, divergence, entropy
and aggregation follow its settings, here and once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

import torch
from torch import Tensor

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.algorithm import Loss, Needs, PolicyOutputs, Prepared, Sums
from agentgym_suite.trainers.batch import StepBatch, Targets
from agentgym_suite.trainers.config import AlgorithmConfig, CriticConfig
from agentgym_suite.trainers.credit import nested_row_weights
from agentgym_suite.trainers.critic import critic_share
from agentgym_suite.trainers.losses import (
    aggregate,
    clipped_away,
    clipped_surrogate,
    sampled_kl,
)
from agentgym_suite.trainers.ratios import (
    clip_active,
    importance_ratio,
    log_ratio,
    mean_log_ratio,
    out_of_range,
    token_log_ratios,
)
from agentgym_suite.trainers.returns import invalid_rows, over_tokens, required, token_means
from agentgym_suite.trainers.stats import Reducer, mean_and_spread

Config = TypeVar("Config", bound=AlgorithmConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """What an algorithm makes of a batch: advantages, targets, numbers to log.

    Attributes:
        advantages: Â ``[N]`` (one an action) or ``[N, R]`` (one a token).
        values: targets of the critic, or of the value tokens' V.
        q_values: targets of the value tokens' Q.
        metrics: numbers of the whole iteration.
    """

    advantages: Tensor
    values: Tensor | None = None
    q_values: Tensor | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a loss: its weight and its share of the mini-batch's value."""

    weight: float
    value: Tensor


@dataclass(frozen=True)
class PolicyGradient(Generic[Config]):
    """The common part of every ``Algorithm``; a subclass gives ``credit``, and terms if need be."""

    name: ClassVar[str]
    config: Config

    def __post_init__(self) -> None:
        needs = self.needs
        if needs.bootstrap and needs.critic == "none" and not needs.value_tokens:
            raise UsageError(
                f"{self.name} has no value to take after a truncated trajectory; set "
                "bootstrap_truncated to false"
            )

    @property
    def needs(self) -> Needs:
        """What the loop must provide; a subclass adds to it with ``replace``."""
        config = self.config
        return Needs(
            reference=config.kl_coef > 0,
            entropy=config.entropy_coef > 0,
            bootstrap=config.bootstrap_truncated,
            log_ratio_pass=config.ratio == "action_aware" and config.mu_scope == "minibatch",
        )

    @property
    def one_ratio_an_action(self) -> bool:
        """Whether clipping decides for whole actions, with one advantage each."""
        return self.config.ratio != "token"

    # once an iteration

    def credit(self, batch: StepBatch, reducer: Reducer) -> Credit:
        """Advantages and value targets of whole trajectories."""
        raise NotImplementedError

    def read_out(self, margins: Tensor) -> Tensor:
        """Refused: only an algorithm with value tokens reads values out of logits."""
        raise UsageError(f"{self.name} has no value tokens; read nothing out")

    def prepare(self, batch: StepBatch, reducer: Reducer) -> Prepared:
        """The batch with its targets; see ``Algorithm.prepare``."""
        _check_frozen(batch)
        credit = self.credit(batch, reducer)
        mask, config = batch.response_mask, self.config
        advantages = credit.advantages
        if advantages.dim() == 1:
            advantages = over_tokens(advantages, mask)
        if config.invalid_penalty and config.invalid_penalty_place == "advantage":
            penalties = config.invalid_penalty * invalid_rows(batch)
            advantages = advantages - over_tokens(penalties, mask)
        advice = "look at the batch's frozen values and log-ratios"
        _check_finite(batch, advantages, "the advantage", advice)
        weights = torch.ones(len(batch), dtype=torch.float64)
        if config.aggregation == "traj-nested":
            weights = self._nested_weights(batch, reducer)
        targets = Targets(
            advantages=advantages,
            row_weights=weights,
            values=credit.values,
            q_values=credit.q_values,
        )
        per_action = token_means(advantages, mask)[batch.is_action]
        mean, spread, _ = mean_and_spread(per_action, reducer)
        logged = {"advantage/mean": mean, "advantage/std": spread, **credit.metrics}
        if batch.old_logprobs is not None:
            logged |= _mismatch(batch, reducer, self.config.mismatch_cap)
        if batch.old_entropy is not None:
            logged["entropy"], _, _ = mean_and_spread(batch.old_entropy[mask], reducer)
        return Prepared(batch=batch.with_targets(targets), metrics=logged)

    def _nested_weights(self, batch: StepBatch, reducer: Reducer) -> Tensor:
        active = batch.is_action.tolist()
        steps = [0] * len(batch)
        lengths = []
        for chain in batch.trajectories():
            count = sum(active[number] for number in chain)
            lengths.append(count)
            for number in chain:
                steps[number] = count
        local = torch.tensor([sum(n > 0 for n in lengths), sum(lengths)], dtype=torch.float64)
        trajectories, rows = reducer.sum(local).tolist()
        return nested_row_weights(batch, trajectories, rows, steps)

    # once a mini-batch

    def count(self, micro: StepBatch) -> Sums:
        """The denominators' share of a micro-batch; see ``Algorithm.count``."""
        return Sums(
            rows=float((~micro.is_pad).sum()),
            actions=float(micro.is_action.sum()),
            tokens=float(micro.response_mask.sum()),
            teacher_tokens=float(scored_tokens(micro).sum()),
        )

    def measure(self, micro: StepBatch, outputs: PolicyOutputs) -> Sums:
        """Sums of log-ratios, detached; see ``Algorithm.measure``."""
        return Sums(log_ratio=float(self.z(micro, outputs).detach().double().sum()))

    # once a micro-batch

    def loss(self, micro: StepBatch, outputs: PolicyOutputs, sums: Sums) -> Loss:
        """The sum of the terms, each by its weight; see ``Algorithm.loss``."""
        ratio = self.ratio(micro, outputs, sums)
        terms = self.terms(micro, outputs, sums, ratio)
        total = torch.stack([term.weight * term.value for term in terms.values()]).sum()
        metrics = {f"loss/{name}": term.value.item() for name, term in terms.items()}
        with torch.no_grad():
            metrics |= self._clip_metrics(micro, ratio, sums)
            z = self.z(micro, outputs)
            metrics["kl/old"] = -float(z.sum()) / max(sums.tokens, 1.0)
            if micro.ref_logprobs is not None:
                for kind in ("k1", "k3"):
                    away = sampled_kl(
                        outputs.logprobs, micro.ref_logprobs, micro.response_mask, kind
                    )
                    metrics[f"kl/{kind}"] = float(away.sum()) / max(sums.tokens, 1.0)
            metrics |= self.extra_metrics(micro, outputs, sums)
        metrics["loss/total"] = total.item()
        used = ratio.detach().expand(micro.response_mask.shape)[micro.response_mask]
        span = (used.min().item(), used.max().item()) if used.numel() else None
        return Loss(total=total, metrics=metrics, ratio_range=span)

    def terms(
        self, micro: StepBatch, outputs: PolicyOutputs, sums: Sums, ratio: Tensor
    ) -> dict[str, Term]:
        """The parts of the loss by name; a subclass adds its own."""
        config = self.config
        terms = {"policy": Term(1.0, self.policy_term(micro, ratio, sums))}
        if config.kl_coef and config.kl_place == "loss":
            ref = required(micro, "ref_logprobs")
            mask = micro.response_mask
            divergence = sampled_kl(outputs.logprobs, ref, mask, config.kl_estimator)
            terms["kl"] = Term(config.kl_coef, self.aggregated(divergence, micro, sums))
        if config.entropy_coef:
            if outputs.entropy is None:
                raise UsageError(f"{self.name} has an entropy bonus; give outputs with entropy")
            bonus = self.aggregated(outputs.entropy, micro, sums)
            terms["entropy"] = Term(-config.entropy_coef, bonus)
        return terms

    def extra_metrics(
        self, micro: StepBatch, outputs: PolicyOutputs, sums: Sums
    ) -> dict[str, float]:
        """Further numbers of a subclass; called without gradient, they add up."""
        return {}

    def policy_term(self, micro: StepBatch, ratio: Tensor, sums: Sums) -> Tensor:
        """Minus the aggregated clipped surrogate."""
        weighted = self._weighted(self.surrogate(micro, ratio), micro)
        return -self.aggregated(weighted, micro, sums)

    def surrogate(self, micro: StepBatch, ratio: Tensor) -> Tensor:
        """The clipped surrogate of tokens ``[n, R]``, or of actions ``[n, 1]``."""
        config, advantages = self.config, self.advantages(micro)
        return clipped_surrogate(
            ratio, advantages, config.clip_low, config.clip_high, config.dual_clip
        )

    def clip_bias(self, micro: StepBatch, outputs: PolicyOutputs, sums: Sums) -> Tensor:
        """Aggregate of w·A minus the clipped surrogate; see ``Algorithm.clip_bias``."""
        config = self.config
        ratio = self.ratio(micro, outputs, sums)
        away = clipped_away(
            ratio, self.advantages(micro), config.clip_low, config.clip_high, config.dual_clip
        )
        return self.aggregated(self._weighted(away, micro), micro, sums)

    def critic_loss(self, micro: StepBatch, values: Tensor, sums: Sums) -> Loss:
        """The critic's share; see ``Algorithm.critic_loss``."""
        if self.needs.critic == "none" or not isinstance(self.config, CriticConfig):
            raise UsageError(f"{self.name} has no critic; train none")
        return critic_share(micro, values, sums, self.config.value_clip)

    def ratio(self, micro: StepBatch, outputs: PolicyOutputs, sums: Sums) -> Tensor:
        """The importance ratio, ``[n, R]`` of tokens or ``[n, 1]`` of actions."""
        config, mask = self.config, micro.response_mask
        z = self.z(micro, outputs)
        mu = mean_log_ratio(sums.log_ratio, sums.tokens)
        if config.mu_scope == "fixed":
            mu = config.mu_fixed
        elif config.mu_scope == "microbatch":
            mu = mean_log_ratio(float(z.detach().double().sum()), float(mask.sum()))
        log_w = log_ratio(z, mask, config.ratio, mu=mu, alpha=config.ratio_alpha)
        return importance_ratio(log_w)

    def aggregated(self, values: Tensor, micro: StepBatch, sums: Sums) -> Tensor:
        """This micro-batch's share of the aggregate of ``values`` over sampled tokens."""
        return aggregate(
            values,
            micro.response_mask,
            self.config.aggregation,
            tokens=sums.tokens,
            rows=sums.actions,
            dr_constant=self.config.dr_constant,
            row_weights=_targets(micro).row_weights,
        )

    def z(self, micro: StepBatch, outputs: PolicyOutputs) -> Tensor:
        """Log-ratio of each sampled token, ``[n, R]``.

        Raises:
            UsageError: log-probabilities of another shape, or narrower than float32.
        """
        old, said = required(micro, "old_logprobs"), outputs.logprobs
        if said.shape != micro.response_mask.shape:
            raise UsageError(
                f"log-probabilities have shape {tuple(said.shape)}; the micro-batch needs "
                f"{tuple(micro.response_mask.shape)}"
            )
        if said.dtype not in (torch.float32, torch.float64):
            raise UsageError(
                f"log-probabilities are {said.dtype}; take the log-softmax in float32 or wider"
            )
        return token_log_ratios(outputs.logprobs, old, micro.response_mask)

    def advantages(self, micro: StepBatch) -> Tensor:
        """``[n, R]``, or the token mean of each action ``[n, 1]`` where ratios are of actions."""
        advantages = _targets(micro).advantages
        if self.one_ratio_an_action:
            return token_means(advantages, micro.response_mask).unsqueeze(1)
        return advantages

    def _weighted(self, surrogate: Tensor, micro: StepBatch) -> Tensor:
        """The surrogate with the truncated weight against engine mismatch, where it is on."""
        if not self.config.mismatch_cap:
            return surrogate
        mask = micro.response_mask
        gap = token_log_ratios(required(micro, "old_logprobs"), micro.rollout_logprobs, mask)
        return surrogate * importance_ratio(gap).clamp(max=self.config.mismatch_cap)

    def _clip_metrics(self, micro: StepBatch, ratio: Tensor, sums: Sums) -> dict[str, float]:
        config, mask = self.config, micro.response_mask
        advantages = self.advantages(micro).to(ratio.dtype)
        outside = out_of_range(ratio, config.clip_low, config.clip_high)
        active = clip_active(ratio, advantages, config.clip_low, config.clip_high)
        if self.one_ratio_an_action:
            kept, count = micro.is_action.unsqueeze(1), sums.actions
        else:
            kept, count = mask, sums.tokens
        return {
            "clip/out_of_range": float((outside & kept).sum()) / max(count, 1.0),
            "clip/active": float((active & kept).sum()) / max(count, 1.0),
        }


def scored_tokens(batch: StepBatch) -> Tensor:
    """Sampled tokens that a teacher scored, bool ``[N, R]``; none without a teacher."""
    if batch.teacher_logprobs is None:
        return torch.zeros_like(batch.response_mask)
    return batch.response_mask & torch.isfinite(batch.teacher_logprobs)


def _targets(micro: StepBatch) -> Targets:
    if micro.targets is None:
        raise UsageError("the batch has no targets; prepare it before taking a loss")
    return micro.targets


def _check_frozen(batch: StepBatch) -> None:
    """Name the row of a value that is not finite, before statistics spread it over all rows."""
    real = ~batch.is_pad
    for name in ("v_old", "q_old", "bootstrap", "token_values", "old_logprobs", "ref_logprobs"):
        column = getattr(batch, name)
        if column is not None:
            read = real if column.dim() == 1 else batch.response_mask & real[:, None]
            advice = "look at the network that it comes from"
            _check_finite(batch, column.masked_fill(~read, 0.0), name, advice)


def _check_finite(batch: StepBatch, values: Tensor, name: str, advice: str) -> None:
    broken = (~torch.isfinite(values)).reshape(len(batch), -1).any(1).nonzero().flatten().tolist()
    if broken:
        row = batch.rows[broken[0]]
        raise UsageError(
            f"{name} of row {broken[0]} (trajectory {row.trajectory_id!r}, step "
            f"{row.step_index}) is not finite; {advice}"
        )


def _mismatch(batch: StepBatch, reducer: Reducer, cap: float) -> dict[str, float]:
    """Mean, largest and share above 0.1 of |old - engine| over sampled tokens of all ranks.

    With a cap, the mean of the truncated weights and the share that was truncated, too.
    """
    old = required(batch, "old_logprobs").double()
    mask = batch.response_mask
    apart = token_log_ratios(old, batch.rollout_logprobs, mask)[mask]
    gap, weights = apart.abs(), importance_ratio(apart)
    sums = [gap.sum(), (gap > 0.1).double().sum(), mask.sum().double()]
    sums += [weights.clamp(max=cap).sum(), (weights > cap).double().sum()]
    total, above, count, kept, cut = reducer.sum(torch.stack(sums)).tolist()
    largest = max(reducer.gather([float(gap.max()) if gap.numel() else 0.0]), default=0.0)
    found = {
        "mismatch/mean": total / max(count, 1.0),
        "mismatch/max": largest,
        "mismatch/above_0.1": above / max(count, 1.0),
    }
    if cap:
        found["mismatch/weight"] = kept / max(count, 1.0)
        found["mismatch/truncated"] = cut / max(count, 1.0)
    return found
