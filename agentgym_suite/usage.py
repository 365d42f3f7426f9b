"""What a call of a model used: ``Usage``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model call.

    Attributes:
        prompt_tokens: of the prompt.
        completion_tokens: of the reply.
        cached_tokens: of the prompt, those that the server had kept.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
