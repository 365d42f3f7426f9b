"""The shop's pages for people: the environment's templates in the site's own dress."""

from __future__ import annotations

import hashlib
from importlib import resources
from urllib.parse import urlsplit

from jinja2 import ChoiceLoader, PackageLoader

from agentgym_suite.servers.problems import Problem
from agentgym_suite.servers.shop_urls import ShopUrls
from agentgym_suite.webshop.html import HtmlPages, Receipt
from agentgym_suite.webshop.segments import SHOP_NAME
from agentgym_suite.webshop.session import ShopSession

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data: http: https:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# RFC 2606: nobody answers there, so a made-up picture is not asked for
RESERVED_DOMAINS = (".example", ".test", ".invalid")


class ShopPages(HtmlPages):
    """Renders pages and errors; a template of the site stands in for the shared one of its name.

    Args:
        urls: the site's addresses.
        show_parts: the done page tells the reward's parts and the target.
    """

    def __init__(self, urls: ShopUrls, *, show_parts: bool) -> None:
        super().__init__(urls)
        self._shop_urls = urls
        self._show_parts = show_parts
        own = PackageLoader("agentgym_suite.servers")
        self._templates.filters["picture"] = picture_address
        self._templates.loader = ChoiceLoader([own, PackageLoader("agentgym_suite.webshop")])

    def page(self, session: ShopSession, notice: str = "") -> str:
        """The current page of a session."""
        receipt = None
        if session.state.page == "done":
            receipt = self._receipt(session)
        return self.render(session, notice=notice, receipt=receipt)

    def error(self, problem: Problem, session_id: str) -> str:
        """A page that says what is wrong, with a way on.

        Args:
            problem: what is wrong.
            session_id: the visit to go on with; "" if none is known.
        """
        template = self._templates.get_template("error.html")
        return template.render(
            urls=self._shop_urls, problem=problem, session_id=session_id, shop_name=SHOP_NAME
        )

    def _receipt(self, session: ShopSession) -> Receipt:
        digest = hashlib.sha1(session.session_id.encode("utf-8"), usedforsecurity=False)
        code = digest.hexdigest()[:10].upper()
        reward = session.state.reward
        if not self._show_parts or reward is None:
            return Receipt(code=code)
        return Receipt(code, session.product, session.goal, reward.details())


def picture_address(address: str) -> str:
    """The address of a picture, "" for one that no host can have."""
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:
        return ""
    return "" if f".{host}".endswith(RESERVED_DOMAINS) else address


def stylesheet() -> bytes:
    """The site's style sheet."""
    return resources.files("agentgym_suite.servers").joinpath("static/shop.css").read_bytes()
