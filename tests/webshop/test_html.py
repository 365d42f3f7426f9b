"""HTML pages: the text nodes of the text modes, the original's hooks, and safe escaping."""

from __future__ import annotations

import json
from urllib.parse import unquote, urlsplit

import pytest

from agentgym_suite.webshop.actions import parse_action
from agentgym_suite.webshop.html import HtmlPages, Receipt
from agentgym_suite.webshop.pages import page_segments
from agentgym_suite.webshop.segments import Heads
from agentgym_suite.webshop.session import ShopSession
from agentgym_suite.webshop.urls import EncodedUrls
from tests.webshop.catalogues import ESCAPED, SHIRT, odd_catalogue
from tests.webshop.parsed_pages import ParsedPage

HTML = HtmlPages()
ITEMS = ("b000000001", "b000000002", "b000000003", "b000000004")
PATHS = [
    (),
    ("search[shirt]",),
    ("search[shirt]", "click[next >]"),
    ("search[shirt]", "click[next >]", "click[next >]"),
    ("search[nothing here]",),
    *(("search[all]", f"click[{asin}]") for asin in ITEMS),
    *(("search[all]", f"click[{asin}]", "click[buy now]") for asin in ITEMS),
    *(
        ("search[all]", f"click[{asin}]", f"click[{page}]")
        for asin in ITEMS
        for page in ("description", "features", "reviews", "attributes")
    ),
    ("search[all]", "click[b000000001]", 'click[bl"ack]', "click[small]"),
    ("search[all]", "click[b000000003]", "click[<s>]", "click[it's]"),
    ("search[all]", "click[b000000003]", "click[<s>]", "click[buy now]"),
]


def visit(actions: tuple[str, ...], *, strict: bool = True, goal: int = 0) -> ShopSession:
    catalogue = odd_catalogue()
    everything = tuple(asin.upper() for asin in ITEMS)
    catalogue.answers = lambda words: everything if words == ("all",) else None
    session = ShopSession(catalogue, catalogue.goals[goal], strict=strict, show_attrs=True)
    for action in actions:
        assert session.play(parse_action(action, strict=strict)) == "", action
    return session


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("actions", PATHS, ids=" ".join)
def test_the_page_has_exactly_the_text_nodes(actions: tuple[str, ...], strict: bool) -> None:
    session = visit(actions, strict=strict, goal=2)
    expected = [
        node
        for segment in page_segments(session, Heads(session.goal.instruction))
        for node in segment.nodes
    ]
    page = ParsedPage(HTML.render(session))
    assert page.texts == [node.text for node in expected]
    parents = {"button": "button", "option": "label", "link": "a"}
    for node, (_, element) in zip(expected, page.nodes, strict=True):
        if node.kind == "link":
            assert element.classes == ["product-link"]
        if node.kind in parents:
            assert element.name == parents[node.kind]
        else:
            assert element.name not in parents.values()


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("actions", PATHS, ids=" ".join)
def test_what_can_be_clicked_can_be_read_from_the_page(
    actions: tuple[str, ...], strict: bool
) -> None:
    session = visit(actions, strict=strict)
    page = ParsedPage(HTML.render(session))
    texts = [
        "".join(e.texts).lower() for e in (*page.by_class("btn"), *page.by_class("product-link"))
    ]
    radios = [e for e in page.elements if e.attributes.get("type") == "radio"]
    texts += [radio.attributes["value"] for radio in radios]
    has_bar = any(e.attributes.get("id") == "search_input" for e in page.elements)
    assert has_bar is session.controls.has_search_bar
    if strict:
        assert tuple(dict.fromkeys(texts)) == session.controls.clickables


def test_the_search_page() -> None:
    page = ParsedPage(HTML.render(visit(())))
    field = page.by_id("search_input")
    assert field.attributes["name"] == "search_query"
    form = next(e for e in field.ancestors if e.name == "form")
    assert form.attributes["method"] == "post"
    assert urlsplit(form.attributes["action"]).path == "/0"
    heading = next(e for e in page.by_name("h4") if e.parent is page.by_id("instruction-text"))
    assert heading.texts[1].startswith("i want red shirt")


def test_the_results_page() -> None:
    page = ParsedPage(HTML.render(visit(("search[red 1/4]",))))
    (link,) = page.by_class("product-link")
    assert link.texts == ["B000000001"]
    path = urlsplit(link.attributes["href"]).path
    assert [unquote(part) for part in path.split("/")] == [
        *("", "item_page", "0", "B000000001", '["red","1/4"]', "1", "{}")
    ]
    assert [e.texts for e in page.by_class("product-title")] == [["Red Shirt"]]
    assert [e.texts for e in page.by_class("product-price")] == [["$10.0 to $20.0"]]
    assert link.parent in page.by_class("product-asin")
    assert page.by_name("img")[0].attributes["src"] == SHIRT.images[0]


def test_options_work_without_scripts() -> None:
    page = ParsedPage(HTML.render(visit(("search[red]", "click[b000000001]", "click[blue]"))))
    radios = [e for e in page.elements if e.attributes.get("type") == "radio"]
    assert [(e.attributes["name"], e.attributes["value"]) for e in radios] == [
        *(("color", "blue"), ("color", "red"), ("color", 'bl"ack'), ("color", "caf\u00e9")),
        *(("size", "small"), ("size", "large")),
    ]
    assert [e.attributes["value"] for e in radios if "checked" in e.attributes] == ["blue"]
    for radio in radios:
        after = page.elements[page.elements.index(radio) + 1]
        assert after.name == "label" and after.attributes["for"] == radio.attributes["id"]
        (form,) = [e for e in radio.ancestors if e.name == "form"]
        assert form.attributes["method"] == "post"
        chosen = json.loads(unquote(radio.attributes["data-url"].rsplit("/", 1)[1]))
        expected = {"color": "blue"} | {radio.attributes["name"]: radio.attributes["value"]}
        assert chosen == expected
    submits = [e for e in page.by_name("input") if e.attributes.get("type") == "submit"]
    assert len(submits) == 1 and submits[0].classes == ["choose"]
    assert page.by_id("product-image").attributes["src"] == "https://images.example/blue.jpg"
    assert not page.by_name("script")


def test_only_the_purchase_and_inputs_are_posted() -> None:
    page = ParsedPage(HTML.render(visit(("search[red]", "click[b000000001]"))))
    forms = {
        "".join(e.texts): next(a for a in e.ancestors if a.name == "form").attributes
        for e in page.by_class("btn")
    }
    assert forms["Buy Now"]["method"] == "post" and "/done/" in forms["Buy Now"]["action"]
    assert {name for name, form in forms.items() if form["method"] == "get"} == {
        *("Back to Search", "< Prev", "Description", "Features", "Reviews", "Attributes")
    }


def test_every_text_of_a_product_is_escaped() -> None:
    for actions in PATHS:
        page = ParsedPage(HTML.render(visit(actions, goal=2)))
        assert not {e.name for e in page.elements} & {"script", "b", "i", "u", "s", "em"}
    page = ParsedPage(HTML.render(visit(("search[all]", "click[b000000003]"))))
    assert [e.texts for e in page.by_class("product-title")] == [[ESCAPED.name]]
    assert page.by_name("legend")[0].texts == ['<u>"grp"']


def test_the_done_page_has_the_hooks_and_tells_nothing_of_the_goal() -> None:
    session = visit(("search[red]", "click[b000000001]", "click[red]", "click[buy now]"))
    page = ParsedPage(HTML.render(session))

    def inside(name: str) -> list[str]:
        return [
            t for t, e in page.nodes if page.by_id(name) in (e, *e.ancestors) and e.name == "pre"
        ]

    assert session.state.reward is not None
    assert inside("reward") == [repr(session.state.reward.total)]
    assert inside("asin") == ["B000000001"] and inside("options") == ['{"color": "red"}']
    assert inside("reward_info") == ["None"] and inside("goal") == ["None"]
    for name in (
        "asin",
        "options",
        "attrs",
        "price",
        "instruction-text",
        "category",
        "pc",
        "query",
    ):
        assert inside(f"goal-{name}") == []


def test_a_receipt_tells_what_the_shop_allows() -> None:
    session = visit(("search[red]", "click[b000000001]", "click[buy now]"))
    assert session.state.reward is not None
    receipt = Receipt("ABC123", session.product, session.goal, session.state.reward.details())
    page = ParsedPage(HTML.render(session, receipt=receipt))
    assert "ABC123" in page.texts and "machine wash" in page.texts
    assert "hidden" not in page.by_id("comparison").attributes
    assert "hidden" not in page.by_id("reward_info").attributes
    assert any('"r_price": true' in text for text in page.texts)


def test_another_scheme_serves_the_same_pages() -> None:
    html = HtmlPages(EncodedUrls(base="/shop", stylesheet="/static/shop.css"))
    page = ParsedPage(html.render(visit(("search[red]",)), notice="Welcome <back>"))
    (sheet,) = [e for e in page.by_name("link") if e.attributes["rel"] == "stylesheet"]
    assert sheet.attributes["href"] == "/static/shop.css"
    assert page.texts[0] == "Welcome <back>"
    links = [e.attributes.get("href", "") for e in page.by_name("a")]
    assert all(link.startswith("/shop/item_page/") for link in links)
