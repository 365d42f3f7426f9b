"""The routes of ``agentgym-suite/1``: environments over HTTP, any request of which may be retried.

    GET    /healthz, /readyz, /v1/info, /metrics, /openapi.json
    POST   /v1/sessions                       open a session        (Idempotency-Key)
    GET    /v1/sessions                       list them, ids shortened
    DELETE /v1/sessions/{id}                  end it
    POST   /v1/sessions/{id}/reset            begin an episode      (Idempotency-Key)
    POST   /v1/sessions/{id}/step             {episode, step_index, action}
    POST   /v1/sessions/{id}/renew            a new lease
    GET    /v1/sessions/{id}/observation, /state, /tasks

Errors are problem documents; see ``problems``. What each operation takes and answers stands in one
table, of which the routes and ``/openapi.json`` are made.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from agentgym_suite.env import MAX_ACTION_CHARACTERS
from agentgym_suite.servers.bodies import (
    MAX_BODY_BYTES,
    Field,
    invalid,
    read_object,
)
from agentgym_suite.servers.creations import Creations
from agentgym_suite.servers.env_sessions import check_action
from agentgym_suite.servers.env_specs import MOST_IDS, PROTOCOL
from agentgym_suite.servers.hosting import EnvHost, EnvPlace
from agentgym_suite.servers.http_metrics import metrics_response
from agentgym_suite.servers.openapi import LONGEST_KEY, Operation, openapi_document
from agentgym_suite.servers.problems import JSON_TYPE, Problem, encode_json
from agentgym_suite.servers.sessions import LONGEST_LEASE_S
from agentgym_suite.versions import suite_version

REPLAYED_HEADER = "Agentgym-Replayed"
METRICS_MEDIA_TYPE = "text/plain"

LEASE = Field((int, float), f"1 to {LONGEST_LEASE_S} seconds", minimum=1, maximum=LONGEST_LEASE_S)
CREATE_FIELDS = {
    "env_id": Field((str,), "an environment id", required=True),
    "env_kwargs": Field((dict,), "an object of arguments"),
    "lease_s": LEASE,
}
RESET_FIELDS = {
    "seed": Field((int,), "a whole number from 0 on", minimum=0),
    "task_id": Field((str, int), "a task id or number"),
    "split": Field((str,), "a split's name"),
    "options": Field((dict,), "an object of reset options"),
}
STEP_FIELDS = {
    "episode": Field((int,), "the episode's number", required=True),
    "step_index": Field((int,), "the number of steps made", required=True),
    "action": Field((str,), "the action's text", required=True),
}
RENEW_FIELDS = {"lease_s": LEASE}
TASKS_FIELDS = {
    "offset": Field((int,), "a whole number from 0 on", minimum=0),
    "limit": Field((int,), "a whole number from 0 on", minimum=0),
}

# what can go wrong with a session, and with work in it
_LOST = ("no-session", "lease-expired", "broken")
_WORK = (*_LOST, "busy", "overloaded", "step-timeout")


class EnvProtocol:
    """The handlers of the protocol over one host.

    Args:
        host: the environments and their sessions.
    """

    def __init__(self, host: EnvHost) -> None:
        self.host = host
        self._creations = Creations()
        self._document = encode_json(
            openapi_document(self.operations, title=PROTOCOL, version=suite_version())
        )

    @property
    def routes(self) -> list[BaseRoute]:
        """The route table."""
        return [operation.route for operation in self.operations]

    @property
    def operations(self) -> list[Operation]:
        """What can be asked for, and what may be answered."""
        session = "/v1/sessions/{session_id}"
        return [
            Operation("GET", "/healthz", self.healthz, {200: "Health"}, public=True),
            Operation(
                "GET", "/readyz", self.readyz, {200: "Readiness", 503: "Readiness"}, public=True
            ),
            Operation("GET", "/v1/info", self.info, {200: "Info"}, ("loading",)),
            Operation(
                "GET", "/metrics", self.metrics, {200: "Figures"}, media_type=METRICS_MEDIA_TYPE
            ),
            Operation("GET", "/openapi.json", self.openapi, {200: "OpenAPI"}),
            Operation(
                "POST",
                "/v1/sessions",
                self.create,
                {201: "Session"},
                ("no-env", "forbidden-kwarg", "key-mismatch", "full", "draining", "loading")
                + ("no-session", "overloaded", "step-timeout"),
                body=CREATE_FIELDS,
                repeatable=True,
                keyed=True,
            ),
            Operation("GET", "/v1/sessions", self.sessions, {200: "Sessions"}),
            Operation("DELETE", session, self.delete, {204: ""}, ("no-session",)),
            Operation(
                "POST",
                f"{session}/reset",
                self.reset,
                {200: "Beginning"},
                (*_WORK, "key-mismatch", "no-task"),
                body=RESET_FIELDS,
                repeatable=True,
                keyed=True,
            ),
            Operation(
                "POST",
                f"{session}/step",
                self.step,
                {200: "Transition"},
                (*_WORK, "not-reset", "episode-over", "step-index", "action-mismatch"),
                body=STEP_FIELDS,
                repeatable=True,
            ),
            Operation(
                "POST", f"{session}/renew", self.renew, {200: "Lease"}, _LOST, body=RENEW_FIELDS
            ),
            Operation(
                "GET",
                f"{session}/observation",
                self.observation,
                {200: "Observation"},
                (*_LOST, "not-reset"),
            ),
            Operation("GET", f"{session}/state", self.state, {200: "State"}, _LOST),
            Operation(
                "GET", f"{session}/tasks", self.tasks, {200: "Tasks"}, _WORK, query=TASKS_FIELDS
            ),
        ]

    async def healthz(self, request: Request) -> Response:
        """The process is alive."""
        return json_response({"status": "ok"})

    async def readyz(self, request: Request) -> Response:
        """Whether sessions can be opened, and why not."""
        status, reason = self.host.status
        return json_response(
            {"status": status, "reason": reason}, status=200 if status == "ready" else 503
        )

    async def info(self, request: Request) -> Response:
        """What is served, and the limits; a 503 until every environment was tried."""
        if self.host.loading:
            raise Problem("loading", f"{self.host.status[1]}; try again", retry_after_s=1)
        return json_response(
            {
                "protocol": PROTOCOL,
                "suite_version": suite_version(),
                "envs": list(self.host.infos.values()),
                "limits": {
                    **asdict(self.host.limits),
                    "longest_lease_s": LONGEST_LEASE_S,
                    "body_bytes": MAX_BODY_BYTES,
                    "action_characters": MAX_ACTION_CHARACTERS,
                },
                "uptime_s": round(self.host.uptime_s, 3),
            }
        )

    async def metrics(self, request: Request) -> Response:
        """The figures for Prometheus."""
        return metrics_response(self.host.figures.registry)

    async def openapi(self, request: Request) -> Response:
        """This description."""
        return raw_response(self._document)

    async def create(self, request: Request) -> Response:
        """Open a session; with an ``Idempotency-Key`` a repeated request gets the same one."""
        body = await read_object(request, CREATE_FIELDS)
        body_text = encode_json(body).decode("utf-8")
        answer, repeated = await self._creations.once(
            idempotency_key(request), body_text, lambda: self._create(body)
        )
        session_id, document = answer
        headers = {"Location": f"/v1/sessions/{session_id}"}
        return self._repeatable(document, repeated, status=201, headers=headers)

    async def _create(self, body: dict[str, Any]) -> tuple[str, bytes]:
        place, spec = await self.host.open(
            body["env_id"], body.get("env_kwargs", {}), body.get("lease_s")
        )
        document = {
            "session_id": place.id,
            "env_id": place.value.env_id,
            "lease_s": place.lease_s,
            "lease_expires_at": self._lease_end(place),
            "spec": spec,
        }
        return place.id, encode_json(document)

    async def sessions(self, request: Request) -> Response:
        """The live sessions; their ids are secrets and stay shortened."""
        table = self.host.table
        return json_response(
            {
                "sessions": [
                    {
                        "session": place.short_id,
                        "env_id": place.value.env_id,
                        "episode": place.value.episode,
                        "step_index": place.value.step_index,
                        "age_s": round(table.age(place), 3),
                        "broken": bool(place.value.broken),
                    }
                    for place in table.live()
                ]
            }
        )

    async def delete(self, request: Request) -> Response:
        """End a session; again if need be."""
        self.host.end(request.path_params["session_id"])
        return Response(status_code=204)

    async def reset(self, request: Request) -> Response:
        """Begin an episode."""
        place = self._place(request)
        body = await read_object(request, RESET_FIELDS)
        for name in ("task_id", "split"):
            if name in body and name in body.get("options", {}):
                raise invalid(name, "is given twice; leave it out of options")
        key = idempotency_key(request)
        value = place.value
        answer, repeated = await self.host.use_or_repeat(
            place,
            # without a key every reset is a new one, so nothing may wait for another's answer
            ("reset", key, encode_json(body)) if key else ("reset", object()),
            lambda: value.reset(body, key),
            lambda: value.repeated_reset(key, body),
        )
        return self._repeatable(answer, repeated)

    async def step(self, request: Request) -> Response:
        """Play one action, once however often it is sent."""
        place = self._place(request)
        body = await read_object(request, STEP_FIELDS)
        episode, index, action = body["episode"], body["step_index"], body["action"]
        check_action(action)
        value = place.value
        answer, repeated = await self.host.use_or_repeat(
            place,
            ("step", episode, index, action),
            lambda: value.step(action),
            lambda: value.repeated_step(episode, index, action),
        )
        return self._repeatable(answer, repeated)

    async def renew(self, request: Request) -> Response:
        """Start the lease anew."""
        place = self._place(request)
        body = await read_object(request, RENEW_FIELDS)
        self.host.table.renew(place, body.get("lease_s"))
        return json_response({"lease_expires_at": self._lease_end(place)})

    async def observation(self, request: Request) -> Response:
        """The current observation again."""
        value = self._place(request).value
        if value.episode == 0:
            raise Problem("not-reset", "the session has no episode; reset it first")
        return json_response(
            {
                "episode": value.episode,
                "step_index": value.step_index,
                "observation": value.observation,
            }
        )

    async def state(self, request: Request) -> Response:
        """Where the session stands."""
        place = self._place(request)
        value = place.value
        return json_response(
            {
                "env_id": value.env_id,
                "episode": value.episode,
                "step_index": value.step_index,
                "state_hash": value.state_hash,
                "running": value.playing,
                "lease_expires_at": self._lease_end(place),
            }
        )

    async def tasks(self, request: Request) -> Response:
        """Task ids, a part at a time: ``?offset=&limit=``."""
        place = self._place(request)
        query = request.state.query
        offset, limit = query.get("offset", 0), query.get("limit", MOST_IDS)
        value = place.value
        answer = await self.host.use(
            place, ("tasks", offset, limit), lambda: value.tasks(offset, limit)
        )
        return raw_response(answer)

    def _repeatable(
        self,
        body: bytes,
        repeated: bool,
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        marks = dict(headers or {})
        if repeated:
            self.host.figures.replayed()
            marks[REPLAYED_HEADER] = "1"
        return raw_response(body, status=status, headers=marks)

    def _place(self, request: Request) -> EnvPlace:
        return self.host.find(request.path_params["session_id"])

    def _lease_end(self, place: EnvPlace) -> str:
        left = timedelta(seconds=self.host.table.expires_in(place))
        return (datetime.fromtimestamp(time.time(), UTC) + left).isoformat(timespec="seconds")


def idempotency_key(request: Request) -> str:
    """The request's key, "" if none.

    Raises:
        Problem: ``invalid``: it is too long.
    """
    key = request.headers.get("idempotency-key", "")
    if len(key) > LONGEST_KEY:
        raise invalid("Idempotency-Key", f"is longer than {LONGEST_KEY}; send a shorter one")
    return key


def json_response(value: Any, *, status: int = 200) -> Response:
    """A JSON answer."""
    return raw_response(encode_json(value), status=status)


def raw_response(
    body: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """An answer from JSON bytes."""
    return Response(body, status, headers=headers, media_type=JSON_TYPE)
