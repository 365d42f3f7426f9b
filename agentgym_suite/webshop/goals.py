"""Goals: what a customer asks for, in the original's order, with its splits.

A ``GoalSet`` makes goals when they are asked for, from the arrays of ``goal_arrays`` and one
row of the store: at full scale there are millions, and none is held.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, overload

import numpy as np
import numpy.typing as npt

from agentgym_suite.errors import DataDamaged
from agentgym_suite.files import explain_damage
from agentgym_suite.webshop.goal_arrays import hashed_key, text_key
from agentgym_suite.webshop.prices import price_clause, without_price_clause
from agentgym_suite.webshop.products import Product
from agentgym_suite.webshop.store import Store

GoalKind = Literal["human", "synthetic"]

SPLITS = ("train", "eval", "test", "train500")
"""The splits there can be; the last one only of the official human set."""

_CACHED_GOALS = 4_096
_LIMIT_SEED = 233


@dataclass(frozen=True, slots=True)
class Goal:
    """What one customer wants, read-only.

    Attributes:
        index: position in the goal set's order.
        kind: ``"human"`` or ``"synthetic"``.
        asin: the product the goal was written for.
        category: department of that product.
        query: query of that product.
        name: title of that product.
        product_category: category path of that product.
        instruction: the customer's words, with the price clause.
        attributes: attributes asked for, never empty.
        price_upper: upper price bound in dollars; 1,000,000 where there is none.
        options: human goals: option values; synthetic goals: (group, value) pairs.
        weight: weight of the goal when a task is drawn.
        nouns: title nouns of the product, repeats and order kept.
    """

    index: int
    kind: GoalKind
    asin: str
    category: str
    query: str
    name: str
    product_category: str
    instruction: str
    attributes: tuple[str, ...]
    price_upper: float
    options: tuple[str, ...] | tuple[tuple[str, str], ...]
    weight: float
    nouns: tuple[str, ...]

    @property
    def id(self) -> str:
        """The task id: kind and index."""
        return f"{self.kind}-{self.index}"


def split_ranges(count: int, *, full_human_set: bool) -> dict[str, range]:
    """The splits of a goal list: goal indices by name.

    The official human set has the authors' splits, and ``train500``, the training goals of the
    CAPO paper, which overlap ``eval``. Any other list has a tenth for test (at most 500), a
    tenth for eval (at most 1,000), and the rest for train.
    """
    if full_human_set:
        return {
            "test": range(500),
            "eval": range(500, 1_500),
            "train": range(1_500, count),
            "train500": range(500, count),
        }
    test = min(500, count // 10)
    evaluation = test + min(1_000, count // 10)
    return {
        "test": range(test),
        "eval": range(test, evaluation),
        "train": range(evaluation, count),
    }


class ChosenIndices(Sequence[int]):
    """Goal indices that a filter or a limit left of a split, ascending.

    Args:
        indices: the indices, ascending.
        weights: the weight of each.
    """

    def __init__(self, indices: npt.NDArray[np.int64], weights: npt.NDArray[np.float64]) -> None:
        self.indices = indices
        self.cumulative = np.cumsum(weights)

    def __len__(self) -> int:
        return len(self.indices)

    @overload
    def __getitem__(self, position: int) -> int: ...

    @overload
    def __getitem__(self, position: slice) -> list[int]: ...

    def __getitem__(self, position: int | slice) -> int | list[int]:
        found: int | list[int] = self.indices[position].tolist()
        return found

    def __contains__(self, index: object) -> bool:
        if not isinstance(index, int | np.integer):
            return False
        place = int(np.searchsorted(self.indices, index))
        return place < len(self.indices) and int(self.indices[place]) == index

    def __repr__(self) -> str:
        return f"{len(self)} chosen goals"


class GoalSet(Sequence[Goal]):
    """The goals of one kind of a store, lazily.

    A filter or a limit narrows the splits; ids and indices stay those of the whole list.

    Args:
        store: the store that holds the sources.
        kind: which goals.
        filter_goals: called with (index, goal); keeps the goals for which it is true.
        limit_goals: keep so many of them, drawn by weight, the same ones every time.
    """

    def __init__(
        self,
        store: Store,
        kind: GoalKind,
        *,
        filter_goals: Callable[[int, Goal], bool] | None = None,
        limit_goals: int | None = None,
    ) -> None:
        self.kind: GoalKind = kind
        self.digest, full = store.goal_notes(kind)
        self._source = _GoalSource(store, kind)
        # The cache refers to the source and not to this set: no cycle keeps the store alive.
        self._goal = lru_cache(maxsize=_CACHED_GOALS)(self._source.goal)
        splits: dict[str, Sequence[int]] = dict(split_ranges(len(self), full_human_set=full))
        if filter_goals is not None or limit_goals is not None:
            chosen = self._choose(filter_goals, limit_goals)
            splits = {name: self._among(chosen, whole) for name, whole in splits.items()}
            names = hashlib.sha256(chosen.astype("<i8").tobytes()).hexdigest()
            self.digest = f"{self.digest}/{names[:16]}"
        self.splits: Mapping[str, Sequence[int]] = MappingProxyType(splits)

    def __len__(self) -> int:
        return len(self._source.order)

    @overload
    def __getitem__(self, index: int) -> Goal: ...

    @overload
    def __getitem__(self, index: slice) -> list[Goal]: ...

    def __getitem__(self, index: int | slice) -> Goal | list[Goal]:
        if isinstance(index, slice):
            return [self._goal(place) for place in range(len(self))[index]]
        try:
            place = range(len(self))[index]
        except IndexError as error:
            raise IndexError(
                f"goal {index} does not exist; the {self.kind} set has 0 to {len(self) - 1}"
            ) from error
        return self._goal(place)

    def __iter__(self) -> Iterator[Goal]:
        return map(self._source.goal, range(len(self)))

    def draw(self, u: float, indices: Sequence[int]) -> int:
        """The one of ``indices`` (a split) that a uniform ``u`` in [0, 1) falls on, by weight.

        Every goal can be drawn; the original draws goal 0 never and the last one twice as often.

        Raises:
            ValueError: ``indices`` is empty.
        """
        if not len(indices):
            raise ValueError("there is no goal to draw from")
        cumulative, first = self._source.cumulative, indices[0]
        if isinstance(indices, ChosenIndices):
            cumulative, low, places = indices.cumulative, 0.0, range(len(indices))
        elif isinstance(indices, range) and indices.step == 1:
            low = float(cumulative[first])
            cumulative, places = cumulative[1:], indices
        else:
            weights = self._source.weights_of(np.asarray(indices, np.int64))
            cumulative, low, places = np.cumsum(weights), 0.0, range(len(indices))
        target = low + u * (float(cumulative[places[-1]]) - low)
        place = int(np.searchsorted(cumulative, target, side="right"))
        return indices[min(max(place, places[0]), places[-1]) - places[0]]

    def find(self, instruction: str) -> list[int]:
        """Indices of the goals with this instruction, ascending.

        Case, blanks and punctuation do not count, nor does the price clause: published
        trajectories carry clauses drawn from an unknown seed.
        """
        text = without_price_clause(instruction.strip())
        wanted = text_key(text)
        return sorted(
            index
            for index in self._source.candidates(text)
            if text_key(without_price_clause(self[index].instruction)) == wanted
        )

    def _choose(
        self, filter_goals: Callable[[int, Goal], bool] | None, limit_goals: int | None
    ) -> npt.NDArray[np.int64]:
        chosen = np.arange(len(self), dtype=np.int64)
        if filter_goals is not None:
            kept = (goal.index for goal in self if filter_goals(goal.index, goal))
            chosen = np.fromiter(kept, np.int64)
        if limit_goals is not None and limit_goals < len(chosen):
            # The smallest of exponential times with these rates: a weighted draw without
            # replacement (Efraimidis and Spirakis, 2006).
            weights = self._source.weights_of(chosen)
            times = np.random.default_rng(_LIMIT_SEED).exponential(size=len(chosen)) / weights
            chosen = np.sort(chosen[np.argsort(times, kind="stable")[:limit_goals]])
        return chosen

    def _among(self, chosen: npt.NDArray[np.int64], whole: Sequence[int]) -> Sequence[int]:
        start, stop = (whole[0], whole[-1] + 1) if len(whole) else (0, 0)
        part = chosen[(chosen >= start) & (chosen < stop)]
        return ChosenIndices(part, self._source.weights_of(part))


class _GoalSource:
    """The arrays of one kind of goal, and how a goal is put together from them."""

    def __init__(self, store: Store, kind: GoalKind) -> None:
        self._store = store
        self._kind: GoalKind = kind
        self.order = store.goal_array(kind, "order")
        self.cumulative = store.goal_array(kind, "cumulative")
        self._offsets = store.goal_array(kind, "offsets")
        self._bounds = store.goal_array(kind, "bounds")
        self._weights = store.goal_array(kind, "weights")
        self._keys = store.goal_array(kind, "keys")
        self._key_slots = store.goal_array(kind, "key_slots")
        count = store.manifest.counts[f"{kind}_goals"]
        if not len(self.order) == len(self.cumulative) - 1 == count:
            raise DataDamaged(
                f"{store.folder} has arrays for {len(self.order)} {kind} goals where its manifest "
                f"says {count}; remove {store.folder} and import it again"
            )

    def goal(self, index: int) -> Goal:
        """The goal at an index of the order."""
        with explain_damage(self._store.folder):
            return self._made(index)

    def _made(self, index: int) -> Goal:
        place = int(self.order[index])
        slot = int(np.searchsorted(self._offsets, place, side="right")) - 1
        bound = float(self._bounds[slot])
        options: tuple[str, ...] | tuple[tuple[str, str], ...]
        if self._kind == "human":
            asin, text, attributes, options = self._store.human_source(slot)
            product = self._product(asin)
        else:
            asin, text, attributes = self._store.synthetic_source(slot)
            product = self._product(asin)
            options = _combination(product, place - int(self._offsets[slot]))
            words = ", and ".join(f"{group}: {value}" for group, value in options)
            text = f"{text} with {words}" if words else text
        return Goal(
            index=index,
            kind=self._kind,
            asin=asin,
            category=product.category,
            query=product.query,
            name=product.name,
            product_category=product.product_category,
            instruction=text + price_clause(bound),
            attributes=attributes,
            price_upper=bound,
            options=options,
            weight=float(self._weights[slot]),
            nouns=product.nouns,
        )

    def weights_of(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """The weights of goals by index."""
        with explain_damage(self._store.folder):
            slots = np.searchsorted(self._offsets, self.order[indices], side="right") - 1
            weights: npt.NDArray[np.float64] = self._weights[slots]
        return weights

    def candidates(self, text: str) -> list[int]:
        """Indices of the goals whose source may have this text (without its price clause)."""
        starts = [text]
        if self._kind == "synthetic":
            starts += [text[: found.start()] for found in _OPTIONS_BEGIN.finditer(text)]
        keys = np.array([hashed_key(text_key(start)) for start in starts], np.uint64)
        indices: list[int] = []
        with explain_damage(self._store.folder):
            low, high = (np.searchsorted(self._keys, keys, side) for side in ("left", "right"))
            found = (self._key_slots[a:b] for a, b in zip(low, high, strict=True))
            for slot in {int(slot) for slots in found for slot in slots}:
                first, end = int(self._offsets[slot]), int(self._offsets[slot + 1])
                indices += np.flatnonzero((self.order >= first) & (self.order < end)).tolist()
        return indices

    def _product(self, asin: str) -> Product:
        product = self._store.product(asin)
        if product is None:
            raise DataDamaged(
                f"a goal of {self._store.folder} names the product {asin!r}, which is not there; "
                f"remove {self._store.folder} and import it again"
            )
        return product


_OPTIONS_BEGIN = re.compile(r"\swith\s", re.IGNORECASE)


def _combination(product: Product, number: int) -> tuple[tuple[str, str], ...]:
    """The combination of option values at a position: groups sorted, the last varies fastest."""
    chosen: list[tuple[str, str]] = []
    for group, values in sorted(product.options, reverse=True):
        number, position = divmod(number, len(values))
        chosen.append((group, values[position]))
    return tuple(reversed(chosen))
