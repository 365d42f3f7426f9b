"""What has happened in one episode of MultiHopQA: queries, passages, feedback, the answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentgym_suite.call_results import CallResult, query_key, spelling
from agentgym_suite.multihop_qa.questions import Question
from agentgym_suite.multihop_qa.scorers import NOTHING, AnswerScore

if TYPE_CHECKING:
    from agentgym_suite.indexes.passages import Found, Passage


@dataclass(frozen=True, slots=True)
class SeenPassage:
    """A passage of the episode, with the query that found it first."""

    passage: Passage
    query: str


@dataclass(slots=True)
class Tally:
    """How many calls of each kind the episode has had, and what was paid for what."""

    searches: int = 0
    valid: int = 0
    repeated: int = 0
    malformed: int = 0
    refused: int = 0
    format_reward: float = 0.0
    answer_reward: float = 0.0


@dataclass(slots=True)
class QAState:
    """The state of one episode.

    Attributes:
        question: what is asked; its golds are not for the policy.
        queries: what was searched, as written, in order.
        passages: what was found, unique by text, in order; a passage's number is its place + 1.
        latest: the places of what the last search step found, new or not.
        answer: the answer, "" until given.
        answered: whether it was given.
        score: of the answer.
        results: what the last action's calls did.
        found: what each search of the last step found.
        tally: counts and sums.
    """

    question: Question
    queries: list[str] = field(default_factory=list)
    passages: list[SeenPassage] = field(default_factory=list)
    latest: frozenset[int] = frozenset()
    answer: str = ""
    answered: bool = False
    score: AnswerScore = NOTHING
    results: tuple[CallResult, ...] = ()
    found: tuple[Sequence[Found], ...] = ()
    tally: Tally = field(default_factory=Tally)
    _places: dict[str, int] = field(default_factory=dict)
    _keys: set[str] = field(default_factory=set)

    def was_searched(self, query: str) -> bool:
        """Whether an equal query was searched before."""
        return query_key(query) in self._keys

    def add_search(self, query: str, found: Iterable[Found]) -> tuple[list[str], set[int]]:
        """Enter a search and what it found.

        Returns:
            The ids of the passages that are new, and the places of all that it found.
        """
        self.queries.append(query)
        self._keys.add(query_key(query))
        new, places = [], set()
        for one in found:
            # the title stands in for a text that is empty, or all such passages would be one
            key = spelling(one.passage.text) or spelling(one.passage.title)
            place = self._places.setdefault(key, len(self.passages))
            if place == len(self.passages):
                self.passages.append(SeenPassage(one.passage, query))
                new.append(one.passage.id)
            places.add(place)
        return new, places

    def support_recall(self) -> float:
        """The part of the question's supporting titles among the passages; 0.0 if unknown."""
        wanted = {query_key(title) for title in self.question.supporting_titles}
        if not wanted:
            return 0.0
        seen = {query_key(entry.passage.title) for entry in self.passages}
        return len(wanted & seen) / len(wanted)

    def metrics(self) -> dict[str, float]:
        """Counts, scores and sums of the episode, always under the same names."""
        tally = self.tally
        return {
            "em": self.score.em,
            "f1": self.score.f1,
            "search_calls": float(tally.searches),
            "valid_calls": float(tally.valid),
            "repeated_calls": float(tally.repeated),
            "malformed_calls": float(tally.malformed),
            "refused_calls": float(tally.refused),
            "format_reward": tally.format_reward,
            "answer_reward": tally.answer_reward,
            "passages": float(len(self.passages)),
            "support_recall": self.support_recall(),
            "support_known": float(bool(self.question.supporting)),
            "hops": float(self.question.hops),
        }
