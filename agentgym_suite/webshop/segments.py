"""The visible text that pages are made of, assembled once per product and session.

A segment is a run of text nodes that always stand together: the head with the instruction, a
product's row among results, its options, its details, a sub page.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Literal, NamedTuple

from agentgym_suite.webshop.controls import (
    ATTRIBUTES_PAGE,
    BACK_BUTTON,
    BUY_BUTTON,
    PREVIOUS_BUTTON,
    SEARCH_BUTTON,
    sub_page_names,
)
from agentgym_suite.webshop.products import Product

SHOP_NAME = "WebShop"
NO_RATING = "N.A."
SEPARATOR = " [SEP] "
_ASCII_SPACE = " \t\n\f\r"


class Node(NamedTuple):
    """One visible text node.

    Attributes:
        kind: what it stands in; a ``"link"`` leads to a product, an ``"option"`` is a value.
        text: its text, outer white space kept.
        group: for an option: its group.
    """

    kind: Literal["text", "button", "option", "link"]
    text: str
    group: str = ""


class Segment:
    """A run of nodes, with its two plain forms.

    Args:
        nodes: the nodes; those that a browser's text would not have are left out.
        keep_blank: keep nodes of white space, which show as empty segments.
    """

    __slots__ = ("_rich", "nodes", "text")

    def __init__(self, nodes: Iterable[Node], *, keep_blank: bool = True) -> None:
        shown: list[Node] = []
        for node in nodes:
            text = visible_text(node.text)
            if text if keep_blank else text.strip():
                shown.append(node if text is node.text else node._replace(text=text))
        self.nodes = tuple(shown)
        self.text = SEPARATOR.join([node.text.strip() for node in shown])
        self._rich: str | None = None

    @property
    def rich(self) -> str:
        """One line per node, nothing marked as clicked."""
        if self._rich is None:
            self._rich = "".join([rich_line(node) for node in self.nodes])
        return self._rich

    def __bool__(self) -> bool:
        return bool(self.nodes)


def visible_text(text: str) -> str:
    """A text as a node of a parsed page: ASCII white space alone is one blank, or no node.

    The original's parser kept one line end of such a text and dropped the node, or one blank.
    """
    if text.strip(_ASCII_SPACE):
        return text
    return " " if text and "\n" not in text else ""


def rich_line(node: Node, *, clicked: bool = False) -> str:
    """A node as a line of the ``text_rich`` mode."""
    if node.kind == "text":
        return f"{node.text}\n"
    before = {"option": "  ", "link": "\n", "button": ""}[node.kind]
    name = "clicked button" if clicked else "button"
    return f"{before}[{name}] {node.text} [{name}_]\n"


class Heads:
    """The segments that begin the pages of one session, made when a page needs them.

    Args:
        instruction: the goal's text.
    """

    def __init__(self, instruction: str) -> None:
        self._words = Node("text", instruction)

    @cached_property
    def index(self) -> Segment:
        """The whole search page."""
        return Segment(
            (
                Node("text", SHOP_NAME),
                Node("text", "Instruction: "),
                self._words,
                Node("button", SEARCH_BUTTON),
            )
        )

    @cached_property
    def results(self) -> Segment:
        """What stands before a page of results."""
        back = Node("button", BACK_BUTTON)
        return Segment((Node("text", "Instruction:"), self._words, back))

    @cached_property
    def product(self) -> Segment:
        """What stands before a product and its sub pages."""
        return Segment((*self.results.nodes, Node("button", PREVIOUS_BUTTON)))


class ProductPages:
    """The segments of one product's pages.

    Args:
        product: the product.
        strict: keep blank nodes as the original does.
    """

    __slots__ = ("_details", "_strict", "_sub_pages", "options", "product", "row")

    def __init__(self, product: Product, *, strict: bool) -> None:
        self.product = product
        self._strict = strict
        self._details: dict[bool, Segment] = {}
        self._sub_pages: dict[str, Segment] = {}
        self.row = self._segment(
            (
                Node("link", product.asin),
                Node("text", product.name),
                Node("text", product.price_tag),
            )
        )
        self.options = self._segment(
            node
            for group, values in product.options
            for node in (
                Node("text", group),
                *(Node("option", value, group) for value in values),
            )
        )

    def details(self, show_attrs: bool) -> Segment:
        """What follows the options: title, price and buttons."""
        segment = self._details.get(show_attrs)
        if segment is None:
            segment = self._details[show_attrs] = self._segment(
                (
                    Node("text", self.product.name),
                    Node("text", f"Price: {self.product.price_tag}"),
                    Node("text", f"Rating: {NO_RATING}"),
                    *(Node("button", name) for name in sub_page_names(show_attrs)),
                    Node("button", BUY_BUTTON),
                )
            )
        return segment

    def sub_page(self, name: str) -> Segment:
        """What follows the head on a sub page; empty for reviews."""
        segment = self._sub_pages.get(name)
        if segment is None:
            texts = sub_page_texts(self.product, name)
            segment = self._sub_pages[name] = self._segment(Node("text", text) for text in texts)
        return segment

    def _segment(self, nodes: Iterable[Node]) -> Segment:
        return Segment(nodes, keep_blank=self._strict)


def sub_page_texts(product: Product, name: str) -> tuple[str, ...]:
    """The texts of a sub page; listed ones begin with a blank, as in the original's markup."""
    if name == "Description":
        return (product.description,)
    if name == "Features":
        return tuple(f" {bullet}" for bullet in product.bullets)
    if name == ATTRIBUTES_PAGE:
        attributes = (f" {attribute}" for attribute in product.attributes)
        return (*attributes, product.category, product.query, product.product_category)
    return ()


def results_line(page: int, total: int) -> str:
    """Where the customer is among the results."""
    return f"Page {page} (Total results: {total})"


def selected_line(options: Mapping[str, str]) -> str:
    """The chosen options, ``""`` if none."""
    if not options:
        return ""
    return f"Selected: {', '.join(f'{group}: {value}' for group, value in options.items())}"


def options_json(options: Mapping[str, str]) -> str:
    """The options as the original's done page prints them: sorted JSON, safe inside markup."""
    text = json.dumps(dict(options), sort_keys=True)
    for character in "<>&'":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
