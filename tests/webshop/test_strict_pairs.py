"""Each quirk of the original, kept under ``strict=True`` and mended under ``strict=False``.

The numbers are those of the table in the environment's documentation.
"""

from __future__ import annotations

import json
from dataclasses import replace
from urllib.parse import unquote

import pytest

from agentgym_suite.webshop.env import WebShopEnv
from agentgym_suite.webshop.observations import ObservationMode
from tests.webshop.catalogues import PUZZLE, SHIRT, MemoryCatalogue, goal, odd_catalogue

SHIRT_PAGE = ("search[red shirt]", "click[b000000001]")
PUZZLE_PAGE = ("search[puzzle]", "click[b000000002]")


class Visit:
    """An environment after some valid actions."""

    def __init__(
        self,
        strict: bool,
        *actions: str,
        mode: ObservationMode = "text",
        catalogue: MemoryCatalogue | None = None,
    ) -> None:
        self.env = WebShopEnv(
            catalogue=catalogue or odd_catalogue(),  # type: ignore[arg-type]
            strict=strict,
            observation_mode=mode,
        )
        self.observation, self.info = self.env.reset(options={"task_id": 0})
        for action in actions:
            self.step(action)
            assert self.info["action_valid"], self.info["action_error"]

    def step(self, action: str) -> Visit:
        self.observation, self.reward, self.done, _, self.info = self.env.step(action)
        return self

    @property
    def options(self) -> dict[str, str]:
        value: dict[str, str] = json.loads(self.info["options"])
        return value


def test_01_strict_hides_chosen_options() -> None:
    visit = Visit(True, *SHIRT_PAGE)
    before = visit.observation
    assert visit.step("click[blue]").observation == before


def test_01_mended_shows_chosen_options_before_the_title() -> None:
    visit = Visit(False, *SHIRT_PAGE, "click[blue]", "click[small]")
    assert " [SEP] Selected: color: blue, size: small [SEP] Red Shirt [SEP] " in visit.observation


def test_02_strict_sets_the_last_group_of_an_ambiguous_value() -> None:
    visit = Visit(True, *PUZZLE_PAGE, "click[red]")
    assert visit.options == {"trim": "red"}
    assert not visit.step("click[color: red]").info["action_valid"]


def test_02_mended_names_the_group_or_takes_the_first_unset() -> None:
    visit = Visit(False, *PUZZLE_PAGE)
    assert {"color: red", "trim: red"} <= set(visit.info["clickables"])
    assert "click[color: red]" in visit.info["admissible_actions"]
    assert visit.step("click[trim: red]").options == {"trim": "red"}
    assert visit.step("click[red]").options == {"trim": "red", "color": "red"}
    assert Visit(False, *PUZZLE_PAGE, "click[red]", "click[red]").options == {
        "color": "red",
        "trim": "red",
    }


def test_03_strict_lets_an_option_shadow_a_button() -> None:
    visit = Visit(True, *PUZZLE_PAGE, "click[buy now]")
    assert not visit.done and visit.options == {"trim": "buy now"}
    assert visit.step("click[description]").info["page"] == "item"


def test_03_mended_lets_the_button_win() -> None:
    visit = Visit(False, *PUZZLE_PAGE, "click[trim: buy now]")
    assert visit.options == {"trim": "buy now"}
    assert visit.step("click[description]").info["page"] == "sub page"
    assert visit.step("click[< prev]").step("click[buy now]").done


def test_04_strict_turns_pages_without_end() -> None:
    visit = Visit(True, "search[puzzle]", "click[next >]", "click[next >]")
    assert "Page 3 (Total results: 1) [SEP] < Prev [SEP] Next >" in visit.observation


def test_04_mended_ends_at_the_last_page() -> None:
    visit = Visit(False, "search[shirt]", "click[next >]", "click[next >]")
    assert "next >" not in visit.info["clickables"] and "Next >" not in visit.observation
    assert not visit.step("click[next >]").info["action_valid"]


def test_05_strict_finds_the_page_kind_in_the_address() -> None:
    visit = Visit(True, "search[search_results red]", "click[b000000001]", "click[< prev]")
    assert visit.observation.endswith("Page 0 (Total results: 1) [SEP] Next >")
    assert visit.info["clickables"] == ("back to search", "next >")
    assert "Page 1 (" in visit.step("click[next >]").observation
    item = Visit(True, "search[item_page red]", "click[b000000001]", "click[features]")
    assert item.step("click[< prev]").info["page"] == "results"


def test_05_mended_knows_the_page() -> None:
    visit = Visit(False, "search[search_results red]", "click[b000000001]", "click[< prev]")
    assert "Page 1 (Total results: 1)" in visit.observation
    item = Visit(False, "search[item_page red]", "click[b000000001]", "click[features]")
    assert item.step("click[< prev]").info["page"] == "item"


def test_06_strict_breaks_on_brackets() -> None:
    visit = Visit(True)
    assert not visit.step("search[foo [bar] baz]").info["action_valid"]
    puzzle = Visit(True, *PUZZLE_PAGE)
    assert "a [b] c" in puzzle.info["clickables"]
    assert not puzzle.step("click[a [b] c]").info["action_valid"]


def test_06_mended_takes_brackets() -> None:
    visit = Visit(False, "search[red [bar] baz]")
    assert visit.info["keywords"] == ("red", "[bar]", "baz")
    assert Visit(False, *PUZZLE_PAGE, "click[a [b] c]").options == {"trim": "a [b] c"}


@pytest.mark.parametrize("action", [" search[red]", "Search[red]", "CLICK[search]"])
def test_07_strict_wants_the_name_exact(action: str) -> None:
    visit = Visit(True)
    before = visit.observation
    assert visit.step(action).observation == before and not visit.info["action_valid"]


@pytest.mark.parametrize("action", [" search[red] \n", "Search[red]", "SEARCH [RED]"])
def test_07_mended_ignores_case_and_outer_blanks(action: str) -> None:
    visit = Visit(False, action)
    assert visit.info["keywords"] == ("red",) and visit.info["parsed_action"] == "search[red]"


def test_08_strict_lists_a_search_button_that_does_nothing() -> None:
    visit = Visit(True)
    assert visit.info["clickables"] == ("search",)
    assert visit.info["admissible_actions"] == ("search[<query>]",)
    assert "does nothing" in visit.step("click[search]").info["action_error"]


def test_08_mended_does_not_list_it() -> None:
    visit = Visit(False)
    assert visit.info["clickables"] == ()
    assert visit.info["admissible_actions"] == ("search[<query>]",)


@pytest.mark.parametrize("value", ['bl"ack', "caf\u00e9"])
def test_09_strict_never_shows_escaped_values_as_clicked(value: str) -> None:
    visit = Visit(True, *SHIRT_PAGE, f"click[{value}]", mode="text_rich")
    assert visit.options == {"color": value} and "clicked" not in visit.observation


@pytest.mark.parametrize("value", ['bl"ack', "caf\u00e9"])
def test_09_mended_shows_them(value: str) -> None:
    visit = Visit(False, *SHIRT_PAGE, f"click[{value}]", mode="text_rich")
    assert visit.observation.startswith(f"You have clicked {value}.\n")


def test_10_strict_is_faked_by_quoted_words() -> None:
    fake = ('search["blue" red]', "click[b000000001]")
    assert Visit(True, *fake, mode="text_rich").observation.startswith("You have clicked blue.\n")
    group = Visit(True, *PUZZLE_PAGE, "click[8 | 10]", mode="text_rich")
    assert "You have clicked size.\n" in group.observation  # the group's name is in the address


def test_10_mended_lets_the_state_decide() -> None:
    fake = ('search["blue" red]', "click[b000000001]")
    assert "clicked" not in Visit(False, *fake, mode="text_rich").observation
    group = Visit(False, *PUZZLE_PAGE, "click[8 | 10]", mode="text_rich")
    assert group.observation.startswith("You have clicked 8 | 10.\nInstruction")


@pytest.mark.parametrize("mode", ["text", "text_rich", "html", "url"])
def test_11_strict_answers_an_invalid_action_silently(mode: ObservationMode) -> None:
    visit = Visit(True, *SHIRT_PAGE, mode=mode)
    before = visit.observation
    assert visit.step("buy it").observation == before
    assert visit.info["action_error"].startswith("'buy it' is not an action here")


@pytest.mark.parametrize("mode", ["text", "text_rich", "url"])
def test_11_mended_says_why_and_what_is_legal(mode: ObservationMode) -> None:
    visit = Visit(False, *SHIRT_PAGE, mode=mode)
    before = visit.observation
    told = visit.step("click[green]").observation
    assert told.startswith(f"Invalid action: {visit.info['action_error']}. Legal actions: click[")
    assert "click[caf\u00e9]" in told and told.endswith(before)


def test_11_mended_html_says_it_in_a_notice() -> None:
    visit = Visit(False, *SHIRT_PAGE, mode="html").step("click[green]")
    assert '<p id="notice" role="alert">Invalid action: there is no' in visit.observation


def test_12_strict_searches_for_a_blank() -> None:
    assert "Page 1 (Total results: 0)" in Visit(True, "search[ ]").observation


def test_12_mended_refuses_a_blank_search() -> None:
    visit = Visit(False).step("search[ ]")
    assert not visit.info["action_valid"] and visit.info["page"] == "index"


def test_13_strict_keeps_empty_bullets() -> None:
    visit = Visit(True, *SHIRT_PAGE, "click[features]")
    assert visit.observation.endswith("< Prev [SEP] soft [SEP]  [SEP] machine washable")


def test_13_mended_drops_them() -> None:
    for mode in ("text", "html"):
        visit = Visit(False, *SHIRT_PAGE, "click[features]", mode=mode)
        if mode == "text":
            assert visit.observation.endswith("< Prev [SEP] soft [SEP] machine washable")
        else:
            assert visit.observation.count('class="product-info"') == 2


def test_14_strict_encodes_nothing() -> None:
    visit = Visit(True, "search[1/4 red]", "click[b000000001]", "click[blue]", mode="url")
    assert visit.observation.endswith('/0/B000000001/1/4+red/1/{"color": "blue"}')
    assert visit.step("click[features]").observation.endswith("/Features/{'color': 'blue'}")


def test_14_mended_encodes_json() -> None:
    visit = Visit(False, "search[1/4 red]", "click[b000000001]", "click[blue]", mode="url")
    parts = visit.observation.removeprefix("http://127.0.0.1:3000/").split("/")
    assert [unquote(part) for part in parts] == [
        *("item_page", "0", "B000000001", '["1/4","red"]', "1", '{"color":"blue"}')
    ]
    visit.step("click[features]").step("click[< prev]").step("click[buy now]")
    assert unquote(visit.observation).endswith('/done/0/B000000001/{"color":"blue"}')


@pytest.mark.parametrize("strict", [True, False])
def test_15_searching_works_on_every_page_in_both(strict: bool) -> None:
    visit = Visit(strict, *SHIRT_PAGE, "click[features]", "search[puzzle]")
    assert visit.info["page"] == "results" and visit.info["total_results"] == 1


@pytest.mark.parametrize("strict", [True, False])
def test_16_fuzzy_options_define_the_score_in_both_and_the_exact_share_is_beside(
    strict: bool,
) -> None:
    sizes = replace(SHIRT, options=(("size", ("large", "x-large")),))
    catalogue = MemoryCatalogue((sizes, PUZZLE), (goal(0, sizes, options=("x-large",)),))
    visit = Visit(strict, *SHIRT_PAGE, "click[large]", "click[buy now]", catalogue=catalogue)
    parts = json.loads(visit.info["reward_parts"])
    assert visit.reward == 1.0
    assert (parts["r_option"], parts["r_option_exact"]) == (1.0, 0.0)
