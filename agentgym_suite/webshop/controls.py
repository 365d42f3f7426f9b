"""What can be clicked on each page, and what a click means.

The original maps each element's text to an element: texts that occur twice keep their first place
in the list and take the last element's meaning. The mended rules (``strict=False``) let buttons win
over options of the same text and name the group where a value alone would be ambiguous.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from agentgym_suite.webshop.actions import CLICK, SEARCH, parse_action
from agentgym_suite.webshop.products import Product

RESULTS_PER_PAGE = 10
SEARCH_BUTTON = "Search"
BACK_BUTTON = "Back to Search"
NEXT_BUTTON = "Next >"
PREVIOUS_BUTTON = "< Prev"
BUY_BUTTON = "Buy Now"
SUB_PAGES = ("Description", "Features", "Reviews")
ATTRIBUTES_PAGE = "Attributes"
SEARCH_TEMPLATE = "search[<query>]"


class Control(NamedTuple):
    """What a click on one element does.

    Attributes:
        kind: the kind of element; ``"nothing"`` is the index page's search button.
        target: ASIN of a product link, name of a sub page, or value of an option.
        groups: for an option: the groups that may take the value, in order of preference.
    """

    kind: Literal["nothing", "index", "previous", "next", "product", "sub page", "option", "buy"]
    target: str = ""
    groups: tuple[str, ...] = ()


class Controls:
    """The clickable elements of one page, in order.

    Args:
        elements: text in lower case -> meaning, in page order.
        has_search_bar: whether the page shows the search field.
        strict: the grammar that admissible actions must be readable in.
    """

    __slots__ = ("admissible", "clickables", "elements", "has_search_bar")

    def __init__(
        self, elements: Mapping[str, Control], *, has_search_bar: bool = False, strict: bool = True
    ) -> None:
        self.elements = elements
        self.has_search_bar = has_search_bar
        self.clickables = tuple(elements)
        search = (SEARCH_TEMPLATE,) if has_search_bar else ()
        self.admissible = search + tuple(
            f"{CLICK}[{text}]" for text in elements if _can_be_clicked(text, strict)
        )


def _can_be_clicked(text: str, strict: bool) -> bool:
    if text == SEARCH or not text:
        return False
    if text.isalnum():
        return True
    # a value with brackets is listed as clickable, but the original's grammar cannot say it
    return parse_action(f"{CLICK}[{text}]", strict=strict)[:2] == (CLICK, text)


def index_controls(*, strict: bool) -> Controls:
    """The index page: the search field, and (strict) a button that does nothing."""
    elements = {SEARCH: Control("nothing")} if strict else {}
    return Controls(elements, has_search_bar=True, strict=strict)


def results_controls(shown: Sequence[str], *, page: int, more: bool, strict: bool) -> Controls:
    """A page of results.

    Args:
        shown: ASINs on this page.
        page: its number.
        more: whether another page with results follows.
        strict: list ``next >`` even on the last page.
    """
    elements = dict([_button(BACK_BUTTON, "index")])
    if page > 1:
        elements.update([_button(PREVIOUS_BUTTON, "previous")])
    if strict or more:
        elements.update([_button(NEXT_BUTTON, "next")])
    for asin in shown:
        elements[asin.lower()] = Control("product", asin)
    return Controls(elements, strict=strict)


def sub_page_controls(*, strict: bool) -> Controls:
    """The description, features, reviews or attributes of a product."""
    elements = dict([_button(BACK_BUTTON, "index"), _button(PREVIOUS_BUTTON, "previous")])
    return Controls(elements, strict=strict)


def done_controls() -> Controls:
    """After a purchase: nothing to click."""
    return Controls({})


def item_controls(product: Product, *, show_attrs: bool, strict: bool) -> Controls:
    """A product's page: buttons, then option values group by group."""
    elements = dict([_button(BACK_BUTTON, "index"), _button(PREVIOUS_BUTTON, "previous")])
    for name in sub_page_names(show_attrs):
        elements[name.lower()] = Control("sub page", name)
    elements.update([_button(BUY_BUTTON, "buy")])
    if strict:
        for group, values in product.options:
            for value in values:
                elements[value] = Control("option", value, (group,))
    else:
        for text, control in _mended_options(product, frozenset(elements)):
            elements.setdefault(text, control)
    return Controls(elements, strict=strict)


def sub_page_names(show_attrs: bool) -> tuple[str, ...]:
    """The sub pages a product has buttons for."""
    return (*SUB_PAGES, ATTRIBUTES_PAGE) if show_attrs else SUB_PAGES


def _mended_options(product: Product, buttons: frozenset[str]) -> Iterable[tuple[str, Control]]:
    groups_of: dict[str, tuple[str, ...]] = {}
    for group, values in product.options:
        for value in dict.fromkeys(values):
            groups_of[value] = (*groups_of.get(value, ()), group)
    for group, values in product.options:
        for value in filter(None, values):
            if value not in buttons:
                yield value, Control("option", value, groups_of[value])
            if value in buttons or len(groups_of[value]) > 1:
                yield f"{group}: {value}", Control("option", value, (group,))


def _button(text: str, kind: Literal["index", "previous", "next", "buy"]) -> tuple[str, Control]:
    return text.lower(), Control(kind)
