from __future__ import annotations

import re

import httpx
import pytest

from agentgym_suite.servers.shop_pages import picture_address
from tests.servers.conftest import SHIRT
from tests.servers.shop_site import JSON, WORDS


def test_a_long_score_is_shortened_for_people_only(client: httpx.Client) -> None:
    client.post(f"/done/abc/{SHIRT}/%7B%7D")
    page = client.get(f"/done/abc/{SHIRT}/%7B%7D")
    score = client.get(f"/api/done/abc/{SHIRT}/%7B%7D").json()["reward"]
    assert len(repr(score)) > 10
    shown = re.search(r"<pre>(.*)</pre>", page.text)
    assert shown is not None
    assert f'value="{score}"' in shown[1]
    assert re.sub("<.*?>", "", shown[1]) == str(round(score, 3))


def test_pictures_that_nobody_can_have_are_not_asked_for(client: httpx.Client) -> None:
    results = client.get(f"/search_results/abc/{WORDS}/1").text
    item = client.get(f"/item_page/abc/{SHIRT}/{WORDS}/1/%7B%7D").text
    assert "images.example" not in results + item and " src=" not in results + item
    assert 'id="product-image"' in item


@pytest.mark.parametrize(
    ("address", "asked"),
    [
        ("https://images.example/a.jpg", False),
        ("https://EXAMPLE/a.jpg", False),
        ("http://shop.test:80/a.jpg", False),
        ("https://a.invalid", False),
        ("https://[", False),
        ("https://m.media.example.com/a.jpg", True),
        ("https://latest/a.jpg", True),
    ],
)
def test_reserved_hosts(address: str, asked: bool) -> None:
    assert picture_address(address) == (address if asked else "")


def test_a_wrong_method_has_a_page(client: httpx.Client) -> None:
    page = client.put("/abc")
    assert (page.status_code, 'href="/"' in page.text) == (405, True)
    assert "GET" in page.headers["Allow"]
    problem = client.put("/abc", headers=JSON)
    assert problem.json()["type"].endswith(":method")


def test_headers_health_and_style(client: httpx.Client) -> None:
    page = client.get("/abc")
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert "<script" not in page.text and " style=" not in page.text
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json()["status"] == "ready"
    assert client.get("/static/shop.css").headers["Content-Type"].startswith("text/css")
    assert client.get("/favicon.ico").status_code == 204
    assert client.head("/abc").status_code == 200
    assert client.put("/abc").status_code == 405
    assert client.get("/abc", headers={"Host": "evil.example"}).status_code == 421
