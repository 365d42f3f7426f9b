"""A schema as a function that says whether a value fits it: ``misfit``'s judgement, much faster.

Records are read by the ten thousand, and hardly any of them is damaged; where one is, ``misfit``
finds the words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentgym_suite.evaluation.schema import misfit

Fits = Callable[[Any], bool]
_ANY: Mapping[str, Any] = {}


def fitting(schema: Mapping[str, Any]) -> Fits:
    """Whether values fit a schema that ``json_schema`` made."""
    if "anyOf" in schema:
        return _one_of([fitting(choice) for choice in schema["anyOf"]])
    kind = schema.get("type")
    if kind == "object":
        return _object(schema)
    if kind == "array":
        items = fitting(schema.get("items", _ANY))
        return lambda value: type(value) is list and all(map(items, value))
    if kind == "string" and "pattern" not in schema:
        return lambda value: type(value) is str and (value.isascii() or not misfit(value, schema))
    if kind == "boolean":
        return lambda value: value is True or value is False
    if kind == "null":
        return lambda value: value is None
    return lambda value: not misfit(value, schema)


def _one_of(choices: list[Fits]) -> Fits:
    if len(choices) == 2:
        one, other = choices
        return lambda value: one(value) or other(value)
    return lambda value: any(choice(value) for choice in choices)


def _object(schema: Mapping[str, Any]) -> Fits:
    known = {name: fitting(inner) for name, inner in schema.get("properties", {}).items()}
    required = tuple(schema.get("required", ()))
    others = schema.get("additionalProperties", _ANY)
    stranger = None if others is False else fitting(others)

    def fits(value: Any) -> bool:
        if type(value) is not dict or not all(name in value for name in required):
            return False
        for name, item in value.items():
            judge = known.get(name)
            if judge is None:
                if stranger is None or misfit(name, _NAME):
                    return False
                judge = stranger
            if not judge(item):
                return False
        return True

    return fits


_NAME: Mapping[str, Any] = {"type": "string"}
