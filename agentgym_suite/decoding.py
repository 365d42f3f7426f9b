"""How a model's replies are sampled, as suites state it and model agents obey it."""

from __future__ import annotations

from dataclasses import dataclass

from agentgym_suite.arguments import check_count
from agentgym_suite.errors import UsageError

HOTTEST = 100.0
MOST_TOKENS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Decoding:
    """How an agent with a model samples its replies.

    Attributes:
        temperature: 0.0 takes the likeliest token.
        top_p: share of the probability that is sampled from.
        max_tokens: most tokens of one reply; None leaves it to the agent.

    Raises:
        UsageError: a number is out of its range.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.temperature <= HOTTEST:
            raise UsageError(f"temperature is {self.temperature}; give 0 to {HOTTEST:g}")
        if not 0 < self.top_p <= 1:
            raise UsageError(f"top_p is {self.top_p}; give a number above 0, at most 1")
        if self.max_tokens is not None:
            check_count("max_tokens", self.max_tokens, 1, MOST_TOKENS)
