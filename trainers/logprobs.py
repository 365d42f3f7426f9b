"""The policy's forward for training: log-probabilities of response tokens and nothing else.

Logits are made for sampled tokens alone, a bounded number at a time, and made again in the
backward pass instead of being kept: with 150,000 words in the vocabulary they would be most of
the memory and much of the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.algorithm import PolicyOutputs
from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.config import ONE_WAY
from agentgym_suite.trainers.hidden_states import Ids, boundary_states
from agentgym_suite.trainers.losses import Divergence, full_divergence
from agentgym_suite.trainers.reading import reads_weights
from agentgym_suite.trainers.teachers import Teacher
from agentgym_suite.trainers.value_basis import kept_logits


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """How the policy is read; the same for every pass of an iteration.

    Attributes:
        temperature: what logits are divided by, as in the rollout.
        banned_ids: removed from the distribution before anything else, as in the rollout.
        value_ids: the positive and the negative value token, where values are read from them.
        entropy: whether the entropy of each token's distribution is wanted.
        divergence: to the teacher's distribution over the whole vocabulary, where it is wanted.
        share_prefix: compute prompts that several rows have only once.
        merge_append_only: read a row that is a prefix of another in that one.
        most_logits: logits that exist at a time, in numbers.

    Raises:
        UsageError: a temperature or bound that is not positive, or two ways to compute a prompt
            once.
    """

    temperature: float = 1.0
    banned_ids: tuple[int, ...] = ()
    value_ids: tuple[int, int] | None = None
    entropy: bool = False
    divergence: Divergence | Literal["none"] = "none"
    share_prefix: bool = False
    merge_append_only: bool = False
    most_logits: int = 1 << 23

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise UsageError(f"temperature is {self.temperature}; training needs more than 0")
        if self.most_logits < 1:
            raise UsageError(f"most_logits is {self.most_logits}; give at least 1")
        if self.share_prefix and self.merge_append_only:
            raise UsageError(ONE_WAY)

    @property
    def logprobs_only(self) -> Forward:
        """The same for a model that is asked for log-probabilities and nothing else."""
        return replace(self, entropy=False, value_ids=None, divergence="none")


@dataclass(frozen=True, slots=True)
class TokenScores:
    """What the policy says of single tokens ``[k]``; None where it was not asked."""

    logprobs: Tensor
    entropy: Tensor | None = None
    divergence: Tensor | None = None


@dataclass(frozen=True, slots=True)
class TeacherStates:
    """Where the teacher stands before each token.

    Attributes:
        states: ``[k, width]`` of the teacher, without a gradient.
        head: its linear layer of the logits.
        banned_ids: rows of its output that no reply has.
    """

    states: Tensor
    head: Any
    banned_ids: tuple[int, ...] = ()


@reads_weights
def policy_outputs(
    model: Any,
    micro: StepBatch,
    settings: Forward,
    *,
    prompts: Sequence[Ids] | None = None,
    teacher: Teacher | None = None,
) -> PolicyOutputs:
    """What the policy says of the rows of a micro-batch.

    Args:
        model: a causal transformers model.
        micro: the rows.
        settings: how it is read.
        prompts: other prompts of the rows, such as those with privileged information.
        teacher: whose distributions a divergence is taken to, behind ``teacher_prompt_ids``.

    Returns:
        Log-probabilities (and entropy, divergence) in float32 or wider, ``[n, R]``, 0 outside the
        mask; the divergence of a row without a teacher's prompt means nothing.

    Raises:
        UsageError: left padding, or a divergence is wanted and there is no teacher.
    """
    if micro.side == "left":
        raise UsageError("the response columns are padded on the left; collate with side='right'")
    responses = [row.response_ids for row in micro.rows]
    states = boundary_states(
        model.base_model,
        [row.prompt_ids for row in micro.rows] if prompts is None else prompts,
        responses,
        share_prefix=settings.share_prefix,
        merge_append_only=settings.merge_append_only,
    )
    head = model.get_output_embeddings()
    mask = micro.response_mask.to(states.device)
    at = mask.nonzero(as_tuple=True)
    ids = micro.response_ids.to(states.device)[at]
    taught = None
    if settings.divergence != "none":
        if teacher is None:
            raise UsageError(f"divergence is {settings.divergence!r}; give the teacher it is to")
        taught = _teacher_states(teacher, micro, mask, settings.merge_append_only)
    scores = token_scores(states[:, :-1][at], head, ids, settings, taught)
    table = torch.zeros(mask.shape, dtype=scores.logprobs.dtype, device=states.device)

    def placed(values: Tensor | None) -> Tensor | None:
        return None if values is None else table.index_put(at, values)

    v_margin = q_margin = None
    if settings.value_ids is not None:
        ends = torch.tensor([len(response) for response in responses], device=states.device)
        q_states = states[torch.arange(len(responses), device=states.device), ends]
        v_margin = _margins(states[:, 0], head, settings.value_ids)
        q_margin = _margins(q_states, head, settings.value_ids)
    return PolicyOutputs(
        logprobs=table.index_put(at, scores.logprobs),
        entropy=placed(scores.entropy),
        divergence=placed(scores.divergence),
        v_margin=v_margin,
        q_margin=q_margin,
    )


@reads_weights
def boundary_margins(model: Any, prompts: Sequence[Ids], settings: Forward) -> Tensor:
    """Margin of the value tokens at the last token of each prompt ``[n]``.

    Raises:
        UsageError: the settings name no value tokens.
    """
    if settings.value_ids is None:
        raise UsageError("no value tokens are set; give Forward the ids of both")
    nothing: list[Ids] = [()] * len(prompts)
    states = boundary_states(model.base_model, prompts, nothing, share_prefix=settings.share_prefix)
    return _margins(states[:, 0], model.get_output_embeddings(), settings.value_ids)


def token_scores(
    states: Tensor,
    head: Any,
    ids: Tensor,
    settings: Forward,
    teacher: TeacherStates | None = None,
) -> TokenScores:
    """Log-probability of each id from the state before it, and what else is wanted of it.

    Logits exist for some tokens at a time, the policy's and the teacher's, and are made again in
    the backward pass.

    Args:
        states: ``[k, width]``.
        head: the linear layer of the logits.
        ids: ``[k]``.
        settings: temperature, bans, what is wanted, logits at a time.
        teacher: its states before the same ids, where a divergence is wanted.
    """
    width = head.weight.shape[0] + (teacher.head.weight.shape[0] if teacher is not None else 0)
    rows = max(1, settings.most_logits // width)
    keep = torch.is_grad_enabled() and len(ids) > rows
    parts: list[TokenScores] = []
    for start in range(0, len(ids), rows):
        here = slice(start, start + rows)
        told = None if teacher is None else replace(teacher, states=teacher.states[here])
        part = (states[here], head, ids[here], settings, told)
        if keep:
            parts.append(checkpoint(_chunk_scores, *part, use_reentrant=False))
        else:
            parts.append(_chunk_scores(*part))
    if not parts:
        empty = _wide(states.sum(-1))  # no token, yet part of the graph
        return TokenScores(
            empty,
            empty if settings.entropy else None,
            empty if settings.divergence != "none" else None,
        )
    return TokenScores(
        torch.cat([part.logprobs for part in parts]),
        _joined(part.entropy for part in parts),
        _joined(part.divergence for part in parts),
    )


def _chunk_scores(
    states: Tensor, head: Any, ids: Tensor, settings: Forward, teacher: TeacherStates | None
) -> TokenScores:
    logits = _wide(head(states)) / settings.temperature
    banned = torch.tensor(settings.banned_ids, dtype=torch.long, device=logits.device)
    kept = logits.index_fill(1, banned, float("-inf")) if len(banned) else logits
    normaliser = torch.logsumexp(kept, dim=1)
    logprobs = kept.gather(1, ids[:, None]).squeeze(1) - normaliser
    entropy = divergence = None
    if settings.entropy:
        # the banned ones weigh 0 with finite logits: -inf times 0 has no gradient
        weighed = (kept - normaliser[:, None]).exp() * logits.index_fill(1, banned, 0.0)
        entropy = normaliser - weighed.sum(1)
    if teacher is not None and settings.divergence != "none":
        with torch.no_grad():
            told = _wide(teacher.head(teacher.states)) / settings.temperature
        divergence = full_divergence(
            kept_logits(logits, settings.banned_ids),
            kept_logits(told, teacher.banned_ids).to(logits.dtype),
            settings.divergence,
        )
    return TokenScores(logprobs, entropy, divergence)


def _teacher_states(
    teacher: Teacher, micro: StepBatch, mask: Tensor, merge_append_only: bool
) -> TeacherStates:
    """The teacher's states before every sampled token; 0 in rows that it does not score."""
    told = [number for number, row in enumerate(micro.rows) if row.teacher_prompt_ids]
    # read where no row is told, too: a teacher spread over processes is read by all of them
    prompts: list[Ids] = [micro.rows[number].teacher_prompt_ids for number in told] or [(0,)]
    responses: list[Ids] = [micro.rows[number].response_ids for number in told] or [()]
    found = _frozen_states(teacher.model, prompts, responses, merge_append_only)
    head = teacher.model.get_output_embeddings()
    table = torch.zeros((*mask.shape, found.shape[-1]), dtype=found.dtype, device=mask.device)
    if told:
        table[told, : found.shape[1] - 1] = found[:, :-1]
    return TeacherStates(table[mask], head, teacher.banned_ids)


@reads_weights
def _frozen_states(
    model: Any, prompts: Sequence[Ids], responses: Sequence[Ids], merge_append_only: bool
) -> Tensor:
    with torch.no_grad():
        return boundary_states(
            model.base_model, prompts, responses, merge_append_only=merge_append_only
        )


def _joined(parts: Iterable[Tensor | None]) -> Tensor | None:
    found = [part for part in parts if part is not None]
    return torch.cat(found) if found else None


def _margins(states: Tensor, head: Any, value_ids: tuple[int, int]) -> Tensor:
    """Raw logit of the positive value token minus that of the negative one."""
    rows = list(value_ids)
    bias = head.bias[rows] if head.bias is not None else None
    pair = _wide(torch.nn.functional.linear(states, head.weight[rows], bias))
    return pair[:, 0] - pair[:, 1]


def _wide(values: Tensor) -> Tensor:
    """At least float32."""
    return values if values.dtype == torch.float64 else values.float()
