"""What goes to an environment server and comes from it, as JSON has it and as we have it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from agentgym_suite.arguments import shown
from agentgym_suite.calls import CallCodec, Tool
from agentgym_suite.errors import UsageError
from agentgym_suite.spaces import UnicodeText
from agentgym_suite.tasks import NumberedIds, TaskSet

PROTOCOL = "agentgym-suite/1"
IDS_PER_REQUEST = 10_000


def served_env(document: Mapping[str, Any], env_id: str, servers: Sequence[str]) -> dict[str, Any]:
    """An environment's entry of ``/v1/info``.

    Args:
        document: the whole answer.
        env_id: which environment.
        servers: the addresses that were asked.

    Raises:
        UsageError: it is no such server, speaks another protocol or serves other environments.
    """
    protocol = document.get("protocol")
    if protocol is None:
        raise UsageError(
            f"no server of {', '.join(servers)} told its protocol; "
            "is it `agentgym-suite serve env`?"
        )
    if protocol != PROTOCOL:
        raise UsageError(
            f"the server speaks {protocol!r}, this client {PROTOCOL!r}; "
            "install the same version on both sides"
        )
    infos: dict[str, dict[str, Any]] = {info["env_id"]: info for info in document["envs"]}
    if env_id not in infos:
        raise UsageError(f"{env_id} is not served there; it serves {', '.join(infos) or 'nothing'}")
    return infos[env_id]


def check_digests(info: Mapping[str, Any], *, tasks: str | None, data: str | None) -> None:
    """Compare a server's task set and data with what the caller expects; None is any.

    Raises:
        UsageError: one has another digest.
    """
    found = {"tasks": info["tasks_digest"], "data": info["provenance"].get("data_digest")}
    for what, wanted in (("tasks", tasks), ("data", data)):
        if wanted not in (None, found[what]):
            raise UsageError(
                f"the server's {what} have the digest {found[what]}, not {wanted}; "
                "serve the same data"
            )


def space_of(spec: Mapping[str, Any]) -> UnicodeText:
    """The space that a server declares."""
    return UnicodeText(
        spec["max_length"], min_length=spec["min_length"], examples=spec.get("examples", ())
    )


def codec_of(schemas: Sequence[Mapping[str, Any]]) -> CallCodec:
    """The codec whose function schemas these are."""
    return CallCodec([_tool(schema["function"]) for schema in schemas])


def _tool(function: Mapping[str, Any]) -> Tool:
    properties = function["parameters"]["properties"]
    name = next(iter(properties), "")
    words = properties[name].get("description", "") if name else ""
    return Tool(function["name"], function["description"], name, words)


def fetch_tasks(get: Callable[[str], dict[str, Any]]) -> TaskSet:
    """The task set of a session's environment; ``get`` asks for a document of the session."""
    page = get(f"tasks?offset=0&limit={IDS_PER_REQUEST}")
    ids: Sequence[str]
    if "prefix" in page:
        ids = NumberedIds(page["prefix"], page["tasks"])
    else:
        ids = list(page["ids"])
        while len(ids) < page["tasks"]:
            more = get(f"tasks?offset={len(ids)}&limit={IDS_PER_REQUEST}")
            ids.extend(more["ids"])
    splits = {
        name: range(members["start"], members["stop"])
        if isinstance(members, dict)
        else tuple(members)
        for name, members in page["splits"].items()
    }
    return TaskSet(ids, splits, digest=page["digest"])


def tuples(value: Any) -> Any:
    """A JSON value as infos hold it: they never contain a list, so every array was a tuple."""
    if isinstance(value, list):
        return tuple(tuples(member) for member in value)
    if isinstance(value, dict):
        return {key: tuples(member) for key, member in value.items()}
    return value


def sendable(given: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Arguments as a request can carry them, numpy's numbers as JSON's.

    Raises:
        UsageError: JSON has no form for a value.
    """
    body = {name: _plain(value) for name, value in given.items()}
    try:
        json.dumps(body, allow_nan=False, ensure_ascii=False).encode("utf-8")
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"the {what} {shown(dict(given))} cannot be sent to a server ({error}); "
            "give texts, numbers, flags and lists of these"
        ) from None
    return body


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    return value.item() if isinstance(value, np.generic) else value
