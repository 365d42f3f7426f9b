"""Which papers are the annotated ones of a query, and how well the pool covers them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from agentgym_suite.indexes.paper_ids import title_key
from agentgym_suite.paper_search.pool import PoolEntry
from agentgym_suite.paper_search.queries import PaperQuery
from agentgym_suite.paper_search.scores import SetScore, bare_ids, set_score

if TYPE_CHECKING:
    from agentgym_suite.indexes.paper_store import Paper

RECALL_CUTS = (20, 50, 100)


class Annotated:
    """The annotated papers of a query, told by id first and by title second.

    Args:
        query: whose.
        locate: gives the ids that papers have in the store, for as many as it knows. A title
            counts only for those it does not: other papers may have the same.
    """

    def __init__(
        self, query: PaperQuery, locate: Callable[[Sequence[str]], Mapping[str, str]]
    ) -> None:
        self.ids = tuple(bare_ids(query.gold))
        located = locate(self.ids)
        self.missing = query.gold_missing
        self.papers = tuple(located[each] for each in self.ids if each in located)
        self._names = {each.casefold(): each for each in self.ids}
        self._names.update({each: each for each in self.ids})
        self._names.update({located[each]: each for each in self.ids if each in located})
        self._titles: dict[str, str] = {}
        for gold, title in zip(query.gold, query.titles, strict=False):
            (each,) = bare_ids([gold])
            if each not in located and (key := title_key(title)):
                self._titles.setdefault(key, each)

    def known_as(self, paper: Paper) -> str | None:
        """The annotated id that a paper stands for; None for a paper that is not annotated."""
        for name in (paper.paper_id, paper.arxiv_id or "", paper.paper_id.casefold()):
            if name in self._names:
                return self._names[name]
        return self._titles.get(title_key(paper.title)) if self._titles else None

    def score(self, papers: Iterable[Paper]) -> SetScore:
        """Precision, recall and F1 of papers; two that stand for one annotated paper count once."""
        return set_score({self.known_as(p) or p.paper_id for p in papers}, self.ids, self.missing)

    def figures(self, ranked: list[PoolEntry], threshold: float) -> dict[str, float]:
        """How good a pool is.

        Args:
            ranked: its entries, best first.
            threshold: least score of those that are delivered.

        Returns:
            ``f1_all, recall_all, precision_all`` of what is delivered, ``f1_all_t0`` and
            ``recall_all_t0`` of everything (threshold 0.0), ``crawler_recall``, and
            ``recall_20``, ``recall_50``, ``recall_100`` of the best.
        """
        papers = [entry.paper for entry in ranked]
        delivered = self.score(entry.paper for entry in ranked if entry.score >= threshold)
        everything = self.score(entry.paper for entry in ranked if entry.score >= 0.0)
        return {
            "f1_all": delivered.f1,
            "recall_all": delivered.recall,
            "precision_all": delivered.precision,
            "f1_all_t0": everything.f1,
            "recall_all_t0": everything.recall,
            "crawler_recall": self.score(papers).recall,
            **{f"recall_{cut}": self.score(papers[:cut]).recall for cut in RECALL_CUTS},
        }
