"""The shop's pages as HTML, for the ``html`` mode and for the web site alike.

The pages have the text nodes and the hooks (ids, classes, names) of the original's; every link and
form address comes from a ``UrlScheme``, and every form works without scripts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from agentgym_suite.webshop.controls import ATTRIBUTES_PAGE, sub_page_names
from agentgym_suite.webshop.goals import Goal
from agentgym_suite.webshop.products import Product
from agentgym_suite.webshop.segments import (
    NO_RATING,
    SHOP_NAME,
    options_json,
    results_line,
    selected_line,
    sub_page_texts,
)
from agentgym_suite.webshop.session import ShopSession
from agentgym_suite.webshop.urls import EncodedUrls, UrlScheme


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the done page may tell a person; the environment tells nothing of it.

    Attributes:
        code: the code of the purchase.
        product: what was bought, None to keep its details back.
        goal: what was wanted, None to keep it back.
        details: the parts of the reward, None to keep them back.
    """

    code: str | None = None
    product: Product | None = None
    goal: Goal | None = None
    details: Mapping[str, float | bool] | None = None


class HtmlPages:
    """Renders the current page of any session.

    Args:
        urls: where links and forms lead.
    """

    def __init__(self, urls: UrlScheme | None = None) -> None:
        self._urls: UrlScheme = urls or EncodedUrls()
        self._templates = Environment(
            loader=PackageLoader("agentgym_suite.webshop"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )

    def render(
        self, session: ShopSession, *, notice: str = "", receipt: Receipt | None = None
    ) -> str:
        """The current page of a session.

        Args:
            session: the session to look at.
            notice: a sentence to the customer above the page, ``""`` for none.
            receipt: what the done page tells.
        """
        state = session.state
        context: dict[str, Any] = {
            "urls": self._urls,
            "session_id": session.session_id,
            "state": state,
            "keywords": state.keywords or (),
            "shop_name": SHOP_NAME,
            "instruction": session.goal.instruction,
            "notice": notice,
        }
        if state.page == "results":
            context |= _results(session)
        elif state.page == "item":
            context |= _item(session)
        elif state.page == "sub page":
            context["paragraphs"] = _paragraphs(session)
        elif state.page == "done":
            context |= _done(session, receipt or Receipt())
        template = self._templates.get_template(f"{state.page.replace(' ', '_')}.html")
        return template.render(context)


def _results(session: ShopSession) -> dict[str, Any]:
    return {
        "line": results_line(session.state.page_number, len(session.state.results)),
        "has_previous": "< prev" in session.controls.elements,
        "has_next": "next >" in session.controls.elements,
        "products": [session.shelf.product(asin) for asin in session.shown_results],
    }


def _item(session: ShopSession) -> dict[str, Any]:
    product, options = session.product, session.state.options
    images = dict(product.option_images)
    chosen_images = [images[value] for value in options.values() if value in images]
    return {
        "product": product,
        "image": chosen_images[-1] if chosen_images else next(iter(product.images), ""),
        "rating": NO_RATING,
        "selected": "" if session.strict else selected_line(options),
        "sub_page_names": sub_page_names(session.show_attrs),
    }


def _paragraphs(session: ShopSession) -> list[tuple[str, str]]:
    product, name = session.product, session.state.sub_page
    texts = sub_page_texts(product, name)
    listed = len(product.attributes) if name == ATTRIBUTES_PAGE else 0
    classes = ["attribute"] * listed + ["product-info"] * (len(texts) - listed)
    return [
        (css_class, text)
        for css_class, text in zip(classes, texts, strict=True)
        if session.strict or text.strip()
    ]


def _done(session: ShopSession, receipt: Receipt) -> dict[str, Any]:
    reward, details = session.state.reward, receipt.details
    goal = None if receipt.goal is None else asdict(receipt.goal)
    return {
        "receipt": receipt,
        "options": options_json(session.state.options),
        "total": repr(reward.total if reward is not None else 0.0),
        "goal_json": goal and json.dumps(goal, ensure_ascii=False, indent=2),
        "details_json": details and json.dumps(dict(details), indent=2),
    }
