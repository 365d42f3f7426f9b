"""What the policy reads: the four observation modes of one session."""

from __future__ import annotations

from typing import Literal

from agentgym_suite.arguments import shown
from agentgym_suite.errors import UsageError
from agentgym_suite.webshop.html import HtmlPages
from agentgym_suite.webshop.pages import page_segments
from agentgym_suite.webshop.segments import SEPARATOR, Heads, Node, Segment, rich_line
from agentgym_suite.webshop.session import ShopSession

ObservationMode = Literal["text", "text_rich", "html", "url"]
OBSERVATION_MODES: tuple[ObservationMode, ...] = ("text", "text_rich", "html", "url")


def check_mode(mode: str) -> ObservationMode:
    """The mode itself.

    Raises:
        UsageError: there is no such mode.
    """
    for known in OBSERVATION_MODES:
        if isinstance(mode, str) and mode == known:
            return known
    raise UsageError(
        f"observation_mode is {shown(mode)}; use one of {', '.join(OBSERVATION_MODES)}"
    )


class Observer:
    """Words the pages of one session in one mode.

    Args:
        session: the session to look at.
        mode: how its pages are worded.
        html: the templates; needed in mode ``"html"`` only.
    """

    def __init__(
        self, session: ShopSession, mode: ObservationMode, html: HtmlPages | None = None
    ) -> None:
        self._session = session
        self._mode = mode
        self._html = html
        self._heads = Heads(session.goal.instruction)

    def observe(self, feedback: str = "") -> str:
        """The current page.

        Args:
            feedback: said before the page, ``""`` for nothing.
        """
        if self._mode == "html":
            return (self._html or HtmlPages()).render(self._session, notice=feedback)
        if self._mode == "text":
            segments = page_segments(self._session, self._heads)
            page = SEPARATOR.join([segment.text for segment in segments])
            return f"{feedback}{SEPARATOR}{page}" if feedback else page
        page = self._rich() if self._mode == "text_rich" else self._session.url
        return f"{feedback}\n{page}" if feedback else page

    def _rich(self) -> str:
        session = self._session
        segments = page_segments(session, self._heads)
        if session.state.page == "results":
            visited = session.state.visited
            return "".join([_row(segment, visited) for segment in segments])
        if session.state.page == "item":
            url = session.url
            if '"' in url or session.state.options:
                return _with_choices(session, segments, url)
        return "".join([segment.rich for segment in segments])


def _row(segment: Segment, visited: frozenset[str]) -> str:
    first = segment.nodes[0]
    if first.kind != "link" or first.text not in visited:
        return segment.rich
    return rich_line(first, clicked=True) + "".join(map(rich_line, segment.nodes[1:]))


def _with_choices(session: ShopSession, segments: list[Segment], url: str) -> str:
    said: list[str] = []
    lines: list[str] = []
    for node in (node for segment in segments for node in segment.nodes):
        clicked = node.kind == "option" and _is_chosen(session, node, url)
        if clicked:  # each is put before everything so far, so the last value comes first
            said.append(f"You have clicked {node.text}.\n")
        lines.append(rich_line(node, clicked=clicked))
    return "".join(said[::-1] + lines)


def _is_chosen(session: ShopSession, node: Node, url: str) -> bool:
    if session.strict:  # the original looks for the quoted value anywhere in the address
        return f'"{node.text}"' in url
    return session.state.options.get(node.group) == node.text
