"""One episode of PaperSearch: what an action does to its state, call by call.

Calls are carried out one after another, so that a paper found by one may be expanded by the next.
The searches of one action do not depend on what its other calls do and are sent as one batch. All
is done to a copy of the state: where the index or the selector fails, nothing has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agentgym_suite.call_results import (
    CallResult,
    PendingCall,
    Played,
    plan_calls,
    query_key,
    quoted,
    settle,
)
from agentgym_suite.errors import RetrievalError
from agentgym_suite.indexes.paper_dates import cutoff_day, visible
from agentgym_suite.indexes.selector_scores import check_scores
from agentgym_suite.paper_search.actions import EXPAND, FINISH, RULES, SEARCH
from agentgym_suite.paper_search.annotated import Annotated
from agentgym_suite.paper_search.paper_sources import PaperSource
from agentgym_suite.paper_search.pool import PoolEntry, Source
from agentgym_suite.paper_search.queries import PaperQuery
from agentgym_suite.paper_search.reward import Outcome, pay
from agentgym_suite.paper_search.settings import PaperSettings
from agentgym_suite.paper_search.state import PaperState

if TYPE_CHECKING:
    from agentgym_suite.indexes.paper_store import Paper
    from agentgym_suite.indexes.selectors import Selector


@dataclass(frozen=True, slots=True)
class _Done:
    """What one line did, before it is paid: its result, and the scores of papers it added."""

    result: CallResult
    kept: tuple[float, ...] = ()


class PaperEpisode:
    """One query being worked on.

    Args:
        query: what is looked for.
        annotated: its annotated papers.
        source: where searches and expansions go.
        selector: what judges relevance.
        settings: the rules.

    Attributes:
        state: what has happened; another one after each action.
        source: as given.
        settings: as given.
    """

    def __init__(
        self,
        query: PaperQuery,
        annotated: Annotated,
        source: PaperSource,
        selector: Selector,
        settings: PaperSettings,
    ) -> None:
        before = cutoff_day(settings.cutoff_of(query))
        self.state = PaperState(query, annotated, before)
        self.source = source
        self.settings = settings
        self._selector = selector
        self._step = 0

    def copy(self) -> PaperEpisode:
        """An episode in the same state that goes on by itself."""
        twin = copy(self)
        twin.state = self.state.copy()
        return twin

    def play(self, action: str) -> Played:
        """Carry out an action.

        Args:
            action: any text of calls, one a line.

        Raises:
            RetrievalError: index or selector cannot be used; the state has not changed.
        """
        reward, state = self.settings.reward, self.state.copy()
        plan = plan_calls(action, RULES, self.settings.max_calls)
        if not plan.recognised and reward.no_call_ends:
            # the published code: a reply without a call is the end
            state.finished = True
            ended = PendingCall(1, FINISH, "").result("ok")
            return self._finish(state, [_Done(ended)], f"{FINISH}[]")
        found = self._find(self._fresh_queries(plan.pending))
        done = [
            self._carry_out(line, state, found) if isinstance(line, PendingCall) else _Done(line)
            for line in plan.lines
        ]
        state.tally.malformed += plan.malformed
        state.tally.refused += plan.refused
        return self._finish(state, done, plan.parsed_action)

    def refuse(self, action: str, error: str) -> Played:
        """Answer an action that is too long to be read."""
        state = self.state.copy()
        state.tally.malformed += 1
        told = CallResult(1, "", "", "malformed", message=error)
        return self._finish(state, [_Done(told)], action)

    def search(self, queries: Sequence[str]) -> list[list[Paper]]:
        """What queries find, without any effect.

        Raises:
            RetrievalError: the index cannot be used.
        """
        return self.source.search_papers(queries, self.settings.search_top_k, self.state.before)

    def neighbours(self, paper_id: str) -> list[Paper]:
        """The papers of an expansion, without any effect: citing ones, then those it cites.

        Papers without an abstract are left out, after the limits have counted them.

        Raises:
            RetrievalError: the index cannot be used.
        """
        settings, source, before = self.settings, self.source, self.state.before
        papers: list[Paper] = []
        try:
            if settings.citations_limit:
                papers += source.citing_papers(paper_id, settings.citations_limit, before)
            if settings.references_limit:
                papers += source.referenced_papers(paper_id, settings.references_limit, before)
        except RetrievalError:
            if settings.reward.backend_failure == "error":
                raise
        return [each for each in papers if each.abstract.strip() and each.paper_id != paper_id]

    # ------------------------------------------------------------------ inside

    def _finish(self, state: PaperState, done: Sequence[_Done], parsed_action: str) -> Played:
        """Pay what was done, and let the changed state count."""
        before = self.state.tally
        state.payments = tuple(
            pay(
                [Outcome(one.result.name, one.result.status, one.kept) for one in done],
                self.settings.reward,
                paid_before=before.searches + before.expansions,
                most_penalties=self.settings.max_calls,
            )
        )
        state.results = tuple(
            replace(one.result, reward=payment.total)
            for one, payment in zip(done, state.payments, strict=True)
        )
        self.state = state
        self._step += 1
        return settle(state.results, parsed_action)

    def _carry_out(
        self, call: PendingCall, state: PaperState, found: dict[str, list[Paper]]
    ) -> _Done:
        if call.name == FINISH:
            state.finished = True
            return _Done(call.result("ok"))
        if call.name == EXPAND:
            return self._expand(call, state)
        return self._take_search(call, state, found)

    # ---------------------------------------------------------------- searches

    def _fresh_queries(self, pending: Iterable[PendingCall]) -> list[str]:
        """The queries of an action that have not been used, each once."""
        exact = self.settings.reward.exact_repeats
        fresh: dict[str, str] = {}
        for call in pending:
            query = call.argument
            if call.name == SEARCH and not self.state.was_searched(query, exact=exact):
                fresh.setdefault(query if exact else query_key(query), query)
        return list(fresh.values())

    def _find(self, queries: Sequence[str]) -> dict[str, list[Paper]]:
        """What each query finds; one batch, and one by one only where that may fail in part."""
        if not queries:
            return {}
        try:
            found = self.search(queries)
        except RetrievalError:
            if self.settings.reward.backend_failure == "error":
                raise
            found = [self._searched_alone(query) for query in queries]
        return dict(zip(queries, found, strict=True))

    def _searched_alone(self, query: str) -> list[Paper]:
        try:
            return self.search([query])[0]
        except RetrievalError:
            return []

    def _take_search(
        self, call: PendingCall, state: PaperState, found: dict[str, list[Paper]]
    ) -> _Done:
        query = call.argument
        if state.was_searched(query, exact=self.settings.reward.exact_repeats):
            state.tally.repeated += 1
            told = f"{quoted(query)} was searched before; search for something else"
            return _Done(call.result("repeated", message=told))
        state.tally.searches += 1
        state.history.append((SEARCH, query))
        return self._keep(call, state, found[query], "search", query)

    # -------------------------------------------------------------- expansions

    def _expand(self, call: PendingCall, state: PaperState) -> _Done:
        entry = state.pool.find(call.argument, self.source.find_id)
        if entry is None:
            state.tally.invalid_expands += 1
            told = f"the pool has no paper {quoted(call.argument)}; expand an id that it shows"
            return _Done(call.result("unknown_id", message=told))
        if entry.expanded:
            state.tally.repeated += 1
            told = f"the paper {quoted(entry.id)} was expanded before; expand another one"
            return _Done(call.result("already_expanded", message=told))
        state.pool.mark_expanded(entry.id)
        state.tally.expansions += 1
        state.history.append((EXPAND, entry.id))
        around = self.neighbours(entry.id)
        return self._keep(call, state, around, "expand", entry.id)

    # ------------------------------------------------------------------- pool

    def _keep(
        self,
        call: PendingCall,
        state: PaperState,
        found: Iterable[Paper],
        source: Source,
        origin: str,
    ) -> _Done:
        """Enter what is new and relevant, in the order in which it was found."""
        papers = [paper for paper in found if visible(paper.day, state.before)]
        fresh = {paper.paper_id: paper for paper in papers if paper.paper_id not in state.pool}
        scores = self._scores(state.query.query, list(fresh.values()))
        kept: list[tuple[str, float]] = []
        for paper, score in zip(fresh.values(), scores, strict=True):
            if score >= self.settings.reward.score_floor:
                state.pool.add(PoolEntry(paper, score, source, origin, self._step + 1))
                kept.append((paper.paper_id, score))
        added = [paper_id for paper_id, _ in kept]
        nothing = "" if kept else f"{call.name} {quoted(origin)} found nothing"
        if not papers:
            result = call.result("empty", message=nothing)
        else:
            kind = "relevant" if fresh else "new"
            result = call.result("ok", new_ids=added, message=nothing and f"{nothing} {kind}")
        return _Done(result, tuple(score for _, score in kept))

    def _scores(self, query: str, papers: Sequence[Paper]) -> list[float]:
        if not papers:
            return []
        try:
            given = self._selector.score(query, papers)
        except RetrievalError:
            if self.settings.reward.selector_failure == "error":
                raise
            return [0.0] * len(papers)
        return check_scores(self._selector.name, given, papers)
