"""What the policy reads: the complete state, in a layout that is fixed byte by byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from agentgym_suite.arguments import check_choice, check_number
from agentgym_suite.call_results import messages_of
from agentgym_suite.files import Json
from agentgym_suite.paper_search.actions import EXPAND, FINISH, SEARCH
from agentgym_suite.paper_search.pool import Pool, PoolEntry, PoolOrder
from agentgym_suite.paper_search.state import PaperState

ObservationFormat = Literal["state", "steppo"]

SHOWN_OF_A_KIND = 10
ABSTRACT_WORDS = 400
LEGEND = (
    "Each paper: [id] (score) [NEW or EXP] title, then its abstract; best score first.",
    "The score, from 0 to 1, tells how well a paper fits the query.",
    "NEW papers have not been expanded yet, EXP papers have.",
)
EMPTY_POOL = "No papers in the pool."
NOTHING_ABOVE = "No relevant papers found above threshold."

_NONE = "None"
_KINDS = {SEARCH: "Search", EXPAND: "Expand"}


@dataclass(frozen=True, slots=True)
class Layout:
    """How observations are written.

    Attributes:
        format: ``state``, or the same under the headers of ``steppo``.
        pool_threshold: least score of the papers that are shown.
        pool_order: how papers of equal score are ordered.

    Raises:
        UsageError: a name is unknown, or the number out of its bounds.
    """

    format: ObservationFormat = "state"
    pool_threshold: float = 0.0
    pool_order: PoolOrder = "id"

    def __post_init__(self) -> None:
        check_choice("observation_format", self.format, get_args(ObservationFormat))
        check_number("pool_threshold", self.pool_threshold, 0, 1)
        check_choice("pool_order", self.pool_order, get_args(PoolOrder))

    def told(self) -> dict[str, Json]:
        """Every setting, for provenance."""
        told: dict[str, Json] = asdict(self)
        return {"observation_format": told.pop("format"), **told}


@dataclass(frozen=True, slots=True)
class Ahead:
    """What may still be done.

    Attributes:
        steps_left: after this observation; None without a horizon.
        max_calls: searches and expansions of one step.
        over: whether the episode has ended.
    """

    steps_left: int | None
    max_calls: int
    over: bool = False


def write_observation(state: PaperState, layout: Layout, ahead: Ahead) -> str:
    """The parts of the state, an empty line between them."""
    query = one_line(state.query.query)
    history = [f"[{_KINDS[call]}] {argument}" for call, argument in state.history]
    pool = write_pool(state.pool, layout)
    feedback = messages_of(state.results)
    if layout.format == "steppo":
        parts = [
            _part("### User Query", [query]),
            _part("### History Actions", history),
            _part("### Paper List", [pool]),
            _part("### Recent tool / format issues", feedback),
        ]
    else:
        parts = [
            f"Query: {query}",
            _part("Earlier calls:", history),
            _part("Paper pool:", [pool]),
            _part("Feedback:", feedback),
            _part("Calls:", _calls(ahead)),
        ]
    return "\n\n".join(parts)


def write_pool(pool: Pool, layout: Layout) -> str:
    """The legend and the best papers of a pool, or why there are none."""
    if not len(pool):
        return EMPTY_POOL
    shown = pool.shown(layout.pool_threshold, SHOWN_OF_A_KIND, layout.pool_order)
    if not shown:
        return NOTHING_ABOVE
    return "\n\n".join(("\n".join(LEGEND), *map(_entry, shown)))


def one_line(text: str) -> str:
    """Text whose runs of white space are single blanks."""
    return " ".join(text.split())


def _entry(entry: PoolEntry) -> str:
    mark = "EXP" if entry.expanded else "NEW"
    title = one_line(entry.paper.title)
    return (
        f"[{entry.id}] ({entry.score:.2f}) [{mark}] {title}\n"
        f"Abstract: {_first_words(entry.paper.abstract) or _NONE}"
    )


def _first_words(text: str) -> str:
    words = text.split()
    cut = " ".join(words[:ABSTRACT_WORDS])
    return f"{cut}..." if len(words) > ABSTRACT_WORDS else cut


def _part(header: str, lines: Sequence[str]) -> str:
    return "\n".join((header, *(lines or [_NONE])))


def _calls(ahead: Ahead) -> list[str]:
    if ahead.over:
        return []
    left = "no limit" if ahead.steps_left is None else str(ahead.steps_left)
    return [
        f"{SEARCH}[query], {EXPAND}[paper_id]: together at most {ahead.max_calls} per step",
        f"{FINISH}[]: ends the episode",
        f"Steps left: {left}",
    ]
