"""AgentGym's WebShop: its client's episodes are the environment's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import httpx
import pytest

from agentgym_suite.servers.env_specs import Served
from tests.servers.agentgym_client import Failed, WebShopClient, serving

ENV_ID = "WebShop-v0"


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    with serving(Served(ENV_ID)) as client:
        yield client


@pytest.fixture
def local() -> Iterator[Any]:
    env = gym.make(ENV_ID, max_episode_steps=-1)
    yield env
    env.close()


def shapes(value: Any) -> Any:
    """The types of a JSON value."""
    if isinstance(value, dict):
        return {name: shapes(member) for name, member in value.items()}
    return [shapes(member) for member in value] if isinstance(value, list) else type(value)


def test_the_recorded_requests_get_the_recorded_shapes(http: httpx.Client) -> None:
    assert http.get("/webshop/").json() == "ok"
    created = http.post("/webshop/create")
    assert (created.status_code, created.headers["Content-Type"]) == (200, "application/json")
    number = created.json()
    assert type(number) is int

    reset = http.post("/webshop/reset", json={"session_id": 3, "env_idx": number}).json()
    assert shapes(reset) == [str, type(None)]
    one = {"env_idx": number}
    assert http.get("/webshop/observation", params=one).json() == reset[0]
    assert http.get("/webshop/available_actions", params=one).json() == {
        "has_search_bar": True,
        "clickables": ["search"],
    }
    instruction = http.get("/webshop/instruction_text", params=one).json()
    assert instruction in reset[0]

    step = {"action": "search[shirt]", "env_idx": number}
    found = http.post("/webshop/step", json=step).json()
    assert shapes(found) == {"state": str, "reward": float, "done": bool, "info": type(None)}
    assert "Back to Search" in found["state"] and found["done"] is False
    actions = http.get("/webshop/available_actions", params=one).json()
    assert shapes(actions) == {"has_search_bar": bool, "clickables": [str] * 12}
    state = http.get("/webshop/state", params=one).json()
    assert shapes(state) == {"url": str, "html": str, "instruction_text": str}
    assert state["url"].endswith("/search_results/3/shirt/1")
    assert "<html" in state["html"] and state["instruction_text"] == instruction
    closed = http.post("/webshop/close", json=one)
    assert (closed.status_code, closed.json()) == (200, True)


def test_an_oracle_buys_the_same_as_locally(http: httpx.Client, local: Any) -> None:
    client = WebShopClient(http, "webshop")
    for goal in (0, 7, 200):
        observation, info = local.reset(options={"task_id": goal})
        assert client.reset(goal) == [observation, None]
        oracle = local.unwrapped.policy("oracle")
        done = False
        while not done:
            action = oracle(observation, info)
            observation, reward, done, _, info = local.step(action)
            answer = client.say(f"Thought:\nfind it\n\nAction: \n{action}</s>")
            assert answer == {
                "state": observation,
                "reward": reward,
                "done": done,
                "info": None,
            }
            assert client.observe() == observation
            assert client._get("available_actions")["clickables"] == list(info["clickables"])
            assert client._get("state")["url"] == local.unwrapped.session.url
        assert answer["reward"] == 1.0  # of the last step, which the trainer takes for the score


def test_a_wrong_purchase_has_its_own_score(http: httpx.Client, local: Any) -> None:
    client = WebShopClient(http, "webshop")
    local.reset(options={"task_id": 1})
    client.reset(1)
    local.step("search[shampoo]")
    asin = client.step("search[shampoo]") and client._get("available_actions")["clickables"][2]
    local.step(f"click[{asin}]")
    assert client.step(f"click[{asin}]")["reward"] == 0.0
    *_, info = local.step("click[buy now]")
    bought = client.step("click[buy now]")
    assert bought["done"] and bought["reward"] == info["score"] < 1.0


def test_no_number_of_rounds_ends_an_episode(http: httpx.Client) -> None:
    client = WebShopClient(http, "webshop")
    client.reset(0)
    for _ in range(20):
        assert client.step("click[nothing]")["done"] is False


def test_without_a_goal_one_is_drawn(http: httpx.Client) -> None:
    client = WebShopClient(http, "webshop")
    observation, nothing = client.reset(None)
    assert observation.startswith("WebShop [SEP] Instruction: [SEP] ") and nothing is None


def test_a_goal_that_does_not_exist_is_an_error(http: httpx.Client) -> None:
    client = WebShopClient(http, "webshop")
    with pytest.raises(Failed, match="1000000") as failed:
        client.reset(1_000_000)
    assert failed.value.status == 422
