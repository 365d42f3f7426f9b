"""Private chance for the household generator: the same draws on every machine and Python.

Only ``random.Random.random`` is used: the Mersenne twister's doubles are fixed for good, whereas
``choice`` or ``shuffle`` may change with a Python version.
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
        *words: what the draws depend on, e.g. generator version, seed and the number of a game.
    """

    __slots__ = ("roll",)

    def __init__(self, *words: str | int) -> None:
        text = "|".join(map(str, words)).encode()
        seed = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
        self.roll = random.Random(seed).random

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

    def weighted(self, items: Sequence[T], weights: Sequence[float]) -> T:
        """One item, with probability proportional to its weight."""
        left = self.roll() * sum(weights)
        for item, weight in zip(items, weights, strict=True):
            left -= weight
            if left < 0:
                return item
        return items[-1]
