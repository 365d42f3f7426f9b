"""The trajectory log of the shop: one JSON line per page, with the action that led there."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from io import RawIOBase
from pathlib import Path
from typing import Any

from agentgym_suite.errors import UsageError
from agentgym_suite.webshop.actions import CLICK, SEARCH, parse_action
from agentgym_suite.webshop.session import ShopSession, ShopState


class TrajectoryLog:
    """Appends records to a file, whole lines only.

    Args:
        path: the file; made if absent.

    Raises:
        UsageError: it cannot be written.
    """

    def __init__(self, path: Path | str) -> None:
        try:
            # unbuffered: a line is one write, so that even a killed server leaves none half written
            self._file: RawIOBase = Path(path).open("ab", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise UsageError(
                f"the log {path} cannot be written ({error.strerror}); name another file"
            ) from None
        self._lock = threading.Lock()

    def write(self, session: ShopSession, before: ShopState) -> None:
        """Record the page that a session shows now.

        Args:
            session: its state is the page shown.
            before: the page shown before.
        """
        state = session.state
        record: dict[str, Any] = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "session": session.session_id,
            "goal": session.goal.id,
            "page": state.page,
            "action": action_between(session, before),
            "asin": state.asin,
            "options": dict(state.options),
            "keywords": list(state.keywords or ()),
            "page_number": state.page_number,
            "sub_page": state.sub_page,
            "reward": None if state.reward is None else state.reward.total,
        }
        line = json.dumps(record, ensure_ascii=False).encode("utf-8") + b"\n"
        with self._lock:
            self._file.write(line)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def action_between(session: ShopSession, before: ShopState) -> str:
    """The action that leads from one page to the page a session shows, by the shop's own rules.

    "" if none does: the address was typed, or the page was loaded again.
    """
    after = session.state
    if _place(after) == _place(before):
        return ""
    words = " ".join(after.keywords or ())
    session.restore(before)
    try:
        candidates = [f"{CLICK}[{text}]" for text in session.controls.clickables]
        if words:
            candidates.append(f"{SEARCH}[{words}]")
        for action in candidates:
            if _buys(session, action) != (after.page == "done"):
                continue
            session.restore(before)
            refused = session.play(parse_action(action, strict=False))
            if not refused and _place(session.state) == _place(after):
                return action
        return ""
    finally:
        session.restore(after)


def _buys(session: ShopSession, action: str) -> bool:
    control = session.controls.elements.get(parse_action(action, strict=False).argument)
    return control is not None and control.kind == "buy"


def _place(state: ShopState) -> tuple[Any, ...]:
    return (
        state.page,
        state.asin,
        state.keywords if state.page != "done" else None,
        state.page_number if state.page != "done" else 0,
        dict(state.options),
        state.sub_page,
    )
