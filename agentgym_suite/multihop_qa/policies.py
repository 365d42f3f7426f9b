"""Ways to play without a language model: the oracle, the rule baseline, and random examples."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from agentgym_suite.call_results import query_key
from agentgym_suite.multihop_qa.actions import ANSWER, RULES, SEARCH
from agentgym_suite.multihop_qa.scorers import normalise
from agentgym_suite.multihop_qa.state import QAState

EXAMPLE_QUERIES = (
    "who founded the university",
    "river that flows through the capital",
    "birthplace of the director of the film",
    "author of the book that won the award",
    "length of the longest river in the region",
    "member of the band",
)
EXAMPLE_ANSWERS = ("yes", "no")
EXAMPLES = (
    *(f"{SEARCH}[{query}]" for query in EXAMPLE_QUERIES),
    *(f"{ANSWER}[{answer}]" for answer in EXAMPLE_ANSWERS),
)

_UNKNOWN = "unknown"
_SEARCHES_A_STEP = 4
_CAPITALISED = re.compile(r"[A-Z][\w'’-]*(?: [A-Z][\w'’-]*)*")
_ORDINAL = re.compile(r"\b(\d+)(?:st|nd|rd|th)\b")
_PASSAGE_LINE = re.compile(r"^\[\d+\] \(query: .*?\) (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Fact:
    """What must be found: a page, and what it says of whom."""

    subject: str
    relation: str = ""
    object: str = ""


class OraclePolicy:
    """Follows the hops of a question through real searches, then gives its answer.

    It knows which facts prove the answer, but not where they stand. It asks for a fact once one of
    its two ends stands in the question or in what it has read; it takes the fact for found once a
    passage on its subject names its object, or, where that goes by another name, once the
    subject's page was asked for and read. It answers when all are found. It depends on the state
    alone, so it may take over at any point.

    Args:
        state: gives the state of the running episode.
    """

    def __init__(self, state: Callable[[], QAState]) -> None:
        self._state = state

    def __call__(self, observation: str, info: Mapping[str, Any]) -> str:
        """The searches of the next hop, or the answer."""
        state = self._state()
        facts = _facts(state)
        missing = [fact for fact in facts if not _is_found(fact, state)]
        if facts and not missing:
            return f"{ANSWER}[{state.question.answer}]"
        queries = list(islice(_fresh(_queries(facts, missing, state), state), _SEARCHES_A_STEP))
        if info["steps_left"] == 1 or not queries:
            return f"{ANSWER}[{_answer_in_reach(state)}]"
        return "\n".join(f"{SEARCH}[{query}]" for query in queries)


class ScriptedPolicy:
    """Searches the question, then the titles that it found, and answers with a name it has read."""

    def __call__(self, observation: str, info: Mapping[str, Any]) -> str:
        """The next action, from what is visible alone."""
        question = str(info["question"])
        if info["step"] == 0:
            return f"{SEARCH}[{_as_query(question)}]"
        titles = _titles(str(info["last_results"]))
        if info["step"] == 1 and info["steps_left"] != 1 and titles:
            return "\n".join(f"{SEARCH}[{title}]" for title in titles[:_SEARCHES_A_STEP])
        return f"{ANSWER}[{_frequent_name(observation, question)}]"


def _facts(state: QAState) -> list[_Fact]:
    question = state.question
    if question.evidences:
        return [_Fact(*evidence) for evidence in question.evidences]
    return [_Fact(title) for title in question.supporting_titles]


def _is_found(fact: _Fact, state: QAState) -> bool:
    subject = query_key(fact.subject)
    texts = [s.passage.text for s in state.passages if query_key(s.passage.title) == subject]
    if any(_names(text, fact.object) for text in texts):
        return True
    queries = _two_queries(fact, fact.subject)
    return bool(texts) and all(state.was_searched(_as_query(query)) for query in queries)


def _names(text: str, thing: str) -> bool:
    """Whether a text names something: in its words, or a date or number in another form."""
    told, wanted = _words(text), _words(thing)
    if wanted in told:
        return True
    plain = wanted.strip()
    if plain.isdecimal():
        number = int(plain)
        forms = (f"{number / 1000:g} thousand", f"{number / 1_000_000:.2f} million")
        return any(_words(form) in told for form in forms)
    tokens = set(_ORDINAL.sub(r"\1", told).split())
    return any(map(str.isdecimal, plain.split())) and tokens.issuperset(plain.split())


def _two_queries(fact: _Fact, end: str) -> tuple[str, str]:
    return f"{end} {fact.relation}", end


def _queries(facts: list[_Fact], missing: list[_Fact], state: QAState) -> Iterator[str]:
    """Queries for what is missing and has an end in what was read; at last the question."""
    passages = (f"{seen.passage.title} {seen.passage.text}" for seen in state.passages)
    read = _words(" ".join((state.question.question, *passages)))
    found = [fact for fact in facts if fact not in missing]
    known = {end for fact in found for end in (fact.subject, fact.object)}
    pairs = [
        _two_queries(fact, end)
        for fact in missing
        for end in (fact.subject, fact.object)
        if end and (end in known or _words(end) in read)
    ]
    yield from (query for query, _ in pairs)
    yield from (end for _, end in pairs)
    yield state.question.question
    yield from (f"{query} {state.question.question}" for query, _ in pairs)


def _fresh(queries: Iterator[str], state: QAState) -> Iterator[str]:
    asked: set[str] = set()
    for query in map(_as_query, queries):
        key = query_key(query)
        if query and key not in asked and not state.was_searched(query):
            asked.add(key)
            yield query


def _as_query(text: str) -> str:
    return " ".join(text.split())[: RULES.longest[SEARCH]].strip()


def _answer_in_reach(state: QAState) -> str:
    """The answer if a passage says it; an oracle does not answer what it has not found."""
    answer = state.question.answer
    found = any(_words(answer) in _words(seen.passage.text) for seen in state.passages)
    return answer if found and answer else _UNKNOWN


def _words(text: str) -> str:
    """Normalised words between blanks, so that one text is in another by whole words only."""
    return f" {normalise(text)} "


def _titles(last_results: str) -> list[str]:
    results = json.loads(last_results)
    titles = (_as_query(one["title"]) for found in results for one in found)
    return [title for title in dict.fromkeys(titles) if title]


def _frequent_name(observation: str, question: str) -> str:
    """The capitalised phrase that passages say most often and the question does not."""
    whole_state = observation.startswith(("Question: ", "### User Query"))
    passages = "\n".join(_PASSAGE_LINE.findall(observation)) if whole_state else observation
    names = Counter(name for name in _CAPITALISED.findall(passages) if name not in question)
    return max(names, key=names.__getitem__, default=_UNKNOWN)
