"""The JSON schemas of what an environment server answers, by name.

They are closed: an answer with a member that is not told here is a mistake, which tests find.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym_suite.servers.env_specs import PROTOCOL
from agentgym_suite.servers.problems import TYPE_PREFIX

Schema = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}
TIME: Schema = {"type": "string", "format": "date-time"}
OBJECT: Schema = {"type": "object"}
TEXTS: Schema = {"type": "array", "items": TEXT}
TOOLS: Schema = {"type": "array", "items": OBJECT}
HORIZON: Schema = {"type": ["integer", "null"], "description": "null for an endless episode"}


def record(_optional: Mapping[str, Schema] | None = None, /, **members: Schema) -> Schema:
    """An object with these members, the optional ones beside them, and no others."""
    return {
        "type": "object",
        "properties": {**members, **(_optional or {})},
        "required": list(members),
        "additionalProperties": False,
    }


def ref(name: str) -> Schema:
    """The schema of this name."""
    return {"$ref": f"#/components/schemas/{name}"}


_SPACES: Mapping[str, Schema] = {
    "observation_space": ref("Space"),
    "action_space": ref("Space"),
    "max_episode_steps": HORIZON,
    "metadata": OBJECT,
    "tools": TOOLS,
    "info_keys": TEXTS,
    "goal_key": TEXT,
}
_WHERE: Mapping[str, Schema] = {"episode": COUNT, "step_index": COUNT}

SCHEMAS: Mapping[str, Schema] = {
    "Health": record(status={"const": "ok"}),
    "Readiness": record(
        status={"enum": ["ready", "starting", "failed", "draining"]},
        reason=TEXT,
    ),
    "Info": record(
        protocol={"const": PROTOCOL},
        suite_version=TEXT,
        envs={"type": "array", "items": ref("Env")},
        limits=record(
            max_sessions=COUNT,
            lease_s=NUMBER,
            step_timeout_s=NUMBER,
            threads=COUNT,
            queue=COUNT,
            longest_lease_s=COUNT,
            body_bytes=COUNT,
            action_characters=COUNT,
        ),
        uptime_s=NUMBER,
    ),
    "Env": record(
        env_id=TEXT,
        version=TEXT,
        **_SPACES,
        splits={"type": "object", "additionalProperties": COUNT},
        tasks=COUNT,
        tasks_digest=TEXT,
        provenance=OBJECT,
        remote_kwargs=TEXTS,
    ),
    "Space": record(
        {"examples": TEXTS},
        type={"const": "UnicodeText"},
        min_length=COUNT,
        max_length=COUNT,
    ),
    "Session": record(
        session_id=TEXT,
        env_id=TEXT,
        lease_s=NUMBER,
        lease_expires_at=TIME,
        spec=record(**_SPACES),
    ),
    "Sessions": record(
        sessions={
            "type": "array",
            "items": record(
                session={"type": "string", "description": "the id, shortened"},
                env_id=TEXT,
                **_WHERE,
                age_s=NUMBER,
                broken=FLAG,
            ),
        }
    ),
    "Beginning": record(**_WHERE, observation=TEXT, info=OBJECT),
    "Transition": record(
        **_WHERE,
        observation=TEXT,
        reward=NUMBER,
        terminated=FLAG,
        truncated=FLAG,
        info=OBJECT,
    ),
    "Lease": record(lease_expires_at=TIME),
    "Observation": record(**_WHERE, observation=TEXT),
    "State": record(
        env_id=TEXT,
        **_WHERE,
        state_hash=TEXT,
        running={"type": "boolean", "description": "whether the episode goes on"},
        lease_expires_at=TIME,
    ),
    "Tasks": record(
        {
            "prefix": {
                "type": "string",
                "description": "ids are this, a dash and a number from 0 on",
            },
            "ids": TEXTS,
        },
        tasks=COUNT,
        digest=TEXT,
        splits={
            "type": "object",
            "additionalProperties": {
                "anyOf": [{"type": "array", "items": COUNT}, record(start=COUNT, stop=COUNT)]
            },
        },
    ),
    "Figures": {"type": "string", "description": "Prometheus' text format"},
    "OpenAPI": {"type": "object", "required": ["openapi", "info", "paths"]},
}

PROBLEM: Schema = record(
    {
        "session_id": TEXT,
        "field": {"type": "string", "description": "the member of the request that is wrong"},
        "reason": {"type": "string", "description": "how the session ended"},
        "expected_episode": COUNT,
        "expected_step_index": COUNT,
    },
    type={"type": "string", "pattern": f"^{TYPE_PREFIX}[a-z-]+$"},
    title=TEXT,
    status=COUNT,
    detail=TEXT,
    request_id=TEXT,
)
