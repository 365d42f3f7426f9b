"""AgentGym's ALFWorld: its client's episodes are the environment's own, its numbers AgentGym's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import httpx
import pytest

from agentgym_suite.servers.env_specs import Served
from tests.alfworld.small_world import expand_official, write_world
from tests.servers.agentgym_client import AlfWorldClient, Failed, serving

ENV_ID = "ALFWorld-v0"
PARTIAL = pytest.mark.filterwarnings("ignore:.*complete official data")


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    with serving(Served(ENV_ID)) as client:
        yield client


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree that looks official, as far as its folder's name goes."""
    return write_world(tmp_path_factory.mktemp("world"))


def rows(folder: Path, split: str, first: int) -> list[dict[str, Any]]:
    """AgentGym's rows for the games of a split, last one first."""
    games = sorted(path.parent for path in (folder / "json_2.1.1" / split).rglob("game.tw-pddl"))
    return [
        {"item_id": first + n, "task_type": game.parent.name, "task_id": game.name}
        for n, game in enumerate(reversed(games))
    ]


def serving_world(world: Path) -> Any:
    return serving(Served(ENV_ID, {"data": str(world)}))


def test_the_recorded_requests_get_the_recorded_shapes(http: httpx.Client) -> None:
    assert http.get("/alfworld/").json() == "This is environment AlfWorld."
    created = http.post("/alfworld/create").json()
    assert list(created) == ["id"] and type(created["id"]) is int
    one = {"id": created["id"]}

    game = {"game": 5, "world_type": "Text", **one}
    reset = http.post("/alfworld/reset", json=game).json()
    assert list(reset) == ["id", "observation", "available_actions", "task_type"]
    assert reset["id"] == created["id"]
    assert reset["observation"].startswith("You are in the middle of a room.")
    assert "\nYour task is to: " in reset["observation"] and "\n\n" not in reset["observation"]
    assert "look" in reset["available_actions"]
    task, trial = reset["task_type"].split("/")
    assert task.count("-") == 4 and trial.startswith("trial_")

    detail = http.get("/alfworld/detail", params=one).json()
    assert detail == {
        "world_type": "Text",
        "game": 5,
        "observation": reset["observation"],
        "available_actions": reset["available_actions"],
        "done": False,
        "reward": 0,
        "deleted": False,
    }
    step = http.post("/alfworld/step", json={"action": "inventory", **one}).json()
    assert list(step) == ["observation", "reward", "available_actions", "done"]
    assert step["observation"] == "You are not carrying anything."
    assert (step["reward"], step["done"]) == (0.0, False)
    assert http.get("/alfworld/observation", params=one).json() == step["observation"]
    actions = http.get("/alfworld/available_actions", params=one).json()
    assert actions == step["available_actions"]
    assert http.post("/alfworld/close", json=one).json() is True


def test_an_oracle_wins_as_locally(http: httpx.Client) -> None:
    client = AlfWorldClient(http, "alfworld")
    local: Any = gym.make(ENV_ID, accept_put_alias=True, max_episode_steps=-1)
    for game in (0, 33, 143):
        observation, info = local.reset(options={"task_id": game, "split": "train"})
        reset = client.reset(game)
        assert reset["observation"] == "\n".join(observation.split("\n\n")[1:])
        assert reset["task_type"] == info["game_id"].removeprefix("train/")
        oracle = local.unwrapped.policy("oracle")
        done = False
        while not done:
            command = oracle(observation, info)
            observation, reward, done, _, info = local.step(command)
            assert client.step(command) == {
                "observation": observation,
                "reward": reward,
                "available_actions": list(info["admissible_actions"]),
                "done": done,
            }
        assert client.info["reward"] == 1.0
        assert client.observe().startswith(f"{observation}\nAVAILABLE ACTIONS: ")
    local.close()


def test_the_clients_own_wording_of_putting_down_is_understood(http: httpx.Client) -> None:
    client = AlfWorldClient(http, "alfworld")
    local: Any = gym.make(ENV_ID, max_episode_steps=-1)
    for game in range(4):
        observation, info = local.reset(options={"task_id": game, "split": "train"})
        client.reset(game)
        oracle = local.unwrapped.policy("oracle")
        done = False
        while not done:
            command = oracle(observation, info)
            observation, _, done, _, info = local.step(command)
            if command.startswith("move "):
                command = command.replace("move ", "put ").replace(" to ", " in/on ")
            assert client.step(command)["observation"] == observation
        assert client.info["done"] is True
    local.close()


@pytest.mark.parametrize("world_type", ["Embody", "Hybrid", ""])
def test_other_worlds_than_text_are_refused(http: httpx.Client, world_type: str) -> None:
    number = AlfWorldClient(http, "alfworld").number
    answer = http.post("/alfworld/reset", json={"id": number, "game": 0, "world_type": world_type})
    assert answer.status_code == 422 and "world_type" in answer.json()["detail"]


def test_a_missing_game_is_an_error_and_no_other_one(http: httpx.Client) -> None:
    client = AlfWorldClient(http, "alfworld")
    client.reset(7)
    with pytest.raises(Failed, match="0 to 143") as failed:
        client.reset(144)
    assert failed.value.status == 422
    assert client._get("detail")["game"] == 7  # the game before goes on


@PARTIAL
def test_official_games_need_agentgyms_own_numbers(world: Path) -> None:
    with serving_world(world) as http:
        client = AlfWorldClient(http, "alfworld")
        with pytest.raises(Failed, match=r"mappings_train\.json and mappings_test\.json"):
            client.reset(0)

        # once they are there, a number is the game that they say
        train, test = rows(world, "train", 0), rows(world, "valid_seen", 2420)
        (world / "mappings_train.json").write_text(json.dumps(train))
        for row in (train[0], train[-1]):
            reset = client.reset(row["item_id"])
            assert reset["task_type"] == f"{row['task_type']}/{row['task_id']}"
        with pytest.raises(Failed, match=f"0 to {len(train) - 1}"):
            client.reset(len(train))

    # what is numbered for valid_train is looked for there and nowhere else
    (world / "mappings_test.json").write_text(json.dumps(test))
    with serving_world(world) as http:
        client = AlfWorldClient(http, "alfworld")
        client.reset(0)
        with pytest.raises(Failed, match="valid_train/"):
            client.reset(2420)
        with pytest.raises(Failed, match="0 to 24"):
            client.reset(2419)


@PARTIAL
@pytest.mark.parametrize("text", ["", "[1]", '[{"item_id": 0}]', '{"a": 1}'])
def test_a_damaged_list_of_numbers_is_told(world: Path, tmp_path: Path, text: str) -> None:
    place = tmp_path / "json_2.1.1"
    place.symlink_to(world / "json_2.1.1")
    (tmp_path / "mappings_train.json").write_text(text)
    with serving_world(tmp_path) as http:
        client = AlfWorldClient(http, "alfworld")
        with pytest.raises(Failed, match="copy it anew"):
            client.reset(0)


def test_old_arrivals_lose_their_location(shared: Path, tmp_path: Path) -> None:
    folder = expand_official(shared, tmp_path, "--split", "handmade", "--match", "v03")
    games = sorted(folder.rglob("game.tw-pddl"))
    with serving(Served(ENV_ID, {"data": [str(game) for game in games]})) as http:
        client = AlfWorldClient(http, "alfworld")
        reset = client.reset(0)
        going = next(a for a in reset["available_actions"] if a.startswith("go to "))
        answer = client.step(going)
        assert answer["observation"] and not answer["observation"].startswith("You arrive")


@PARTIAL
def test_the_games_of_valid_train_are_found_by_their_path(shared: Path, tmp_path: Path) -> None:
    folder = expand_official(shared, tmp_path, "--split", "valid_train", "--limit", "6")
    listed = rows(folder, "valid_train", 2420)
    (folder / "mappings_test.json").write_text(json.dumps(listed))
    with serving(Served(ENV_ID, {"data": str(folder), "split": "valid_train"})) as http:
        client = AlfWorldClient(http, "alfworld")
        for row in listed:
            reset = client.reset(row["item_id"])
            assert reset["task_type"] == f"{row['task_type']}/{row['task_id']}"
        with pytest.raises(Failed, match="2420 to 2425"):
            client.reset(0)
