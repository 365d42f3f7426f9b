"""How long to wait before a request is sent again: exponential, jittered, bounded."""

from __future__ import annotations

import email.utils
import math
import random
from dataclasses import dataclass
from datetime import UTC, datetime

from agentgym_suite.errors import UsageError

DEFAULT_TRIES = 6


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a request that failed is sent again.

    Attributes:
        tries: most times it is sent.
        first_pause_s: seconds before the second time; they double each time.
        longest_pause_s: longest pause that is not asked for by the server.
        total_s: seconds after which it is not sent again, the pauses included.

    Raises:
        UsageError: a number is out of its range.
    """

    tries: int = DEFAULT_TRIES
    first_pause_s: float = 0.5
    longest_pause_s: float = 30.0
    total_s: float = 300.0

    def __post_init__(self) -> None:
        if self.tries < 1:
            raise UsageError(f"tries is {self.tries}; give at least 1")
        for name in ("first_pause_s", "longest_pause_s", "total_s"):
            seconds = getattr(self, name)
            if not 0 < seconds < math.inf:
                raise UsageError(f"{name} is {seconds}; give seconds above 0")

    def pause_s(self, sent: int, asked_s: float | None, draw: random.Random) -> float:
        """Seconds to wait after a request was sent ``sent`` times.

        Args:
            sent: how often it was sent, from 1.
            asked_s: seconds that the server asked for; they are a lower bound.
            draw: gives the jitter, from half the pause to all of it.
        """
        doubled = self.first_pause_s * 2.0 ** min(sent - 1, 60)
        jittered = min(doubled, self.longest_pause_s) * (0.5 + draw.random() / 2)
        return max(jittered, asked_s or 0.0)


def retry_after_s(value: str | None, now: datetime) -> float | None:
    """The seconds of a ``Retry-After`` header, given in seconds or as a date (RFC 9110, 10.2.3).

    Args:
        value: the header; None where there is none.
        now: the time at which it came.

    Returns:
        Seconds, at least 0; None where nothing sensible is said.
    """
    if value is None:
        return None
    text = value.strip()
    try:
        seconds = float(text)
    except ValueError:
        return _until(text, now)
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _until(text: str, now: datetime) -> float | None:
    try:
        date = email.utils.parsedate_to_datetime(text)
    except (ValueError, IndexError, OverflowError):
        return None
    aware = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (aware - now).total_seconds())
