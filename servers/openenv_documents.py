"""What OpenEnv's plain HTTP addresses say of an environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym_suite.registry import ENVIRONMENTS
from agentgym_suite.servers.openenv_frames import LONGEST_EPISODE_ID

NO_STATE: Mapping[str, Any] = {
    "episode_id": None,
    "step_count": 0,
    "task_id": "",
    "state_hash": "",
}
_SUMMARIES = {environment.id: environment.summary for environment in ENVIRONMENTS}


def metadata(info: Mapping[str, Any]) -> dict[str, Any]:
    """The document of ``/metadata``, from an environment's entry in ``/v1/info``."""
    return {
        "name": info["env_id"],
        "description": _SUMMARIES.get(info["env_id"], "An environment over text"),
        "readme_content": None,
        "version": info["version"],
        "author": None,
        "documentation_url": None,
    }


def schemas(info: Mapping[str, Any]) -> dict[str, Any]:
    """The document of ``/schema``: JSON schemas of action, observation and state."""
    text = {"type": "string", "maxLength": info["action_space"]["max_length"]}
    examples = info["action_space"].get("examples", [])[:3]
    return {
        "action": {
            "title": f"{info['env_id']} action",
            "type": "object",
            "properties": {
                "text": {**text, "examples": examples} if examples else text,
                "metadata": {"type": "object", "description": "ignored"},
            },
            "required": ["text"],
            "additionalProperties": False,
        },
        "observation": {
            "title": f"{info['env_id']} observation",
            "type": "object",
            "properties": {
                "text": {"type": "string", "maxLength": info["observation_space"]["max_length"]},
                "terminated": {"type": "boolean"},
                "truncated": {"type": "boolean"},
                "info": {"type": "object", "required": list(info["info_keys"])},
            },
            "required": ["text", "terminated", "truncated", "info"],
            "additionalProperties": False,
        },
        "state": {
            "title": f"{info['env_id']} state",
            "type": "object",
            "properties": {
                "episode_id": {"type": ["string", "null"], "maxLength": LONGEST_EPISODE_ID},
                "step_count": {"type": "integer", "minimum": 0},
                "task_id": {"type": "string"},
                "state_hash": {"type": "string"},
            },
            "required": list(NO_STATE),
            "additionalProperties": False,
        },
    }
