"""How hard the embedded literature is: for searches alone, for chance, and for an oracle."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from statistics import mean

import pytest

from agentgym_suite.dice import Dice
from agentgym_suite.indexes.match_query import query_words
from agentgym_suite.paper_search.generator import BROAD_SET, NARROW_SET
from agentgym_suite.paper_search.generator.asking import Asked
from agentgym_suite.paper_search.generator.literature import Literature
from tests.paper_search.small_library import (
    CALLS,
    Library,
    month_before,
    oracle,
    recall,
    words_for,
)

SPLITS = [(name, split) for name in (BROAD_SET, NARROW_SET) for split in ("train", "dev", "test")]
SMALL_SPLITS = [each for each in SPLITS if each[1] != "train"]


@pytest.mark.parametrize(("name", "split"), SPLITS)
def test_two_fifths_of_relevant_papers_have_none_of_the_words(
    literature: Literature, name: str, split: str
) -> None:
    without = [
        not any(words.casefold() in _text(literature, number) for words in words_for(question))
        for question in literature.questions[name][split]
        for number in question.relevant
    ]
    assert mean(without) >= 0.4


def test_every_question_can_be_answered_within_the_limits(
    literature: Literature, library: Library
) -> None:
    """The oracle, on all 2,200 questions; titles are a last resort that it hardly needs."""
    titles = relevant = 0
    for name, split in SPLITS:
        for question in literature.questions[name][split]:
            found, calls, searched = oracle(library, question)
            assert recall(question, found) >= 0.95, question
            assert calls <= CALLS
            titles += searched
            relevant += len(question.relevant)
    assert titles <= 0.04 * relevant


def question_and_parts(library: Library, question: Asked) -> set[int]:
    words = words_for(question)
    queries = [question.text, *words, *map(" ".join, combinations(words, 2))]
    return searches(library, question, queries)


def question_and_pairs(library: Library, question: Asked) -> set[int]:
    words = words_for(question)
    queries = [question.text, " ".join(words), *map(" ".join, combinations(words, 2)), *words]
    return searches(library, question, queries)


def titles_of_the_best(library: Library, question: Asked) -> set[int]:
    """Look at the best results, and search for more like them."""
    best = library.search(question.text, month_before(question))
    return searches(library, question, [question.text, *(library.papers[n].title for n in best)])


def words_and_titles(library: Library, question: Asked) -> set[int]:
    words = " ".join(words_for(question))
    best = library.search(words, month_before(question))
    more = [f"{words} {library.papers[number].title}" for number in best]
    return searches(library, question, [words, *more])


def searches(library: Library, question: Asked, queries: list[str]) -> set[int]:
    distinct = list(dict.fromkeys(queries))[:5]
    return {n for query in distinct for n in library.search(query, month_before(question))}


@pytest.mark.parametrize(
    "strategy", [question_and_parts, question_and_pairs, titles_of_the_best, words_and_titles]
)
def test_five_searches_without_expansion_miss_two_fifths(
    literature: Literature, library: Library, strategy: Callable[[Library, Asked], set[int]]
) -> None:
    for name, split in SMALL_SPLITS:
        found = [
            recall(question, strategy(library, question))
            for question in literature.questions[name][split]
        ]
        assert mean(found) <= 0.6, (name, split)


def test_a_random_agent_finds_little(literature: Literature, library: Library) -> None:
    """One call a step, a search for two words of the library or an expansion, either by chance."""
    words = sorted({word for p in literature.papers for word in query_words(p.abstract)})
    for name, split in SMALL_SPLITS:
        recalls = []
        for number, question in enumerate(literature.questions[name][split]):
            dice = Dice("random agent", number)
            pool: set[int] = set()
            for _ in range(5):
                if pool and dice.chance(0.5):
                    chosen = dice.pick(sorted(pool))
                    pool |= library.expand(chosen, month_before(question))
                else:
                    query = " ".join(dice.sample(words, 2))
                    pool |= set(library.search(query, month_before(question)))
            recalls.append(recall(question, pool))
        assert mean(recalls) < 0.2, (name, split)


def _text(literature: Literature, number: int) -> str:
    paper = literature.papers[number]
    return f"{paper.title} {paper.abstract}".casefold()
