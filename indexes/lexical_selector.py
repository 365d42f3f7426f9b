"""The selector that needs no model: how much of a query's words a paper has.

A word weighs what it tells: its idf in the store. Of the weight of all words of the query, that of
the words in the title counts one and a half times, that of those in the abstract alone once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from agentgym_suite.data import json_digest
from agentgym_suite.files import Json
from agentgym_suite.indexes.match_query import query_words
from agentgym_suite.indexes.paper_store import Paper
from agentgym_suite.indexes.query_terms import FREQUENT
from agentgym_suite.spaces import without_surrogates

TITLE_WEIGHT = 1.5

_VERSION = 1


class TermCounts(Protocol):
    """How texts become terms, and how many papers hold each: ``PaperStore`` has it."""

    @property
    def digest(self) -> str:
        """What the counts were taken from."""
        ...

    def __len__(self) -> int:
        """How many papers were counted."""
        ...

    def stems(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """The terms of each text."""
        ...

    def df(self, terms: Sequence[str]) -> list[int]:
        """In how many papers each term is."""
        ...


class LexicalSelector:
    """The weighted share of the query's terms that title and abstract hold; at most 1.

    Terms in half of the papers or more are ignored, unless the query has no other: then all weigh
    alike. A query without a word scores 0. Deterministic; threads may share it.

    Args:
        counts: of the store that is searched.
    """

    name = "lexical"

    def __init__(self, counts: TermCounts) -> None:
        self._counts = counts

    @property
    def digest(self) -> str:
        """``sha256:<hex>`` of the rule and of what the counts were taken from."""
        return json_digest([self.name, _VERSION, self._counts.digest])

    def score(self, query: str, papers: Sequence[Paper]) -> list[float]:
        """The share for each paper, from 0 to 1.

        Raises:
            UsageError: the query is not text.
            RetrievalError: the store was closed.
        """
        weights = self._weights(query)
        total = math.fsum(weights.values())
        texts = [text for paper in papers for text in (paper.title, paper.abstract)]
        stems = self._counts.stems([without_surrogates(text) for text in texts])
        return [
            _share(weights, total, set(title), set(abstract))
            for title, abstract in zip(stems[::2], stems[1::2], strict=True)
        ]

    def info(self) -> dict[str, Json]:
        """Name, digest and how many papers its counts are of."""
        return {"name": self.name, "digest": self.digest, "papers": len(self._counts)}

    def close(self) -> None:
        """Nothing is open here: the store belongs to its opener."""

    def _weights(self, query: str) -> dict[str, float]:
        """The terms of a query that count, and how much."""
        found = self._counts.stems(query_words(query))
        terms = list(dict.fromkeys(term for stems in found for term in stems))
        rows = len(self._counts)
        counted = zip(terms, self._counts.df(terms), strict=True)
        weights = {
            term: math.log((rows - count + 0.5) / (count + 0.5))
            for term, count in counted
            if count < rows * FREQUENT
        }
        return weights or dict.fromkeys(terms, 1.0)


def _share(
    weights: Mapping[str, float], total: float, title: set[str], abstract: set[str]
) -> float:
    if not total:
        return 0.0
    in_title = math.fsum(weight for term, weight in weights.items() if term in title)
    elsewhere = math.fsum(
        weight for term, weight in weights.items() if term in abstract and term not in title
    )
    return min(1.0, (TITLE_WEIGHT * in_title + elsewhere) / total)
