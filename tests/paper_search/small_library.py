"""A literature in a small index: what an agent could call, without an environment."""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections import Counter, defaultdict
from itertools import islice

from agentgym_suite.indexes.match_query import match_any, query_words
from agentgym_suite.paper_search.generator.asking import Asked
from agentgym_suite.paper_search.generator.literature import Literature
from agentgym_suite.paper_search.generator.papers import FIRST_YEAR

TOP_K, CITING, REFERENCES = 10, 30, 99
CALLS = 25  # five steps of five


class Library:
    """Search and expansion with the limits and the dates of the default environment."""

    def __init__(self, made: Literature) -> None:
        self.papers = made.papers
        self._months = [paper.draft.month for paper in made.papers]
        self._table = sqlite3.connect(":memory:")
        self._table.execute(
            "CREATE VIRTUAL TABLE f USING fts5(title, abstract, content='', "
            "tokenize='porter unicode61 remove_diacritics 2')"
        )
        self._table.executemany(
            "INSERT INTO f(rowid, title, abstract) VALUES (?, ?, ?)",
            ((number, paper.title, paper.abstract) for number, paper in enumerate(made.papers)),
        )
        newest = sorted(
            range(len(made.papers)), key=lambda n: (-self._months[n], made.papers[n].draft.arxiv_id)
        )
        cited_by: defaultdict[int, list[int]] = defaultdict(list)
        references: defaultdict[int, list[int]] = defaultdict(list)
        there = [bool(paper.abstract) for paper in made.papers]
        for number in newest:
            for cited in made.papers[number].references:
                cited_by[cited].append(number)
        for number, paper in enumerate(made.papers):
            order = sorted(
                paper.references, key=lambda n: (-self._months[n], made.papers[n].draft.arxiv_id)
            )
            references[number] = [each for each in order[:REFERENCES] if there[each]]
        self._cited_by, self._references, self._there = cited_by, references, there

    def search(self, query: str, before: int) -> list[int]:
        """The ten best papers of earlier months."""
        match = match_any(query_words(query))
        # Papers are numbered by their months: a date is a bound of the row ids.
        first_hidden = bisect_left(self._months, before)
        found = self._table.execute(
            "SELECT rowid FROM f WHERE f MATCH ? AND rowid < ? ORDER BY bm25(f, 2.0, 1.0), rowid "
            "LIMIT ?",
            (match, first_hidden, TOP_K),
        )
        return [number for (number,) in found]

    def expand(self, number: int, before: int) -> set[int]:
        """Citing and cited papers of earlier months that have an abstract."""
        citing = (each for each in self._cited_by[number] if self._months[each] < before)
        found = {each for each in islice(citing, CITING) if self._there[each]}
        return found | {each for each in self._references[number] if self._months[each] < before}

    def linked(self, number: int) -> set[int]:
        """Papers that cite a paper or are cited by it, whatever the limits."""
        return {*self._cited_by[number], *self.papers[number].references}

    def close(self) -> None:
        self._table.close()


def month_before(question: Asked) -> int:
    """The month of the cut-off: papers must be of an earlier one."""
    return (int(question.cutoff[:4]) - FIRST_YEAR) * 12 + int(question.cutoff[4:6]) - 1


def words_for(question: Asked) -> list[str]:
    """The question's constraints, each in the words of the question."""
    text = question.text.casefold()
    return [
        next(form for form in concept.forms if form.casefold() in text)
        for concept in question.constraints
    ]


def recall(question: Asked, found: set[int]) -> float:
    return len(found & set(question.relevant)) / len(question.relevant)


def oracle(library: Library, question: Asked) -> tuple[set[int], int, int]:
    """Papers found, calls made and titles searched by one that knows what it looks for.

    It searches for the question and expands what leads to most of what is left; only where
    nothing does, it searches for a title.
    """
    before = month_before(question)
    pool = set(library.search(question.text, before))
    expanded: set[int] = set()
    calls, titles = 1, 0
    while (left := set(question.relevant) - pool) and calls < CALLS:
        calls += 1
        best = _best_to_expand(library, left, pool - expanded, before)
        if best is None:
            titles += 1
            pool |= set(library.search(library.papers[min(left)].title, before))
        else:
            expanded.add(best)
            pool |= library.expand(best, before)
    return pool, calls, titles


def _best_to_expand(library: Library, left: set[int], choices: set[int], before: int) -> int | None:
    """The paper that leads to most of what is left, None if none leads to any."""
    linked = Counter(each for number in left for each in library.linked(number) & choices)
    best, most = None, 0
    for number, bound in sorted(linked.items(), key=lambda item: (-item[1], item[0])):
        if bound <= most:
            break
        gain = len(library.expand(number, before) & left)
        if gain > most:
            best, most = number, gain
    return best
