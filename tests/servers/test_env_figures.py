from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from agentgym_suite.servers import hosting
from agentgym_suite.servers.env_specs import Served
from agentgym_suite.servers.hosting import EnvHost, Limits
from agentgym_suite.versions import suite_version
from tests.servers.counting_server import ENV_ID, Hold
from tests.servers.protocol_calls import create, reset, serving, slug, step, wait_until


class Figures:
    """What ``/metrics`` says at the moment."""

    def __init__(self, client: httpx.Client) -> None:
        answer = client.get("/metrics")
        assert answer.headers["Content-Type"].startswith("text/plain")
        self.text = answer.text
        self.families = {f.name: f for f in text_string_to_metric_families(answer.text)}

    def __call__(self, name: str, **labels: str) -> float:
        values = [
            sample.value
            for family in self.families.values()
            for sample in family.samples
            if sample.name == name and sample.labels == labels
        ]
        assert len(values) == 1, (name, labels)
        return values[0]

    def steps(self) -> dict[str, float]:
        return {
            sample.labels["outcome"]: sample.value
            for sample in self.families["agentgym_steps"].samples
            if sample.name == "agentgym_steps_total" and sample.value
        }

    def closed(self) -> dict[str, float]:
        return {
            sample.labels["reason"]: sample.value
            for sample in self.families["agentgym_sessions_closed"].samples
            if sample.name == "agentgym_sessions_closed_total" and sample.value
        }


def test_every_figure_is_there_before_anything_happened() -> None:
    with serving() as client:
        client.get("/healthz")
        figures = Figures(client)
        for name in ("created", "closed"):
            assert f"agentgym_sessions_{name}" in figures.families
        assert figures("agentgym_sessions_active", env_id=ENV_ID) == 0
        assert figures("agentgym_queue_depth") == figures("agentgym_threads_lost_total") == 0
        assert figures("agentgym_replayed_responses_total") == 0
        for reason in ("deleted", "expired", "broken", "shutdown"):
            assert figures("agentgym_sessions_closed_total", reason=reason) == 0
        for outcome in ("running", "terminated", "truncated", "error", "timeout"):
            assert figures("agentgym_steps_total", env_id=ENV_ID, outcome=outcome) == 0
        info = {"version": suite_version(), "protocol": "agentgym-suite/1"}
        assert figures("agentgym_info", **info) == 1
        for kind in ("step", "reset"):
            bounds = [
                float(sample.labels["le"])
                for sample in figures.families[f"agentgym_{kind}_seconds"].samples
                if "le" in sample.labels
            ]
            assert (bounds[0], bounds[-2:]) == (0.0001, [60.0, float("inf")])


def test_requests_are_counted_by_route_and_status() -> None:
    with serving() as client:
        session = create(client)
        client.get(f"{session}/state")
        client.get("/v1/sessions/none/state")
        client.get("/nowhere")
        figures = Figures(client)
        route = "/v1/sessions/{session_id}/state"
        for status in ("200", "404"):
            seen = {"route": route, "method": "GET", "status": status}
            assert figures("agentgym_http_requests_total", **seen) == 1
        assert figures("agentgym_http_request_seconds_count", route=route) == 2
        lost = {"route": "other", "method": "GET", "status": "404"}
        assert figures("agentgym_http_requests_total", **lost) == 1
        assert session.rpartition("/")[2] not in figures.text


def test_an_episode_is_counted() -> None:
    with serving() as client:
        session = create(client)
        reset(client, session, task_id="count-4")
        for index, action in enumerate(("add[1]", "add[1]", "add[3]")):
            step(client, session, 1, index, action)
        short = create(client, env_kwargs={"max_episode_steps": 1})
        reset(client, short, task_id=9)
        step(client, short, 1, 0, "add[1]")
        figures = Figures(client)
        assert figures("agentgym_sessions_created_total") == 2
        assert figures("agentgym_sessions_active", env_id=ENV_ID) == 2
        assert figures.steps() == {"running": 2, "terminated": 1, "truncated": 1}
        assert figures("agentgym_step_seconds_count") == 4
        assert figures("agentgym_reset_seconds_count") == 2
        assert 0 < figures("agentgym_step_seconds_sum") < 60


def test_what_was_refused_was_not_played() -> None:
    with serving(Limits(max_sessions=1)) as client:
        for kwargs in ({"bonus": -1}, {"data": "/"}):
            body = {"env_id": ENV_ID, "env_kwargs": kwargs}
            assert client.post("/v1/sessions", json=body).status_code == 422
        session = create(client)
        assert slug(client.post("/v1/sessions", json={"env_id": ENV_ID})) == "full"
        assert slug(client.post(f"{session}/reset", json={"task_id": "none"})) == "no-task"
        assert slug(step(client, session, 1, 0, "add[1]")) == "not-reset"
        reset(client, session)
        assert slug(step(client, session, 1, 5, "add[1]")) == "step-index"
        client.get(f"{session}/tasks")
        figures = Figures(client)
        assert figures("agentgym_sessions_created_total") == 1
        assert figures.closed() == figures.steps() == {}
        assert figures("agentgym_reset_seconds_count") == 1
        assert figures("agentgym_step_seconds_count") == 0


def test_answers_given_again_are_counted_and_their_work_is_not() -> None:
    with serving() as client:
        keyed = {"Idempotency-Key": "k"}
        body = {"env_id": ENV_ID}
        created = [client.post("/v1/sessions", json=body, headers=keyed) for _ in "ab"]
        session = created[0].headers["Location"]
        for _ in "ab":
            client.post(f"{session}/reset", json={"task_id": 9}, headers=keyed)
        for _ in "abc":
            step(client, session, 1, 0, "add[1]")
        figures = Figures(client)
        assert figures("agentgym_replayed_responses_total") == 1 + 1 + 2
        assert figures("agentgym_sessions_created_total") == 1
        assert figures("agentgym_reset_seconds_count") == 1
        assert figures.steps() == {"running": 1}


def test_sessions_end_deleted_expired_or_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosting, "LONGEST_REAPER_PAUSE_S", 0.05)
    with serving() as client:
        deleted = create(client)
        for _ in "ab":  # the second time, nothing ends
            client.delete(deleted)
        broken = create(client)
        reset(client, broken)
        assert slug(step(client, broken, 1, 0, "say[nan]")) == "env-error"
        assert Figures(client).steps() == {"error": 1}
        client.delete(broken)
        create(client, lease_s=1)
        wait_until(lambda: "expired" in Figures(client).closed())
        figures = Figures(client)
        assert figures.closed() == {"deleted": 1, "broken": 1, "expired": 1}
        assert figures("agentgym_sessions_active", env_id=ENV_ID) == 0


def test_a_step_that_hangs_is_counted_when_it_is_given_up() -> None:
    hold = Hold()
    with serving(Limits(step_timeout_s=0.2), hold=hold) as client:
        session = create(client)
        reset(client, session)
        assert slug(step(client, session, 1, 0, "say[wait]")) == "step-timeout"
        before = Figures(client)
        assert before.steps() == {"timeout": 1}
        assert before("agentgym_threads_lost_total") == 1
        hold.release.set()
        client.delete(session)
        after = Figures(client)
        assert after.steps() == {"timeout": 1}
        assert after.closed() == {"broken": 1}


def test_waiting_requests_are_counted() -> None:
    hold = Hold()
    with serving(Limits(threads=1), hold=hold) as client, ThreadPoolExecutor(2) as pool:
        sessions = [create(client) for _ in "ab"]
        for session in sessions:
            reset(client, session, task_id=9)
        busy = pool.submit(step, client, sessions[0], 1, 0, "say[wait]")
        assert hold.entered.wait(10)
        waiting = pool.submit(step, client, sessions[1], 1, 0, "add[1]")
        wait_until(lambda: Figures(client)("agentgym_queue_depth") == 1)
        hold.release.set()
        assert busy.result().status_code == waiting.result().status_code == 200
        assert Figures(client)("agentgym_queue_depth") == 0


@contextmanager
def lone_host() -> Iterator[EnvHost]:
    host = EnvHost([Served(ENV_ID)], Limits())
    yield host
    host.pool.close()


def test_a_dialect_is_counted_and_so_is_the_end_of_the_server() -> None:
    async def play(host: EnvHost) -> dict[str, Any]:
        await host.start()
        while host.loading:
            await asyncio.sleep(0.005)
        place, _ = await host.open(ENV_ID, {}, None)
        value = place.value
        await host.use(place, ("dialect", object()), lambda: value.reset({"task_id": 9}, ""))
        answer = await host.use(place, ("dialect", object()), lambda: value.step("add[1]"))
        await host.stop()
        return dict(json.loads(answer))

    with lone_host() as host:
        assert asyncio.run(play(host))["step_index"] == 1
        value = host.figures.registry.get_sample_value
        assert value("agentgym_steps_total", {"env_id": ENV_ID, "outcome": "running"}) == 1
        assert value("agentgym_reset_seconds_count") == 1
        assert value("agentgym_sessions_created_total") == 1
        assert value("agentgym_sessions_closed_total", {"reason": "shutdown"}) == 1
        assert value("agentgym_sessions_active", {"env_id": ENV_ID}) == 0


def test_two_applications_count_apart() -> None:
    with serving() as one, serving() as other:
        create(one)
        assert Figures(one)("agentgym_sessions_created_total") == 1
        assert Figures(other)("agentgym_sessions_created_total") == 0


def test_figures_are_for_those_with_the_token() -> None:
    with serving(token="sesam") as client:
        assert slug(client.get("/metrics")) == "unauthorized"
        entry = {"Authorization": "Bearer sesam"}
        assert "agentgym_info" in client.get("/metrics", headers=entry).text
