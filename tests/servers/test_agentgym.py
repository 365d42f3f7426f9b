"""AgentGym's ids: what is refused and how, and one request of an id at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentgym_suite.env import MAX_ACTION_CHARACTERS
from agentgym_suite.servers.agentgym import agentgym_routes
from agentgym_suite.servers.agentgym_calls import Call
from agentgym_suite.servers.env_app import env_app
from agentgym_suite.servers.env_specs import Served
from agentgym_suite.servers.hosting import EnvHost, Limits
from agentgym_suite.servers.problems import Problem
from tests.servers.agentgym_client import Failed, WebShopClient, react_action, serving
from tests.servers.counting_server import ENV_ID, register
from tests.servers.in_process import running

register()
SHOP = Served("WebShop-v0")
PAGE = Path(__file__).parents[2] / "docs" / "agentgym.md"


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    with serving(SHOP, Served("ALFWorld-v0")) as client:
        yield client


def refused(answer: httpx.Response, status: int, words: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/json"
    assert list(answer.json()) == ["detail"] and words in answer.json()["detail"]


def test_there_are_routes_for_what_is_served() -> None:
    def names(*ids: str) -> set[str]:
        routes: Any = agentgym_routes(EnvHost([Served(i) for i in ids], Limits()))
        return {route.path.split("/")[3] for route in routes}

    assert names("WebShop-v0") == {"webshop"}
    assert names(ENV_ID) == set()
    every = names("WebShop-v0", "ALFWorld-v0", "MultiHopQA-v0", "PaperSearch-v0")
    assert every == {"webshop", "alfworld", "searchqa", "academia"}


@pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not here")
def test_the_page_has_every_route() -> None:
    ids = ("WebShop-v0", "ALFWorld-v0", "MultiHopQA-v0", "PaperSearch-v0")
    routes: Any = agentgym_routes(EnvHost([Served(i) for i in ids], Limits()), guarded=True)
    page = PAGE.read_text(encoding="utf-8")
    for route in routes:
        (method,) = route.methods - {"HEAD"}
        _, _, _, name, path = route.path.split("/")
        section = page.partition(f"## `{name}`")[2].partition("\n## ")[0]
        shared = page.partition("## `searchqa`")[2] if name == "academia" else ""
        assert f"`{method} /{path}`" in section + shared, route.path


# -------------------------------------------------------------------------------- what is refused


def test_an_unknown_id_is_a_404_in_json(http: httpx.Client) -> None:
    for number in (999_999, -1, 10**30):
        for path in ("reset", "step", "close"):
            body = {"env_idx": number} | ({"action": "x"} if path == "step" else {})
            refused(http.post(f"/webshop/{path}", json=body), 404, "was not given out")
    refused(http.get("/webshop/observation?env_idx=999999"), 404, "999999")


def test_an_id_of_another_environment_is_unknown(http: httpx.Client) -> None:
    number = WebShopClient(http, "webshop").number
    game = {"id": number, "game": 0, "world_type": "Text"}
    refused(http.post("/alfworld/reset", json=game), 404, "ALFWorld-v0")


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("step", b"", 422),
        ("step", b"{", 400),
        ("step", b"[1]", 400),
        ("step", b'{"env_idx": "0", "action": "x"}', 422),
        ("step", b'{"env_idx": true, "action": "x"}', 422),
        ("step", b'{"env_idx": 0.5, "action": "x"}', 422),
        ("step", b'{"env_idx": 0, "action": 5}', 422),
        ("step", b'{"env_idx": 0, "action": "\\ud800"}', 422),
        ("step", b'{"env_idx": 0}', 422),
        ("step", b'{"env_idx": 0, "action": "x", "seed": 1}', 422),
        ("reset", b'{"env_idx": 0, "session_id": -1}', 422),
        ("reset", b'{"env_idx": 0, "session_id": "0"}', 422),
        ("close", b'{"env_idx": null}', 422),
        ("create", b'{"id": 0}', 422),
        ("step", b'{"env_idx": 0, "action": "' + b"x" * (2 << 20) + b'"}', 413),
    ],
)
def test_bad_bodies_are_told(http: httpx.Client, path: str, body: bytes, status: int) -> None:
    answer = http.post(f"/webshop/{path}", content=body)
    assert answer.status_code == status and list(answer.json()) == ["detail"]


@pytest.mark.parametrize("query", ["", "env_idx=", "env_idx=x", "env_idx=-1", "env_idx=0&seed=1"])
def test_bad_queries_are_told(http: httpx.Client, query: str) -> None:
    answer = http.get(f"/webshop/observation?{query}")
    assert answer.status_code == 422 and list(answer.json()) == ["detail"]


def test_a_doubled_member_is_as_good_as_its_last_as_in_the_original(http: httpx.Client) -> None:
    number = WebShopClient(http, "webshop").number
    body = f'{{"env_idx": -1, "session_id": 0, "env_idx": {number}}}'
    assert http.post("/webshop/reset", content=body).status_code == 200
    twice = http.get(f"/webshop/observation?env_idx=-1&env_idx={number}")
    assert twice.status_code == 200


def test_an_action_above_the_bound_is_refused_and_the_episode_goes_on(http: httpx.Client) -> None:
    client = WebShopClient(http, "webshop")
    client.reset(0)
    with pytest.raises(Failed) as failed:
        client.step("x" * (MAX_ACTION_CHARACTERS + 1))
    assert failed.value.status == 413
    assert client.step("search[shirt]")["done"] is False


def test_nothing_is_played_before_a_reset_or_after_the_end(http: httpx.Client) -> None:
    client = WebShopClient(http, "webshop")
    for early in (client.observe, lambda: client.step("search[x]"), lambda: client._get("state")):
        with pytest.raises(Failed, match="reset") as failed:
            early()
        assert failed.value.status == 409
    client.reset(0)
    client.step("search[shirt]")
    asin = client._get("available_actions")["clickables"][2]
    client.step(f"click[{asin}]")
    assert client.step("click[buy now]")["done"] is True
    with pytest.raises(Failed, match="is over") as failed:
        client.step("search[shirt]")
    assert failed.value.status == 409
    assert client._get("available_actions") == {"has_search_bar": False, "clickables": []}
    client.reset(1)
    assert client.step("search[shirt]")["done"] is False


def test_closing_is_true_however_often_and_the_id_is_over(http: httpx.Client) -> None:
    client = WebShopClient(http, "webshop")
    assert client.close() is True
    assert client.close() is True
    for late in (client.observe, lambda: client.reset(0), lambda: client.step("search[x]")):
        with pytest.raises(Failed, match="has ended") as failed:
            late()
        assert failed.value.status == 410


def test_ids_are_never_given_out_again(http: httpx.Client) -> None:
    numbers = []
    for _ in range(5):
        client = WebShopClient(http, "webshop")
        numbers.append(client.number)
        client.close()
    assert numbers == list(range(numbers[0], numbers[0] + 5))


def test_an_id_from_before_a_restart_reaches_nobody() -> None:
    with serving(SHOP) as http:
        before = WebShopClient(http, "webshop").number
    with serving(SHOP) as http:
        after = WebShopClient(http, "webshop")
        after.reset(0)
        seen = after.observe()
        for path, more in (("step", {"action": "search[x]"}), ("reset", {}), ("close", {})):
            answer = http.post(f"/webshop/{path}", json={"env_idx": before, **more})
            refused(answer, 404, f"the id {before} was not given out")
        refused(http.get(f"/webshop/observation?env_idx={before}"), 404, str(before))
        assert after.observe() == seen
        assert before != after.number


def test_every_id_is_a_number_that_any_json_reader_carries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.randbits", lambda bits: (1 << bits) - 1)
    with serving(SHOP) as http:
        client = WebShopClient(http, "webshop")
        assert client.number == 2**52 - 1
        assert WebShopClient(http, "webshop").number == 2**52
        assert client.reset(0)[0] == client.observe()  # the id goes through a body and a query


def test_a_full_server_is_a_503_until_somebody_leaves() -> None:
    with serving(SHOP, limits=Limits(max_sessions=2)) as http:
        first, second = WebShopClient(http, "webshop"), WebShopClient(http, "webshop")
        answer = http.post("/webshop/create")
        refused(answer, 503, "all 2 sessions are in use")
        assert int(answer.headers["Retry-After"]) >= 1
        first.reset(0)  # those who are there play on
        second.close()
        assert WebShopClient(http, "webshop").number == first.number + 2
        with pytest.raises(Failed, match="has ended"):
            second.observe()


def test_a_lease_that_ran_out_ends_the_id() -> None:
    with serving(SHOP, limits=Limits(lease_s=0.5)) as http:
        client, other = WebShopClient(http, "webshop"), WebShopClient(http, "webshop")
        client.reset(0)
        other.reset(0)
        deadline = time.monotonic() + 20
        while (
            other.observe() and len(http.get("http://localhost/v1/sessions").json()["sessions"]) > 1
        ):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        with pytest.raises(Failed, match="has ended") as failed:
            client.observe()
        assert failed.value.status == 410
        assert client.close() is True


def test_ids_are_listed_by_a_server_with_a_token_only(http: httpx.Client) -> None:
    assert http.get("/webshop/list_envs").status_code == 404
    with serving(SHOP, token="secret") as guarded:
        assert guarded.post("/webshop/create").status_code == 401
        guarded.auth = ("any", "secret")  # as clients send that take it from the address
        one, two = WebShopClient(guarded, "webshop"), WebShopClient(guarded, "webshop")
        assert guarded.get("/webshop/list_envs").json() == [one.number, two.number]
        one.close()
        assert guarded.get("/webshop/list_envs").json() == [two.number]


# -------------------------------------------------------------------------------- more than one


def test_two_clients_in_turns_never_meet(http: httpx.Client) -> None:
    def play(client: WebShopClient, goal: int) -> Iterator[Any]:
        yield client.reset(goal)
        yield client.step(f"search[shirt {goal}]")
        asin = client._get("available_actions")["clickables"][2 + goal]
        yield client.step(f"click[{asin}]")
        yield client._get("state")["url"]
        yield client.step("click[buy now]")

    alone = [list(play(WebShopClient(http, "webshop"), goal)) for goal in (0, 1)]
    both = [play(WebShopClient(http, "webshop"), goal) for goal in (0, 1)]
    mixed = list(zip(*both, strict=True))
    assert [list(each) for each in zip(*mixed, strict=True)] == alone


def test_a_step_posted_twice_is_played_twice(http: httpx.Client) -> None:
    client = WebShopClient(http, "webshop")
    client.reset(0)
    client.step("search[shirt]")
    client.step("click[next >]")
    assert "Page 3" in client.step("click[next >]")["state"]


def test_posts_at_once_are_all_played(http: httpx.Client) -> None:
    client = WebShopClient(http, "webshop")
    client.reset(0)
    client.step("search[shirt]")
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: client.step("click[next >]")["state"], range(8)))
    pages = sorted(int(answer.split("Page ")[1].split(" ")[0]) for answer in answers)
    assert pages == list(range(2, 10))
    assert client.waits == 0


@pytest.mark.parametrize("slug", ["busy", "full", "overloaded", "draining", "loading"])
def test_whatever_passes_by_waiting_is_a_503(slug: str) -> None:
    async def answer(given: dict[str, Any]) -> None:
        raise Problem(slug, "wait", retry_after_s=1)

    host = EnvHost([Served(ENV_ID)], Limits())
    routes = [Call("POST", "/step", answer).route("/compat/agentgym/some")]
    with (
        running(env_app(host, more_routes=routes)) as transport,
        httpx.Client(transport=transport, base_url="http://localhost") as http,
    ):
        answered = http.post("/compat/agentgym/some/step")
    refused(answered, 503, "wait")
    assert answered.headers["Retry-After"] == "1"


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("Thought:\nI buy.\n\nAction: \nclick[buy now]", "click[buy now]"),
        ("Action: search[a]\nAction: search[b]</s>", "search[b]"),
        ("search[shirt]", "search[shirt]"),
        ("I would rather not.", ""),
    ],
)
def test_the_client_here_reads_replies_as_the_real_one_does(reply: str, action: str) -> None:
    assert react_action(reply) == action
