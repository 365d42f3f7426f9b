"""The current page of a session as segments of visible text, in document order.

The templates of the HTML pages produce the same nodes.
"""

from __future__ import annotations

from agentgym_suite.webshop.controls import NEXT_BUTTON, PREVIOUS_BUTTON
from agentgym_suite.webshop.segments import (
    Heads,
    Node,
    Segment,
    options_json,
    results_line,
    selected_line,
)
from agentgym_suite.webshop.session import ShopSession


def page_segments(session: ShopSession, heads: Heads) -> list[Segment]:
    """The current page of a session, in document order."""
    state = session.state
    if state.page == "index":
        return [heads.index]
    if state.page == "results":
        pages = session.shelf.pages
        rows = [pages(asin, session.strict).row for asin in session.shown_results]
        return [heads.results, _results_bar(session), *rows]
    if state.page == "done":
        return _done_segments(session)
    prepared = session.shelf.pages(state.asin, session.strict)
    if state.page == "sub page":
        return [s for s in (heads.product, prepared.sub_page(state.sub_page)) if s]
    segments = [heads.product, prepared.options]
    if state.options and not session.strict:
        segments.append(Segment((Node("text", selected_line(state.options)),)))
    segments.append(prepared.details(session.show_attrs))
    return [segment for segment in segments if segment]


def _results_bar(session: ShopSession) -> Segment:
    state = session.state
    buttons = session.controls.elements
    nodes = [Node("text", results_line(state.page_number, len(state.results)))]
    nodes += [
        Node("button", text) for text in (PREVIOUS_BUTTON, NEXT_BUTTON) if text.lower() in buttons
    ]
    return Segment(nodes)


def _texts(*texts: str) -> Segment:
    return Segment(Node("text", text) for text in texts)


_THANKS = _texts(
    "Thank you for shopping with us!",
    "Your code: ",
    "None",
    " (Paste it in your MTurk interface.)",
    "Purchased",
    "asin",
)
_OPTIONS = _texts("options")
# the original prints these without values in its text environment, "instuction" included
_COMPARED = _texts(
    *("attrs", "None", "category", "None", "query", "None", "product category", "None"),
    *("Target", "asin", "options", "attrs", "price upper", "instuction text", "category"),
    *("product category", "query", "Goal ", "None", "Reward", "Your score (min 0.0, max 1.0)"),
)
_REWARD_DETAILS = _texts("Reward Details ", "None")


def _done_segments(session: ShopSession) -> list[Segment]:
    state = session.state
    total = state.reward.total if state.reward is not None else 0.0
    return [
        _THANKS,
        _texts(state.asin),
        _OPTIONS,
        _texts(options_json(state.options)),
        _COMPARED,
        _texts(repr(total)),
        _REWARD_DETAILS,
    ]
