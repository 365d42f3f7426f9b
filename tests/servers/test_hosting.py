from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from agentgym_suite import remote_client
from agentgym_suite.remote import RemoteEnv
from agentgym_suite.servers import hosting
from agentgym_suite.servers.env_app import env_app
from agentgym_suite.servers.env_specs import Served
from agentgym_suite.servers.hosting import EnvHost, Limits
from tests.servers.counting_server import ENV_ID, Closed, Hold
from tests.servers.in_process import running
from tests.servers.protocol_calls import create, reset, serving, slug, step, wait_until


def test_a_server_that_cannot_load_is_not_ready(caplog: pytest.LogCaptureFixture) -> None:
    with serving(bonus=-1) as client:
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json()["status"] == "failed"
        assert slug(client.post("/v1/sessions", json={"env_id": ENV_ID})) == "overloaded"
    assert "bonus is -1; give 0 or more" in caplog.text
    assert "Traceback" not in caplog.text  # the user's mistake, not a bug


def test_deleting_is_idempotent_and_closes_the_environment() -> None:
    closed = Closed()
    with serving(closed=closed) as client:
        probes = len(closed)
        session = create(client)
        assert client.delete(session).status_code == 204
        assert client.delete(session).status_code == 204
        assert slug(client.delete("/v1/sessions/never")) == "no-session"
        assert slug(client.get(f"{session}/state")) == "lease-expired"
        assert slug(client.get("/v1/sessions/never/state")) == "no-session"
        create(client)
    assert len(closed) == probes + 2  # the deleted one, and the one open at the end


def test_an_expired_session_is_gone_and_closed() -> None:
    closed = Closed()
    with serving(Limits(lease_s=600), closed=closed) as client:
        session = create(client, lease_s=1)
        probes = len(closed)
        deadline = time.monotonic() + 20
        while len(closed) == probes and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(closed) == probes + 1
        answer = client.get(f"{session}/state")
        assert (answer.status_code, slug(answer)) == (410, "lease-expired")


def test_one_session_too_many_is_refused() -> None:
    with serving(Limits(max_sessions=2)) as client:
        first = create(client)
        create(client)
        answer = client.post("/v1/sessions", json={"env_id": ENV_ID})
        assert (answer.status_code, slug(answer)) == (429, "full")
        assert int(answer.headers["Retry-After"]) >= 1
        client.delete(first)
        create(client)


def test_a_busy_session_refuses_others_and_answers_its_own_duplicate() -> None:
    hold = Hold()
    with serving(hold=hold) as client, ThreadPoolExecutor(2) as threads:
        session = create(client)
        reset(client, session, task_id=9)
        first = threads.submit(step, client, session, 1, 0, "say[wait]")
        assert hold.entered.wait(10)
        answer = step(client, session, 1, 0, "add[1]")
        assert (answer.status_code, slug(answer)) == (409, "busy")
        assert answer.headers["Retry-After"] == "1"
        twin = threads.submit(step, client, session, 1, 0, "say[wait]")
        assert client.get("/healthz").status_code == 200  # the event loop is free
        time.sleep(0.05)
        hold.release.set()
        assert first.result().content == twin.result().content
        assert client.get(f"{session}/state").json()["step_index"] == 1


def test_a_hanging_step_breaks_its_session_only() -> None:
    hold = Hold()
    limits = Limits(step_timeout_s=0.3, threads=1)
    closed = Closed()
    with serving(limits, hold=hold, closed=closed) as client:
        session = create(client)
        reset(client, session, task_id=9)
        answer = step(client, session, 1, 0, "say[wait]")
        assert (answer.status_code, slug(answer)) == (504, "step-timeout")
        assert slug(step(client, session, 1, 0, "say[wait]")) == "broken"
        other = create(client)  # the only thread was replaced
        reset(client, other, task_id=9)
        assert step(client, other, 1, 0, "add[1]").status_code == 200
        assert client.delete(session).status_code == 204
        hold.release.set()


def test_an_environment_is_not_closed_under_a_hanging_step() -> None:
    hold = Hold()
    closed = Closed()
    with serving(Limits(step_timeout_s=0.3, threads=1), hold=hold, closed=closed) as client:
        probes = len(closed)
        session = create(client)
        reset(client, session, task_id=9)
        assert slug(step(client, session, 1, 0, "say[wait]")) == "step-timeout"
        assert client.delete(session).status_code == 204
        create(client)  # in the one thread, after whatever the deletion did
        assert len(closed) == probes
        hold.release.set()
        wait_until(lambda: len(closed) == probes + 1)


@pytest.mark.parametrize("action", ["add[boom]", "say[nan]"])
def test_a_failing_environment_tells_its_inside_to_the_log_only(
    action: str, caplog: pytest.LogCaptureFixture
) -> None:
    with serving() as client:
        session = create(client)
        reset(client, session, task_id=9)
        answer = step(client, session, 1, 0, action)
        assert (answer.status_code, slug(answer)) == (500, "env-error")
        assert "machine" not in answer.text and "Traceback" not in answer.text
        assert answer.json()["request_id"] in caplog.text and "Traceback" in caplog.text
        assert slug(reset_answer(client, session)) == "broken"
        assert client.delete(session).status_code == 204


def reset_answer(client: httpx.Client, session: str) -> httpx.Response:
    return client.post(f"{session}/reset", json={})


def test_draining_keeps_running_sessions() -> None:
    host = EnvHost([Served(ENV_ID)], Limits())
    with running(env_app(host)) as transport:
        while host.status[0] == "starting":
            time.sleep(0.005)
        with httpx.Client(transport=transport, base_url="http://localhost") as client:
            session = create(client)
            host.draining = True
            assert client.get("/readyz").status_code == 503
            assert slug(client.post("/v1/sessions", json={"env_id": ENV_ID})) == "draining"
            reset(client, session)


def test_many_clients_at_once_get_their_own_transcripts() -> None:
    with serving(Limits(threads=4)) as client:

        def play(number: int) -> list[str]:
            session = create(client)
            told = [reset(client, session, task_id=number % 20)["observation"]]
            for index in range(5):
                answer = step(client, session, 1, index, f"say[{number}.{index}]")
                told.append(answer.json()["observation"])
            client.delete(session)
            return told

        with ThreadPoolExecutor(16) as threads:
            for number, told in enumerate(threads.map(play, range(60))):
                assert told[0].startswith(f"Count to {number % 20 + 1}.")
                assert told[1:] == [f"{number}.{index}" for index in range(5)]


def test_what_is_served_is_told_once_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    hold = threading.Event()
    describe = hosting._describe

    def slow(served: Served) -> dict[str, Any]:
        hold.wait(30)
        return describe(served)

    monkeypatch.setattr(hosting, "_describe", slow)
    with running(env_app(EnvHost([Served(ENV_ID)], Limits()))) as transport:
        with httpx.Client(transport=transport, base_url="http://localhost") as client:
            answer = client.get("/v1/info")
            assert (answer.status_code, slug(answer)) == (503, "loading")
            assert answer.headers["Retry-After"] == "1"
        monkeypatch.setattr(remote_client, "MOST_RETRIES", 0)  # loading is not counted as one
        env = RemoteEnv(ENV_ID, "http://localhost", transport=transport)
        with ThreadPoolExecutor(1) as pool:
            spaces = pool.submit(lambda: env.action_space)
            asked = transport.requests.count("GET /v1/info")
            wait_until(lambda: transport.requests.count("GET /v1/info") > asked)
            hold.set()
            assert spaces.result(30).examples == ("add[1]", "add[2]")
        env.close()
