"""One forward and backward over the same rows, as a baseline does it and as the trainer does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from agentgym_suite.trainers.hidden_states import boundary_states, row_buckets
from agentgym_suite.trainers.logprobs import Forward, token_scores

Rows = Sequence[Sequence[int]]


def padded_pass(model: Any, prompts: Rows, answers: Rows, micro_tokens: int) -> float:
    """Rows in the order they come, padded to the longest, with the logits of every position.

    Args:
        model: a causal transformers model; its gradients are added to.
        prompts: ids of each row.
        answers: ids behind them, which are scored.
        micro_tokens: padded tokens at a time.

    Returns:
        Minus the mean log-probability of the answers' ids, in nats.
    """
    whole = [[*prompt, *answer] for prompt, answer in zip(prompts, answers, strict=True)]
    longest = max(map(len, whole))
    at_once = max(1, micro_tokens // longest)
    sampled, total = sum(map(len, answers)), 0.0
    for start in range(0, len(whole), at_once):
        rows = whole[start : start + at_once]
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows], device=model.device)
        mask = torch.tensor(
            [[1] * len(row) + [0] * (longest - len(row)) for row in rows], device=model.device
        )
        chosen = torch.zeros(ids.shape, dtype=torch.bool, device=model.device)
        for number, row in enumerate(rows):
            chosen[number, len(row) - len(answers[start + number]) : len(row)] = True
        logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits.float()
        logprobs = logits[:, :-1].log_softmax(-1).gather(2, ids[:, 1:, None])[..., 0]
        loss = -logprobs[chosen[:, 1:]].sum() / sampled
        loss.backward()
        total += float(loss.detach())
    return total


def response_pass(
    model: Any, prompts: Rows, answers: Rows, micro_tokens: int, **how: bool
) -> float:
    """Rows of one length together, and logits of the answers' ids alone, in pieces.

    Args:
        model: a causal transformers model; its gradients are added to.
        prompts: ids of each row.
        answers: ids behind them, which are scored.
        micro_tokens: padded tokens at a time.
        how: further arguments of ``boundary_states``.

    Returns:
        Minus the mean log-probability of the answers' ids, in nats.
    """
    sampled, total = sum(map(len, answers)), 0.0
    merge = how.get("merge_append_only", False)
    for numbers in row_buckets(prompts, answers, micro_tokens, merge_append_only=merge):
        chosen = [answers[number] for number in numbers]
        trunk = model.base_model
        states = boundary_states(trunk, [prompts[number] for number in numbers], chosen, **how)
        flat = torch.cat([states[n, : len(answer)] for n, answer in enumerate(chosen)])
        ids = torch.tensor([token for answer in chosen for token in answer], device=model.device)
        scores = token_scores(flat, model.get_output_embeddings(), ids, Forward()).logprobs
        loss = -scores.sum() / sampled
        loss.backward()
        total += float(loss.detach())
    return total
