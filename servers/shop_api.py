"""The questions under ``/api`` that are no pages: a product, a search, the provenance, a goal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from agentgym_suite.servers.bodies import invalid
from agentgym_suite.servers.problems import Problem
from agentgym_suite.servers.shop_json import goal_value, product_value, search_value
from agentgym_suite.servers.shop_visits import Visits
from agentgym_suite.versions import suite_version
from agentgym_suite.webshop.product_search import MOST_HITS


class ShopApi:
    """Answers them from one catalogue.

    Args:
        visits: the visits; their catalogue is asked.
        show_goals: tell goals, which are the answers to their tasks.
    """

    def __init__(self, visits: Visits, *, show_goals: bool) -> None:
        self._visits = visits
        self._catalogue = visits.catalogue
        self._show_goals = show_goals

    def find(
        self, parts: Sequence[str], query: Mapping[str, str]
    ) -> Callable[[], dict[str, Any]] | None:
        """What answers an address below ``/api``; None if that is a page."""
        if len(parts) == 1 and parts[0] == "info":
            return self._info
        if len(parts) == 1 and parts[0] == "search":
            return partial(self._search, query.get("q", ""), query.get("k", "10"))
        if len(parts) == 2 and parts[0] == "products":
            return partial(self._product, parts[1])
        if len(parts) == 2 and parts[0] == "goals":
            return partial(self._goal, parts[1])
        if list(parts) == ["goals"]:
            return self._goals
        return None

    def _info(self) -> dict[str, Any]:
        return {
            "suite_version": suite_version(),
            "provenance": self._catalogue.provenance(),
            "sessions": len(self._visits.table),
            "max_sessions": self._visits.table.limit,
        }

    def _search(self, q: str, k: str) -> dict[str, Any]:
        number = int(k) if k.isascii() and k.isdigit() and len(k) <= 4 else 0
        if not 1 <= number <= MOST_HITS:
            raise invalid("k", f"is {k[:80]!r}; give 1 to {MOST_HITS}")
        if not q.strip():
            raise invalid("q", "has no word; give what to search for")
        return search_value(self._catalogue, q, number)

    def _product(self, asin: str) -> dict[str, Any]:
        product = self._catalogue.product(asin.upper())
        if product is None:
            raise Problem(
                "not-found", f"the product {asin[:80]!r} is not in this shop", field="product"
            )
        return product_value(product)

    def _goals(self) -> dict[str, Any]:
        self._check_goals_shown()
        goals = self._catalogue.goals
        return {
            "kind": goals.kind,
            "count": len(goals),
            "first": f"{goals.kind}-0",
            "last": f"{goals.kind}-{len(goals) - 1}",
        }

    def _goal(self, goal_id: str) -> dict[str, Any]:
        self._check_goals_shown()
        return goal_value(self._visits.goal(goal_id))

    def _check_goals_shown(self) -> None:
        if not self._show_goals:
            raise Problem(
                "not-found", "goals are not told here; start the shop with --show-goals for them"
            )
