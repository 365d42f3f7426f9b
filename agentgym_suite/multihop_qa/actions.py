"""The two calls of multi-hop question answering: ``search[query]`` and ``answer[short answer]``."""

from __future__ import annotations

from agentgym_suite.call_results import CallRules
from agentgym_suite.calls import CallCodec, Tool

SEARCH = "search"
ANSWER = "answer"

RULES = CallRules(
    longest={SEARCH: 2048, ANSWER: 1024},
    counted=frozenset({SEARCH}),
    argued=frozenset({SEARCH}),
    ending=frozenset({ANSWER}),
    counted_as="searches",
)
CODEC = CallCodec(
    (
        Tool(
            SEARCH,
            "Search the passages of the encyclopedia.",
            "query",
            "What to search for, in a few words or a question.",
        ),
        Tool(
            ANSWER,
            "Give the final answer, which ends the episode.",
            "answer",
            "The answer alone: a name, a number, a date, yes or no.",
        ),
    )
)
