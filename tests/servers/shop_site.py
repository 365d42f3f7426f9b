"""The shop's site over the small catalogue, and parts of its addresses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import httpx

from agentgym_suite.servers.shop import ShopSettings, ShopSite, shop_app
from agentgym_suite.servers.shop_log import TrajectoryLog
from agentgym_suite.servers.shop_visits import Visits
from agentgym_suite.webshop.catalogue import Catalogue
from tests.servers.in_process import running

JSON = {"Accept": "application/json"}
WORDS = quote('["shirt"]', safe="")
CHOSEN = quote('{"color":"blue"}', safe="")


@contextmanager
def shop(
    catalogue: Catalogue,
    settings: ShopSettings | None = None,
    log: TrajectoryLog | None = None,
    **limits: Any,
) -> Iterator[httpx.Client]:
    site = ShopSite(Visits(catalogue, **limits), settings, log=log)
    with (
        running(shop_app(site, hosts=("localhost",))) as transport,
        httpx.Client(transport=transport, base_url="http://localhost") as client,
    ):
        yield client
