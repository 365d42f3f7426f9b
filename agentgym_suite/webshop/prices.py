"""Hidden prices of ranged products and upper price bounds of goals.

In the original both come from a generator that nobody seeded, so they differ in every
process. Here they are a function of the catalogue: numbers recorded for the 500 test
goals, otherwise a hash of the catalogue's digest; ``LegacyDraw`` repeats the original's
draws from a known seed, for the recorded fixtures.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Sequence
from importlib.resources import files
from itertools import combinations
from typing import Literal

NO_BOUND = 1_000_000.0
"""The bound of a goal without a price clause, in dollars (the original's number)."""

_STEP = 10.0
_LARGEST = 990.0
_CANDIDATES = 4
_CLAUSE = re.compile(r", and price lower than \d+\.\d\d dollars\Z")


def bound_candidates(price: float) -> tuple[float, ...]:
    """The first four of 10, 20, …, 990 dollars strictly above a price."""
    above = (int(price // _STEP) + 1) * _STEP
    steps = (above + _STEP * i for i in range(_CANDIDATES))
    return tuple(bound for bound in steps if bound <= _LARGEST)


def price_clause(bound: float) -> str:
    """The words that tell a customer's bound; empty for ``NO_BOUND``."""
    return "" if bound == NO_BOUND else f", and price lower than {bound:.2f} dollars"


def without_price_clause(instruction: str) -> str:
    """An instruction without its price clause, if it has one."""
    return _CLAUSE.sub("", instruction)


def derived_fraction(
    catalogue_digest: str, kind: Literal["price", "bound"], asin: str, n: int
) -> float:
    """A number in [0, 1] that is a function of the catalogue and the place it is used in."""
    text = f"{catalogue_digest}|{kind}|{asin}|{n}"
    return int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:8], "big") / 2**64


def derived_price(low: float, high: float, fraction: float) -> float:
    """The hidden price, in dollars, of a product sold from ``low`` to ``high``."""
    return low + (high - low) * fraction


def derived_bound(price: float, fraction: float) -> float:
    """The bound for a price: the larger of the pair of candidates that ``fraction`` picks."""
    pairs = tuple(combinations(bound_candidates(price), 2))
    if not pairs:
        return NO_BOUND
    # A fraction just below 1 is rounded up to 1.0 by the division that made it.
    return pairs[min(int(fraction * len(pairs)), len(pairs) - 1)][1]


def price_within_bounds(low: float, high: float, bounds: Sequence[float], fraction: float) -> float:
    """The hidden price of a ranged product for which bounds are already known.

    A bound ``b`` was drawn for some price in [b - 40, b - 10). The price is taken from the
    part of the range that fits all bounds; if there is none, from the part below the
    smallest bound; else it is ``low``.
    """
    smallest, largest = min(bounds), max(bounds)
    for start, end in (
        (max(low, largest - 40.0), min(high, smallest - 10.0)),
        (low, min(high, smallest)),
    ):
        if start < end:
            price = derived_price(start, end, fraction)
            return price if price < end else start
    return low


def recorded_test_bounds() -> tuple[float, ...]:
    """The bounds of human goals 0 to 499 on the authors' server, ``NO_BOUND`` for none."""
    text = files("agentgym_suite.webshop").joinpath("price_bounds_test500.json").read_text("utf-8")
    return tuple(NO_BOUND if bound is None else float(bound) for bound in json.loads(text))


class LegacyDraw:
    """The original's draws from a private generator of known seed.

    Call ``price`` for every ranged product in file order, then ``bound`` for every product
    with an instruction (or every human instruction) in file order.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def price(self, low: float, high: float) -> float:
        """The next hidden price, in dollars."""
        return self._random.uniform(low, high)

    def bound(self, price: float) -> float:
        """The next bound for a price, in dollars."""
        candidates = bound_candidates(price)
        if len(candidates) < 2:
            return NO_BOUND
        return max(self._random.sample(candidates, 2))
