"""Two ways to shop without a language model: the oracle and the rule baseline."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agentgym_suite.webshop.actions import CLICK, SEARCH
from agentgym_suite.webshop.goals import Goal
from agentgym_suite.webshop.matching import MATCH_ABOVE, normalise_option, token_set_ratio
from agentgym_suite.webshop.products import Product
from agentgym_suite.webshop.session import ShopSession

_BREAKS_THE_GRAMMAR = re.compile(r"[\[\]\s]+")
_LONGEST_SEARCH = 4_000
_NAVIGATION = frozenset({SEARCH, "back to search", "< prev", "next >"})


def search_action(text: str) -> str:
    """The search for a text, without what the strict grammar or an action cannot carry."""
    words = _BREAKS_THE_GRAMMAR.sub(" ", text[:_LONGEST_SEARCH]).strip()
    return f"{SEARCH}[{words or '-'}]"


def oracle_action(session: ShopSession) -> str:
    """The next action of a customer who knows the target: search its title, choose, buy.

    It depends on the session's current page alone, so it may take over at any point.
    """
    state, goal = session.state, session.goal
    if state.page == "index":
        return search_action(goal.name or goal.query)
    if state.page == "results":
        if goal.asin in session.shown_results:
            return f"{CLICK}[{goal.asin.lower()}]"
        if goal.asin in state.results:
            return _toward(goal.asin, session)
        return _another_search(session)
    if state.page == "sub page":
        return f"{CLICK}[< prev]"
    if state.asin != goal.asin:
        return f"{CLICK}[back to search]"
    return next(_missing_options(session), f"{CLICK}[buy now]")


def rule_action(info: Mapping[str, Any]) -> str:
    """The rule baseline of the WebShop paper, from what is visible in ``info``.

    Search the whole instruction, open the first product, buy it without any option.
    """
    if info["has_search_bar"]:
        return search_action(info["instruction"])
    if info["page"] == "item":
        return f"{CLICK}[buy now]"
    products = (text for text in info["clickables"] if text not in _NAVIGATION)
    return f"{CLICK}[{next(products, 'back to search')}]"


def _toward(asin: str, session: ShopSession) -> str:
    behind = session.state.results.index(asin) // 10 + 1 < session.state.page_number
    return f"{CLICK}[< prev]" if behind else f"{CLICK}[next >]"


def _another_search(session: ShopSession) -> str:
    tried = " ".join(session.state.keywords or ())
    searches = [search_action(text) for text in _search_texts(session)]
    done = f"{SEARCH}[{tried}]"
    later = [search for search in searches if search.lower() != done]
    position = next((i for i, s in enumerate(searches) if s.lower() == done), -1)
    return searches[(position + 1) % len(searches)] if later else searches[0]


def _search_texts(session: ShopSession) -> list[str]:
    goal, product = session.goal, session.shelf.product(session.goal.asin)
    first_bullet = next(iter(product.bullets), "")
    return [
        goal.name or goal.query,
        " ".join((goal.name, product.description, first_bullet)),
        goal.instruction,
        f"{goal.query} {' '.join(goal.attributes)}",
    ]


def _missing_options(session: ShopSession) -> Iterator[str]:
    admissible = session.controls.admissible
    for group, value in wanted_options(session.goal, session.product).items():
        if session.state.options.get(group) == value:
            continue
        for text in (f"{group}: {value}", value):
            if f"{CLICK}[{text}]" in admissible:
                yield f"{CLICK}[{text}]"
                break


def wanted_options(goal: Goal, product: Product) -> dict[str, str]:
    """Group -> value of the product that satisfies the goal's options, as far as it can."""
    wanted: dict[str, str] = {}
    options: tuple[str | tuple[str, str], ...] = goal.options
    for option in options:
        if isinstance(option, tuple):
            group, value = option
            wanted[group] = value
            continue
        pairs = [(g, v) for g, values in product.options for v in values if g not in wanted]
        exact = (pair for pair in pairs if pair[1] == option.strip().lower())
        alike = (pair for pair in pairs if _alike(pair[1], option))
        pair = next(exact, None) or next(alike, None)
        if pair is not None:
            wanted[pair[0]] = pair[1]
    return wanted


def _alike(value: str, option: str) -> bool:
    return token_set_ratio(normalise_option(value), normalise_option(option)) > MATCH_ABOVE
