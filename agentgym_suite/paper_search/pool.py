"""The papers that an episode has found, with their scores and what was done with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from agentgym_suite.indexes.paper_ids import id_keys

if TYPE_CHECKING:
    from agentgym_suite.indexes.paper_store import Paper

Source = Literal["search", "expand"]
PoolOrder = Literal["id", "steppo"]


@dataclass(frozen=True, slots=True)
class PoolEntry:
    """A paper of the pool.

    Attributes:
        paper: title, abstract, ids.
        score: how relevant the selector holds it, from 0 to 1.
        source: the call that found it first.
        origin: that call's query, or the id that was expanded.
        step: in which step, from 1.
        expanded: whether it has been expanded.
    """

    paper: Paper
    score: float
    source: Source
    origin: str
    step: int
    expanded: bool = False

    @property
    def id(self) -> str:
        """The paper's id."""
        return self.paper.paper_id


class Pool:
    """Papers by id, in the order in which they came."""

    def __init__(self) -> None:
        self._entries: dict[str, PoolEntry] = {}
        self._names: dict[str, str] = {}  # every other name of a paper -> its id

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[PoolEntry]:
        return iter(self._entries.values())

    def __contains__(self, paper_id: object) -> bool:
        return paper_id in self._entries

    def copy(self) -> Pool:
        """A pool of the same entries that changes on its own."""
        twin = Pool()
        twin._entries = dict(self._entries)
        twin._names = dict(self._names)
        return twin

    def add(self, entry: PoolEntry) -> None:
        """Add a paper that is not there yet."""
        self._entries[entry.id] = entry
        self._names.setdefault(entry.id.casefold(), entry.id)
        if entry.paper.arxiv_id:
            self._names.setdefault(entry.paper.arxiv_id, entry.id)

    def mark_expanded(self, paper_id: str) -> None:
        """Note that a paper of the pool has been expanded."""
        self._entries[paper_id] = replace(self._entries[paper_id], expanded=True)

    def find(
        self, text: str, known_as: Callable[[str], str | None] = lambda _: None
    ) -> PoolEntry | None:
        """The paper that an id names, in any spelling; None if none of the pool.

        Args:
            text: taken as each of ``paper_ids.id_keys``.
            known_as: asked last for the id behind any other name.
        """
        for name in id_keys(text):
            entry = self._entries.get(name) or self._entries.get(self._names.get(name, ""))
            if entry is not None:
                return entry
        return self._entries.get(known_as(text) or "")

    def ranked(self) -> list[PoolEntry]:
        """All entries: score descending, then id ascending."""
        return sorted(self, key=lambda entry: (-entry.score, entry.id))

    def shown(self, threshold: float, most: int, order: PoolOrder = "id") -> list[PoolEntry]:
        """The entries that the policy sees: the best expanded and the best unexpanded ones.

        Args:
            threshold: least score.
            most: how many of each of the two groups.
            order: among equal scores: ``id`` ascending; or as the published code has it
                (``steppo``), which reverses a sorted list: expanded before new, then id descending.
        """
        entries = sorted(
            (entry for entry in self if entry.score >= threshold),
            key=lambda entry: entry.id,
            reverse=order == "steppo",
        )
        entries.sort(key=lambda entry: -entry.score)
        expanded = [entry for entry in entries if entry.expanded][:most]
        fresh = [entry for entry in entries if not entry.expanded][:most]
        together = sorted(expanded + fresh, key=lambda entry: entry.id, reverse=order == "steppo")
        if order == "steppo":
            together.sort(key=lambda entry: not entry.expanded)
        return sorted(together, key=lambda entry: -entry.score)
