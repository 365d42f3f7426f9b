"""Behaviour cloning: the start that reinforcement learning begins from.

Imitates demonstrations until the policy succeeds in the wanted share of its tasks; a policy that
cannot win at all has nothing to learn from, and one that always wins nothing to learn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from agentgym_suite.engines.chat_tokenizer import TransformersChatTokenizer
from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.demonstrations import Demonstration
from agentgym_suite.trainers.hidden_states import boundary_states, length_buckets
from agentgym_suite.trainers.logprobs import Forward, token_scores
from agentgym_suite.trainers.privileged import pi_ids, plain_encode

_BUCKET_TOKENS = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class CloningSettings:
    """How demonstrations are imitated.

    Attributes:
        steps: most optimizer steps.
        batch: demonstrations of a step.
        learning_rate: of AdamW, after the warm-up.
        warmup: steps over which it rises from 0.
        decay: share of the steps, the last ones, over which it falls to 0 again.
        prompt_weight: weight of a prompt's own tokens, each action's being 1. Prompts repeat the
            names that actions are made of, so reading them teaches a small network to copy.
        grad_clip: largest norm of the gradient.
        target: stop when the policy succeeds in this share of its tasks.
        look_every: steps between two looks at its success.
        first_look: steps before the first one.
        seed: of the order of the demonstrations.
    """

    steps: int = 600
    batch: int = 64
    learning_rate: float = 2e-3
    warmup: int = 50
    decay: float = 0.3
    prompt_weight: float = 0.3
    grad_clip: float = 1.0
    target: float = 0.4
    look_every: int = 25
    first_look: int = 150
    seed: int = 0

    def schedule(self, step: int) -> float:
        """The share of the learning rate at a step, counted from 1."""
        risen = step / max(1, self.warmup)
        left = (self.steps - step + 1) / max(1.0, self.decay * self.steps)
        return min(1.0, risen, left)


@dataclass(frozen=True, slots=True)
class CloningStep:
    """What one optimizer step of cloning reports.

    Attributes:
        step: steps taken so far.
        loss: negative log-probability of an imitated token, in nats, with its share of the prompt.
        success: share of tasks won, where it was looked at.
    """

    step: int
    loss: float
    success: float | None = None


def clone(
    model: Any,
    tokenizer: Any,
    demonstrations: Sequence[Demonstration],
    settings: CloningSettings,
    success: Callable[[], float],
) -> Iterator[CloningStep]:
    """Imitate until the target is met; yields after every step, the model is trained in place.

    Args:
        model: a causal transformers model.
        tokenizer: of transformers, with a chat template.
        demonstrations: what to imitate.
        settings: how.
        success: the share of tasks that the model wins now.

    Raises:
        UsageError: there is nothing to imitate.
    """
    if not demonstrations:
        raise UsageError("there is no demonstration to imitate; let the teacher play more rounds")
    pairs = [encoded(tokenizer, shown) for shown in demonstrations]
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=settings.learning_rate, weight_decay=0.0)
    for number, chosen in enumerate(_batches(len(pairs), settings), 1):
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * settings.schedule(number)
        optimizer.zero_grad(set_to_none=True)
        loss = _descend(model, [pairs[index] for index in chosen], settings.prompt_weight)
        torch.nn.utils.clip_grad_norm_(weights, settings.grad_clip, error_if_nonfinite=True)
        optimizer.step()
        looked = number - settings.first_look
        if looked >= 0 and looked % settings.look_every == 0:
            won = success()
            yield CloningStep(number, loss, won)
            if won >= settings.target:
                return
        else:
            yield CloningStep(number, loss)


def encoded(tokenizer: Any, shown: Demonstration) -> tuple[list[int], list[int]]:
    """Prompt and response ids of a demonstration; the response ends with the end token.

    Privileged information stands in front of the prompt, as a teacher of TASPO is shown it.
    """
    told = pi_ids(shown.pi, plain_encode(tokenizer))
    prompt = TransformersChatTokenizer(tokenizer).chat_ids(shown.messages)
    action = tokenizer(shown.action, add_special_tokens=False)["input_ids"]
    return [*told, *prompt], [*action, tokenizer.eos_token_id]


def imitation_loss(
    model: Any, pairs: Sequence[tuple[list[int], list[int]]], prompt_weight: float = 0.0
) -> torch.Tensor:
    """Sum of the negative log-probabilities of the response tokens, in nats.

    Args:
        model: a causal transformers model.
        pairs: prompt and response ids of each row.
        prompt_weight: what a token of a prompt weighs, the first one apart.
    """
    rows = [(*prompt, *response) for prompt, response in pairs]
    read = [1 if prompt_weight else len(prompt) for prompt, _ in pairs]
    heads = [row[:count] for row, count in zip(rows, read, strict=True)]
    tails = [row[count:] for row, count in zip(rows, read, strict=True)]
    states = boundary_states(model.base_model, heads, tails)
    lengths = torch.tensor([len(tail) for tail in tails])
    columns = torch.arange(states.shape[1] - 1)
    at = (columns < lengths[:, None]).nonzero(as_tuple=True)
    ids = torch.tensor([token for tail in tails for token in tail], device=states.device)
    head = model.get_output_embeddings()
    logprobs = token_scores(states[:, :-1][at], head, ids, Forward()).logprobs
    prompts = torch.tensor([len(p) - count for (p, _), count in zip(pairs, read, strict=True)])
    weights = torch.where(columns < prompts[:, None], prompt_weight, 1.0)[at]
    return -(logprobs * weights.to(logprobs)).sum()


def _descend(
    model: Any, pairs: Sequence[tuple[list[int], list[int]]], prompt_weight: float
) -> float:
    """Backward of the loss per response token, rows of one length at a time."""
    tokens = sum(len(response) for _, response in pairs)
    sizes = [len(prompt) + len(response) for prompt, response in pairs]
    total = 0.0
    for numbers in length_buckets(sizes, _BUCKET_TOKENS):
        rows = [pairs[number] for number in numbers]
        loss = imitation_loss(model, rows, prompt_weight) / tokens
        loss.backward()
        total += float(loss.detach())
    return total


def _batches(count: int, settings: CloningSettings) -> Iterator[list[int]]:
    """Every demonstration once before any comes again."""
    chance = np.random.Generator(np.random.PCG64(settings.seed))
    waiting: list[int] = []
    for _ in range(settings.steps):
        if len(waiting) < settings.batch:
            waiting += chance.permutation(count).tolist()
        yield waiting[: settings.batch]
        del waiting[: settings.batch]
