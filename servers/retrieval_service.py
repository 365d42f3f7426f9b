"""An index behind its queue, and what its server has to say about itself; knows no route."""

from __future__ import annotations

from dataclasses import dataclass

from agentgym_suite.indexes.passages import PassageIndex
from agentgym_suite.servers.answer_sizes import MOST_CHARACTERS, AnswerRoom, AnswerTooLarge
from agentgym_suite.servers.problems import Problem
from agentgym_suite.servers.retrieval_bodies import Corpus, Wanted
from agentgym_suite.servers.search_figures import SearchFigures
from agentgym_suite.servers.search_queue import Results, SearchQueue
from agentgym_suite.servers.search_service import SearchService

# kinds that work on many queries at the price of a few; FTS5 does not, and must never wait
BATCHING_KINDS = frozenset({"dense-index", "hybrid-index"})


@dataclass(frozen=True, slots=True)
class RetrievalSettings:
    """What a server allows.

    Attributes:
        topk: passages for each query of a request that names no number.
        threads: searches at a time.
        queue: requests that may wait for a thread.
        search_timeout_s: longest search.
        answer_characters: longest answer, in characters of passages.
        batch_window_s: how long a request waits for others where searching together pays.
    """

    topk: int = 3
    threads: int = 1
    queue: int = 256
    search_timeout_s: float = 60.0
    batch_window_s: float = 0.0
    answer_characters: int = MOST_CHARACTERS


class RetrievalService(SearchService):
    """An index, its queue and its figures.

    Args:
        index: what is searched; whoever opened it closes it.
        settings: what is allowed.
    """

    def __init__(self, index: PassageIndex, settings: RetrievalSettings | None = None) -> None:
        self.settings = settings or RetrievalSettings()
        self.about = index.info()
        self.kind = str(self.about.get("kind", "unknown"))
        self.digest = index.digest
        self.corpus = Corpus(rows=len(index), default_k=self.settings.topk)
        figures = SearchFigures(kind=self.kind, digest=self.digest, rows=self.corpus.rows)
        self.room = AnswerRoom()
        self.queue = SearchQueue(
            index,
            threads=self.settings.threads,
            limit=self.settings.queue,
            timeout_s=self.settings.search_timeout_s,
            most_characters=self.settings.answer_characters,
            batching=self.kind in BATCHING_KINDS,
            window_s=self.settings.batch_window_s,
            report=figures.searched,
        )
        super().__init__(
            figures,
            self.queue,
            most_waiting=self.settings.queue,
            timeout_s=self.settings.search_timeout_s,
        )

    @property
    def method(self) -> str:
        """The kind of search in one word, as rLLM's clients log it: "dense", "fts5", …."""
        return self.kind.removesuffix("-index")

    async def search(self, wanted: Wanted) -> Results:
        """What a request asks for.

        Raises:
            Problem: ``draining``, ``overloaded``, ``search-timeout``, ``too-large`` or
                ``index-failed``.
        """
        with self._answering():
            if not wanted.queries:
                return []
            try:
                results = await self.queue.search(wanted.queries, wanted.k)
            except AnswerTooLarge as large:
                raise Problem(
                    "too-large",
                    f"the passages for {large.queries:,} of {len(wanted.queries):,} queries hold "
                    f"{large.characters:,} characters, and an answer at most "
                    f"{self.settings.answer_characters:,}; send fewer queries at a time or ask "
                    "for fewer passages",
                ) from None
        self._ready = True
        return results

    async def close(self) -> None:
        """Let the threads end; requests that still wait are not begun."""
        await self.queue.close()

    async def _try_out(self) -> None:
        await self.queue.search(("warm up",), 1)
