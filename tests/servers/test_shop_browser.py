"""A person's way through the shop, in a real headless Chromium with scripts switched off."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from agentgym_suite.servers.http_server import open_socket
from agentgym_suite.servers.shop import ShopSettings, ShopSite, shop_app
from agentgym_suite.servers.shop_visits import Visits
from agentgym_suite.webshop.catalogue import Catalogue
from tests.servers.conftest import SHIRT

playwright_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture
def address(catalogue: Catalogue) -> Iterator[str]:
    site = ShopSite(Visits(catalogue), ShopSettings(show_parts=True))
    with open_socket("127.0.0.1", 0) as listener:
        server = uvicorn.Server(
            uvicorn.Config(
                shop_app(site), log_level="warning", ws="none", timeout_graceful_shutdown=1
            )
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.fixture
def page(address: str) -> Iterator[Any]:
    with playwright_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(java_script_enabled=False)
        page.set_default_timeout(20_000)
        playwright_api.expect.set_options(timeout=20_000)
        yield page
        browser.close()


def test_search_choose_read_and_buy(page: Any, address: str) -> None:
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))

    def shows(selector: str, text: str | list[str]) -> None:
        playwright_api.expect(page.locator(selector)).to_have_text(text)

    page.goto(f"{address}/?goal=human-3")
    assert "running shirt <number" in page.inner_text("#instruction-text")

    page.fill("#search_input", 'running "shirt" 1/4')
    page.click("#search-form button")
    shows("#results-line", "Page 1 (Total results: 26)")
    title = page.locator(".product-title").first.bounding_box()
    page.mouse.click(title["x"] + 5, title["y"] + 5)  # the whole card is the link

    shows(".product-price", "Price: $20.0")
    assert page.inner_text("#instruction-text").lower().startswith("instruction:")
    page.click("a.option:text-is('blue')")
    shows("#selected-options", "Selected: color: blue")
    page.click("a.option:text-is('m')")
    shows("#selected-options", "Selected: color: blue, size: m")
    shows("a.option.chosen", ["blue", "m"])

    page.click("button:text-is('Description')")
    shows(".product-text h2", f"Description {SHIRT}")
    assert "<script>alert(1)</script>" in page.inner_text(".product-text")
    page.click("button:text-is('< Prev')")
    shows("a.option.chosen", ["blue", "m"])

    page.click("button:text-is('Buy Now')")
    shows("#reward pre", "1.0")
    shows("#asin", SHIRT)
    page.reload()  # nothing is bought again
    shows("#reward pre", "1.0")
    page.click("text=Next customer")
    playwright_api.expect(page.locator("#search_input")).to_be_visible()
    assert not [text for text in refused if "Content Security Policy" in text]


def test_pages_turn_and_errors_lead_on(page: Any, address: str) -> None:
    def shows(selector: str, text: str) -> None:
        playwright_api.expect(page.locator(selector)).to_contain_text(text)

    page.goto(f"{address}/visitor")
    page.fill("#search_input", "shirt")
    page.press("#search_input", "Enter")
    shows("#results-line", "Page 1")
    page.click("button:text-is('Next >')")
    shows("#results-line", "Page 2")
    page.click("button:text-is('Next >')")
    shows("#results-line", "Page 3")
    assert page.locator("button:text-is('Next >')").count() == 0  # it was the last one
    page.click("button:text-is('< Prev')")
    shows("#results-line", "Page 2")
    page.goto(f"{address}/search_results/visitor/[blue/1")
    shows("#detail", "keywords")
    page.click("text=To the search page of visitor")
    playwright_api.expect(page.locator("#search_input")).to_be_visible()
