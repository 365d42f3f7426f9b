"""How found papers are measured against annotated ones: F1@all, PaSa's figures, LitSearch's.

Figures of one query are ``SetScore``; those of a set are means of the queries' own figures, in
which a query without a result counts 0. Ids are compared bare (``bare_ids``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from agentgym_suite.indexes.paper_ids import keep_letters, normalize_arxiv_id

CUTS = (10_000, 100, 50, 25)
"""Where the ranking of F1@all may be cut; the first stands for all."""

PASA_CUTS = (20, 50, 100)
PASA_THRESHOLD = 0.5
LITSEARCH_CUTS = (5, 20, 50)


@dataclass(frozen=True, slots=True)
class Scored:
    """A found paper: its id (or, for PaSa's figures, its title) and the selector's score."""

    id: str
    score: float


@dataclass(frozen=True, slots=True)
class Gold:
    """The annotated papers of a query.

    Attributes:
        ids: their ids (or titles).
        missing: how many more there are, of which no id is known.
    """

    ids: tuple[str, ...]
    missing: int = 0


@dataclass(frozen=True, slots=True)
class SetScore:
    """Precision, recall and F1 of a set of papers, each from 0 to 1."""

    precision: float = 0.0
    recall: float = 0.0
    f1: float = 0.0


def bare_ids(ids: Iterable[str]) -> list[str]:
    """Ids in one spelling, each once, in their order: arXiv ids bare, others without blanks."""
    return list(dict.fromkeys(normalize_arxiv_id(each) or each.strip() for each in ids))


def set_score(found: Collection[str], gold: Collection[str], missing: int = 0) -> SetScore:
    """The score of a set of bare ids, each given once.

    Precision is 0 when nothing was found, recall when nothing is annotated, F1 when both are.
    """
    hits = len(set(found) & set(gold))
    precision = hits / len(found) if found else 0.0
    relevant = len(gold) + missing
    recall = hits / relevant if relevant else 0.0
    both = precision + recall
    return SetScore(precision, recall, 2 * precision * recall / both if both else 0.0)


def ranking(papers: Iterable[Scored], threshold: float = 0.0) -> list[str]:
    """Bare ids of at least that score: best score first, ties by id, each at its best place."""
    kept = ((-paper.score, bare_ids([paper.id])[0]) for paper in papers if paper.score >= threshold)
    return list(dict.fromkeys(identifier for _, identifier in sorted(kept)))


def f1_at(
    papers: Iterable[Scored], gold: Gold, *, threshold: float = 0.0, cut: int = CUTS[0]
) -> SetScore:
    """Precision, recall and F1 of one query, as CAPO and StepPO report F1@all and Recall@all.

    Args:
        papers: what was found.
        gold: what is annotated.
        threshold: least score; the published script takes 0.0 unless told otherwise.
        cut: at most so many of the best.
    """
    return set_score(ranking(papers, threshold)[:cut], bare_ids(gold.ids), gold.missing)


def recall_at(ranked: Sequence[str], gold: Gold, cut: int) -> float:
    """The part of the annotated papers among the first ids of a ranking of bare ids."""
    return set_score(ranked[:cut], bare_ids(gold.ids), gold.missing).recall


def f1_of_set(
    results: Mapping[str, Sequence[Scored]],
    golds: Mapping[str, Gold],
    *,
    threshold: float = 0.0,
) -> dict[str, float]:
    """The mean figures of a set of queries, and how many of them have a result.

    The mean F1 is that of the queries' F1, not the F1 of mean precision and recall.

    Args:
        results: query id -> what was found; queries that are not annotated do not count.
        golds: query id -> what is annotated.
        threshold: least score.

    Returns:
        ``f1_all, recall_all, precision_all``, the same with ``_100``, ``_50``, ``_25``, and
        ``coverage``, the part of the queries that have a result.
    """
    figures: dict[str, float] = {}
    for cut in CUTS:
        scores = [
            f1_at(results.get(query, ()), gold, threshold=threshold, cut=cut)
            for query, gold in golds.items()
        ]
        name = "all" if cut == CUTS[0] else str(cut)
        figures[f"f1_{name}"] = _mean(score.f1 for score in scores)
        figures[f"recall_{name}"] = _mean(score.recall for score in scores)
        figures[f"precision_{name}"] = _mean(score.precision for score in scores)
    figures["coverage"] = _mean(float(query in results) for query in golds)
    return figures


def pasa_figures(papers: Sequence[Scored], titles: Iterable[str]) -> dict[str, float]:
    """PaSa's figures of one query, by titles of which letters alone count (``utils.py``).

    Args:
        papers: titles of all crawled papers with their scores, in the order of crawling; of one
            title the first score counts, and equal scores keep their order.
        titles: of the annotated papers.

    Returns:
        ``crawler_recall``; ``precision`` and ``recall`` of the papers above 0.5; ``recall_20``,
        ``recall_50``, ``recall_100`` of the best crawled ones.
    """
    gold = {keep_letters(title) for title in titles}
    crawled: dict[str, float] = {}
    for paper in papers:
        crawled.setdefault(keep_letters(paper.id), paper.score)
    ranked = sorted(crawled, key=lambda title: -crawled[title])
    chosen = set_score([title for title in ranked if crawled[title] > PASA_THRESHOLD], gold)
    return {
        "crawler_recall": set_score(ranked, gold).recall,
        "precision": chosen.precision,
        "recall": chosen.recall,
        **{f"recall_{cut}": set_score(ranked[:cut], gold).recall for cut in PASA_CUTS},
    }


def pasa_of_set(
    results: Mapping[str, Sequence[Scored]], golds: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    """The means of ``pasa_figures`` over annotated queries, and ``coverage``."""
    each = [pasa_figures(results.get(query, ()), titles) for query, titles in golds.items()]
    names = pasa_figures((), ())
    figures = {name: _mean(one[name] for one in each) for name in names}
    return figures | {"coverage": _mean(float(query in results) for query in golds)}


def litsearch_of_set(
    results: Mapping[str, Sequence[str]],
    golds: Mapping[str, Gold],
    cuts: Sequence[int] = LITSEARCH_CUTS,
) -> dict[str, float]:
    """Mean recall of ranked ids, as LitSearch reports it: ``recall_5`` …, and ``coverage``."""
    ranked = {query: bare_ids(results.get(query, ())) for query in golds}
    figures = {
        f"recall_{cut}": _mean(recall_at(ranked[query], gold, cut) for query, gold in golds.items())
        for cut in cuts
    }
    return figures | {"coverage": _mean(float(query in results) for query in golds)}


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return fmean(found) if found else 0.0
