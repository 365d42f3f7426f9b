"""The report in a real browser: by keyboard alone, with hostile texts, on a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentgym_suite import evaluation
from agentgym_suite.episodes import Reply, Turn
from agentgym_suite.evaluation.open_suites import ad_hoc_suite
from agentgym_suite.evaluation.report import write_report
from agentgym_suite.evaluation.scored_runs import find_runs, load_runs
from agentgym_suite.evaluation.settings import AgentSpec
from tests.evaluation.browser import Seen

pytestmark = pytest.mark.usefixtures("counting_env")
ENV = "Counting-v0"
EVIL = "</script><script>document.title='pwned'</script>"
REVERSED = "\u202egnp.exe\u202c <!-- <b>bold</b> &lt; \u2028 ]]> ${1} `x`"


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """Two agents over thirty hostile tasks each."""
    suite = ad_hoc_suite(ENV, kwargs={"hostile": True})
    for name in ("random", "oracle"):
        evaluation.run(suite, name, out=tmp_path / name)
    return write_report(tmp_path, load_runs(find_runs(tmp_path)))


def test_the_viewer_works_by_keyboard_alone(report: Path, seen: Seen) -> None:
    seen.page.goto(report.as_uri())
    assert seen.page.title().startswith(ENV) and "60 of 60 episodes" in seen.text("#count")
    while seen.page.evaluate("document.activeElement.textContent") != "Episodes":
        seen.press("Tab")
    seen.press("Enter", "ArrowDown", "ArrowRight")
    assert (seen.text("#task"), seen.text("#place")) == ("count-1", "step 2 of 3")
    assert seen.page.evaluate("decodeURIComponent(location.hash)") == f"#oracle/{ENV}/count-1/0/2"
    assert "count 1 of 2" + EVIL in seen.text("#step pre")
    seen.press("End")
    assert seen.text("#place") == "end of 3 steps" and "done" in seen.text("#step")
    seen.press("Home", "ArrowLeft")
    assert seen.text("#place") == "step 1 of 3"
    seen.press("ArrowUp")
    assert seen.text("#task") == "count-0"
    seen.press("/")
    seen.page.keyboard.type("count-7")
    assert seen.text("#task") == "count-7" and "2 of 60 episodes" in seen.text("#count")
    seen.press("Tab", "r", "Escape")  # the select of agents, its entry by the first letter
    assert "1 of 60 episodes" in seen.text("#count")
    assert "random" in seen.text("#facts")
    assert seen.problems == [] and len(seen.requests) == 1


def test_keys_scroll_the_page_where_no_episode_is_in_view(report: Path, seen: Seen) -> None:
    seen.page.goto(report.as_uri())
    seen.wait_until("scrollY > 0", "ArrowDown", "ArrowRight", "End")
    assert seen.text("#task") == "count-0" and seen.page.evaluate("location.hash") == ""


def test_a_link_opens_its_step(report: Path, seen: Seen) -> None:
    seen.page.goto(f"{report.as_uri()}#oracle/{ENV}/count-9/0")
    assert (seen.text("#task"), seen.text("#place")) == ("count-9", "step 1 of 6")
    seen.page.goto(f"{report.as_uri()}#random/{ENV}/count-3/0/2")
    assert seen.text("#place").startswith("step 2 of")
    assert "random" in seen.text("#facts")
    for stray in (f"#random/{ENV}/count-3/0/x", "#episodes", "#%"):
        seen.page.goto("about:blank")  # another fragment alone would load nothing
        seen.page.goto(report.as_uri() + stray)
        assert seen.page.is_visible("#task")
    assert seen.problems == []


def test_a_link_to_an_episode_that_is_not_there_says_so(report: Path, seen: Seen) -> None:
    seen.page.goto(f"{report.as_uri()}#oracle/{ENV}/count-99/0/7")
    assert "an episode that is not on this page" in seen.text("#nothing")
    assert "agent oracle, environment Counting-v0, task count-99" in seen.text("#nothing")
    assert not seen.page.is_visible("#task")
    seen.page.locator("#list").focus()
    seen.press("ArrowDown")
    assert seen.text("#task") == "count-0" and not seen.page.is_visible("#nothing")
    assert seen.problems == []


def test_the_filter_finds_what_the_list_shows(report: Path, seen: Seen) -> None:
    seen.page.goto(report.as_uri())
    solved = seen.page.locator("#list li", has_text="success").count()
    assert 0 < solved < 60
    seen.page.fill("#filter", "Success ")
    assert f"{solved} of 60 episodes" in seen.text("#count")
    seen.press("Enter")
    assert seen.page.evaluate("document.activeElement.id") == "list"
    first = seen.text("#task")
    seen.press("ArrowDown")
    assert seen.text("#task") != first


def test_keys_do_not_scroll_the_page_away_where_nothing_matches(report: Path, seen: Seen) -> None:
    seen.page.goto(report.as_uri())
    seen.page.fill("#filter", "no such task")
    assert not seen.page.is_visible("#list") and seen.page.is_visible("#nothing")
    seen.page.evaluate("document.getElementById('browser').scrollIntoView()")
    before = seen.page.evaluate("scrollY")
    seen.press("Enter")
    assert seen.page.evaluate("document.activeElement.id") == "filter"
    seen.press("Escape", "End", "ArrowDown")
    seen.page.wait_for_timeout(200)
    assert seen.page.evaluate("scrollY") == before


def test_tables_that_fit_are_no_stop_of_the_tab_key(report: Path, seen: Seen) -> None:
    seen.page.goto(report.as_uri())
    fits = "[...document.querySelectorAll('.scroll')].every(e => e.scrollWidth <= e.clientWidth)"
    assert seen.page.evaluate(fits)
    seen.wait_until("!document.querySelector('.scroll[tabindex]')")


def test_on_paper_the_episodes_are_said_to_be_left_out(report: Path, seen: Seen) -> None:
    seen.page.goto(report.as_uri())
    assert not seen.page.is_visible(".paper") and seen.page.is_visible("#browser")
    seen.page.emulate_media(media="print")
    assert seen.page.is_visible(".paper") and not seen.page.is_visible("#browser")


def test_a_filter_gives_way_to_a_link(report: Path, seen: Seen) -> None:
    seen.page.goto(report.as_uri())
    seen.page.fill("#filter", "count-7")
    seen.page.evaluate(f"location.hash = 'oracle/{ENV}/count-9/0'")
    seen.wait_until("document.getElementById('task').textContent === 'count-9'")
    assert "60 of 60" in seen.text("#count")


class Hostile:
    """Replies with texts that would like to be markup, then ends the game."""

    def act(self, turn: Turn) -> Reply:
        return Reply(
            f"{EVIL}<img src=x onerror=alert(1)>{REVERSED}" if turn.step_index == 0 else "stop[]"
        )

    def close(self) -> None:
        """Nothing is held."""


def test_hostile_texts_stay_texts(tmp_path: Path, seen: Seen) -> None:
    name = f"<img src=x onerror=alert(1)>{EVIL}\u202e"
    suite = ad_hoc_suite(ENV, kwargs={"hostile": True})
    evaluation.run(suite, AgentSpec(name, lambda env, seed: Hostile()), out=tmp_path)
    seen.page.goto(write_report(tmp_path, load_runs([tmp_path])).as_uri())
    assert (
        seen.page.evaluate(
            "document.querySelectorAll('img, #episodes b, script:not(#data)').length"
        )
        == 1
    )
    assert EVIL in seen.text("#step pre") and REVERSED in seen.page.text_content("#step .action")
    assert name in seen.page.text_content("tbody th")
    assert seen.page.title().startswith(ENV)
    assert seen.problems == [] and len(seen.requests) == 1


def test_on_a_phone_tables_scroll_inside_themselves(report: Path, chromium: Any) -> None:
    phone = Seen(chromium, 390, 844)
    phone.page.goto(report.as_uri())
    assert phone.page.evaluate("document.documentElement.scrollWidth") == 390
    wide = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth)"
    assert phone.page.evaluate(f"{wide}.length") > 0
    phone.wait_until(f"{wide}.every(e => e.tabIndex === 0)")
    inside = "document.querySelector('#leaderboard td.strong ~ td:nth-of-type(5)')"
    assert phone.page.evaluate(f"{inside}.getBoundingClientRect().right") <= 390  # the interval
    assert not phone.page.is_visible(".bar")
    phone.page.close()
