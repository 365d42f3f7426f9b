"""A policy whose weights are pushed into engines, and how far an engine's word lies from it."""

from __future__ import annotations

from typing import Any

import torch

from agentgym_suite.engines.distribution import log_distribution, log_probability
from agentgym_suite.engines.tokens import Generated, Sampling
from agentgym_suite.trainers.tiny_policy import TinyShape

SHAPE = TinyShape(hidden=64, layers=2, mlp=96, heads=2, kv_heads=1, head_width=32, window=128)


def furthest(
    model: Any, prompts: list[list[int]], replies: list[Generated], how: Sampling
) -> float:
    """The largest difference to the log-probabilities of full forwards."""
    apart = 0.0
    for prompt, reply in zip(prompts, replies, strict=True):
        with torch.no_grad():
            logits = model(torch.tensor([[*prompt, *reply.ids]])).logits[0, len(prompt) - 1 : -1]
        expected = log_probability(log_distribution(logits, how), torch.tensor(reply.ids))
        apart = max(apart, float((expected - torch.tensor(reply.logprobs)).abs().max()))
    return apart
