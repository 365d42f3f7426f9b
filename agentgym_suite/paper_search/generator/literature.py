"""A whole literature: papers with their texts, who cites whom, and the questions over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentgym_suite.dice import Dice
from agentgym_suite.errors import UsageError
from agentgym_suite.files import Progress
from agentgym_suite.paper_search.generator.asking import Asked, Asker
from agentgym_suite.paper_search.generator.citations import draw_citations
from agentgym_suite.paper_search.generator.identity import (
    BROAD_SET,
    DEFAULT_PAPERS,
    DEFAULT_SEED,
    GENERATOR_VERSION,
    NARROW_SET,
    QUERY_COUNTS,
)
from agentgym_suite.paper_search.generator.naming import author_names, venue_name
from agentgym_suite.paper_search.generator.papers import FIRST_YEAR, Draft, draw_papers
from agentgym_suite.paper_search.generator.prose import Writer
from agentgym_suite.paper_search.generator.vocabulary import load_lexicon

_STRIDE = 250


@dataclass(frozen=True, slots=True)
class Written:
    """A paper as it stands in the library.

    Attributes:
        draft: what it is about.
        title: its title.
        abstract: its abstract, "" for the few without.
        authors: their names.
        venue: where it came out, "" for a preprint.
        references: the numbers of the papers it cites, ascending.
    """

    draft: Draft
    title: str
    abstract: str
    authors: tuple[str, ...]
    venue: str
    references: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Literature:
    """Everything that is generated.

    Attributes:
        papers: oldest first; a paper's number is its place.
        questions: set name -> split -> its questions.
    """

    papers: tuple[Written, ...]
    questions: Mapping[str, Mapping[str, tuple[Asked, ...]]]


def make_literature(
    papers: int = DEFAULT_PAPERS,
    seed: int = DEFAULT_SEED,
    queries: Mapping[str, int] = QUERY_COUNTS,
    progress: Progress | None = None,
) -> Literature:
    """Draw a literature; a function of (``GENERATOR_VERSION``, papers, seed, queries) alone.

    Args:
        papers: how many.
        seed: any integer.
        queries: split -> how many questions each of the two sets has in it.
        progress: called with (phase, done, total).

    Raises:
        UsageError: there would be no paper.
        DataError: the papers are too few for so many questions.
    """
    if papers < 1:
        raise UsageError(f"papers is {papers}; give 1 or more")
    lexicon = load_lexicon()
    drafts = draw_papers(lexicon, papers, seed)
    references = draw_citations(drafts, seed, progress)
    writer = Writer(lexicon, seed)
    written = []
    for draft in drafts:
        title, abstract = writer.write(draft)
        dice = Dice(GENERATOR_VERSION, seed, "imprint", draft.number)
        written.append(
            Written(
                draft=draft,
                title=title,
                abstract=abstract,
                authors=tuple(author_names(lexicon, dice)),
                venue=venue_name(lexicon, FIRST_YEAR + draft.month // 12, dice),
                references=tuple(references[draft.number]),
            )
        )
        if progress is not None and (len(written) % _STRIDE == 0 or len(written) == papers):
            progress("write papers", len(written), papers)
    asker = Asker(lexicon, drafts, seed)
    # From the last split on: tests choose first, training takes what is left.
    questions = {
        name: {
            split: tuple(asker.ask(name, split, queries[split], progress))
            for split in reversed(list(queries))
        }
        for name in (BROAD_SET, NARROW_SET)
    }
    return Literature(tuple(written), questions)
