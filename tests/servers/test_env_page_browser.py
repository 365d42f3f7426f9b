"""Episodes played through the page, in a real headless Chromium."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import gymnasium as gym
import pytest
import uvicorn

from agentgym_suite.env import Transition
from agentgym_suite.registry import TELL_HORIZON
from agentgym_suite.servers.env_app import env_app
from agentgym_suite.servers.env_specs import Served
from agentgym_suite.servers.hosting import EnvHost, Limits
from agentgym_suite.servers.http_server import open_socket
from tests.counting import CountingEnv
from tests.servers.protocol_calls import wait_until

playwright_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
expect = playwright_api.expect
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HOSTILE_ID = "HostileCounting-v0"
HOSTILE = "<script>window.broken = 1</script><img src=x onerror='window.broken = 2'> &amp; <b>é 😀"


class HostileEnv(CountingEnv):
    """Says markup wherever it says anything, and allows hundreds of actions."""

    goal_key = "goal"
    detail_keys = ("target", "total", "goal")

    def _play(self, action: str) -> Transition:
        transition = super()._play(action)
        transition.observation = f"{HOSTILE}\n{transition.observation}"
        return transition

    def _refuse(self, action: str, error: str) -> Transition:
        return super()._refuse(action, HOSTILE)

    def _admissible_actions(self) -> tuple[str, ...]:
        return (f"say[{HOSTILE}]", *(f"add[{n}]" for n in range(300)))

    def _details(self) -> dict[str, Any]:
        return {**super()._details(), "goal": HOSTILE}


class Site(NamedTuple):
    address: str
    host: EnvHost


@contextmanager
def serving(*env_ids: str, token: str | None = None) -> Iterator[Site]:
    host = EnvHost([Served(env_id) for env_id in env_ids], Limits())
    app = env_app(host, token=token)
    with open_socket("127.0.0.1", 0) as listener:
        server = uvicorn.Server(
            uvicorn.Config(app, log_level="warning", ws="none", timeout_graceful_shutdown=1)
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            wait_until(lambda: host.status[0] == "ready")
            yield Site(f"http://127.0.0.1:{listener.getsockname()[1]}/", host)
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    if HOSTILE_ID not in gym.registry:
        gym.register(
            HOSTILE_ID,
            entry_point=HostileEnv,
            max_episode_steps=6,
            additional_wrappers=(TELL_HORIZON,),
        )
    with serving("WebShop-v0", "ALFWorld-v0", HOSTILE_ID) as site:
        yield site


@pytest.fixture(autouse=True)
def no_session_of_an_earlier_page(site: Site) -> None:
    """A browser that is closed may not get to say that it leaves."""
    for place in site.host.table.live():
        site.host.end(place.id)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright_api.sync_playwright() as playwright:
        expect.set_options(timeout=20_000)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    faults: list[str] = []
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.set_default_timeout(20_000)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text))
    yield page
    context.close()
    assert not [fault for fault in faults if "status of" not in fault and "ERR_" not in fault]


def start(page: Any, env_id: str, *, seed: int | None = None, task: str = "") -> None:
    page.select_option("#env", env_id)
    page.fill("#seed", "" if seed is None else str(seed))
    page.fill("#task", task)
    page.press("#task", "Enter")
    expect(page.locator("#task-line")).to_contain_text(env_id)
    expect(page.locator("#history li")).to_have_count(1)


def send(page: Any, action: str) -> None:
    """By the button if there is one, as text otherwise."""
    made = page.locator("#history li").count()
    whole = re.compile(f"^{re.escape(action)}$")
    button = page.locator("#actions button").filter(has_text=whole)
    if button.count():
        button.first.click()
    else:
        page.fill("#action", action)
        page.press("#action", "Enter")
    expect(page.locator("#history li")).to_have_count(made + 1)


def figure(page: Any, name: str) -> str:
    return str(page.locator(f"#figures div:has(dt:text-is('{name}')) dd").inner_text())


@pytest.mark.parametrize("env_id", ["WebShop-v0", "ALFWorld-v0"])
def test_an_episode_is_played_to_its_end(page: Any, site: Site, env_id: str) -> None:
    env = gym.make(env_id)
    game: Any = env.unwrapped
    policy = game.policies["oracle"](game)
    observation, info = env.reset(seed=3)
    page.goto(site.address)
    start(page, env_id, seed=3)
    page.check("#exact")
    over = False
    while not over:
        assert page.locator("#observation").text_content() == observation
        assert page.locator("#actions button").all_text_contents() == list(
            info["admissible_actions"]
        )
        assert figure(page, "steps left") == str(info["steps_left"])
        action = policy(observation, info)
        observation, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
        send(page, action)
    assert info["success"]
    expect(page.locator("#verdict")).to_have_text("ended, success")
    assert figure(page, "score") == "1"
    expect(page.locator("#action")).to_be_disabled()
    assert page.locator("#actions button:enabled").count() == 0
    page.click("#reset")
    expect(page.locator("#history li")).to_have_count(1)
    expect(page.locator("#task-line")).to_contain_text(info["task_id"])
    expect(page.locator("#task-line")).to_contain_text("episode 2")
    page.click("#end")
    expect(page.locator("#invitation")).to_be_visible()
    wait_until(lambda: len(site.host.table) == 0)
    env.close()


def test_what_is_served_and_who_plays_is_shown(page: Any, site: Site) -> None:
    page.goto(site.address)
    expect(page.locator("#status")).to_have_text("ready")
    expect(page.locator("#facts")).to_contain_text("agentgym-suite/1")
    cards = page.locator("#envs .env")
    expect(cards).to_have_count(3)
    expect(cards.nth(0)).to_contain_text("267 tasks, 15 steps")
    expect(cards.nth(0)).to_contain_text("search[<keywords>]")
    expect(cards.nth(2)).to_contain_text("train 10")
    expect(page.locator("#sessions")).to_have_text("none")
    cards.nth(1).locator("button").click()
    assert page.input_value("#env") == "ALFWorld-v0"
    page.select_option("#split", "valid_seen")
    start(page, "ALFWorld-v0")
    expect(page.locator("#task-line")).to_contain_text("valid_seen")
    (place,) = site.host.table.live()
    mine = page.locator("#sessions tr.mine")
    expect(mine).to_contain_text(place.short_id)
    expect(mine).to_contain_text("ALFWorld-v0")
    assert place.id not in page.content()


def test_hostile_text_stays_text(page: Any, site: Site) -> None:
    page.goto(site.address)
    start(page, HOSTILE_ID, seed=1)
    expect(page.locator("#goal")).to_have_text(HOSTILE)
    send(page, "say[twice]")
    send(page, f"say[{HOSTILE}]")
    send(page, HOSTILE)
    expect(page.locator("#observation .new")).to_have_text(f"No: {HOSTILE}.")
    expect(page.locator("#action-error")).to_have_text(f"{HOSTILE}: {HOSTILE}")
    expect(page.locator("#history li").nth(3)).to_contain_text(HOSTILE)
    page.click("summary")
    assert page.locator("#info").get_by_text(HOSTILE, exact=True).count() >= 3
    assert page.locator("main :is(script, img, b:not(.splits b))").count() == 0
    assert page.evaluate("() => window.broken") is None


def test_everything_can_be_done_with_the_keyboard(page: Any, site: Site) -> None:
    def press(*keys: str) -> None:
        for key in keys:
            page.keyboard.press(key)

    def entries(count: int) -> None:
        expect(page.locator("#history li")).to_have_count(count)

    page.goto(site.address)
    expect(page.locator("#env")).to_be_focused()
    page.keyboard.type(HOSTILE_ID)
    press("Tab", "Tab")
    page.keyboard.type("count-19")  # asks for 20
    press("Enter")
    expect(page.locator("#action")).to_be_focused()
    page.keyboard.type("add[2]")
    press("Enter")
    entries(2)
    press("ArrowUp", "Enter")  # the same again
    entries(3)
    expect(page.locator("#observation")).to_contain_text("4 of 20")

    press("Tab", "Tab")
    expect(page.locator("#filter")).to_be_focused()
    page.keyboard.type("add 29")
    expect(page.locator("#action-count")).to_have_text("13 of 301 admissible")
    press("Backspace", "Backspace")
    page.keyboard.type("[3]")
    expect(page.locator("#actions button")).to_have_text(["add[3]"])
    press("Enter")
    entries(4)
    expect(page.locator("#filter")).to_be_focused()
    press("ArrowDown", "ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft", "Enter")
    entries(5)
    expect(page.locator("#observation")).to_contain_text("8 of 20")
    expect(page.locator("#actions button").first).to_be_focused()

    press("Tab", "ArrowUp")
    expect(page.locator("#observation")).to_contain_text("7 of 20")
    assert page.locator("#actions button:enabled").count() == 0
    press("Home")
    expect(page.locator("#observation")).to_have_text("Count to 20. é 你好 😀")
    expect(page.locator("#history [aria-current]")).to_have_text("0start")
    press("Escape")
    expect(page.locator("#action")).to_be_focused()
    page.keyboard.type("add[20]")
    press("Enter")
    expect(page.locator("#verdict")).to_have_text("ended, no success")
    expect(page.locator("#history li").nth(5).locator("button")).to_be_focused()
    press("ArrowUp")
    expect(page.locator("#verdict")).to_have_text("running")


def test_a_refusal_is_a_sentence_and_play_goes_on(page: Any, site: Site) -> None:
    problem = page.locator("#problem")
    page.goto(site.address)
    page.select_option("#env", HOSTILE_ID)
    page.fill("#task", "count-99")
    page.press("#task", "Enter")
    expect(problem).to_contain_text("count-99")
    start(page, HOSTILE_ID, task="count-5")
    expect(problem).to_be_hidden()
    page.fill("#action", "add[boom]")
    page.press("#action", "Enter")
    expect(problem).to_contain_text("failed")
    expect(page.locator("#verdict")).to_have_text("session lost")
    assert "machine broke" not in page.content()
    start(page, HOSTILE_ID, task="count-4")
    expect(page.locator("#verdict")).to_have_text("running")
    (place,) = site.host.table.live()
    site.host.end(place.id)
    page.fill("#action", "add[1]")
    page.press("#action", "Enter")
    expect(problem).to_contain_text("make a new one")
    page.click("#end")
    expect(page.locator("#invitation")).to_be_visible()


def test_lost_answers_are_asked_for_again_and_nothing_is_done_twice(page: Any, site: Site) -> None:
    lost: set[str] = set()

    def lose_first(route: Any) -> None:
        kind = route.request.url.rpartition("/")[2]
        if route.request.method != "POST" or kind in lost:
            route.continue_()
            return
        lost.add(kind)
        route.fetch()
        route.abort()

    page.route("**/v1/**", lose_first)
    page.goto(site.address)
    start(page, HOSTILE_ID, task="count-19")
    send(page, "add[2]")
    send(page, "add[3]")
    assert lost == {"sessions", "reset", "step"}
    expect(page.locator("#observation")).to_contain_text("5 of 20")
    expect(page.locator("#task-line")).to_contain_text("episode 1")
    (place,) = site.host.table.live()
    assert (place.value.episode, place.value.step_index) == (1, 2)


def test_leaving_deletes_the_session(page: Any, site: Site) -> None:
    page.goto(site.address)
    start(page, HOSTILE_ID)
    assert len(site.host.table) == 1
    page.goto("about:blank")
    wait_until(lambda: len(site.host.table) == 0)


def test_a_blank_is_filled_in_before_it_is_sent(page: Any, site: Site) -> None:
    page.goto(site.address)
    start(page, "WebShop-v0", seed=1)
    page.locator("#actions button").first.click()
    expect(page.locator("#action")).to_have_value("search[<query>]")
    page.keyboard.type("red shirt")
    page.keyboard.press("Enter")
    expect(page.locator("#history li").nth(1)).to_contain_text("search[red shirt]")
    expect(page.locator("#novelty")).to_contain_text("lines new")
    expect(page.locator("#observation div").first).to_have_text("Instruction:")
    expect(page.locator("#observation div").first).not_to_have_class("new")


def test_the_token_is_asked_for_and_kept_in_memory(page: Any) -> None:
    with serving(HOSTILE_ID, token="sécret-token") as site:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(site.address)
        expect(page.locator("#token")).to_be_focused()
        assert page.locator("#content").is_hidden()
        expect(page.locator("#problem")).to_be_hidden()
        page.keyboard.type("wrong")
        page.keyboard.press("Enter")
        expect(page.locator("#problem")).to_contain_text("token is missing or wrong")
        page.fill("#token", "sécret-token")
        page.keyboard.press("Enter")
        expect(page.locator("#content")).to_be_visible()
        expect(page.locator("#problem")).to_be_hidden()
        start(page, HOSTILE_ID)
        send(page, "add[1]")
        assert not [url for url in asked if "token" in url and "static" not in url]
        kept = "() => localStorage.length + sessionStorage.length + document.cookie.length"
        assert page.evaluate(kept) == 0
        assert page.input_value("#token") == ""
        page.reload()  # forgotten; and the session is ended with the token it was made with
        expect(page.locator("#token")).to_be_focused()
        wait_until(lambda: len(site.host.table) == 0)


def test_a_server_that_went_away_is_told(page: Any) -> None:
    with serving(HOSTILE_ID) as site:
        page.goto(site.address)
        expect(page.locator("#status")).to_have_text("ready")
    expect(page.locator("#status")).to_contain_text("does not answer")


@pytest.mark.parametrize("width", [360, 1440])
def test_nothing_is_wider_than_the_window(page: Any, site: Site, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 740})
    page.goto(site.address)
    start(page, HOSTILE_ID, task="count-19")
    send(page, f"say[{HOSTILE * 3}{'x' * 500}]")
    page.click("summary")
    wide = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wide) <= 0
    assert page.locator("#action").bounding_box()["width"] > width / 3
