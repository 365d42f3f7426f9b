"""A page in a real browser, as the tests of reports look at it."""

from __future__ import annotations

import time
from typing import Any


class Seen:
    """A page, with everything that the browser complained of or asked the network for."""

    def __init__(self, browser: Any, width: int = 1280, height: int = 900) -> None:
        self.page = browser.new_page(viewport={"width": width, "height": height})
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", lambda message: self.problems.append(message.text))
        self.page.on("dialog", lambda dialog: self.problems.append(dialog.message))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))

    def wait_until(self, expression: str, *keys: str, seconds: float = 10.0) -> None:
        """Return once the expression holds; the page's policy forbids the browser's own waiting.

        Keys are pressed until then: a browser that has not drawn a page yet loses what would
        scroll it.
        """
        deadline = time.monotonic() + seconds
        while not self.page.evaluate(expression):
            assert time.monotonic() < deadline, f"{expression} did not hold in {seconds} s"
            self.press(*keys)
            self.page.wait_for_timeout(20)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
