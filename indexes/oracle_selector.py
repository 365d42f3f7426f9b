"""The selector that knows the annotation: for tests and upper bounds, never for results."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agentgym_suite.data import json_digest
from agentgym_suite.files import Json
from agentgym_suite.indexes.paper_ids import normalize_arxiv_id
from agentgym_suite.indexes.paper_store import Paper


class OracleSelector:
    """1.0 for the annotated papers of one query, 0.0 for the rest, whatever the query says.

    Args:
        gold: ids of the annotated papers, in any spelling.
    """

    name = "oracle"

    def __init__(self, gold: Collection[str]) -> None:
        self._gold = frozenset(map(_key, gold))

    @property
    def digest(self) -> str:
        """``sha256:<hex>`` of the annotated ids."""
        return json_digest([self.name, sorted(self._gold)])

    def score(self, query: str, papers: Sequence[Paper]) -> list[float]:
        """1.0 for each paper whose id or arXiv id is annotated, else 0.0."""
        return [float(self._is_gold(paper)) for paper in papers]

    def info(self) -> dict[str, Json]:
        """Name, digest and how many papers are annotated."""
        return {"name": self.name, "digest": self.digest, "gold": len(self._gold)}

    def close(self) -> None:
        """Nothing is open."""

    def _is_gold(self, paper: Paper) -> bool:
        return any(_key(text) in self._gold for text in (paper.paper_id, paper.arxiv_id) if text)


def _key(text: str) -> str:
    return normalize_arxiv_id(text) or text.strip().casefold()
