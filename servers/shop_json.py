"""The shop's pages and products as JSON values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from agentgym_suite.servers.shop_urls import ShopUrls
from agentgym_suite.webshop.catalogue import Catalogue
from agentgym_suite.webshop.goals import Goal
from agentgym_suite.webshop.observations import Observer
from agentgym_suite.webshop.products import Product
from agentgym_suite.webshop.session import ShopSession


def page_value(session: ShopSession, urls: ShopUrls, *, show_parts: bool) -> dict[str, Any]:
    """The current page of a session, in words and in parts."""
    state, controls = session.state, session.controls
    value: dict[str, Any] = {
        "url": session.address(urls),
        "page": state.page,
        "session": session.session_id,
        "instruction": session.goal.instruction,
        "observation": Observer(session, "text").observe(),
        "text_rich": Observer(session, "text_rich").observe(),
        "has_search_bar": controls.has_search_bar,
        "clickables": list(controls.clickables),
        "admissible_actions": list(controls.admissible),
    }
    if state.page == "results":
        value["keywords"] = list(state.keywords or ())
        value["page_number"] = state.page_number
        value["total_results"] = len(state.results)
        value["products"] = [
            product_summary(session.shelf.product(asin)) for asin in session.shown_results
        ]
    elif state.page in ("item", "sub page"):
        value["product"] = product_value(session.product)
        value["options"] = dict(state.options)
    elif state.page == "done":
        value["purchase"] = {"asin": state.asin, "options": dict(state.options)}
        value["reward"] = state.reward.total if state.reward is not None else 0.0
        if show_parts and state.reward is not None:
            value["reward_parts"] = state.reward.details()
    return value


def product_summary(product: Product) -> dict[str, Any]:
    """What a list of results tells of a product."""
    return {
        "asin": product.asin,
        "title": product.name,
        "price": product.price_tag,
        "image": next(iter(product.images), None),
    }


def product_value(product: Product) -> dict[str, Any]:
    """What a product's pages tell; neither its hidden price nor its attributes."""
    return {
        **product_summary(product),
        "description": product.description,
        "features": list(product.bullets),
        "options": {group: list(values) for group, values in product.options},
        "images": list(product.images),
        "category": product.category,
        "product_category": product.product_category,
    }


def search_value(catalogue: Catalogue, query: str, k: int) -> dict[str, Any]:
    """The best products for a query, with their scores."""
    hits = catalogue.hits(query.lower().split(" "), k)
    products = []
    for asin, score in zip(hits.ids, hits.scores, strict=True):
        product = catalogue.product(asin)
        if product is not None:
            summary = product_summary(product)
            del summary["image"]
            products.append({**summary, "score": float(score)})
    return {"query": query, "results": products}


def goal_value(goal: Goal) -> dict[str, Any]:
    """Everything of a goal: this is the answer to its task."""
    return {"id": goal.id, **asdict(goal)}
