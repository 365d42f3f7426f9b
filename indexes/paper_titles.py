"""Finding papers by their titles: the very title first, then those that share most words."""

from __future__ import annotations

from collections.abc import Callable

from agentgym_suite.indexes.paper_ids import title_key
from agentgym_suite.indexes.paper_store import Paper, PaperStore

CANDIDATES = 100
"""How many papers, the best for the words of the title, are compared at least."""


def search_titles(
    store: PaperStore,
    title: str,
    k: int = CANDIDATES,
    *,
    since: int | None = None,
    before: int | None = None,
    keep: Callable[[Paper], bool] | None = None,
) -> list[Paper]:
    """Papers whose titles share words with a title, the most alike first.

    Titles are compared by the share of their stems that both have (Dice); among equal ones, papers
    keep their places in a search for the words.

    Args:
        store: whose papers.
        title: a title or a part of it.
        k: how many papers are compared, at least.
        since: only papers with at least this day.
        before: only papers with a smaller day; see ``paper_dates.cutoff_day``.
        keep: a further filter.

    Raises:
        DataDamaged: the store is not as it was built.
        RetrievalError: it was closed.
    """
    ranked = store.search_rows(title, max(k, CANDIDATES), before, since=since)
    rows = [row for row, _ in ranked]
    # common words alone may hide the very title behind a hundred others
    exact = store.find_title(title)
    if exact is not None and exact not in rows and _within(store, exact, since, before):
        rows.append(exact)
    papers = [paper for paper in store.papers(rows) if keep is None or keep(paper)]
    key = title_key(title)
    wanted, *stems = (set(found) for found in store.stems([title, *(p.title for p in papers)]))
    scored = [
        (title_key(paper.title) == key, 2 * len(wanted & found) / (len(wanted) + len(found)), paper)
        for paper, found in zip(papers, stems, strict=True)
        if wanted & found
    ]
    scored.sort(key=lambda one: one[:2], reverse=True)  # stable, so that ranks decide
    return [paper for _, _, paper in scored]


def _within(store: PaperStore, row: int, since: int | None, before: int | None) -> bool:
    day = int(store.days[row - 1])
    return (since is None or day >= since) and (before is None or day < before)
