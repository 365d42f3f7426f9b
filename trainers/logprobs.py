"""The policy's forward for training: log-probabilities of response tokens and nothing else.

Logits are made for sampled tokens alone, a bounded number at a time, and made again in the
backward pass instead of being kept: with 150,000 words in the vocabulary they would be most of
the memory and much of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.algorithm import PolicyOutputs
from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.hidden_states import Ids, boundary_states


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """How the policy is read; the same for every pass of an iteration.

    Attributes:
        temperature: what logits are divided by, as in the rollout.
        banned_ids: removed from the distribution before anything else, as in the rollout.
        value_ids: the positive and the negative value token, where values are read from them.
        entropy: whether the entropy of each token's distribution is wanted.
        share_prefix: compute prompts that several rows have only once.
        most_logits: logits that exist at a time, in numbers.

    Raises:
        UsageError: a temperature or bound that is not positive.
    """

    temperature: float = 1.0
    banned_ids: tuple[int, ...] = ()
    value_ids: tuple[int, int] | None = None
    entropy: bool = False
    share_prefix: bool = False
    most_logits: int = 1 << 23

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise UsageError(f"temperature is {self.temperature}; training needs more than 0")
        if self.most_logits < 1:
            raise UsageError(f"most_logits is {self.most_logits}; give at least 1")


def policy_outputs(
    model: Any,
    micro: StepBatch,
    settings: Forward,
    *,
    prompts: Sequence[Ids] | None = None,
) -> PolicyOutputs:
    """What the policy says of the rows of a micro-batch.

    Args:
        model: a causal transformers model.
        micro: the rows.
        settings: how it is read.
        prompts: other prompts of the rows, such as those with privileged information.

    Returns:
        Log-probabilities (and entropy) in float32 or wider, ``[n, R]``, 0 outside the mask.
    """
    responses = [row.response_ids for row in micro.rows]
    states = boundary_states(
        model.base_model,
        [row.prompt_ids for row in micro.rows] if prompts is None else prompts,
        responses,
        share_prefix=settings.share_prefix,
    )
    head = model.get_output_embeddings()
    mask = micro.response_mask.to(states.device)
    if micro.side == "left":
        raise UsageError("the response columns are padded on the left; collate with side='right'")
    at = mask.nonzero(as_tuple=True)
    ids = micro.response_ids.to(states.device)[at]
    logprobs, entropy = token_scores(states[:, :-1][at], head, ids, settings)
    table = torch.zeros(mask.shape, dtype=logprobs.dtype, device=states.device)
    v_margin = q_margin = None
    if settings.value_ids is not None:
        ends = torch.tensor([len(response) for response in responses], device=states.device)
        q_states = states[torch.arange(len(responses), device=states.device), ends]
        v_margin = _margins(states[:, 0], head, settings.value_ids)
        q_margin = _margins(q_states, head, settings.value_ids)
    return PolicyOutputs(
        logprobs=table.index_put(at, logprobs),
        entropy=table.index_put(at, entropy) if entropy is not None else None,
        v_margin=v_margin,
        q_margin=q_margin,
    )


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
    states: Tensor, head: Any, ids: Tensor, settings: Forward
) -> tuple[Tensor, Tensor | None]:
    """Log-probability of each id (and entropy of its distribution) from the state before it.

    Args:
        states: ``[k, width]``.
        head: the linear layer of the logits.
        ids: ``[k]``.
        settings: temperature, bans, whether entropy is wanted, logits at a time.
    """
    rows = max(1, settings.most_logits // head.weight.shape[0])
    keep = torch.is_grad_enabled() and len(ids) > rows
    scores, entropies = [], []
    for start in range(0, len(ids), rows):
        part = (states[start : start + rows], head, ids[start : start + rows], settings)
        if keep:
            score, entropy = checkpoint(_chunk_scores, *part, use_reentrant=False)
        else:
            score, entropy = _chunk_scores(*part)
        scores.append(score)
        entropies.append(entropy)
    if not scores:
        empty = _wide(states.sum(-1))  # no token, yet part of the graph
        return empty, empty if settings.entropy else None
    return torch.cat(scores), torch.cat(entropies) if settings.entropy else None


def _chunk_scores(
    states: Tensor, head: Any, ids: Tensor, settings: Forward
) -> tuple[Tensor, Tensor]:
    logits = _wide(head(states)) / settings.temperature
    banned = torch.tensor(settings.banned_ids, dtype=torch.long, device=logits.device)
    kept = logits.index_fill(1, banned, float("-inf")) if len(banned) else logits
    normaliser = torch.logsumexp(kept, dim=1)
    scores = kept.gather(1, ids[:, None]).squeeze(1) - normaliser
    if not settings.entropy:
        return scores, scores.detach()
    # the banned ones weigh 0 with finite logits: -inf times 0 has no gradient
    weighed = (kept - normaliser[:, None]).exp() * logits.index_fill(1, banned, 0.0)
    return scores, normaliser - weighed.sum(1)


def _margins(states: Tensor, head: Any, value_ids: tuple[int, int]) -> Tensor:
    """Raw logit of the positive value token minus that of the negative one."""
    rows = list(value_ids)
    bias = head.bias[rows] if head.bias is not None else None
    pair = _wide(torch.nn.functional.linear(states, head.weight[rows], bias))
    return pair[:, 0] - pair[:, 1]


def _wide(values: Tensor) -> Tensor:
    """At least float32."""
    return values if values.dtype == torch.float64 else values.float()
