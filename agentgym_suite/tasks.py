"""Tasks: ordered ids, named splits, and the digest that identifies the set."""

from __future__ import annotations

import difflib
import hashlib
import numbers
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import overload

from agentgym_suite.errors import UnknownSplit, UnknownTask, UsageError

_NEAREST_AMONG = 20_000  # ids compared when a wrong one is explained


@dataclass(frozen=True, slots=True)
class Task:
    """One task: its id, position in the task set, split and family ("" if none)."""

    id: str
    index: int
    split: str
    family: str = ""


class NumberedIds(Sequence[str]):
    """The ids ``prefix-0`` to ``prefix-(n-1)``, held as two values whatever ``n`` is."""

    def __init__(self, prefix: str, n: int) -> None:
        self.prefix = prefix
        self._n = n

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        numbers = range(self._n)[index]
        if isinstance(numbers, range):
            return [f"{self.prefix}-{number}" for number in numbers]
        return f"{self.prefix}-{numbers}"

    def index(self, value: object, start: int = 0, stop: int | None = None) -> int:
        """Position of an id; ValueError if it is none of these."""
        prefix, dash, digits = str(value).rpartition("-")
        canonical = dash and digits.isascii() and digits.isdigit() and len(digits) < 20
        number = int(digits) if canonical else -1
        if prefix != self.prefix or not 0 <= number < self._n or self[number] != value:
            raise ValueError(f"{value!r} is not among {self}")
        return number

    def __contains__(self, value: object) -> bool:
        try:
            self.index(value)
        except ValueError:
            return False
        return True

    def __repr__(self) -> str:
        return f"{self.prefix}-0 … {self.prefix}-{self._n - 1}"


class TaskSet:
    """The tasks of one environment over one data set, in a fixed order.

    Args:
        ids: every task id, in order; a lazy sequence is fine.
        splits: split name -> task positions, in order; splits may overlap only by design.
        digest: what identifies this set; computed from the ids when not given.
        family: position -> family name.
    """

    def __init__(
        self,
        ids: Sequence[str],
        splits: Mapping[str, Sequence[int]],
        *,
        digest: str | None = None,
        family: Callable[[int], str] | None = None,
    ) -> None:
        self.ids = ids
        self.splits = dict(splits)
        self._digest = digest
        self._family = family

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    @cached_property
    def digest(self) -> str:
        """``sha256:`` + hex over the ids, or the digest given."""
        if self._digest is not None:
            return self._digest
        digest = hashlib.sha256()
        for task_id in self.ids:
            digest.update(task_id.encode("utf-8") + b"\n")
        return f"sha256:{digest.hexdigest()}"

    @cached_property
    def _members(self) -> dict[str, Container[int]]:
        """The splits for look-ups: a plain list would be searched at every reset."""
        return {
            name: frozenset(members) if isinstance(members, list | tuple) else members
            for name, members in self.splits.items()
        }

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {task_id: i for i, task_id in enumerate(self.ids)}

    def split(self, name: str) -> Sequence[int]:
        """The task positions of a split.

        Raises:
            UnknownSplit: naming the splits there are.
        """
        if not isinstance(name, str) or name not in self.splits:
            raise UnknownSplit(f"split {name!r} does not exist; choose {', '.join(self.splits)}")
        return self.splits[name]

    def split_of(self, index: int, preferred: str = "") -> str:
        """The split that holds a position: the preferred one if it does, else the first."""
        if preferred and index in self._members.get(preferred, ()):
            return preferred
        return next((name for name, members in self._members.items() if index in members), "")

    def task(self, index: int, preferred_split: str = "") -> Task:
        """The task at a position."""
        family = self._family(index) if self._family else ""
        return Task(self.ids[index], index, self.split_of(index, preferred_split), family)

    def resolve(self, key: object) -> int:
        """The position of a task named by id, integer (numpy's too) or decimal string.

        Raises:
            UnknownTask: with the range and the nearest ids.
            UsageError: if ``key`` is neither str nor integer.
        """
        if isinstance(key, bool) or not isinstance(key, str | numbers.Integral):
            raise UsageError(f"task_id is {key!r}; give a task id or a task number")
        if isinstance(key, str):
            position = self._position(key)
            if position is not None:
                return position
        text = str(key)
        short = len(text) <= len(str(len(self.ids)))
        if short and text.isascii() and text.isdigit() and int(text) < len(self.ids):
            return int(text)
        raise UnknownTask(self._explain(text))

    def _position(self, task_id: str) -> int | None:
        if isinstance(self.ids, NumberedIds):
            return self.ids.index(task_id) if task_id in self.ids else None
        return self._positions.get(task_id)

    @property
    def _numbers(self) -> str:
        """What a number in the place of an id means, for sentences."""
        return f"numbers 0 to {len(self.ids) - 1}"

    def _explain(self, text: str) -> str:
        n = len(self.ids)
        if not n:
            return f"task {text[:80]!r} does not exist: the task set is empty"
        span = f"{n} tasks, {self.ids[0]} to {self.ids[n - 1]} ({self._numbers})"
        nearest = difflib.get_close_matches(text[:200], islice(self.ids, _NEAREST_AMONG), n=3)
        hint = f"; nearest: {', '.join(nearest)}" if nearest else ""
        return f"task {text[:80]!r} does not exist; there are {span}{hint}"


def split_ranges(counts: Mapping[str, int], order: Sequence[str]) -> dict[str, range]:
    """The positions of splits whose tasks are stored split by split; empty ones are left out.

    Args:
        counts: tasks of each split, by name; other names do not count.
        order: every split there can be, as they follow one another.
    """
    ranges: dict[str, range] = {}
    first = 0
    for split in order:
        if counts.get(split):
            ranges[split] = range(first, first + counts[split])
            first += counts[split]
    return ranges


def count_split(counts: dict[str, int], split: str, order: Sequence[str]) -> None:
    """Count one more task of a split, while tasks are stored split by split.

    Raises:
        ValueError: the split comes after one that it goes before.
    """
    if any(order.index(split) < order.index(earlier) for earlier in counts):
        raise ValueError(f"the split {split!r} comes after {', '.join(counts)}")
    counts[split] = counts.get(split, 0) + 1
