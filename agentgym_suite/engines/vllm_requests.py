"""What vLLM is asked for one reply: the same in this process and over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentgym_suite.engines.tokens import Sampling, check_prompt
from agentgym_suite.errors import UsageError, reason_of

COLDEST = 0.01
"""vLLM takes lower temperatures than this for this one."""


class VllmRequests:
    """Checks prompts, and names what vLLM's ``SamplingParams`` are made of.

    Args:
        vocabulary: rows of the model's output.
        window: most tokens of prompt and reply together.
        suppressed_ids: banned beside what a ``Sampling`` bans.
    """

    def __init__(self, *, vocabulary: int, window: int, suppressed_ids: Sequence[int]) -> None:
        self._vocabulary = vocabulary
        self._window = window
        self._suppressed = suppressed_ids
        self._allowed: dict[tuple[int, ...], list[int]] = {}

    def parameters(self, prompt: Sequence[int], sampling: Sampling, seed: int) -> dict[str, Any]:
        """The parameters of one reply, by vLLM's names.

        Args:
            prompt: its ids, at least one.
            sampling: how the reply is drawn.
            seed: of its draws, from 0 to below 2**64.

        Raises:
            ContextTooLong: the prompt and ``max_new_tokens`` exceed the window.
            UsageError: an empty prompt, an id that the model does not have, every id banned, or a
                temperature that vLLM would raise.
        """
        check_prompt(prompt, sampling, vocabulary=self._vocabulary, window=self._window)
        if 0 < sampling.temperature < COLDEST:
            raise UsageError(
                f"temperature is {sampling.temperature}, which vLLM raises to {COLDEST}; give 0 "
                f"or at least {COLDEST}"
            )
        return {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_new_tokens,
            "seed": seed,
            "stop_token_ids": list(sampling.stop_ids),
            "allowed_token_ids": self._allowed_ids(sampling),
            "ignore_eos": True,
            "logprobs": 0,
            "detokenize": False,
        }

    def _allowed_ids(self, sampling: Sampling) -> list[int] | None:
        """All ids but the banned ones: vLLM removes the others before all else, as -inf."""
        banned = tuple(sorted({*sampling.banned_ids, *self._suppressed}))
        if not banned:
            return None
        if len(banned) >= self._vocabulary:
            raise UsageError("every id is banned; leave at least one to sample")
        if banned not in self._allowed:
            gone = frozenset(banned)
            self._allowed = {banned: [i for i in range(self._vocabulary) if i not in gone]}
        return self._allowed[banned]


def vllm_reason(error: Exception) -> str:
    """What an error of vLLM says, or its kind where it says nothing."""
    return reason_of(error) or type(error).__name__
