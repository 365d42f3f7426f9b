"""JSON Schema from dataclasses: the published form of the records."""

from __future__ import annotations

import json
import types
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from agentgym_suite.evaluation.records import EpisodeRecord

_PLAIN: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


def published_schemas() -> dict[Path, str]:
    """The schema files that lie beside this module, as they should be: path -> text."""
    episode = json_schema(EpisodeRecord, "agentgym_suite episode record")
    text = json.dumps(episode, indent=1, ensure_ascii=False) + "\n"
    return {Path(__file__).with_name("episode.schema.json"): text}


def json_schema(cls: type, title: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a dataclass; every field is required, no other allowed."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **_of_class(cls),
    }


def _of_class(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    names = [field.name for field in fields(cls)]
    return {
        "type": "object",
        "properties": {name: _of(hints[name]) for name in names},
        "required": names,
        "additionalProperties": False,
    }


def _of(hint: Any) -> dict[str, Any]:
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if is_dataclass(hint) and isinstance(hint, type):
        return _of_class(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return {"anyOf": [_of(argument) for argument in arguments]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is list:
        return {"type": "array", "items": _of(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _of(arguments[1])}
    raise TypeError(f"no JSON Schema for {hint!r}")
