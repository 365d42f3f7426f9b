"""The configuration of a run: all that can change a result, and how two of them differ."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentgym_suite.files import canonical_json

_SHOWN_CHANGES = 5
_SHOWN_CHARACTERS = 60
_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{12})[0-9a-f]{20,}")


def described_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """How the configurations of two run headers differ, in one short list.

    What a person chose comes first: suite, agent, data, and the settings of the environments.
    What follows from it, such as the digests of other data, comes after it and is cut short.

    Returns:
        The changes; "" for equal configurations.
    """
    changed = differing_keys(old["config"], new["config"])
    if not changed:
        return ""
    chosen = differing_keys(_choices(old), _choices(new))
    derived = [key for key in changed if key not in chosen]
    derived.sort(key=lambda key: any(_DIGEST.search(value) for value in changed[key]))
    told = {**chosen, **{key: changed[key] for key in derived}}
    shown = [f"{key}: {before} -> {now}" for key, (before, now) in told.items()]
    more = len(shown) - _SHOWN_CHANGES
    return "; ".join(shown[:_SHOWN_CHANGES]) + (f"; and {more} more" if more > 0 else "")


def differing_keys(old: Any, new: Any, path: str = "") -> dict[str, tuple[str, str]]:
    """The dotted keys in which two values differ, with both as short texts."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        changes = {}
        for key in dict.fromkeys((*old, *new)):
            inner = f"{path}.{key}" if path else str(key)
            changes.update(differing_keys(old.get(key), new.get(key), inner))
        return changes
    if canonical_json(old) == canonical_json(new):
        return {}
    return {path: (_short(old), _short(new))}


def _choices(header: Mapping[str, Any]) -> dict[str, Any]:
    """What the person who started the run chose, by the names they know it by."""
    suite, config = header["suite"], header["config"]
    choices: dict[str, Any] = {
        "suite": f"{suite['id']} v{suite['version']}",
        "agent": config["agent"],
    }
    for entry in suite["content"]["env"]:
        settings = {key: entry[key] for key in ("split", "trials", "max_steps", "kwargs")}
        data = header["options"]["data"].get(entry["id"])
        choices[entry["id"]] = {
            "data": "the embedded world" if data is None else str(data),
            "tasks": f"{len(entry['tasks'])} tasks",
            **settings,
        }
    return choices


def _short(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else canonical_json(value)
    text = _DIGEST.sub(r"\1…", text)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
