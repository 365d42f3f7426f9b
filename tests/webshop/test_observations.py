"""The text of pages: segments, nodes and the marks of ``text_rich``."""

from __future__ import annotations

import pytest

from agentgym_suite.errors import UsageError
from agentgym_suite.webshop.actions import parse_action
from agentgym_suite.webshop.observations import ObservationMode, Observer, check_mode
from agentgym_suite.webshop.segments import Node, Segment, options_json, visible_text
from agentgym_suite.webshop.session import ShopSession
from tests.webshop.catalogues import odd_catalogue

ASK = "i want red shirt, and price lower than 40.00 dollars"


def see(mode: ObservationMode, *actions: str, goal: int = 0, show_attrs: bool = False) -> str:
    catalogue = odd_catalogue()
    session = ShopSession(catalogue, catalogue.goals[goal], show_attrs=show_attrs)
    for action in actions:
        assert session.play(parse_action(action)) == ""
    return Observer(session, mode).observe()


def test_text_of_every_page() -> None:
    head = f"Instruction: [SEP] {ASK} [SEP] Back to Search"
    item = ("search[red shirt]", "click[b000000001]")
    assert see("text") == f"WebShop [SEP] Instruction: [SEP] {ASK} [SEP] Search"
    assert see("text", "search[puzzle]") == (
        f"{head} [SEP] Page 1 (Total results: 1) [SEP] Next >"
        " [SEP] B000000002 [SEP] Puzzle Shirt [SEP] $19.99"
    )
    assert see("text", "search[nothing]").endswith("Page 1 (Total results: 0) [SEP] Next >")
    assert see("text", *item) == (
        f'{head} [SEP] < Prev [SEP] color [SEP] blue [SEP] red [SEP] bl"ack [SEP] caf\u00e9'
        " [SEP] size [SEP] small [SEP] large [SEP] Red Shirt [SEP] Price: $10.0 to $20.0"
        " [SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now"
    )
    assert see("text", *item, "click[description]") == f"{head} [SEP] < Prev [SEP] About Red Shirt."
    assert see("text", *item, "click[features]") == (
        f"{head} [SEP] < Prev [SEP] soft [SEP]  [SEP] machine washable"
    )
    assert see("text", *item, "click[reviews]") == f"{head} [SEP] < Prev"
    assert see("text", *item, "click[attributes]", show_attrs=True) == (
        f"{head} [SEP] < Prev [SEP] machine wash [SEP] fashion [SEP] shirts"
        " [SEP] Clothing \u203a Men \u203a Shirts"
    )
    done = see("text", *item, "click[small]", "click[red]", "click[buy now]")
    assert 'asin [SEP] B000000001 [SEP] options [SEP] {"color": "red", "size": "small"}' in done
    assert done.endswith("max 1.0) [SEP] 1.0 [SEP] Reward Details [SEP] None")


def test_rich_marks() -> None:
    results = see("text_rich", "search[shirt]", "click[b000000001]", "click[< prev]")
    assert "\n\n[clicked button] B000000001 [clicked button_]\nRed Shirt\n" in results
    assert "\n\n[button] B000000002 [button_]\nPuzzle Shirt\n$19.99\n" in results
    chosen = see("text_rich", "search[red]", "click[b000000001]", "click[blue]", "click[large]")
    assert chosen.startswith("You have clicked large.\nYou have clicked blue.\nInstruction:\n")
    assert "\n  [clicked button] blue [clicked button_]\n  [button] red [button_]\n" in chosen
    features = see("text_rich", "search[red]", "click[b000000001]", "click[features]")
    assert features.endswith("[button] < Prev [button_]\n soft\n \n machine washable\n")


def test_the_same_value_twice_in_a_group_is_marked_twice() -> None:
    page = see("text_rich", "search[puzzle]", "click[b000000002]", "click[size]")
    assert page.startswith("You have clicked size.\nInstruction:")
    page = see("text_rich", "search[puzzle]", "click[b000000002]", "click[red]")
    assert page.count("[clicked button] red [clicked button_]") == 3
    assert page.startswith("You have clicked red.\n" * 3)


@pytest.mark.parametrize(
    ("text", "node"),
    [("", ""), (" ", " "), ("\t\t ", " "), (" \n ", ""), ("\n", ""), (" x\n", " x\n")]
    + [("\u00a0", "\u00a0"), ("\u3000\n", "\u3000\n")],
)
def test_white_space_alone(text: str, node: str) -> None:
    assert visible_text(text) == node


def test_an_empty_segment_has_no_nodes_and_a_blank_one_has_an_empty_text() -> None:
    assert not Segment([Node("text", "")])
    blank = Segment([Node("text", " ")])
    assert blank and blank.text == "" and blank.rich == " \n"
    assert not Segment([Node("text", " ")], keep_blank=False)


def test_a_product_without_title_or_texts() -> None:
    catalogue = odd_catalogue()
    catalogue.answers = lambda keywords: ("B000000004",)
    session = ShopSession(catalogue, catalogue.goals[0])
    observer = Observer(session, "text")
    session.play(parse_action("search[x]"))
    assert observer.observe().endswith("Next > [SEP] B000000004 [SEP] $19.99")
    session.play(parse_action("click[b000000004]"))
    assert " [SEP] < Prev [SEP] Price: $19.99 [SEP] " in observer.observe()
    session.play(parse_action("click[description]"))
    assert observer.observe().endswith("[SEP] < Prev")


def test_options_are_printed_sorted_and_safe_inside_markup() -> None:
    options = {"b": "<it's & \u00e9>", "a": "x"}
    assert options_json(options) == (r'{"a": "x", "b": "\u003cit\u0027s \u0026 \u00e9\u003e"}')


def test_an_unknown_mode_is_named() -> None:
    with pytest.raises(UsageError, match="observation_mode is 'image'; use one of text"):
        check_mode("image")
