"""What is searched: passages, how they are found, and the protocols of every index of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from agentgym_suite.errors import UsageError
from agentgym_suite.files import Json
from agentgym_suite.indexes.hits import Hits


@dataclass(frozen=True, slots=True)
class Passage:
    """One row of a corpus.

    Attributes:
        id: unique in its corpus.
        title: one line, may be empty.
        text: the passage without its title.
    """

    id: str
    title: str
    text: str

    @property
    def contents(self) -> str:
        """Title in double quotes, a line end, text: one field, as the wiki-18 corpus has it."""
        return f'"{self.title}"\n{self.text}'


def split_contents(contents: str) -> tuple[str, str]:
    """(title, text) of a ``contents`` field: the first line without its quotes, and the rest.

    One pair of double quotes around the title is removed, not more.
    """
    title, _, text = contents.partition("\n")
    if len(title) >= 2 and title[0] == title[-1] == '"':
        title = title[1:-1]
    return title, text


@dataclass(frozen=True, slots=True)
class Found:
    """A passage that answers a query, and how well: higher is better."""

    passage: Passage
    score: float


@runtime_checkable
class PassageIndex(Protocol):
    """What an environment and the retrieval server search; local or remote.

    Threads may use one index at the same time. It pickles as its address and opens again.
    """

    @property
    def digest(self) -> str:
        """Identifies what is found, as ``sha256:<hex>``; empty when that is unknown (remote)."""
        ...

    def __len__(self) -> int:
        """How many passages there are."""
        ...

    def retrieve(self, queries: Sequence[str], k: int) -> list[list[Found]]:
        """The best passages for each query, best first.

        Args:
            queries: any number of them; one batch gives exactly what one by one gives.
            k: at most so many for each.

        Returns:
            One list a query, in order; empty for a blank query.

        Raises:
            UsageError: ``k`` is below 1, or a query is not text.
            RetrievalError: the index or its corpus cannot be used.
        """
        ...

    def info(self) -> dict[str, Json]:
        """What the index is: kind, rows, corpus, parameters, engine."""
        ...

    def close(self) -> None:
        """Give back files and connections; may be called twice."""
        ...


@runtime_checkable
class RankedIndex(PassageIndex, Protocol):
    """An index on this machine, which can also rank ids alone."""

    def search(self, query: str, k: int) -> Hits:
        """The ids of the best passages: score descending, then id ascending."""
        ...

    def search_batch(self, queries: Sequence[str], k: int) -> list[Hits]:
        """``search`` for each query."""
        ...

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        """The passages of these ids, in order.

        Raises:
            RetrievalError: there is no such id, or the corpus cannot be used.
        """
        ...


def retrieve(index: RankedIndex, queries: Sequence[str], k: int) -> list[list[Found]]:
    """``PassageIndex.retrieve`` for an index that ranks ids: search, then fetch what was found."""
    found = []
    for hits in index.search_batch(queries, k):
        passages = index.passages(hits.ids)
        found.append(list(map(Found, passages, hits.scores)))
    return found


def check_search(queries: Sequence[str], k: int) -> None:
    """Check what every index asks of a search.

    Raises:
        UsageError: ``k`` is no integer of at least 1, or a query is not text.
    """
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise UsageError(f"k is {k!r}; ask for at least 1 passage")
    if isinstance(queries, str):
        raise UsageError(f"queries is the text {queries[:80]!r}; give a list of texts")
    # Not every sequence is a Sequence: an array of numpy is none.
    if not hasattr(queries, "__getitem__") or isinstance(queries, Mapping):
        raise UsageError(f"queries is {queries!r:.80}; give a list of texts")
    for place, query in enumerate(queries):
        if not isinstance(query, str):
            raise UsageError(f"query {place} is {query!r:.80}; give text")
