from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker
from starlette.routing import Route

from agentgym_suite.servers.bodies import Field
from agentgym_suite.servers.env_app import PUBLIC_PATHS
from agentgym_suite.servers.env_specs import Served
from agentgym_suite.servers.hosting import EnvHost, Limits
from agentgym_suite.servers.openapi import field_schema, object_schema
from agentgym_suite.servers.problems import PROBLEMS, TYPE_PREFIX
from agentgym_suite.servers.protocol import CREATE_FIELDS, RESET_FIELDS, STEP_FIELDS, EnvProtocol
from tests.servers.counting_server import ENV_ID, Hold
from tests.servers.protocol_calls import create, reset, serving, slug, step

# what no sequence of calls brings about at every operation
RARE = {
    *("unauthorized", "forbidden-host", "not-found", "bad-json", "too-large", "too-slow"),
    *("busy", "broken", "full", "env-error", "loading", "overloaded", "draining", "step-timeout"),
}


class Described:
    """Holds every answer of a client against the document."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.seen: set[tuple[str, str, str]] = set()

    def operation_of(self, method: str, path: str) -> tuple[str, dict[str, Any]]:
        for template, methods in self.document["paths"].items():
            if re.fullmatch(re.sub(r"{\w+}", "[^/]+", template), path):
                return template, methods[method.lower()]
        raise AssertionError(f"{method} {path} is not described")

    def check(self, answer: httpx.Response) -> None:
        answer.read()
        request = answer.request
        _, operation = self.operation_of(request.method, request.url.path)
        name, status = operation["operationId"], str(answer.status_code)
        response = operation["responses"][status]
        for header, described in response["headers"].items():
            described = self.resolved(described)
            if header in answer.headers:
                kind = described["schema"].get("type")
                value: Any = answer.headers[header]
                self.validate(int(value) if kind == "integer" else value, described["schema"])
            else:
                assert not described.get("required"), (name, status, header)
        if "content" not in response:
            assert not answer.content
            self.seen.add((name, status, ""))
            return
        ((media_type, content),) = response["content"].items()
        assert answer.headers["Content-Type"].partition(";")[0] == media_type
        value = answer.text if media_type == "text/plain" else answer.json()
        self.validate(value, content["schema"])
        what = slug(answer) if media_type.endswith("problem+json") else ""
        self.seen.add((name, status, what))

    def validate(self, value: Any, schema: dict[str, Any]) -> None:
        whole = {**schema, "components": self.document["components"]}
        Draft202012Validator(whole, format_checker=FormatChecker()).validate(value)

    def resolved(self, described: dict[str, Any]) -> dict[str, Any]:
        if "$ref" not in described:
            return described
        _, kind, name = described["$ref"].removeprefix("#/").split("/")
        return dict(self.document["components"][kind][name])


@contextmanager
def described(limits: Limits | None = None, **kwargs: Any) -> Iterator[tuple[Any, httpx.Client]]:
    with serving(limits, **kwargs) as client:
        token = kwargs.get("token")
        entry = {"Authorization": f"Bearer {token}"} if token else {}
        book = Described(client.get("/openapi.json", headers=entry).json())
        client.event_hooks["response"].append(book.check)
        yield book, client


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    with serving() as client:
        return dict(client.get("/openapi.json").json())


def operations(document: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (path, method): operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def test_document_and_routes_tell_of_each_other(document: dict[str, Any]) -> None:
    host = EnvHost([Served(ENV_ID)], Limits())
    routed = {
        (route.path, method.lower())
        for route in EnvProtocol(host).routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    assert routed == set(operations(document))
    names = [operation["operationId"] for operation in operations(document).values()]
    assert len(set(names)) == len(names) == 14


def test_public_operations_are_those_without_a_token(document: dict[str, Any]) -> None:
    public = {p for (p, _), entry in operations(document).items() if entry.get("security") == []}
    assert public == set(PUBLIC_PATHS)
    for (path, _), entry in operations(document).items():
        assert ("401" in entry["responses"]) == (path not in PUBLIC_PATHS)


def test_every_schema_is_one_and_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    schemas = references = 0

    def walk(value: Any) -> None:
        nonlocal schemas, references
        if isinstance(value, list):
            for member in value:
                walk(member)
        elif isinstance(value, dict):
            if "$ref" in value:
                references += 1
                target: Any = document
                for part in value["$ref"].removeprefix("#/").split("/"):
                    target = target[part]
            if "schema" in value and isinstance(value["schema"], dict):
                schemas += 1
                Draft202012Validator.check_schema(value["schema"])
            for member in value.values():
                walk(member)

    walk(document)
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    assert schemas > 80 and references > 150


def test_every_problem_that_is_described_has_its_status(document: dict[str, Any]) -> None:
    told = set()
    for entry in operations(document).values():
        for status, response in entry["responses"].items():
            schema = response.get("content", {}).get("application/problem+json", {}).get("schema")
            if schema:
                for urn in schema["allOf"][1]["properties"]["type"]["enum"]:
                    told.add(urn.removeprefix(TYPE_PREFIX))
                    assert PROBLEMS[urn.removeprefix(TYPE_PREFIX)][0] == int(status)
    # a wrong method is no operation; the others belong to servers that search, and to the shop
    others = {"method", "media-type", "index-failed", "search-timeout"}
    assert told == set(PROBLEMS) - others


def test_answers_are_as_described() -> None:
    with described() as (book, client):
        for path in ("/healthz", "/readyz", "/v1/info", "/metrics", "/openapi.json"):
            assert client.get(path).status_code == 200
        for path in ("/v1/info", "/metrics", "/openapi.json", "/v1/sessions"):
            assert client.get(f"{path}?zz=1").status_code == 422
        keyed = {"Idempotency-Key": "k"}
        for lease in (30, 30, 31):
            body = {"env_id": ENV_ID, "lease_s": lease, "env_kwargs": {"bonus": 1}}
            client.post("/v1/sessions", json=body, headers=keyed)
        for bad in ({"env_id": "Chess-v0"}, {}, {"env_id": ENV_ID, "env_kwargs": {"data": "."}}):
            client.post("/v1/sessions", json=bad)
        client.post("/v1/sessions", content=b"{")
        client.post("/v1/sessions", content=b" " * (3 << 20))
        session = create(client)
        client.get("/v1/sessions")
        client.get(f"{session}/observation")
        step(client, session, 1, 0, "add[1]")
        for seed in (1, 1, 2):
            client.post(f"{session}/reset", json={"seed": seed}, headers=keyed)
        client.post(f"{session}/reset", json={"task_id": "none"})
        client.post(f"{session}/reset", json={"split": "none"})
        reset(client, session, task_id="count-4")
        for action in ("add[1]", "add[1]", "add[2]"):
            step(client, session, 2, 0, action)
        step(client, session, 9, 9, "add[1]")
        client.post(f"{session}/step", json={})
        for index, action in enumerate(("add[3]", "add[1]", "add[1]"), 1):
            step(client, session, 2, index, action)
        for part in ("observation", "state", "tasks?offset=1&limit=2", "tasks?limit=x"):
            client.get(f"{session}/{part}")
        for part in ("observation", "state"):
            client.get(f"{session}/{part}?zz=1")
        client.delete(f"{session}?zz=1")
        client.post(f"{session}/renew", json={"lease_s": 60})
        client.post(f"{session}/renew", json={"lease_s": 0})
        for missing in ("/v1/sessions/none", session):
            client.delete(missing)
            for part in ("observation", "state", "tasks"):
                client.get(f"{missing}/{part}")
            for part in ("reset", "step", "renew"):
                client.post(f"{missing}/{part}", json={})
    for entry in operations(book.document).values():
        name = entry["operationId"]
        for status, response in entry["responses"].items():
            if status < "300":
                assert (name, status, "") in book.seen
            for urn in problem_types(response):
                kind = urn.removeprefix(TYPE_PREFIX)
                if kind not in RARE and (name, kind) != ("create", "no-session"):
                    assert (name, status, kind) in book.seen, (name, status, kind)


def problem_types(response: dict[str, Any]) -> list[str]:
    content = response.get("content", {}).get("application/problem+json")
    return list(content["schema"]["allOf"][1]["properties"]["type"]["enum"]) if content else []


def test_answers_in_trouble_are_as_described(caplog: pytest.LogCaptureFixture) -> None:
    hold = Hold()
    limits = Limits(max_sessions=1, step_timeout_s=1.0)
    with described(limits, hold=hold) as (book, client), ThreadPoolExecutor(1) as pool:
        session = create(client)
        client.post("/v1/sessions", json={"env_id": ENV_ID})
        reset(client, session)
        slow = pool.submit(step, client, session, 1, 0, "say[wait]")
        assert hold.entered.wait(10)
        step(client, session, 1, 0, "add[1]")
        assert slow.result().status_code == 504
        hold.release.set()
        for part in ("observation", "state", "tasks"):
            assert slug(client.get(f"{session}/{part}")) == "broken"
        for part in ("reset", "step", "renew"):
            assert slug(client.post(f"{session}/{part}", json={})) == "broken"
        assert client.delete(session).status_code == 204
        failing = create(client)
        reset(client, failing)
        step(client, failing, 1, 0, "say[nan]")
    assert {
        ("create", "429", "full"),
        ("step", "409", "busy"),
        ("step", "504", "step-timeout"),
        ("step", "500", "env-error"),
    } <= book.seen
    with described(token="sesam", hosts=("localhost",)) as (book, client):
        client.get("/v1/info")
        client.get("/healthz", headers={"Host": "evil.example"})
    assert book.seen == {("info", "401", "unauthorized"), ("healthz", "421", "forbidden-host")}
    with described(bonus=-1) as (book, client):  # cannot load
        client.get("/readyz")
        client.post("/v1/sessions", json={"env_id": ENV_ID})
    assert book.seen == {("readyz", "503", ""), ("create", "503", "overloaded")}


def test_headers_and_parameters_are_told(document: dict[str, Any]) -> None:
    told = operations(document)
    for (path, method), entry in told.items():
        references = {p["$ref"].rpartition("/")[2] for p in entry["parameters"] if "$ref" in p}
        keyed = (path, method) in {
            ("/v1/sessions", "post"),
            ("/v1/sessions/{session_id}/reset", "post"),
        }
        assert references == {"X-Request-Id", *(["Idempotency-Key"] if keyed else [])}
        in_path = [p["name"] for p in entry["parameters"] if p.get("in") == "path"]
        assert in_path == (["session_id"] if "{" in path else [])
    tasks = told["/v1/sessions/{session_id}/tasks", "get"]["parameters"]
    assert [p["name"] for p in tasks if p.get("in") == "query"] == ["offset", "limit"]
    replayed = {
        entry["operationId"]
        for entry in told.values()
        if any("Agentgym-Replayed" in r["headers"] for r in entry["responses"].values())
    }
    assert replayed == {"create", "reset", "step"}


VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([-1, 0, 1, 86_400, 86_401])
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: not x.is_integer())
    | st.text(max_size=3)
    | st.lists(st.integers(), max_size=1)
    | st.dictionaries(st.text(max_size=2), st.integers(), max_size=1)
)


@given(field=st.sampled_from([*CREATE_FIELDS.values(), *RESET_FIELDS.values()]), value=VALUES)
def test_a_field_accepts_what_its_schema_says(field: Field, value: Any) -> None:
    absent = value is None and not field.required
    valid = Draft202012Validator(field_schema(field)).is_valid(value)
    assert valid == (absent or field.accepts(value))


def test_a_body_is_described_by_what_checks_it() -> None:
    schema = object_schema(STEP_FIELDS)
    assert schema["required"] == ["episode", "step_index", "action"]
    lease = object_schema(CREATE_FIELDS)["properties"]["lease_s"]
    assert lease["type"] == ["number", "null"]
    assert (lease["minimum"], lease["maximum"]) == (1, 86_400)
