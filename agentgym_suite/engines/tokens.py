"""What every token engine keeps: ``Sampling``, ``Generated``, ``TokenEngine``, ``ChatTokenizer``.

Evaluation's model agents and training both generate through this protocol. It speaks token ids
alone, so that what a policy sampled is never tokenised again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from agentgym_suite.errors import ContextTooLong, UsageError
from agentgym_suite.prompts import Message

FinishReason = Literal["stop", "length"]

Weights = Mapping[str, Any] | str | Path
"""Parameters by name as torch's ``state_dict`` gives them, or where a checkpoint lies."""

SEED_BOUND = 2**64
"""Seeds are integers from 0 to below this."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How replies are drawn; the defaults are training's: the policy's own distribution.

    Attributes:
        temperature: what logits are divided by. 0 takes the most probable id, whose
            log-probability is then that of temperature 1.
        top_p: only the most probable ids are drawn from, so many that they hold this mass.
        max_new_tokens: most ids of a reply, a stop id included.
        stop_ids: each ends the reply, and is kept as its last id.
        banned_ids: removed from the distribution, before anything else is computed of it.

    Raises:
        UsageError: a value is out of its range.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    max_new_tokens: int = 512
    stop_ids: tuple[int, ...] = ()
    banned_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise UsageError(f"temperature is {self.temperature}; give 0 (greedy) or more")
        if not 0 < self.top_p <= 1:
            raise UsageError(f"top_p is {self.top_p}; give more than 0 and at most 1")
        if self.max_new_tokens < 1:
            raise UsageError(f"max_new_tokens is {self.max_new_tokens}; give at least 1")
        for name, ids in (("stop_ids", self.stop_ids), ("banned_ids", self.banned_ids)):
            negative = next((token for token in ids if token < 0), None)
            if negative is not None:
                raise UsageError(f"{name} holds {negative}; token ids are 0 or more")


@dataclass(frozen=True, slots=True)
class Generated:
    """One sampled reply.

    Attributes:
        ids: the sampled ids, a stop id included.
        logprobs: the natural logarithm of the probability of each id under the distribution it
            was drawn from: temperature, ``top_p`` and bans applied.
        finish_reason: "stop" when the last id is a stop id, else "length".
        policy_version: the weights that sampled.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: FinishReason
    policy_version: str


class TokenEngine(Protocol):
    """Samples replies to prompts of token ids."""

    @property
    def policy_version(self) -> str:
        """Which weights sample now."""
        ...

    def generate(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]
    ) -> list[Generated]:
        """One reply a prompt, in the order of the prompts.

        Args:
            prompts: ids of each prompt, at least one.
            sampling: how all of them are drawn.
            seeds: one a prompt. A reply depends on the weights, its prompt, ``sampling`` and its
                own seed, and on no other prompt beside it.

        Raises:
            ContextTooLong: a prompt and ``max_new_tokens`` exceed what the model takes.
            UsageError: an empty prompt, an id that the model does not have, or a wrong seed.
            EngineError: the model failed.
        """
        ...

    def load_weights(self, weights: Weights, version: str) -> None:
        """Sample with other weights of the same architecture from now on.

        Args:
            weights: the parameters, or the folder of a checkpoint.
            version: what ``policy_version`` says from now on.

        Raises:
            UsageError: they are not this model's parameters.
            EngineError: they cannot be read.
        """
        ...

    def close(self) -> None:
        """Give the memory back; nothing can be generated afterwards."""
        ...


class ChatTokenizer(Protocol):
    """What an agent needs of a tokenizer."""

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The ids that end a reply."""
        ...

    def chat_ids(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()
    ) -> list[int]:
        """The prompt in the model's chat format, ready for its reply.

        A last message of the assistant is left open: the model goes on writing it.

        Args:
            messages: the conversation.
            tools: descriptions of functions, where the chat format shows them.

        Raises:
            UsageError: the tokenizer has no chat format, or refuses these messages.
        """
        ...

    def text(self, ids: Sequence[int]) -> str:
        """What the ids say, without special tokens such as the stop id."""
        ...


def check_seeds(prompts: Sequence[Sequence[int]], seeds: Sequence[int]) -> None:
    """See that there is one seed a prompt, each an integer from 0 to below 2**64.

    Raises:
        UsageError: one is missing, too many, or out of range.
    """
    if len(seeds) != len(prompts):
        raise UsageError(f"{len(prompts)} prompts have {len(seeds)} seeds; give one a prompt")
    for seed in seeds:
        if not 0 <= seed < SEED_BOUND:
            raise UsageError(f"a seed is {seed}; give an integer from 0 to below 2**64")


def check_prompt(
    prompt: Sequence[int], sampling: Sampling, *, vocabulary: int, window: int | None
) -> None:
    """See that the model can answer a prompt.

    Args:
        prompt: its ids.
        sampling: how the reply is drawn.
        vocabulary: ids that the model knows, 0 to below this.
        window: tokens of prompt and reply that the model takes together; None when unbounded.

    Raises:
        UsageError: the prompt is empty, or the model has no such id.
        ContextTooLong: prompt and reply do not fit.
    """
    if not prompt:
        raise UsageError("a prompt is empty; give at least one token id")
    for name, ids in (
        ("a prompt", prompt),
        ("stop_ids", sampling.stop_ids),
        ("banned_ids", sampling.banned_ids),
    ):
        lowest, highest = (min(ids), max(ids)) if ids else (0, 0)
        if lowest < 0 or highest >= vocabulary:
            wrong = lowest if lowest < 0 else highest
            raise UsageError(
                f"{name} holds the id {wrong}, and the model has {vocabulary} ids; "
                "use the tokenizer of this model"
            )
    if window is not None and len(prompt) + sampling.max_new_tokens > window:
        raise ContextTooLong(
            f"a prompt of {len(prompt)} tokens and {sampling.max_new_tokens} new ones exceed the "
            f"model's window of {window}; shorten the prompt or lower max_new_tokens"
        )
