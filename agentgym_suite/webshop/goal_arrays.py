"""The second phase of a store: prices, bounds, order and weights of goals, as arrays.

A goal is never written out: at full scale there are millions of synthetic ones. What is
kept is, for each kind of goal:

    offsets     int64    position of the first goal of each source in file order, and the end
    bounds      float64  price bound of each source, dollars
    weights     float64  weight of each goal of a source
    order       uint32   goal index -> position in file order
    cumulative  float64  goal index -> summed weight of the goals before it, and the total
    keys        uint64   sorted hashes of the instructions' letters and digits
    key_slots   uint32   the source of each key

and for the products with a price range ``range_positions`` (int64, sorted) and ``range_prices``
(float64, dollars). A source is a product with a generated instruction, or one human
instruction; its number is its ``slot``.
"""

from __future__ import annotations

import hashlib
import json
import random
import sqlite3
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from agentgym_suite.data import Json, Progress, write_json_atomic
from agentgym_suite.files import write_array
from agentgym_suite.webshop.prices import (
    NO_BOUND,
    LegacyDraw,
    derived_bound,
    derived_fraction,
    derived_price,
    price_within_bounds,
    recorded_test_bounds,
)

GOALS_FOLDER = "goals"
ORDER_SEED = 233
FULL_HUMAN_GOALS = 12_087
# Of the ASCII letters and digits of human goals 0 to 499, in lower case, newline-joined.
TEST_TEXTS_SHA256 = "b9c29c6581e565f14040b33a59df36d9418d78f2b45d8a0a9a133a2fc8e2a4d5"

_SUMMARY_NAME = "summary.json"
_KINDS = ("human", "synthetic")


def shuffled(n: int) -> npt.NDArray[np.uint32]:
    """The original's goal order: positions in file order after ``Random(233).shuffle``."""
    positions = array("I", range(n))
    random.Random(ORDER_SEED).shuffle(positions)
    return np.frombuffer(positions, dtype=np.uint32) if n else np.zeros(0, np.uint32)


def text_key(instruction: str) -> str:
    """What two spellings of an instruction share: its letters and digits in lower case."""
    return "".join(filter(str.isalnum, instruction.lower()))


def hashed_key(key: str) -> int:
    """A text key as an unsigned 64-bit number."""
    return int.from_bytes(hashlib.blake2b(key.encode("utf-8"), digest_size=8).digest(), "little")


def is_full_human_set(instructions: Sequence[str], order: Sequence[int]) -> bool:
    """Whether these are the official 12,087 human goals, whose first 500 have known bounds."""
    if len(instructions) != FULL_HUMAN_GOALS:
        return False
    texts = (instructions[order[goal]] for goal in range(len(recorded_test_bounds())))
    kept = ("".join(c for c in text_key(text) if c.isascii()) for text in texts)
    return hashlib.sha256("\n".join(kept).encode("ascii")).hexdigest() == TEST_TEXTS_SHA256


def published_texts_digest(instructions: Iterable[str]) -> str:
    """SHA-256 of human goal texts as the authors publish them: lower case, without quotes."""
    unquoted = (text.lower().replace('"', "").replace("'", "") for text in instructions)
    return hashlib.sha256("\n".join(unquoted).encode("utf-8")).hexdigest()


def write_goal_arrays(
    folder: Path,
    database: sqlite3.Connection,
    *,
    catalogue_digest: str,
    legacy_price_seed: int | None,
    progress: Progress | None,
) -> Mapping[str, Any]:
    """Write the arrays unless finished ones are there; return the summary of both kinds.

    The summary holds ``price_source``, ``human_goal_texts`` (a digest), and for ``human`` and
    ``synthetic`` their ``count``, ``digest`` and ``full`` (whether it is the official human set).
    """
    goals = folder / GOALS_FOLDER
    summary_path = goals / _SUMMARY_NAME
    if not summary_path.exists():
        goals.mkdir(exist_ok=True)
        writer = _ArrayWriter(goals, database, catalogue_digest, legacy_price_seed, progress)
        write_json_atomic(summary_path, writer.write())
    summary: dict[str, Any] = json.loads(summary_path.read_text("utf-8"))
    return summary


@dataclass(frozen=True, slots=True)
class _Sources:
    """One column for each field of the sources of a kind, in file order."""

    positions: list[int]
    asins: list[str]
    prices: list[float]
    counts: list[int]
    entries: list[int]


class _ArrayWriter:
    """Computes and saves the arrays of one store."""

    def __init__(
        self,
        folder: Path,
        database: sqlite3.Connection,
        catalogue_digest: str,
        legacy_price_seed: int | None,
        progress: Progress | None,
    ) -> None:
        self._folder = folder
        self._database = database
        self._catalogue = catalogue_digest
        self._legacy_seed = legacy_price_seed
        self._progress = progress

    def write(self) -> dict[str, Json]:
        sources = {kind: self._sources(kind) for kind in _KINDS}
        orders = {kind: shuffled(sum(sources[kind].counts)) for kind in _KINDS}
        human_slots, texts = orders["human"].tolist(), self._column("human", "instruction")
        full = is_full_human_set(texts, human_slots)
        recorded: dict[int, float] = {}
        if full and self._legacy_seed is None:
            recorded = dict(zip(human_slots, recorded_test_bounds(), strict=False))
        prices, price_digest = self._write_range_prices(sources["human"], recorded)
        source_of_prices = "test500+digest" if recorded else "digest"
        if self._legacy_seed is not None:
            source_of_prices = f"legacy:{self._legacy_seed}"
        summary: dict[str, Json] = {
            "price_source": source_of_prices,
            "human_goal_texts": published_texts_digest(texts[slot] for slot in human_slots),
        }
        for kind in _KINDS:
            known = recorded if kind == "human" else {}
            bounds = self._bounds(sources[kind], prices, known)
            identity = [self._catalogue, kind, price_digest, _sha256(bounds)]
            self._save(kind, "bounds", bounds)
            self._write_order(kind, sources[kind].counts, orders[kind])
            self._write_keys(kind)
            summary[kind] = {
                "count": len(orders[kind]),
                "digest": "sha256:" + hashlib.sha256("|".join(identity).encode()).hexdigest(),
                "full": full and kind == "human",
            }
        return summary

    def _sources(self, kind: str) -> _Sources:
        last = "combinations, 0" if kind == "synthetic" else "1, entry"
        rows = self._database.execute(
            f"SELECT position, asin, price, {last} FROM {kind} ORDER BY slot"
        )
        columns: list[list[Any]] = [[], [], [], [], []]
        for row in rows:
            for column, value in zip(columns, row, strict=True):
                column.append(value)
        return _Sources(*columns)

    def _column(self, kind: str, name: str) -> list[str]:
        rows = self._database.execute(f"SELECT {name} FROM {kind} ORDER BY slot")
        return [row[0] for row in rows]

    def _write_range_prices(
        self, human: _Sources, recorded: Mapping[int, float]
    ) -> tuple[dict[int, float], str]:
        """Save the hidden prices; return position -> price, and a digest of them."""
        wanted: dict[str, list[float]] = {}
        for slot, bound in recorded.items():
            if bound != NO_BOUND:
                wanted.setdefault(human.asins[slot], []).append(bound)
        legacy = self._legacy_draw()
        prices: dict[int, float] = {}
        for position, asin, low, high in self._ranges():
            if legacy is not None:
                prices[position] = legacy.price(low, high)
                continue
            fraction = derived_fraction(self._catalogue, "price", asin, 0)
            prices[position] = (
                price_within_bounds(low, high, wanted[asin], fraction)
                if asin in wanted
                else derived_price(low, high, fraction)
            )
        values = np.array(list(prices.values()), np.float64)
        write_array(self._folder / "range_positions.npy", np.array(list(prices), np.int64))
        write_array(self._folder / "range_prices.npy", values)
        return prices, _sha256(values)

    def _ranges(self) -> Iterator[tuple[int, str, float, float]]:
        yield from self._database.execute(
            "SELECT position, asin, low, high FROM ranges ORDER BY position"
        )

    def _legacy_draw(self) -> LegacyDraw | None:
        return None if self._legacy_seed is None else LegacyDraw(self._legacy_seed)

    def _bounds(
        self, sources: _Sources, prices: Mapping[int, float], recorded: Mapping[int, float]
    ) -> npt.NDArray[np.float64]:
        """The bound of each source: recorded, drawn as the original did, or derived."""
        legacy = self._legacy_draw()
        if legacy is not None:
            for _, _, low, high in self._ranges():
                legacy.price(low, high)
        bounds = np.empty(len(sources.asins), np.float64)
        for slot, asin in enumerate(sources.asins):
            price = prices.get(sources.positions[slot], sources.prices[slot])
            if slot in recorded:
                bounds[slot] = recorded[slot]
            elif legacy is not None:
                bounds[slot] = legacy.bound(price)
            else:
                fraction = derived_fraction(self._catalogue, "bound", asin, sources.entries[slot])
                bounds[slot] = derived_bound(price, fraction)
        return bounds

    def _write_order(self, kind: str, counts: Sequence[int], order: npt.NDArray[np.uint32]) -> None:
        weights = np.ones(len(counts)) if kind == "human" else self._weights(counts)
        by_goal = np.repeat(weights, counts)[order]
        self._save(kind, "offsets", np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]))
        self._save(kind, "weights", weights)
        self._save(kind, "order", order)
        self._save(kind, "cumulative", np.concatenate([[0.0], np.cumsum(by_goal)]))
        self._report(f"{kind} goals", len(order))

    def _weights(self, counts: Sequence[int]) -> npt.NDArray[np.float64]:
        """Mean over a source's attributes of 1 / (number of goals that have the attribute)."""
        attributes = [json.loads(text) for text in self._column("synthetic", "attributes")]
        goals_with: Counter[str] = Counter()
        for names, count in zip(attributes, counts, strict=True):
            for name in names:
                goals_with[name] += count
        weights = np.zeros(len(counts))
        for slot, (names, count) in enumerate(zip(attributes, counts, strict=True)):
            if count:
                total = 0.0  # plain additions: newer Pythons' sum() would round otherwise
                for name in names:
                    total += 1.0 / goals_with[name]
                weights[slot] = total / len(names)
        return weights

    def _write_keys(self, kind: str) -> None:
        texts = self._column(kind, "instruction")
        keys = np.array([hashed_key(text_key(text)) for text in texts], np.uint64)
        slots = np.argsort(keys, kind="stable")
        self._save(kind, "keys", keys[slots])
        self._save(kind, "key_slots", slots.astype(np.uint32))

    def _save(self, kind: str, name: str, values: npt.NDArray[Any]) -> None:
        write_array(self._folder / f"{kind}_{name}.npy", values)

    def _report(self, phase: str, done: int) -> None:
        if self._progress is not None:
            self._progress(phase, done, done)


def _sha256(values: npt.NDArray[Any]) -> str:
    return hashlib.sha256(values.astype(values.dtype.newbyteorder("<")).tobytes()).hexdigest()
