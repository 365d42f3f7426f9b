"""One episode of MultiHopQA: what an action does to its state, call by call.

The searches of one action are sent to the index as one batch, before anything is entered, so that
an index that fails leaves the state as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agentgym_suite.call_results import (
    CallPlan,
    CallResult,
    PendingCall,
    Played,
    plan_calls,
    query_key,
    quoted,
    settle,
    total_reward,
)
from agentgym_suite.multihop_qa.actions import ANSWER, RULES, SEARCH
from agentgym_suite.multihop_qa.questions import Question
from agentgym_suite.multihop_qa.settings import QASettings
from agentgym_suite.multihop_qa.state import QAState
from agentgym_suite.reply_tags import blocks

if TYPE_CHECKING:
    from agentgym_suite.indexes.passages import Found, PassageIndex

LAST_STEP = "the last step takes an answer only"


class QAEpisode:
    """One question being answered.

    Args:
        question: what is asked.
        index: where searches go.
        settings: the rules.

    Raises:
        RetrievalError: the index cannot be used.
    """

    def __init__(self, question: Question, index: PassageIndex, settings: QASettings) -> None:
        self.state = QAState(question)
        self._index = index
        self._settings = settings
        if settings.first_search:
            query = " ".join(question.question.split())
            found = self._retrieve([query])
            self._enter(query, found[0])
            self.state.found = tuple(found)

    def play(self, action: str, *, last_step: bool = False) -> Played:
        """Carry out an action.

        Args:
            action: any text of calls, one a line.
            last_step: whether no step is left after this one.

        Raises:
            RetrievalError: the index cannot be used; the state has not changed.
        """
        settings, state = self._settings, self.state
        closed = LAST_STEP if last_step and settings.reward.final_answer_only else ""
        plan = plan_calls(action, RULES, settings.max_calls, closed=closed)
        if not plan.recognised and settings.reward.free_text_answers:
            return self._take_free_text(action)
        fresh = self._fresh_queries(plan.pending)
        found = self._retrieve(list(fresh.values())) if fresh else []
        if fresh:
            state.latest = frozenset()
        results = list(self._carry_out(plan, dict(zip(fresh, found, strict=True))))
        state.found = tuple(found)
        state.tally.malformed += plan.malformed
        state.tally.refused += plan.refused
        return self._finish(results, plan.parsed_action)

    def refuse(self, action: str, error: str) -> Played:
        """Answer an action that is too long to be read."""
        self.state.found = ()
        self.state.tally.malformed += 1
        return self._finish([CallResult(1, "", "", "malformed", message=error)], action)

    # ------------------------------------------------------------------ inside

    def _retrieve(self, queries: Sequence[str]) -> list[list[Found]]:
        return self._index.retrieve(queries, self._settings.top_k)

    def _fresh_queries(self, pending: Sequence[PendingCall]) -> dict[int, str]:
        """Line -> query of the searches that are carried out."""
        again = self._settings.reward.repeats_are_searched
        fresh: dict[int, str] = {}
        keys: set[str] = set()
        for call in pending:
            if call.name != SEARCH:
                continue
            key = query_key(call.argument)
            if again or not (key in keys or self.state.was_searched(call.argument)):
                fresh[call.line] = call.argument
                keys.add(key)
        return fresh

    def _carry_out(self, plan: CallPlan, found: dict[int, list[Found]]) -> Iterator[CallResult]:
        told_malformed = 0
        for line in plan.lines:
            if isinstance(line, PendingCall):
                yield self._answer(line) if line.name == ANSWER else self._search(line, found)
            elif line.status == "malformed" and told_malformed < self._settings.max_calls:
                told_malformed += 1
                yield replace(line, reward=self._settings.reward.malformed_reward)
            else:
                yield line

    def _search(self, call: PendingCall, found: dict[int, list[Found]]) -> CallResult:
        tally = self.state.tally
        if call.line not in found:
            tally.repeated += 1
            return call.result(
                "repeated", message=f"{quoted(call.argument)} was searched before; search anew"
            )
        paid = self._settings.reward.format_paid(tally.searches)
        tally.searches += 1
        tally.valid += 1
        tally.format_reward = total_reward([tally.format_reward, paid])
        new = self._enter(call.argument, found[call.line])
        if found[call.line]:
            return call.result("ok", paid, new)
        return call.result("empty", paid, message=f"{quoted(call.argument)} found nothing")

    def _enter(self, query: str, found: Sequence[Found]) -> list[str]:
        new, places = self.state.add_search(query, found)
        self.state.latest |= places
        return new

    def _answer(self, call: PendingCall) -> CallResult:
        state, settings = self.state, self._settings
        state.answer, state.answered = call.argument, True
        state.score = settings.scorer.score(call.argument, state.question.golds)
        golds = settings.reward.golds_of(state.question)
        paid = settings.reward.answer_paid(settings.scorer.score(call.argument, golds).em)
        state.tally.valid += 1
        state.tally.answer_reward = paid
        return call.result("ok", paid)

    def _take_free_text(self, action: str) -> Played:
        """The hole of the published code: text without a call is paid as the answer."""
        tagged = [block.text for block in blocks(action, ANSWER, any_case=True)]
        text = (tagged[-1] if tagged else action).strip()
        self.state.found = ()
        return self._finish([self._answer(PendingCall(1, ANSWER, text))], action)

    def _finish(self, results: list[CallResult], parsed_action: str) -> Played:
        self.state.results = tuple(results)
        return settle(results, parsed_action)
