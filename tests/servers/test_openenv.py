"""The OpenEnv dialect: frames as openenv-core 0.3.0 sends them, and everything it never sends."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import gymnasium as gym
import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_suite.env import MAX_ACTION_CHARACTERS
from agentgym_suite.registry import ENV_IDS
from agentgym_suite.servers.env_specs import Served
from agentgym_suite.servers.hosting import EnvHost, Limits
from agentgym_suite.servers.openenv import openenv_names
from agentgym_suite.servers.openenv_frames import MAX_FRAME_BYTES, FrameError, read_frame
from tests.servers.counting_server import ENV_ID, HORIZON
from tests.servers.openenv_calls import BASE, error, serving, step

CODES = {
    *("INVALID_JSON", "UNKNOWN_TYPE", "VALIDATION_ERROR", "EXECUTION_ERROR"),
    *("CAPACITY_REACHED", "FACTORY_ERROR", "SESSION_ERROR"),
}
# what GenericEnvClient of openenv-core 0.3.0 wrote into its socket, and a typed client's step
RECORDED = (
    '{"type": "reset", "data": {}}',
    '{"type": "reset", "data": {"seed": 7, "episode_id": "\\u00e9", "task_id": null, '
    '"split": "test"}}',
    '{"type": "step", "data": {"text": "say[\\u00e9]"}}',
    '{"type": "step", "data": {"metadata": {}, "text": "add[1]"}}',
    '{"type": "state"}',
    '{"type": "close"}',
)


# ------------------------------------------------------------------------- play


def test_the_recorded_frames_get_the_shapes_of_openenv() -> None:
    async def scenario() -> None:
        async with serving() as live:
            client = await live.socket()
            first, reset, said, added, state = [await client.ask(text) for text in RECORDED[:-1]]
            assert first["type"] == reset["type"] == said["type"] == "observation"
            assert set(reset["data"]) == {"observation", "reward", "done"}
            assert reset["data"]["reward"] is None
            assert reset["data"]["done"] is False
            observation = reset["data"]["observation"]
            assert set(observation) == {"text", "terminated", "truncated", "info"}
            assert observation["info"]["split"] == "test"
            assert observation["info"]["seed"] == 7
            assert said["data"]["observation"]["text"] == "é"
            assert isinstance(added["data"]["reward"], float)
            assert state == {
                "type": "state",
                "data": {
                    "episode_id": "é",
                    "step_count": 2,
                    "task_id": observation["info"]["task_id"],
                    "state_hash": added["data"]["observation"]["info"]["state_hash"],
                },
            }
            client.write(RECORDED[-1])
            assert await client.end() == (1000, "")
            assert len(live.host.table) == 0

    asyncio.run(scenario())


def test_an_episode_is_the_local_one_to_its_end() -> None:
    local = gym.make(ENV_ID)

    async def scenario() -> None:
        async with serving() as live:
            client = await live.socket()
            for task in ("count-0", "count-2", "count-19"):
                answer = await client.ask({"type": "reset", "data": {"task_id": task, "seed": 3}})
                text, info = local.reset(seed=3, options={"task_id": task})
                heard = answer["data"]["observation"]
                assert (heard["text"], heard["info"]) == (text, json.loads(json.dumps(info)))
                done = False
                while not done:
                    answer = await client.ask(step("add[1]"))
                    text, reward, terminated, truncated, info = local.step("add[1]")
                    done = terminated or truncated
                    assert answer["data"] == {
                        "observation": {
                            "text": text,
                            "terminated": terminated,
                            "truncated": truncated,
                            "info": json.loads(json.dumps(info)),
                        },
                        "reward": reward,
                        "done": done,
                    }
                assert truncated is (task == "count-19")

    asyncio.run(scenario())


def test_the_same_seed_is_the_same_episode_on_every_socket() -> None:
    async def scenario() -> None:
        async with serving() as live:
            clients = [await live.socket() for _ in range(3)]
            tasks = []
            for client in clients:
                for seed in (1, 2, 3):
                    answer = await client.ask({"type": "reset", "data": {"seed": seed}})
                    tasks.append(answer["data"]["observation"]["info"]["task_id"])
            assert tasks[:3] == tasks[3:6] == tasks[6:]

    asyncio.run(scenario())


def test_two_clients_do_not_meet() -> None:
    async def scenario() -> None:
        async with serving() as live:
            one, two = await live.socket(), await live.socket()
            for client, task in ((one, "count-9"), (two, "count-14")):
                await client.ask({"type": "reset", "data": {"task_id": task}})
            for total in (1, 2, 3):
                texts = [
                    (await client.ask(step("add[1]")))["data"]["observation"]["text"]
                    for client in (one, two)
                ]
                assert texts == [f"{total} of 10", f"{total} of 15"]
            await one.leave()
            assert (await two.ask({"type": "state"}))["data"]["step_count"] == 3
            assert len(live.host.table) == 1

    asyncio.run(scenario())


def test_every_served_environment_has_a_name() -> None:
    host = EnvHost([Served(env_id) for env_id in ENV_IDS], Limits())
    assert list(openenv_names(host)) == ["webshop", "alfworld", "multihopqa", "papersearch"]


def test_the_horizon_is_the_environments_own() -> None:
    async def scenario() -> None:
        async with serving() as live:
            client = await live.socket()
            await client.ask({"type": "reset"})
            answers = [await client.ask(step("say[x]")) for _ in range(HORIZON)]
            assert [a["data"]["done"] for a in answers] == [False] * (HORIZON - 1) + [True]
            assert answers[-1]["data"]["observation"]["truncated"] is True

    asyncio.run(scenario())


def test_a_step_after_the_end_needs_a_reset() -> None:
    async def scenario() -> None:
        async with serving() as live:
            client = await live.socket()
            await client.ask({"type": "reset", "data": {"task_id": "count-0"}})
            assert (await client.ask(step("add[1]")))["data"]["done"] is True
            for _ in range(2):
                assert "reset first" in error(await client.ask(step("add[1]")), "EXECUTION_ERROR")
            assert (await client.ask({"type": "state"}))["data"]["step_count"] == 1
            assert (await client.ask({"type": "reset"}))["type"] == "observation"

    asyncio.run(scenario())


def test_a_refused_reset_leaves_the_episode_as_it_was() -> None:
    async def scenario() -> None:
        async with serving() as live:
            client = await live.socket()
            await client.ask({"type": "reset", "data": {"task_id": 4, "episode_id": "mine"}})
            await client.ask(step("add[1]"))
            before = await client.ask({"type": "state"})
            wrong = {"task_id": "nothing", "episode_id": "other"}
            error(await client.ask({"type": "reset", "data": wrong}), "VALIDATION_ERROR")
            assert await client.ask({"type": "state"}) == before
            answer = await client.ask(step("add[1]"))
            assert answer["data"]["observation"]["text"] == "2 of 5"

    asyncio.run(scenario())


def test_the_state_before_a_reset_is_empty() -> None:
    async def scenario() -> None:
        async with serving() as live:
            client = await live.socket()
            assert (await client.ask({"type": "state"}))["data"] == {
                "episode_id": None,
                "step_count": 0,
                "task_id": "",
                "state_hash": "",
            }
            assert (await live.http("GET", f"{BASE}/state")).json() == (
                await client.ask({"type": "state"})
            )["data"]

    asyncio.run(scenario())


# ----------------------------------------------------------------- wrong frames


@pytest.mark.parametrize(
    ("frame", "code", "words"),
    [
        ("", "INVALID_JSON", "not JSON"),
        ("{", "INVALID_JSON", "not JSON"),
        ('{"type": "state"} x', "INVALID_JSON", "not JSON"),
        ("[" * 100_000, "INVALID_JSON", "not JSON"),
        ("1" * 5_000, "INVALID_JSON", "not JSON"),
        ("[]", "VALIDATION_ERROR", "JSON list"),
        ("null", "VALIDATION_ERROR", "JSON null"),
        ('"reset"', "VALIDATION_ERROR", "JSON text"),
        ('{"type": "state", "x": NaN}', "VALIDATION_ERROR", "not finite"),
        ('{"type": "step", "data": {"text": "\\ud800"}}', "VALIDATION_ERROR", "surrogate"),
        ("{}", "UNKNOWN_TYPE", "type is null"),
        ('{"type": "mcp", "data": {}}', "UNKNOWN_TYPE", "'mcp'"),
        ('{"type": ["reset"]}', "UNKNOWN_TYPE", "type is a list"),
        ('{"type": "Reset"}', "UNKNOWN_TYPE", "'Reset'"),
        ('{"type": "reset", "data": []}', "VALIDATION_ERROR", "data is a list"),
        ('{"type": "reset", "data": {"level": 3}}', "VALIDATION_ERROR", "level is not a field"),
        ('{"type": "reset", "data": {"seed": -1}}', "VALIDATION_ERROR", "seed is -1"),
        ('{"type": "reset", "data": {"seed": true}}', "VALIDATION_ERROR", "seed is true"),
        ('{"type": "reset", "data": {"seed": "7"}}', "VALIDATION_ERROR", "seed is '7'"),
        ('{"type": "reset", "data": {"task_id": "count-99"}}', "VALIDATION_ERROR", "count-99"),
        ('{"type": "reset", "data": {"split": "dev"}}', "VALIDATION_ERROR", "dev"),
        ('{"type": "reset", "data": {"episode_id": 5}}', "VALIDATION_ERROR", "episode_id is 5"),
        ('{"type": "reset", "seed": 1}', "VALIDATION_ERROR", "seed is not a field"),
        ('{"type": "step"}', "VALIDATION_ERROR", "data is missing"),
        ('{"type": "step", "data": {}}', "VALIDATION_ERROR", "text is missing"),
        ('{"type": "step", "data": {"text": 3}}', "VALIDATION_ERROR", "text is 3"),
        ('{"type": "step", "data": {"text": "a", "action": "a"}}', "VALIDATION_ERROR", "twice"),
        ('{"type": "step", "data": {"text": "a", "k": 1}}', "VALIDATION_ERROR", "k is not a"),
        ('{"type": "state", "data": {}}', "VALIDATION_ERROR", "data is not a field"),
        (step("add[1]"), "EXECUTION_ERROR", "reset first"),
    ],
)
def test_a_wrong_frame_is_an_error_and_the_session_goes_on(
    frame: Any, code: str, words: str
) -> None:
    async def scenario() -> None:
        async with serving() as live:
            client = await live.socket()
            assert words in error(await client.ask(frame), code)
            assert (await client.ask({"type": "reset"}))["type"] == "observation"
            assert (await client.ask(step("add[1]")))["type"] == "observation"

    asyncio.run(scenario())


def test_frames_and_actions_have_bounds() -> None:
    async def scenario() -> None:
        async with serving() as live:
            client = await live.socket()
            await client.ask({"type": "reset", "data": {"episode_id": "x" * 255}})
            longest = await client.ask(step("é" * MAX_ACTION_CHARACTERS))
            assert longest["type"] == "error"  # 6 bytes each as \u00e9
            longest = await client.ask(step("e" * MAX_ACTION_CHARACTERS))
            assert longest["data"]["observation"]["info"]["action_valid"] is False
            more = await client.ask(step("e" * (MAX_ACTION_CHARACTERS + 1)))
            assert "1,048,577 characters" in error(more, "VALIDATION_ERROR")
            big = json.dumps({"type": "state", "x": "é" * MAX_FRAME_BYTES}, ensure_ascii=False)
            assert "bytes" in error(await client.ask(big), "VALIDATION_ERROR")
            id256 = await client.ask({"type": "reset", "data": {"episode_id": "x" * 256}})
            assert "256 characters" in error(id256, "VALIDATION_ERROR")
            state = (await client.ask({"type": "state"}))["data"]
            assert (state["episode_id"], state["step_count"]) == ("x" * 255, 1)

    asyncio.run(scenario())


def test_a_binary_frame_is_an_error() -> None:
    async def scenario() -> None:
        async with serving() as live:
            client = await live.socket()
            client.write_bytes(b'{"type": "reset"}')
            assert "binary" in error(await client.read(), "INVALID_JSON")
            assert (await client.ask({"type": "reset"}))["type"] == "observation"

    asyncio.run(scenario())


def test_action_is_another_name_and_metadata_are_ignored() -> None:
    async def scenario() -> None:
        async with serving() as live:
            client = await live.socket()
            await client.ask({"type": "reset", "data": None})
            for data in (
                {"action": "say[x]"},
                {"text": "say[x]", "metadata": {"a": [1]}},
                {"text": "say[x]", "action": None, "metadata": None},
            ):
                answer = await client.ask({"type": "step", "data": data})
                assert answer["data"]["observation"]["text"] == "x"
            empty = await client.ask(step(""))
            assert empty["data"]["observation"]["info"]["action_valid"] is False

    asyncio.run(scenario())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
NAMES = st.sampled_from(("seed", "episode_id", "task_id", "split", "text", "action", "metadata"))
FRAMES = st.fixed_dictionaries(
    {"type": st.sampled_from(("reset", "step", "state", "close")) | JSON},
    optional={"data": st.dictionaries(NAMES, JSON, max_size=3) | JSON},
)


@settings(max_examples=300)
@given(st.one_of(FRAMES.map(json.dumps), JSON.map(json.dumps), st.text(max_size=20)))
def test_any_text_is_a_frame_or_an_error(text: str) -> None:
    try:
        frame = read_frame({"type": "websocket.receive", "text": text})
    except FrameError as refused:
        assert refused.code in CODES
        assert str(refused)
        return
    assert frame.kind in ("reset", "step", "state", "close")
    assert frame.kind != "step" or isinstance(frame.data["text"], str)


# ------------------------------------------------------------------------- HTTP


def test_the_plain_addresses() -> None:
    async def scenario() -> None:
        async with serving() as live:
            health = await live.http("GET", f"{BASE}/health")
            assert (health.status_code, health.json()) == (200, {"status": "healthy"})
            told = (await live.http("GET", f"{BASE}/metadata")).json()
            assert list(told) == [
                *("name", "description", "readme_content"),
                *("version", "author", "documentation_url"),
            ]
            assert told["name"] == ENV_ID
            for path in ("reset", "step"):
                refused = await live.http("POST", f"{BASE}/{path}")
                assert refused.status_code == 409
                assert f"{BASE}/ws" in refused.json()["detail"]
                assert (await live.http("GET", f"{BASE}/{path}")).status_code == 405
            plain = await live.http("GET", f"{BASE}/ws")
            assert (plain.status_code, plain.headers["Upgrade"]) == (426, "websocket")
            assert plain.headers["Connection"] == "Upgrade"
            assert f"client {BASE}" in plain.json()["detail"]
            assert (await live.http("GET", "/compat/openenv/chess/ws")).status_code == 404

    asyncio.run(scenario())


def test_what_is_played_fits_the_schemas() -> None:
    async def scenario() -> None:
        async with serving() as live:
            schemas = (await live.http("GET", f"{BASE}/schema")).json()
            assert set(schemas) == {"action", "observation", "state"}
            for schema in schemas.values():
                jsonschema.Draft202012Validator.check_schema(schema)
            client = await live.socket()
            answers = [await client.ask({"type": "reset"}), await client.ask(step("add[1]"))]
            for answer in answers:
                jsonschema.validate(answer["data"]["observation"], schemas["observation"])
            jsonschema.validate((await client.ask({"type": "state"}))["data"], schemas["state"])
            jsonschema.validate({"text": "add[1]", "metadata": {}}, schemas["action"])
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate({"message": "add[1]"}, schemas["action"])

    asyncio.run(scenario())
