from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agentgym_suite.servers.shop import ShopSettings
from agentgym_suite.servers.shop_log import TrajectoryLog
from agentgym_suite.servers.shop_urls import Address, ShopUrls
from agentgym_suite.webshop.catalogue import Catalogue
from tests.servers.conftest import COLORS, SHIRT
from tests.servers.shop_site import CHOSEN, JSON, WORDS, shop


def test_a_whole_visit(catalogue: Catalogue) -> None:
    with shop(catalogue, ShopSettings(show_parts=True)) as client:
        begin = client.get("/", follow_redirects=True)
        assert begin.status_code == 200
        session = begin.url.path
        assert re.fullmatch(r"/[0-9a-f]{10}", session)
        found = client.post(session, data={"search_query": "Running SHIRT 1/4 zip"})
        assert found.status_code == 302
        results = client.get(found.headers["Location"])
        assert "Total results: 2" in results.text
        link = re.search(r'class="product-link" href="([^"]+B00SHIRT01[^"]+)"', results.text)
        assert link is not None
        item = client.get(link[1])
        assert "Running Shirt 1/4 zip &lt;b&gt;bold&lt;/b&gt;" in item.text
        chosen = client.post(link[1], data={"color": "blue", "size": "m"})
        assert chosen.status_code == 302
        item = client.get(chosen.headers["Location"])
        assert "Selected: color: blue, size: m" in item.text
        assert item.text.count("checked") == 2
        pages = re.findall(r'action="([^"]+item_sub_page[^"]+)"', item.text)
        assert len(pages) == 3
        assert "&lt;script&gt;" in client.get(pages[0]).text
        assert "machine wash" in client.get(pages[1]).text
        purchase = re.search(r'action="([^"]+/done/[^"]+|/done/[^"]+)"', item.text)
        assert purchase is not None
        bought = client.post(purchase[1])
        assert bought.status_code == 302
        receipt = client.get(bought.headers["Location"])
        assert ">1.0</data></pre>" in receipt.text
        assert "Exactly what was asked for." in receipt.text


def test_the_parts_stay_hidden_unless_allowed(client: httpx.Client) -> None:
    client.post(f"/done/abc/{SHIRT}/{CHOSEN}")
    receipt = client.get(f"/done/abc/{SHIRT}/{CHOSEN}")
    assert ">1.0</data></pre>" in receipt.text
    assert "Target" not in receipt.text
    assert "reward_parts" not in client.get(f"/done/abc/{SHIRT}/{CHOSEN}", headers=JSON).json()


def test_nothing_is_bought_by_looking(client: httpx.Client, catalogue: Catalogue) -> None:
    looked = client.get(f"/done/abc/{SHIRT}/{CHOSEN}")
    assert (looked.status_code, looked.headers["Allow"]) == (405, "POST")
    assert client.post(f"/search_results/abc/{WORDS}/1").status_code == 405
    with shop(catalogue, ShopSettings(buy_by_get=True)) as old:
        old.get("/abc")
        assert old.head(f"/done/abc/B00CAP0001/{quote('{}')}").status_code == 405
        assert ">1.0</data></pre>" in old.get(f"/done/abc/{SHIRT}/{CHOSEN}").text


def test_a_customer_buys_once(client: httpx.Client) -> None:
    first = client.post(f"/done/abc/{SHIRT}/{CHOSEN}")
    assert client.post(f"/done/abc/{SHIRT}/{CHOSEN}").status_code == first.status_code == 302
    other = client.post(f"/done/abc/B00CAP0001/{quote('{}')}")
    assert other.status_code == 409
    assert SHIRT in other.text


@pytest.mark.parametrize("color", COLORS)
def test_any_value_can_be_chosen(client: httpx.Client, catalogue: Catalogue, color: str) -> None:
    product = catalogue.product(SHIRT)
    assert product is not None
    value = dict(product.options)["color"][COLORS.index(color)]
    item = Address("item", "abc", SHIRT, ("shirt",), 1)
    chosen = client.post(ShopUrls().write(item), data={"color": value})
    page = client.get(chosen.headers["Location"], headers=JSON).json()
    assert page["options"] == {"color": value}
    assert f"Selected: color: {value}" in page["observation"]


def test_the_query_of_the_acceptance_facts(client: httpx.Client) -> None:
    query = '1/4 zip "shirt" & <b>'
    found = client.post("/abc", data={"search_query": query}, follow_redirects=True)
    assert found.status_code == 200
    assert SHIRT in found.text
    assert "1/4 zip &#34;shirt&#34; &amp; &lt;b&gt;" in found.text
    path = found.url.raw_path.decode()
    assert client.get("/api" + path).json()["keywords"] == query.split(" ")


def test_the_longest_search_has_an_address(client: httpx.Client) -> None:
    found = client.post("/abc", data={"search_query": " x" * 500}, follow_redirects=True)
    assert found.status_code == 200
    assert client.post("/abc", data={"search_query": "x" * 1_001}).status_code == 422


@pytest.mark.parametrize(
    ("path", "status", "named"),
    [
        ("/search_results/abc/1/4%20zip%20shirt/1", 404, "no page"),
        ("/search_results/new/blue/1", 404, "session"),
        (f"/item_page/new/{SHIRT}/blue/1/%7B%7D", 404, "session"),
        ("/fixed_abc", 422, "session"),
        ("/fixed_99", 422, "goal"),
        ("/a_human-99", 422, "goal"),
        ("/a_synthetic-1", 422, "goal"),
        ("/search_results/abc/blue/x", 422, "page"),
        ("/search_results/abc/blue/0", 422, "page"),
        ("/search_results/abc/shirt/7", 404, "page"),
        ("/search_results/abc/[blue/1", 422, "keywords"),
        ("/item_page/abc/B00NONE000/blue/1/{}", 404, "product"),
        ("/item_page/abc/b00shirt01/blue/1/{}", 200, "Running"),
        ("/item_page/abc/B00SHIRT01/blue/1/{'color':'pink'}", 422, "options"),
        ("/item_page/abc/B00SHIRT01/blue/1/{'smell':'pink'}", 422, "options"),
        ("/item_page/abc/B00SHIRT01/['blue', \"red\"]/1/{'color': 'Blue'}", 200, "Selected"),
        ("/item_sub_page/abc/B00SHIRT01/blue/1/Secrets/{}", 422, "sub page"),
        ("/item_sub_page/abc/B00SHIRT01/blue/1/Attributes/{}", 404, "sub page"),
        ("/item_sub_page/abc/B00SHIRT01/blue/1/Features/{}", 200, "machine wash"),
        ("/%ff", 422, "UTF-8"),
        ("/api", 302, ""),
        ("/static/../etc/passwd", 404, "no page"),
        ("/goals", 404, "no page"),
        ("/info", 404, "no page"),
    ],
)
def test_wrong_addresses_name_the_part(
    client: httpx.Client, path: str, status: int, named: str
) -> None:
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    assert named in answer.text
    if status >= 400:
        assert 'href="/"' in answer.text
        problem = client.get(path, headers=JSON)
        assert problem.status_code == status
        assert problem.headers["Content-Type"] == "application/problem+json"


def test_goals_are_kept_by_the_session_name(catalogue: Catalogue) -> None:
    with shop(catalogue) as client, shop(catalogue) as restarted:
        for name in ("abc", "xyz", "fixed_3", "me_human-7"):
            first = client.get(f"/api/{name}").json()["instruction"]
            assert restarted.get(f"/api/{name}").json()["instruction"] == first
        assert catalogue.goals[3].instruction == client.get("/api/fixed_3").json()["instruction"]
        asked = client.get("/abc?goal=human-5")
        assert asked.headers["Location"] == "/abc_human-5"
        assert client.get("/?goal=5").headers["Location"].endswith("_human-5")
        assert client.get("/?goal=human-99").status_code == 422
        page = client.get("/api/abc_human-5").json()
        assert page["instruction"] == catalogue.goals[5].instruction


def test_every_page_as_json(client: httpx.Client) -> None:
    index = client.get("/api/abc").json()
    assert (index["page"], index["has_search_bar"]) == ("index", True)
    assert index["admissible_actions"] == ["search[<query>]"]
    results = client.get(f"/search_results/abc/{WORDS}/2", headers=JSON).json()
    assert results["url"] == f"/search_results/abc/{WORDS}/2"
    assert (results["page_number"], len(results["products"])) == (2, 10)
    assert results["clickables"][:3] == ["back to search", "< prev", "next >"]
    item = client.get(f"/api/item_page/abc/{SHIRT}/{WORDS}/1/{CHOSEN}").json()
    assert item["product"]["price"] == "$20.0"
    assert "attributes" not in item["product"]
    assert "[clicked button] blue [clicked button_]" in item["text_rich"]
    done = client.post(f"/api/done/abc/{SHIRT}/{CHOSEN}").json()
    assert (done["page"], done["reward"]) == ("done", 1.0)
    moved = client.post("/api/abc", json={"search_query": "cap"})
    assert moved.headers["Location"].startswith("/api/search_results/abc/")
    empty = client.post("/api/abc", json={"search_query": " "})
    assert (empty.status_code, empty.json()["field"]) == (422, "keywords")


def test_questions_beside_the_pages(client: httpx.Client, catalogue: Catalogue) -> None:
    assert client.get("/api/products/b00cap0001").json()["title"] == "Green Cap"
    assert client.get("/api/products/NONE").status_code == 404
    info = client.get("/api/info").json()
    assert info["provenance"]["catalogue"] == catalogue.digest
    for path in ("/api/goals/human-1", "/api/goals"):
        assert "--show-goals" in client.get(path).json()["detail"]
        assert client.get(path).status_code == 404
    for name in ("products", "goals", "info", "search"):  # no visit begins under such a name
        assert client.get(f"/api/{name}").json().get("session") is None
    assert info["sessions"] == client.get("/api/info").json()["sessions"]
    with shop(catalogue, ShopSettings(show_goals=True)) as open_shop:
        assert open_shop.get("/api/goals").json() == {
            "kind": "human",
            "count": 12,
            "first": "human-0",
            "last": "human-11",
        }
        assert open_shop.get("/api/goals/").status_code == 422
        assert open_shop.get("/api/goals/human-1").json()["asin"] == SHIRT
        assert open_shop.get("/api/goals/human-99").status_code == 422


def test_searching_tells_scores(client: httpx.Client) -> None:
    hits = client.get("/api/search", params={"q": "green cap", "k": 3}).json()["results"]
    assert hits[0]["asin"] == "B00CAP0001"
    assert hits[0]["score"] > 0
    assert client.get("/api/search", params={"q": "cap", "k": "0"}).status_code == 422
    assert client.get("/api/search").status_code == 422


def test_sessions_end_and_have_a_maximum(catalogue: Catalogue) -> None:
    with shop(catalogue, max_sessions=2) as client:
        assert client.get("/one").status_code == 200
        assert client.get("/two").status_code == 200
        full = client.get("/three")
        assert (full.status_code, "Retry-After" in full.headers) == (429, True)
        assert client.get("/one").status_code == 200
    with shop(catalogue, lease_s=0.001) as client:
        client.get("/one")
        ended = client.get(f"/search_results/one/{WORDS}/1")
        assert ended.status_code == 410
        assert 'href="/one"' in ended.text
        assert client.get("/one").status_code == 200


def test_the_log_tells_the_actions(catalogue: Catalogue, tmp_path: Path) -> None:
    log = TrajectoryLog(tmp_path / "log.jsonl")
    words = quote('["running","shirt"]', safe="")
    item = f"/item_page/abc/{SHIRT}/{words}/1"
    with shop(catalogue, log=log) as client:
        client.get("/abc")
        client.get(f"/search_results/abc/{words}/1")
        client.get(f"/search_results/abc/{words}/2")
        client.get(f"/search_results/abc/{words}/1")
        client.get(f"{item}/%7B%7D")
        client.get(f"{item}/{CHOSEN}")
        client.get(f"/item_sub_page/abc/{SHIRT}/{words}/1/Features/{CHOSEN}")
        client.get(f"{item}/{CHOSEN}")
        client.get(f"/item_page/abc/B00CAP0001/{words}/1/%7B%7D")  # typed by hand
        client.get(f"{item}/{CHOSEN}")
        client.post(f"/done/abc/{SHIRT}/{CHOSEN}", follow_redirects=True)
    log.close()
    records = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [record["action"] for record in records] == [
        "",
        "search[running shirt]",
        "click[next >]",
        "click[< prev]",
        f"click[{SHIRT.lower()}]",
        "click[blue]",
        "click[features]",
        "click[< prev]",
        "",
        "",
        "click[buy now]",
    ]
    assert records[-1]["reward"] == 1.0
    assert records[-1]["options"] == {"color": "blue"}
    assert {record["session"] for record in records} == {"abc"}


def test_many_customers_at_once(catalogue: Catalogue) -> None:
    with shop(catalogue) as client:

        def visit(number: int) -> float:
            name = f"c{number}_human-{number % 12}"
            assert client.get(f"/api/{name}").json()["session"] == name
            asin = SHIRT if number % 2 else "B00CAP0001"
            options = CHOSEN if number % 2 else "%7B%7D"
            return float(client.post(f"/api/done/{name}/{asin}/{options}").json()["reward"])

        with ThreadPoolExecutor(8) as threads:
            rewards = list(threads.map(visit, range(48)))
    assert all((reward == 1.0) == bool(number % 2) for number, reward in enumerate(rewards))


PARTS = st.one_of(
    st.sampled_from(
        ["search_results", "item_page", "item_sub_page", "done", "api", "static", "abc", "products"]
        + ["search", "info", "goals", SHIRT, "1", "0", "{}", "[]", '["shirt"]', "{'color':'blue'}"]
        + ["Description", "fixed_x", "fixed_1", "..", "", '["\ud83d\ude00"]', "human-1"]
    ),
    st.text(max_size=12),
)


@pytest.fixture(scope="module")
def fuzzed(catalogue: Catalogue) -> Iterator[httpx.Client]:
    with shop(catalogue, ShopSettings(show_parts=True, show_goals=True)) as client:
        client.get("/abc")
        yield client


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    parts=st.lists(PARTS, max_size=8),
    method=st.sampled_from(["GET", "POST"]),
    form=st.dictionaries(st.sampled_from(["search_query", "color", "x"]), st.text(), max_size=3),
    accept=st.sampled_from(["text/html", "application/json", "*/*"]),
)
@example(["item_page", "abc", SHIRT, "shirt", "1", "{}"], "POST", {"color": "pink"}, "text/html")
@example(["done", "abc", SHIRT, "{'color':'blue'}"], "POST", {}, "text/html")
def test_no_address_makes_the_shop_fail(
    fuzzed: httpx.Client, parts: list[str], method: str, form: dict[str, str], accept: str
) -> None:
    path = "/" + "/".join(quote(part, safe="", errors="replace") for part in parts)
    data = form if method == "POST" else None
    form_text = {k: v.encode("utf-8", "replace").decode() for k, v in (data or {}).items()}
    answer = fuzzed.request(
        method, "http://localhost" + path, data=form_text, headers={"Accept": accept}
    )
    assert answer.status_code < 500, answer.text
