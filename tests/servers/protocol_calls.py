"""What a client of the environment server does, in one line each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from agentgym_suite.servers.env_app import env_app
from agentgym_suite.servers.env_specs import Served
from agentgym_suite.servers.hosting import EnvHost, Limits
from tests.servers.counting_server import ENV_ID, register
from tests.servers.in_process import running

register()


@contextmanager
def serving(
    limits: Limits | None = None, *, token: str | None = None, hosts: Any = (), **kwargs: Any
) -> Iterator[httpx.Client]:
    host = EnvHost([Served(ENV_ID, kwargs)], limits or Limits())
    with running(env_app(host, token=token, hosts=hosts)) as transport:
        deadline = time.monotonic() + 10
        while host.status[0] == "starting" and time.monotonic() < deadline:
            time.sleep(0.005)
        with httpx.Client(transport=transport, base_url="http://localhost") as client:
            yield client


def create(client: httpx.Client, **body: Any) -> str:
    answer = client.post("/v1/sessions", json={"env_id": ENV_ID, **body})
    assert answer.status_code == 201, answer.text
    assert answer.headers["Location"] == f"/v1/sessions/{answer.json()['session_id']}"
    return str(answer.headers["Location"])


def reset(client: httpx.Client, session: str, **body: Any) -> dict[str, Any]:
    answer = client.post(f"{session}/reset", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def step(
    client: httpx.Client, session: str, episode: int, index: int, action: str
) -> httpx.Response:
    return client.post(
        f"{session}/step", json={"episode": episode, "step_index": index, "action": action}
    )


def slug(answer: httpx.Response) -> str:
    assert answer.headers["Content-Type"] == "application/problem+json", answer.text
    document = answer.json()
    assert document["status"] == answer.status_code
    assert document["request_id"] == answer.headers["X-Request-Id"]
    assert document["detail"] and document["title"]
    return str(document["type"]).removeprefix("urn:agentgym-suite:error:")


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
