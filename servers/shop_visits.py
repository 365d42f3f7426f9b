"""Visits to the shop's site: who wants what, and the page that an address names.

What a page shows, which options there are and what a purchase is worth is asked of the shop's own
state machine; nothing of it is decided here.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from agentgym_suite.servers.problems import Problem
from agentgym_suite.servers.sessions import (
    NoSession,
    Session,
    SessionEnded,
    SessionTable,
    TableFull,
)
from agentgym_suite.servers.shop_urls import Address
from agentgym_suite.webshop.actions import ParsedCall
from agentgym_suite.webshop.catalogue import Catalogue
from agentgym_suite.webshop.controls import BUY_BUTTON, RESULTS_PER_PAGE
from agentgym_suite.webshop.goals import Goal
from agentgym_suite.webshop.products import Product
from agentgym_suite.webshop.session import ShopSession, ShopState

_GOAL_ID = re.compile(r"(?:.*_)?((?:human|synthetic)-\d{1,9})")
_FIXED = re.compile(r".*_(\d{1,9})")
BUY = ParsedCall("click", BUY_BUTTON.lower())


@dataclass(slots=True)
class Visit:
    """One customer's session.

    Attributes:
        goal: what the customer wants.
        state: the page seen last.
        purchase: the done page's state, None before the purchase.
    """

    goal: Goal
    state: ShopState
    purchase: ShopState | None = None


VisitPlace = Session[Visit]


class Visits:
    """The visits of one site.

    Args:
        catalogue: what the shop sells, and the goals.
        max_sessions: most visits at a time.
        lease_s: seconds without a page after which a visit ends.
        show_attrs: products have an attributes page.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        *,
        max_sessions: int = 10_000,
        lease_s: float = 3_600,
        show_attrs: bool = False,
    ) -> None:
        self.catalogue = catalogue
        self.table: SessionTable[Visit] = SessionTable(limit=max_sessions, lease_s=lease_s)
        self._show_attrs = show_attrs

    def goal(self, goal_id: str) -> Goal:
        """The goal of an id such as ``human-37``, or of a number.

        Raises:
            Problem: ``no-task`` with the range of goals.
        """
        goals = self.catalogue.goals
        kind, _, digits = goal_id.rpartition("-")
        known = kind in ("", goals.kind) and digits.isascii() and digits.isdigit()
        if not known or len(digits) > 9 or int(digits) >= len(goals):
            raise Problem(
                "no-task",
                f"the goal {goal_id[:80]!r} does not exist; "
                f"there are {goals.kind}-0 to {goals.kind}-{len(goals) - 1}",
                field="goal",
            )
        return goals[int(digits)]

    def goal_of(self, session_id: str) -> Goal:
        """The goal of a session: always the same for the same name, restarts included.

        ``…_human-37`` has the goal of that id, ``fixed_37`` that of the number; any other name
        draws one by weight.

        Raises:
            Problem: the name asks for a goal that there is not.
        """
        named = _GOAL_ID.fullmatch(session_id)
        if named:
            return self.goal(named[1])
        if "fixed" in session_id:
            fixed = _FIXED.fullmatch(session_id)
            if fixed is None:
                raise Problem(
                    "invalid",
                    f"the session {session_id[:80]!r} names no goal; write fixed_ and a number",
                    field="session",
                )
            return self.goal(fixed[1])
        digest = hashlib.sha256(session_id.encode("utf-8")).digest()
        u = int.from_bytes(digest[:8], "big") / 2**64
        goals = self.catalogue.goals
        return goals[goals.draw(u, range(len(goals)))]

    def begin(self, session_id: str) -> VisitPlace:
        """The visit of a name, begun now if it is new or had ended.

        Raises:
            Problem: ``full``, or a goal that there is not.
        """
        goal = self.goal_of(session_id)
        self.table.expire()  # visits hold nothing that would have to be closed
        try:
            return self.table.open(session_id, lambda: Visit(goal, ShopState()))
        except TableFull as full:
            raise Problem(
                "full",
                f"{full.limit} customers are in the shop, which is all it holds; come back later",
                retry_after_s=full.retry_after_s,
            ) from None

    def find(self, session_id: str) -> VisitPlace:
        """The live visit of a name; a new one is never begun in the middle of the shop.

        Raises:
            Problem: ``no-session`` or ``lease-expired``.
        """
        try:
            return self.table.get(session_id)
        except NoSession:
            raise Problem(
                "no-session",
                f"the session {session_id!r} has not begun here; begin it at its search page",
                field="session",
            ) from None
        except SessionEnded:
            raise Problem(
                "lease-expired",
                f"the session {session_id!r} has ended; begin it again at its search page",
                field="session",
            ) from None

    def look(self, visit: Visit, address: Address) -> ShopSession:
        """The page that an address names, before a purchase.

        Raises:
            Problem: ``not-found`` or ``invalid``, naming the part that the shop does not have.
        """
        session = ShopSession(
            self.catalogue,
            visit.goal,
            session_id=address.session_id,
            strict=False,
            show_attrs=self._show_attrs,
        )
        if address.page == "index":
            return session
        state = ShopState(
            page="item" if address.page == "done" else address.page,
            keywords=address.keywords or None,
            page_number=address.page_number,
            visited=visit.state.visited,
        )
        if address.page == "results":
            results = self.catalogue.search(address.keywords)
            pages = max(1, math.ceil(len(results) / RESULTS_PER_PAGE))
            if address.page_number > pages:
                raise Problem(
                    "not-found",
                    f"the page {address.page_number} is beyond the last one; there are {pages}",
                    field="page",
                )
            session.restore(state._replace(results=results))
            return session
        product = self.catalogue.product(address.asin)
        if product is None:
            raise Problem(
                "not-found", f"the product {address.asin} is not in this shop", field="product"
            )
        session.restore(
            state._replace(
                asin=product.asin,
                sub_page=address.sub_page,
                options=_chosen(product, address.options),
                visited=state.visited | {product.asin},
            )
        )
        if address.page == "sub page":
            self._check_sub_page(session, address)
        return session

    def buy(self, visit: Visit, session: ShopSession) -> None:
        """Buy what a session's item page shows; the visit's one purchase.

        Raises:
            Problem: ``episode-over``: the visit has bought something else.
        """
        if visit.purchase is None:
            session.play(BUY)
            visit.purchase = session.state
            return
        bought = visit.purchase
        if (bought.asin, bought.options) != (session.state.asin, session.state.options):
            raise Problem(
                "episode-over",
                f"this customer has bought {bought.asin} already; begin as a new customer",
                field="session",
            )
        session.restore(bought)

    def receipt(self, visit: Visit, session: ShopSession) -> bool:
        """Show the done page if it is what the session's item page was bought as."""
        bought, state = visit.purchase, session.state
        if bought is None or (bought.asin, bought.options) != (state.asin, state.options):
            return False
        session.restore(bought)
        return True

    def _check_sub_page(self, session: ShopSession, address: Address) -> None:
        state = session.state
        session.restore(state._replace(page="item", sub_page=""))
        there = address.sub_page.lower() in session.controls.elements
        session.restore(state)
        if not there:
            raise Problem(
                "not-found", f"the sub page {address.sub_page} is not shown here", field="sub page"
            )


def _chosen(product: Product, options: Mapping[str, str]) -> dict[str, str]:
    groups = dict(product.options)
    chosen = {}
    for group, value in options.items():
        if group not in groups:
            raise _no_option(f"{product.asin} has no option {group[:80]!r}", tuple(groups))
        if value not in groups[group]:
            value = value.lower()
        if value not in groups[group]:
            raise _no_option(f"there is no {group} {value[:80]!r}", groups[group])
        chosen[group] = value
    return chosen


def _no_option(what: str, there_are: tuple[str, ...]) -> Problem:
    shown = ", ".join(there_are[:12]) or "none"
    return Problem("invalid", f"the options are wrong: {what}; there are {shown}", field="options")
