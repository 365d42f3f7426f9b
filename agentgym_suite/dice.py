"""Private chance for the generators of worlds: the same draws on every machine and Python.

Only ``random.Random.random`` is used: the Mersenne twister's doubles are fixed for good, whereas
``choice``, ``shuffle`` or ``gauss`` may change with a Python version, and logarithms or powers with
the C library.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """Draws that are a function of the words they are seeded with.

    Args:
        *words: what the draws depend on, e.g. generator version, seed and a running number.
    """

    __slots__ = ("roll",)

    def __init__(self, *words: str | int) -> None:
        text = "|".join(map(str, words)).encode()
        seed = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
        self.roll = random.Random(seed).random

    def below(self, limit: int) -> int:
        """A whole number in [0, limit)."""
        return int(self.roll() * limit)

    def between(self, low: int, high: int) -> int:
        """A whole number in [low, high]."""
        return low + int(self.roll() * (high - low + 1))

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self.roll() < probability

    def pick(self, items: Sequence[T]) -> T:
        """One item, each equally likely."""
        return items[int(self.roll() * len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """All items in an order of chance."""
        pool = list(items)
        for place in range(len(pool) - 1):
            other = place + int(self.roll() * (len(pool) - place))
            pool[place], pool[other] = pool[other], pool[place]
        return pool

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """``count`` items at different places, in the order drawn; all if there are fewer."""
        pool = list(items)
        for place in range(min(count, len(pool))):
            other = place + int(self.roll() * (len(pool) - place))
            pool[place], pool[other] = pool[other], pool[place]
        return pool[:count]

    def weighted(self, weights: Sequence[float]) -> int:
        """An index, with probability proportional to its weight."""
        left = self.roll() * sum(weights)
        for index, weight in enumerate(weights):
            left -= weight
            if left < 0:
                return index
        return len(weights) - 1

    def quantile(self, curve: Sequence[tuple[float, float]]) -> float:
        """A number whose quantiles are the (probability, value) points, straight between them."""
        position = self.roll()
        low_p, low = curve[0]
        for high_p, high in curve[1:]:
            if position <= high_p:
                return low + (high - low) * (position - low_p) / (high_p - low_p)
            low_p, low = high_p, high
        return low
