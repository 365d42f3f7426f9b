"""The three calls of paper search: ``search[query]``, ``expand[paper_id]`` and ``finish[]``."""

from __future__ import annotations

from agentgym_suite.call_results import CallRules
from agentgym_suite.calls import CallCodec, Tool

SEARCH = "search"
EXPAND = "expand"
FINISH = "finish"

RULES = CallRules(
    longest={SEARCH: 2048, EXPAND: 256, FINISH: 0},
    counted=frozenset({SEARCH, EXPAND}),
    argued=frozenset({SEARCH, EXPAND}),
    ending=frozenset({FINISH}),
)
CODEC = CallCodec(
    (
        Tool(
            SEARCH,
            "Search for papers.",
            "query",
            "What to search for, in a few words or a question.",
        ),
        Tool(
            EXPAND,
            "Add the papers that cite a paper of the pool, and those that it cites.",
            "paper_id",
            "The id of the paper, as the pool shows it.",
        ),
        Tool(FINISH, "End the search; the papers of the pool are the result."),
    )
)
