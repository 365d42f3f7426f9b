from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym_suite.servers.bodies import MAX_BODY_BYTES
from agentgym_suite.servers.hosting import Limits
from tests.servers.counting_server import ENV_ID, HORIZON
from tests.servers.protocol_calls import create, reset, serving, slug, step


def test_an_episode_equals_the_local_one() -> None:
    local = gym.make(ENV_ID)
    with serving() as client:
        session = create(client)
        first = reset(client, session, seed=3, task_id="count-4")
        observation, info = local.reset(seed=3, options={"task_id": "count-4"})
        assert (first["episode"], first["step_index"]) == (1, 0)
        assert first["observation"] == observation
        assert json.loads(json.dumps(info)) == first["info"]
        for index, action in enumerate(("add[1]", "héh 😀", "add[3]", "add[1]")):
            answer = step(client, session, 1, index, action).json()
            observation, reward, terminated, truncated, info = local.step(action)
            assert answer["step_index"] == index + 1
            assert answer["observation"] == observation
            assert (answer["reward"], answer["terminated"], answer["truncated"]) == (
                reward,
                terminated,
                truncated,
            )
            assert answer["info"] == json.loads(json.dumps(info))
        assert terminated
        assert slug(step(client, session, 1, 4, "add[1]")) == "episode-over"


def test_info_health_and_readiness() -> None:
    with serving() as client:
        assert client.get("/healthz").json() == {"status": "ok"}
        assert client.get("/readyz").json() == {"status": "ready", "reason": ""}
        document = client.get("/v1/info").json()
        assert document["protocol"] == "agentgym-suite/1"
        (env,) = document["envs"]
        assert env["env_id"] == ENV_ID
        assert env["observation_space"]["max_length"] == 65536
        assert env["action_space"]["examples"] == ["add[1]", "add[2]"]
        assert env["max_episode_steps"] == HORIZON
        assert env["splits"] == {"train": 10, "test": 10}
        assert env["provenance"]["data_digest"] == "sha256:none"
        assert env["remote_kwargs"] == ["split", "bonus", "max_episode_steps"]
        assert env["tools"][0]["function"]["name"] == "add"


def test_a_repeated_step_is_replayed_byte_for_byte() -> None:
    with serving() as client:
        session = create(client)
        reset(client, session, task_id=9)
        first = step(client, session, 1, 0, "add[1]")
        again = step(client, session, 1, 0, "add[1]")
        assert again.content == first.content
        assert again.headers["Agentgym-Replayed"] == "1"
        assert "Agentgym-Replayed" not in first.headers
        assert slug(step(client, session, 1, 0, "add[2]")) == "action-mismatch"
        for episode, index in ((1, 2), (1, 5), (2, 1), (0, 0)):
            answer = step(client, session, episode, index, "add[1]")
            assert slug(answer) == "step-index"
            assert answer.json()["expected_episode"] == 1
            assert answer.json()["expected_step_index"] == 1
        assert client.get(f"{session}/state").json()["step_index"] == 1


def test_a_late_duplicate_from_before_a_reset_changes_nothing() -> None:
    with serving() as client:
        session = create(client)
        reset(client, session, task_id=9)
        step(client, session, 1, 0, "add[1]")
        reset(client, session, task_id=9)
        before = client.get(f"{session}/state").json()["state_hash"]
        assert slug(step(client, session, 1, 0, "add[1]")) == "step-index"
        assert client.get(f"{session}/state").json()["state_hash"] == before


def test_resets_and_creations_with_a_key_happen_once() -> None:
    with serving() as client:
        keyed = {"Idempotency-Key": "k1"}
        first = client.post("/v1/sessions", json={"env_id": ENV_ID}, headers=keyed)
        again = client.post("/v1/sessions", json={"env_id": ENV_ID}, headers=keyed)
        assert first.content == again.content
        assert again.headers["Agentgym-Replayed"] == "1"
        other = client.post("/v1/sessions", json={"env_id": ENV_ID, "lease_s": 5}, headers=keyed)
        assert slug(other) == "key-mismatch"
        session = first.headers["Location"]
        resets = [client.post(f"{session}/reset", json={"seed": 1}, headers=keyed) for _ in "ab"]
        assert resets[0].content == resets[1].content
        assert resets[1].json()["episode"] == 1
        mismatch = client.post(f"{session}/reset", json={"seed": 2}, headers=keyed)
        assert slug(mismatch) == "key-mismatch"
        assert reset(client, session, seed=1)["episode"] == 2
        assert reset(client, session, seed=1)["episode"] == 3


def test_observation_state_renew_and_list() -> None:
    with serving() as client:
        session = create(client, lease_s=30)
        assert slug(client.get(f"{session}/observation")) == "not-reset"
        assert slug(step(client, session, 1, 0, "add[1]")) == "not-reset"
        told = reset(client, session, task_id=3)
        assert client.get(f"{session}/observation").json() == {
            "episode": 1,
            "step_index": 0,
            "observation": told["observation"],
        }
        state = client.get(f"{session}/state").json()
        assert state["running"] and state["state_hash"] == told["info"]["state_hash"]
        later = client.post(f"{session}/renew", json={"lease_s": 3600}).json()
        assert later["lease_expires_at"] > state["lease_expires_at"]
        (listed,) = client.get("/v1/sessions").json()["sessions"]
        assert listed["env_id"] == ENV_ID
        assert session.rpartition("/")[2] not in json.dumps(listed)


def test_client_arguments() -> None:
    with serving() as client:

        def refuse(**kwargs: Any) -> str:
            return slug(client.post("/v1/sessions", json={"env_id": ENV_ID, "env_kwargs": kwargs}))

        assert refuse(named_ids=True) == "forbidden-kwarg"
        assert refuse(data="/etc/passwd") == "forbidden-kwarg"
        assert refuse(bonus=-1) == "invalid"
        assert refuse(bonus=[1]) == "invalid"
        assert refuse(max_episode_steps=0) == "invalid"
        assert refuse(max_episode_steps=True) == "invalid"
        session = create(client, env_kwargs={"bonus": 2, "max_episode_steps": 1})
        assert reset(client, session, task_id=9)["info"]["steps_left"] == 1
        answer = step(client, session, 1, 0, "add[1]").json()
        assert (answer["reward"], answer["truncated"]) == (2.0, True)
        endless = create(client, env_kwargs={"max_episode_steps": -1})
        assert reset(client, endless, task_id=9)["info"]["steps_left"] == -1


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"{", "bad-json"),
        (b"[1]", "bad-json"),
        (b"\xff", "bad-json"),
        (b'{"seed": NaN}', "bad-json"),
        (b"[" * 100_000, "bad-json"),
        (b'{"seed": "1"}', "invalid"),
        (b'{"seed": true}', "invalid"),
        (b'{"seed": -1}', "invalid"),
        (b'{"sead": 1}', "invalid"),
        (b'{"task_id": "\\ud800"}', "invalid"),
        (b'{"task_id": "count-99"}', "no-task"),
        (b'{"task_id": 99}', "no-task"),
        (b'{"split": "dev"}', "invalid"),
        (b'{"options": {"colour": 1}}', "invalid"),
        (b'{"split": "test", "options": {"split": "test"}}', "invalid"),
        (b'{"seed": 1, "seed": 1}', "invalid"),
        (b'{"seed": 1, "seed": null}', "invalid"),
        (b'{"options": {"a": 1, "a": 2}}', "invalid"),
        (b'{"options": [{"\\ud800": 1, "\\ud800": 2}]}', "invalid"),
    ],
)
def test_bad_requests(body: bytes, expected: str) -> None:
    with serving() as client:
        session = create(client)
        answer = client.post(f"{session}/reset", content=body)
        assert slug(answer) == expected
        assert answer.status_code == (400 if expected == "bad-json" else 422)
        reset(client, session)  # the session is none the worse


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("tasks?zz=1", "zz is not a field here; use offset, limit"),
        ("tasks?limit=1&limit=1", "limit is given twice"),
        ("tasks?limit=", "limit is ''; give a whole number"),
        ("state?episode=1", "episode is not a field here; use none"),
        ("observation?", ""),
    ],
)
def test_queries_are_read_to_the_letter(path: str, words: str) -> None:
    with serving() as client:
        session = create(client)
        reset(client, session)
        answer = client.get(f"{session}/{path}")
        if words:
            assert slug(answer) == "invalid" and words in answer.json()["detail"]
        else:
            assert answer.status_code == 200
        doubled = f"{session}/reset?seed=1"
        assert slug(client.post(doubled, json={})) == "invalid"
        assert client.get("/readyz?nonce=1&nonce=2").status_code == 200


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"null", "a JSON null;"),
        (b"true", "a JSON boolean;"),
        (b"1.5", "a JSON number;"),
        (b'"a"', "a JSON text;"),
        (b"[]", "a JSON list;"),
        (b'{"seed": true}', "seed is true;"),
        (b'{"seed": {}}', "seed is an object;"),
        (b'{"options": [null]}', "options is a list;"),
        (b'{"seed": 1, "seed": 2}', "seed is given twice; give it once"),
    ],
)
def test_values_are_called_as_json_calls_them(body: bytes, words: str) -> None:
    with serving() as client:
        session = create(client)
        assert words in client.post(f"{session}/reset", content=body).json()["detail"]


@pytest.mark.parametrize("value", ["1e999", "[" * 900 + "]" * 900])
def test_bad_requests_with_a_key_are_the_clients_fault_too(value: str) -> None:
    body = f'{{"options": {{"a": {value}}}}}'.encode()
    with serving() as client:
        session = create(client)
        keyed = {"Idempotency-Key": "k"}
        assert slug(client.post(f"{session}/reset", content=body, headers=keyed)) == "bad-json"
        made = f'{{"env_id": "{ENV_ID}", "env_kwargs": {{"bonus": {value}}}}}'.encode()
        assert slug(client.post("/v1/sessions", content=made, headers=keyed)) == "bad-json"


def test_sizes() -> None:
    with serving() as client:
        session = create(client)
        reset(client, session, task_id=9)
        assert slug(client.post(f"{session}/step", content=b" " * (3 << 20))) == "too-large"
        unsized = client.post(f"{session}/step", content=iter([b" " * MAX_BODY_BYTES, b"  "]))
        assert slug(unsized) == "too-large"
        assert slug(step(client, session, 1, 0, "x" * ((1 << 20) + 1))) == "too-large"
        answer = step(client, session, 1, 0, "x" * (1 << 20)).json()
        assert not answer["info"]["action_valid"]


def test_unknown_addresses_and_methods() -> None:
    with serving() as client:
        for nowhere in ("/v1/nothing", "/nowhere"):
            lost = client.get(nowhere)
            assert slug(lost) == "not-found"
            assert all(p in lost.json()["detail"] for p in ("/v1/info", "/healthz", "/readyz"))
        for host in ("[", "a/b?c", "x#"):
            strange = client.get("/health", headers={"Host": host})
            assert slug(strange) == "not-found"
            assert strange.json()["detail"].startswith("/health is no address")
        assert slug(client.get("/v1/info/")) == "not-found"
        answer = client.put("/v1/info")
        assert (answer.status_code, slug(answer)) == (405, "method")
        assert "GET" in answer.headers["Allow"]
        unknown = client.post("/v1/sessions", json={"env_id": "Chess-v0"})
        assert (unknown.status_code, slug(unknown)) == (404, "no-env")


def test_token_host_and_request_id() -> None:
    with serving(token="sesam-öffne", hosts=("localhost",)) as client:
        assert client.get("/healthz").status_code == 200
        refused = client.get("/v1/info")
        assert (refused.status_code, slug(refused)) == (401, "unauthorized")
        assert refused.headers["WWW-Authenticate"].startswith("Bearer")
        for wrong in (b"Bearer sesam", b"Basic " + "sesam-öffne".encode(), b"Bearer"):
            assert client.get("/v1/info", headers={"Authorization": wrong}).status_code == 401  # type: ignore[dict-item]
        right = {"Authorization": "Bearer sesam-öffne".encode()}
        assert client.get("/v1/info", headers=right).status_code == 200  # type: ignore[arg-type]
        foreign = client.get("/healthz", headers={"Host": "evil.example"})
        assert (foreign.status_code, slug(foreign)) == (421, "forbidden-host")
        named = client.get("/healthz", headers={"X-Request-Id": "mine-1"})
        assert named.headers["X-Request-Id"] == "mine-1"
        forged = client.get("/healthz", headers={"X-Request-Id": "a b\\n" * 40})
        assert forged.headers["X-Request-Id"] != "a b\\n" * 40


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
NAMES = st.sampled_from(
    ["seed", "task_id", "split", "options", "episode", "step_index", "action", "lease_s", "env_id"]
    + ["env_kwargs"]
)


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[httpx.Client]:
    with serving(Limits(max_sessions=20)) as client:
        yield client


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    route=st.sampled_from(["", "/reset", "/step", "/renew", "/tasks?offset=x", "/state"]),
    method=st.sampled_from(["GET", "POST", "DELETE", "PUT"]),
    body=st.dictionaries(NAMES | st.text(max_size=5), JSON, max_size=4),
)
def test_no_request_makes_the_server_fail(
    fuzzed: httpx.Client, route: str, method: str, body: dict[str, Any]
) -> None:
    created = fuzzed.post("/v1/sessions", json={"env_id": ENV_ID, **body})
    assert created.status_code < 500
    session = created.headers.get("Location") or create(fuzzed)
    answer = fuzzed.request(method, session + route, json=body)
    assert answer.status_code < 500, answer.text
    assert fuzzed.delete(session).status_code == 204
