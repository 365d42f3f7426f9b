"""SAPO's two-token value basis: V and Q read from the policy's own logits.

Source of every equation: SAPO (arXiv 2608.19842). Two vocabulary ids w+ and w- are read-outs:
never sampled, never in a prompt, left out of every distribution over tokens.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from agentgym_suite.errors import UsageError

ReadOut = Literal["clip", "tanh"]


def value_token_ids(tokenizer_size: int, vocabulary_size: int) -> tuple[int, int]:
    """(w+, w-): the first two rows of the model's vocabulary that the tokenizer cannot produce.

    Args:
        tokenizer_size: ``len(tokenizer)``, added tokens counted.
        vocabulary_size: rows of the output layer.

    Raises:
        UsageError: fewer than two unused rows.
    """
    if vocabulary_size - tokenizer_size < 2:
        raise UsageError(
            f"the model's vocabulary of {vocabulary_size} has no two ids beyond the tokenizer's "
            f"{tokenizer_size}; enlarge it by two"
        )
    return tokenizer_size, tokenizer_size + 1


def equalise_value_rows(weight: Tensor, ids: tuple[int, int]) -> None:
    """Copy the row of w+ to w-, so that V = Q = 0 at the start; changes ``weight`` in place."""
    with torch.no_grad():
        weight[ids[1]] = weight[ids[0]]


def reserve_value_rows(head: Any, words: int, *, equal: bool, frozen: bool) -> tuple[int, int]:
    """The ids that values are read from, their rows made ready.

    Args:
        head: the linear layer of the logits.
        words: ids that the tokenizer has.
        equal: whether the rows begin alike, so that V = Q = 0.
        frozen: whether training leaves the head as it is, as adapters do.

    Raises:
        UsageError: there are no two ids behind the tokenizer's, or frozen rows are alike.
    """
    ids = value_token_ids(words, head.weight.shape[0])
    if equal:
        equalise_value_rows(head.weight, ids)
    if frozen and torch.equal(head.weight[ids[0]], head.weight[ids[1]]):
        raise UsageError(
            f"rows {ids[0]} and {ids[1]} of the head are equal and an adapter does not part them, "
            "so that every value would stay 0; set lora_rank = 0"
        )
    return ids


def value_margin(logits: Tensor, ids: tuple[int, int]) -> Tensor:
    """Δz = z(w+) - z(w-) of raw logits ``[…, vocabulary]``, no temperature; ``[…]``."""
    return logits[..., ids[0]] - logits[..., ids[1]]


def read_out(margin: Tensor, temperature: float, kind: ReadOut = "clip") -> Tensor:
    """Normalised value p in [-1, 1]: clip(Δz/τ, ±1), or tanh(Δz/τ) (ours).

    The clip has no gradient once |Δz| > τ. V = R_max·p at the last prompt token, Q = R_max·p at
    the last response token.

    Raises:
        UsageError: no such read-out.
    """
    scaled = margin / temperature
    if kind == "clip":
        return scaled.clamp(-1.0, 1.0)
    if kind == "tanh":
        return torch.tanh(scaled)
    raise UsageError(f"read-out {kind!r} does not exist; use clip or tanh")


def saturated(margin: Tensor, temperature: float) -> Tensor:
    """Where |Δz| ≥ τ, the clipped read-out's dead zone; bool."""
    return margin.detach().abs() >= temperature


def kept_logits(logits: Tensor, banned: Collection[int]) -> Tensor:
    """Logits without the banned ids: the last dimension shrinks, nothing becomes -inf."""
    if not banned:
        return logits
    keep = torch.ones(logits.shape[-1], dtype=torch.bool, device=logits.device)
    keep[sorted(banned)] = False
    return logits[..., keep]


def restricted_logprobs(
    logits: Tensor, banned: Collection[int], temperature: float = 1.0
) -> Tensor:
    """Log-softmax over the vocabulary without the banned ids, which come back as -inf.

    Banned before temperature and normalisation, in float32 at least; the gradient to banned
    logits is exactly 0.

    Args:
        logits: raw logits ``[…, vocabulary]``.
        banned: ids left out.
        temperature: the sampling temperature.
    """
    wide = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    gone = torch.zeros(wide.shape[-1], dtype=torch.bool, device=wide.device)
    gone[sorted(banned)] = True
    return torch.log_softmax(wide.masked_fill(gone, -torch.inf) / temperature, -1)


def restricted_entropy(logits: Tensor, banned: Collection[int], temperature: float = 1.0) -> Tensor:
    """Entropy of the same distribution, on kept logits alone so that its gradient is finite."""
    kept = kept_logits(logits, banned)
    wide = kept.float() if kept.dtype in (torch.float16, torch.bfloat16) else kept
    logprobs = torch.log_softmax(wide / temperature, -1)
    return -(logprobs.exp() * logprobs).sum(-1)


def sarsa_targets(
    rewards: Sequence[float], q_values: Sequence[float], gamma: float, bootstrap: float = 0.0
) -> list[float]:
    """Targets of Q: y_t = r_t + γ Q_{t+1}, the last followed by ``bootstrap`` (0 at an end)."""
    following = [*q_values[1:], bootstrap]
    return [r + gamma * q for r, q in zip(rewards, following, strict=True)]


def normalised_targets(targets: Tensor, r_max: float) -> Tensor:
    """Targets in the units of p: clip(y / R_max, ±1)."""
    return (targets / r_max).clamp(-1.0, 1.0)
