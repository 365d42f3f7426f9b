"""Ways to play without a language model: the oracle, the rule baseline, and random examples."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from agentgym_suite.call_results import query_key
from agentgym_suite.indexes.paper_dates import visible
from agentgym_suite.paper_search.actions import EXPAND, FINISH, RULES, SEARCH
from agentgym_suite.paper_search.episode import PaperEpisode
from agentgym_suite.paper_search.state import PaperState

EXAMPLE_QUERIES = (
    "a survey of the field",
    "learning with few labels",
    "evaluation on a public benchmark",
    "robust methods for noisy data",
    "a comparison of two approaches",
    "an efficient algorithm for large collections",
    "a new data set for a low-resource language",
    "analysis of errors and limits",
)
EXAMPLES = (*(f"{SEARCH}[{query}]" for query in EXAMPLE_QUERIES), f"{FINISH}[]")

_CLAUSE = re.compile(r"[,;:.?!()]|\b(?:that|which|who|with|without|for|on|in|by|and|using)\b")
_LEAST_WORDS = 2
_POOL = re.compile(r"^(?:Paper pool:|### Paper List)$", re.MULTILINE)
_FRESH = re.compile(r"^\[(.+?)\] \(\d\.\d\d\) \[NEW\] ", re.MULTILINE)
_ABSTRACT_WORDS = 60


class OraclePolicy:
    """Plays the calls that find most of the annotated papers, then finishes.

    It knows which papers are annotated and looks ahead at what calls would find; the calls it
    plays are real ones within the limits of the environment. It searches for the query and expands
    what leads to most of the papers that are missing; only where nothing does, it searches for
    the title of one. It depends on the state alone, so it may take over at any point.

    Args:
        episode: gives the running episode.
    """

    def __init__(self, episode: Callable[[], PaperEpisode]) -> None:
        self._episode = episode
        self._seen: dict[tuple[str, str], frozenset[str]] = {}
        self._wanted: tuple[str, frozenset[str]] = ("", frozenset())

    def __call__(self, observation: str, info: Mapping[str, Any]) -> str:
        """The next calls, in the order that finds most."""
        ahead = self._episode().copy()
        calls: list[str] = []
        while len(calls) < ahead.settings.max_calls:
            call = self._best_call(ahead)
            if call is None:
                return "\n".join((*calls, f"{FINISH}[]"))
            ahead.play(call)
            calls.append(call)
        return "\n".join(calls)

    def _best_call(self, ahead: PaperEpisode) -> str | None:
        state = ahead.state
        missing = self._annotated(ahead) - {entry.id for entry in state.pool}
        if not missing:
            return None
        question = _as_query(state.query.query)
        options = [] if _is_used(state, question) else [(SEARCH, question)]
        options += [(EXPAND, entry.id) for entry in state.pool.ranked() if not entry.expanded]
        gains = [len(self._finds(ahead, *option) & missing) for option in options]
        if gain := max(gains, default=0):
            call, argument = options[gains.index(gain)]
            return f"{call}[{argument}]"
        for query in _title_queries(ahead, sorted(missing)):
            if not _is_used(state, query) and self._finds(ahead, SEARCH, query) & missing:
                return f"{SEARCH}[{query}]"
        return None

    def _annotated(self, ahead: PaperEpisode) -> frozenset[str]:
        """The ids of the annotated papers that the store has."""
        task = ahead.state.query.task_id
        if self._wanted[0] != task:
            names = (ahead.source.find_id(each) for each in ahead.state.annotated.ids)
            self._wanted = task, frozenset(filter(None, names))
            self._seen.clear()
        return self._wanted[1]

    def _finds(self, ahead: PaperEpisode, call: str, argument: str) -> frozenset[str]:
        """The annotated papers that a call would bring before the selector."""
        key = (call, argument)
        if key not in self._seen:
            searches = call == SEARCH
            papers = ahead.search([argument])[0] if searches else ahead.neighbours(argument)
            ids = {paper.paper_id for paper in papers if visible(paper.day, ahead.state.before)}
            self._seen[key] = frozenset(ids & self._wanted[1])
        return self._seen[key]


class ScriptedPolicy:
    """Searches for the query and its clauses, then expands the best papers it sees."""

    def __init__(self, max_calls: int) -> None:
        self._max_calls = max_calls

    def __call__(self, observation: str, info: Mapping[str, Any]) -> str:
        """The next action, from what is visible alone."""
        if info["step"] == 0:
            queries = _distinct([str(info["query"]), *_clauses(str(info["query"]))])
            calls = [f"{SEARCH}[{query}]" for query in queries[: self._max_calls]]
            return "\n".join(calls)
        fresh = fresh_ids(observation)[: self._max_calls]
        return "\n".join(f"{EXPAND}[{each}]" for each in fresh) or f"{FINISH}[]"


def fresh_ids(observation: str) -> list[str]:
    """The ids of the papers marked NEW in an observation, in its order."""
    header = _POOL.search(observation)
    return _FRESH.findall(observation, header.end()) if header else []


def accepted_actions(state: PaperState, observation: str) -> list[str]:
    """Example queries, expansions of the papers shown as new, the end: none is refused now."""
    return [
        *(f"{SEARCH}[{query}]" for query in EXAMPLE_QUERIES if not state.was_searched(query)),
        *(f"{EXPAND}[{paper_id}]" for paper_id in fresh_ids(observation)),
        f"{FINISH}[]",
    ]


def _clauses(query: str) -> list[str]:
    """The parts of a question between its commas and little words, the longest first."""
    parts = (part.strip() for part in _CLAUSE.split(query))
    long = [part for part in parts if len(part.split()) >= _LEAST_WORDS]
    return sorted(long, key=lambda part: -len(part.split()))


def _distinct(queries: Iterable[str]) -> list[str]:
    """Queries of which none repeats another."""
    first: dict[str, str] = {}
    for query in map(_as_query, queries):
        if query:
            first.setdefault(query_key(query), query)
    return list(first.values())


def _title_queries(ahead: PaperEpisode, missing: Iterable[str]) -> Iterator[str]:
    """For each missing paper its title, then its title with the beginning of its abstract."""
    store = ahead.source.store
    for paper in () if store is None else map(store.paper, missing):
        yield _as_query(paper.title)
        yield _as_query(" ".join([paper.title, *paper.abstract.split()[:_ABSTRACT_WORDS]]))


def _is_used(state: PaperState, query: str) -> bool:
    return not query or state.was_searched(query)


def _as_query(text: str) -> str:
    return " ".join(text.split())[: RULES.longest[SEARCH]].strip()
