"""One customer's visit: a state machine of pages, without any text of them.

Every value of the state is immutable, so that a snapshot is a tuple of references. What the
original's pages do is kept under ``strict=True``, its faults included.
"""

from __future__ import annotations

from collections.abc import Mapping
from json.encoder import encode_basestring as quoted
from typing import Literal, NamedTuple

from agentgym_suite.webshop.actions import SEARCH, ParsedCall, shown
from agentgym_suite.webshop.controls import RESULTS_PER_PAGE, Control, Controls
from agentgym_suite.webshop.goals import Goal
from agentgym_suite.webshop.products import Product
from agentgym_suite.webshop.reward import RewardParts
from agentgym_suite.webshop.shelf import Stock
from agentgym_suite.webshop.urls import EncodedUrls, OriginalUrls, UrlScheme

PageKind = Literal["index", "results", "item", "sub page", "done"]


class Tally(NamedTuple):
    """What was done during the visit; nothing of the game depends on it."""

    searches: int = 0
    page_turns: int = 0
    item_views: int = 0
    option_clicks: int = 0
    sub_page_views: int = 0


class ShopState(NamedTuple):
    """All that the next step depends on, and the tally.

    Attributes:
        page: kind of the current page.
        keywords: words of the last search; None before the first and on the index page.
        page_number: page of the results; 0 before a search.
        asin: the product in view, ``""`` if none.
        sub_page: name of the sub page in view, ``""`` if none.
        options: chosen value of each group, in order of choice; replaced, never changed.
        visited: products opened since the last index page.
        results: ASINs found by the last search, best first.
        reward: the purchase's reward, None before it.
        tally: counters of the visit.
    """

    page: PageKind = "index"
    keywords: tuple[str, ...] | None = None
    page_number: int = 0
    asin: str = ""
    sub_page: str = ""
    options: Mapping[str, str] = {}
    visited: frozenset[str] = frozenset()
    results: tuple[str, ...] = ()
    reward: RewardParts | None = None
    tally: Tally = Tally()


class ShopSession:
    """One visit to the shop with one goal.

    Args:
        stock: the catalogue, shared with other sessions.
        goal: what the customer wants.
        session_id: the visit's name in addresses; the goal's number unless given.
        strict: keep the original's faults (see the table in the environment's documentation).
        show_attrs: products have an attributes page.
    """

    def __init__(
        self,
        stock: Stock,
        goal: Goal,
        *,
        session_id: str = "",
        strict: bool = True,
        show_attrs: bool = False,
    ) -> None:
        self.shelf = stock.shelf
        self._find = stock.search
        self.goal = goal
        self.session_id = session_id or str(goal.index)
        self.strict = strict
        self.show_attrs = show_attrs
        self.state = ShopState()
        self._controls: Controls | None = None

    # ---------------------------------------------------------------- reading

    @property
    def controls(self) -> Controls:
        """What can be clicked now."""
        if self._controls is None:
            self._controls = self._find_controls()
        return self._controls

    @property
    def shown_results(self) -> tuple[str, ...]:
        """ASINs on the current page of results."""
        page = self.state.page_number
        return self.state.results[(page - 1) * RESULTS_PER_PAGE : page * RESULTS_PER_PAGE]

    @property
    def product(self) -> Product:
        """The product in view; only on item, sub and done pages."""
        return self.shelf.product(self.state.asin)

    @property
    def url(self) -> str:
        """Address of the current page, in the original's spelling when strict."""
        return self.address(OriginalUrls() if self.strict else EncodedUrls())

    def address(self, urls: UrlScheme) -> str:
        """Address of the current page in a given spelling."""
        state = self.state
        words = state.keywords or ()
        if state.page == "index":
            return urls.index(self.session_id)
        if state.page == "results":
            return urls.results(self.session_id, words, state.page_number)
        if state.page == "item":
            return urls.item(self.session_id, state.asin, words, state.page_number, state.options)
        if state.page == "sub page":
            return urls.sub_page(
                self.session_id, state.asin, words, state.page_number, state.sub_page, state.options
            )
        return urls.done(self.session_id, state.asin, state.options)

    def canonical_state(self) -> str:
        """Canonical JSON of everything the next step depends on."""
        state = self.state
        # keywords come from splitting at single blanks, so that joining them loses nothing
        words = "null" if state.keywords is None else quoted(" ".join(state.keywords))
        options = ",".join([f"[{quoted(k)},{quoted(v)}]" for k, v in state.options.items()])
        visited = ",".join([quoted(asin) for asin in sorted(state.visited)])
        return (
            f'{{"asin":{quoted(state.asin)},"goal":"{self.goal.id}","keywords":{words},'
            f'"options":[{options}],"page":"{state.page}","page_number":{state.page_number},'
            f'"session":{quoted(self.session_id)},"sub_page":"{state.sub_page}",'
            f'"visited":[{visited}]}}'
        )

    # ---------------------------------------------------------------- playing

    def play(self, call: ParsedCall) -> str:
        """Execute a call.

        Returns:
            ``""``, or why nothing happened, in one sentence.
        """
        if call.error:
            return call.error
        if self.state.page == "done":
            return "the purchase is made; start a new session"
        if call.name == SEARCH:
            self.search(call.argument)
            return ""
        control = self.controls.elements.get(call.argument)
        if control is None or (self.strict and call.argument == SEARCH):
            return self._why_not(call.argument)
        self._perform(control)
        return ""

    def search(self, text: str) -> None:
        """Show the first page of results for a text, already in lower case."""
        tally = self.state.tally
        self._show_results(tuple(text.split(" ")), 1, tally._replace(searches=tally.searches + 1))

    def snapshot(self) -> ShopState:
        """The whole state, as a small tuple that nothing changes."""
        return self.state

    def restore(self, state: ShopState) -> None:
        """Go back to a snapshot of this session."""
        self._enter(state)

    # ---------------------------------------------------------------- inside

    def _enter(self, state: ShopState) -> None:
        self.state = state
        self._controls = None

    def _find_controls(self) -> Controls:
        page, shelf = self.state.page, self.shelf
        if page == "results":
            more = len(self.state.results) > self.state.page_number * RESULTS_PER_PAGE
            return shelf.results_controls(
                self.shown_results, self.state.page_number, more, self.strict
            )
        if page == "item":
            return shelf.item_controls(self.state.asin, self.show_attrs, self.strict)
        return shelf.plain_controls(page, self.strict)

    def _why_not(self, text: str) -> str:
        if text == SEARCH and text in self.controls.elements:
            return "'search' does nothing when clicked; write search[keywords]"
        if not self.controls.elements:
            return f"there is no {shown(text)} on this page; write search[keywords]"
        return f"there is no {shown(text)} on this page; click one of the elements listed for it"

    def _perform(self, control: Control) -> None:
        kind = control.kind
        if kind == "option":
            self._choose(control)
        elif kind == "product":
            self._open(control.target)
        elif kind == "sub page":
            self._open_sub_page(control.target)
        elif kind == "buy":
            self._buy()
        elif kind == "next":
            self._turn(+1)
        elif kind == "previous":
            self._go_back()
        else:
            self._enter(ShopState(tally=self.state.tally))

    def _choose(self, control: Control) -> None:
        state = self.state
        group = next((g for g in control.groups if g not in state.options), control.groups[0])
        self._enter(
            state._replace(
                page="item",
                options={**state.options, group: control.target},
                tally=state.tally._replace(option_clicks=state.tally.option_clicks + 1),
            )
        )

    def _open(self, asin: str) -> None:
        state = self.state
        self._enter(
            state._replace(
                page="item",
                asin=asin,
                visited=state.visited | {asin},
                tally=state.tally._replace(item_views=state.tally.item_views + 1),
            )
        )

    def _open_sub_page(self, name: str) -> None:
        state = self.state
        self._enter(
            state._replace(
                page="sub page",
                sub_page=name,
                tally=state.tally._replace(sub_page_views=state.tally.sub_page_views + 1),
            )
        )

    def _buy(self) -> None:
        state = self.state
        product = self.product
        reward = self.shelf.judge.score(self.goal, product, product.price, state.options)
        self._enter(state._replace(page="done", reward=reward))

    def _turn(self, pages: int) -> None:
        tally = self.state.tally
        self._show_results(
            self.state.keywords or (),
            self.state.page_number + pages,
            tally._replace(page_turns=tally.page_turns + abs(pages)),
        )

    def _go_back(self) -> None:
        kind = self._kind_by_address() if self.strict else self.state.page
        if kind == "results":
            self._turn(-1)
        elif kind == "item":
            self._turn(0)
        else:
            self._enter(self.state._replace(page="item", sub_page=""))

    def _kind_by_address(self) -> PageKind:
        # the original looks for page names anywhere in the address, search words included
        url = self.url
        if "search_results" in url:
            return "results"
        return "item" if "item_page" in url else "sub page"

    def _show_results(self, keywords: tuple[str, ...], page: int, tally: Tally) -> None:
        state = self.state
        results = state.results if keywords == state.keywords else self._find(keywords)
        self._enter(
            ShopState(
                page="results",
                keywords=keywords,
                page_number=page,
                visited=state.visited,
                results=results,
                tally=tally,
            )
        )


def json_object(texts: Mapping[str, str]) -> str:
    """A JSON object of texts, order kept; much faster than ``json.dumps`` for small ones."""
    return f"{{{', '.join([f'{quoted(k)}: {quoted(v)}' for k, v in texts.items()])}}}"
