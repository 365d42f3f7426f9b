"""The state machine of a visit."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.webshop.actions import parse_action
from agentgym_suite.webshop.session import ShopSession, json_object
from tests.webshop.catalogues import PUZZLE, SHIRT, MemoryCatalogue, odd_catalogue


@pytest.fixture
def catalogue() -> MemoryCatalogue:
    return odd_catalogue()


def visit(catalogue: MemoryCatalogue, *actions: str, strict: bool = True) -> ShopSession:
    session = ShopSession(catalogue, catalogue.goals[0], strict=strict)
    for action in actions:
        assert session.play(parse_action(action, strict=strict)) == ""
    return session


def test_a_whole_visit(catalogue: MemoryCatalogue) -> None:
    session = visit(catalogue, "search[red shirt]", "click[b000000001]", "click[red]")
    assert session.state.options == {"color": "red"}
    for action in ("click[description]", "click[< prev]", "click[small]", "click[buy now]"):
        assert session.play(parse_action(action)) == ""
    assert session.state.page == "done" and session.state.reward is not None
    assert session.state.reward.total == 1.0
    assert session.controls.clickables == () and not session.controls.has_search_bar
    assert session.play(parse_action("search[x]")) != ""


def test_choosing_again_sets_again(catalogue: MemoryCatalogue) -> None:
    session = visit(catalogue, "search[red]", "click[b000000001]", "click[red]", "click[blue]")
    assert session.state.options == {"color": "blue"}


def test_the_results_page_clears_product_and_options_but_not_what_was_visited(
    catalogue: MemoryCatalogue,
) -> None:
    session = visit(catalogue, "search[red]", "click[b000000001]", "click[red]", "click[< prev]")
    assert session.state.page == "results" and session.state.page_number == 1
    assert session.state.asin == "" and session.state.options == {}
    assert session.state.visited == {SHIRT.asin}
    session.play(parse_action("click[back to search]"))
    assert session.state == session.state._replace(page="index", keywords=None, page_number=0)
    assert session.state.visited == frozenset() and session.state.results == ()


def test_pages_turn_and_the_search_is_not_repeated(catalogue: MemoryCatalogue) -> None:
    session = visit(catalogue, "search[shirt]", "click[next >]", "click[next >]")
    assert session.state.page_number == 3 and len(session.shown_results) == 6
    assert "< prev" in session.controls.elements
    session.play(parse_action(f"click[{session.shown_results[0].lower()}]"))
    session.play(parse_action("click[< prev]"))
    assert session.state.page_number == 3
    session.play(parse_action("click[< prev]"))
    assert session.state.page_number == 2
    assert catalogue.searches == [("shirt",)]


def test_searching_works_on_every_page(catalogue: MemoryCatalogue) -> None:
    session = visit(catalogue, "search[red]", "click[b000000001]", "search[plain]")
    assert session.state.page == "results" and session.state.keywords == ("plain",)
    assert session.state.tally.searches == 2


def test_keywords_split_at_single_blanks(catalogue: MemoryCatalogue) -> None:
    session = visit(catalogue, "search[blue  shoes]")
    assert session.state.keywords == ("blue", "", "shoes")
    assert session.url.endswith("/search_results/0/blue++shoes/1")


def test_a_refused_call_changes_nothing(catalogue: MemoryCatalogue) -> None:
    session = visit(catalogue, "search[red]")
    before = session.snapshot()
    for action in ("click[buy now]", "click[search]", "look around", "", "click[B000000009]"):
        assert session.play(parse_action(action)) != ""
        assert session.snapshot() is before


def test_clickables_keep_the_first_place_and_the_last_meaning(catalogue: MemoryCatalogue) -> None:
    session = visit(catalogue, "search[puzzle]", "click[b000000002]")
    assert session.controls.clickables == (
        *("back to search", "< prev", "description", "features", "reviews", "buy now"),
        *("red", "green", "search", "a [b] c", "size", "8 | 10"),
    )
    assert session.controls.admissible == (
        *("click[back to search]", "click[< prev]", "click[description]", "click[features]"),
        *("click[reviews]", "click[buy now]", "click[red]", "click[green]", "click[size]"),
        "click[8 | 10]",
    )


@pytest.mark.parametrize("strict", [True, False])
def test_whatever_is_admissible_is_accepted(catalogue: MemoryCatalogue, strict: bool) -> None:
    session = ShopSession(catalogue, catalogue.goals[1], strict=strict, show_attrs=True)
    seen = {session.canonical_state()}
    frontier = [session.snapshot()]
    while frontier and len(seen) < 400:
        point = frontier.pop()
        session.restore(point)
        for action in session.controls.admissible:
            action = action.replace("<query>", "puzzle shirt")
            assert session.play(parse_action(action, strict=strict)) == "", action
            if session.canonical_state() not in seen:
                seen.add(session.canonical_state())
                frontier.append(session.snapshot())
            session.restore(point)
    assert len(seen) > 50


def test_snapshots_are_small_and_come_back(catalogue: MemoryCatalogue) -> None:
    session = visit(catalogue, "search[red]", "click[b000000001]", "click[red]")
    point, state = session.snapshot(), session.canonical_state()
    session.play(parse_action("click[buy now]"))
    session.restore(point)
    assert session.canonical_state() == state and "red" in session.controls.elements
    assert pickle.loads(pickle.dumps(point)) == point
    session.play(parse_action("click[blue]"))
    assert point.options == {"color": "red"}


def test_the_state_is_canonical_json_and_tells_states_apart(catalogue: MemoryCatalogue) -> None:
    session = visit(catalogue, "search[puzzle]", "click[b000000002]")
    texts = []
    for action in ("click[red]", "click[green]", "click[size]", "click[features]"):
        session.play(parse_action(action))
        texts.append(session.canonical_state())
    assert len(set(texts)) == 4
    for text in texts:
        value = json.loads(text)
        assert json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False) == text


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=5)))
def test_json_objects_are_json(texts: dict[str, str]) -> None:
    assert json.loads(json_object(texts)) == texts


def test_addresses_of_every_page(catalogue: MemoryCatalogue) -> None:
    session = ShopSession(catalogue, catalogue.goals[0], session_id="fixed_7")
    addresses = [session.url]
    for action in (
        *("search[red shirt]", "click[b000000001]", "click[blue]", "click[features]"),
        *("click[< prev]", "click[buy now]"),
    ):
        session.play(parse_action(action))
        addresses.append(session.url.removeprefix("http://127.0.0.1:3000"))
    assert addresses == [
        "http://127.0.0.1:3000/fixed_7",
        "/search_results/fixed_7/red+shirt/1",
        "/item_page/fixed_7/B000000001/red+shirt/1/{}",
        '/item_page/fixed_7/B000000001/red+shirt/1/{"color": "blue"}',
        "/item_sub_page/fixed_7/B000000001/red+shirt/1/Features/{'color': 'blue'}",
        '/item_page/fixed_7/B000000001/red+shirt/1/{"color": "blue"}',
        "/done/fixed_7/B000000001/{'color': 'blue'}",
    ]


def test_an_attributes_page_only_where_asked_for(catalogue: MemoryCatalogue) -> None:
    session = visit(catalogue, "search[puzzle]", "click[b000000002]")
    assert session.play(parse_action("click[attributes]")) != ""
    session = ShopSession(catalogue, catalogue.goals[0], show_attrs=True)
    for action in ("search[puzzle]", "click[b000000002]", "click[attributes]"):
        assert session.play(parse_action(action)) == ""
    assert session.state.sub_page == "Attributes" and session.product is PUZZLE
