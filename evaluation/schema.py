"""JSON Schema from typed classes, and what does not fit it."""

from __future__ import annotations

import re
import reprlib
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import (
    Annotated,
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from agentgym_suite.evaluation.intervals import JSON_NAMES
from agentgym_suite.json_bounds import keepable_number

_PLAIN: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


def json_schema(cls: type, title: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a class, all of whose fields are required.

    Args:
        cls: a dataclass or NamedTuple, which allow no other field, or a TypedDict, which
            allows any.
        title: what the schema is called.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **_of_class(cls),
    }


def misfit(value: Any, schema: Mapping[str, Any], place: str = "") -> str:
    """Where a value does not fit a schema that ``json_schema`` made; "" where it does.

    It is stricter than the schema in what JSON cannot hold: numbers are finite and lie
    within 64 bits, and texts can be written in UTF-8.

    Args:
        value: what ``json.loads`` gave.
        schema: the schema.
        place: what the value is called, such as "steps.0.reward".
    """
    if "anyOf" in schema:
        found = [misfit(value, choice, place) for choice in schema["anyOf"]]
        return "" if "" in found else found[0]
    kind = schema.get("type")
    fits = value in schema["enum"] if "enum" in schema else kind is None or _KINDS[kind](value)
    if not (fits and _storable(value) and _in_bounds(value, schema)):
        return f"{place or 'it'} is {reprlib.repr(value)}"
    if isinstance(value, list):
        inner = schema.get("items", {})
        told = (misfit(item, inner, f"{place}.{i}".lstrip(".")) for i, item in enumerate(value))
        return next(filter(None, told), "")
    return _misfit_inside(value, schema, place) if isinstance(value, dict) else ""


def _misfit_inside(value: dict[str, Any], schema: Mapping[str, Any], place: str) -> str:
    """Where the fields of an object do not fit."""
    known, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    for name in schema.get("required", ()):
        if name not in value:
            return f"{place}.{name} is missing".lstrip(".")
    for name, item in value.items():
        inner = known.get(name, others)
        if inner is False or not _storable(name):
            return f"{place or 'it'} has the unknown field {reprlib.repr(name)}"
        told = misfit(item, inner, f"{place}.{name}".lstrip("."))
        if told:
            return told
    return ""


def _storable(value: Any) -> bool:
    if isinstance(value, int | float):
        return keepable_number(value)
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            return False
    return True


def _in_bounds(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether a value, of the right kind already, has the least size and the form it must."""
    if "minimum" in schema and value < schema["minimum"]:
        return False
    return "pattern" not in schema or re.search(schema["pattern"], value) is not None


def _is(*kinds: type) -> Callable[[Any], bool]:
    """Whether a value is of exactly one of these classes: True is no number."""
    return lambda value: type(value) in kinds


_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "string": _is(str),
    "integer": _is(int),
    "number": _is(int, float),
    "boolean": _is(bool),
    "null": _is(type(None)),
    "array": _is(list),
    "object": _is(dict),
}


def _of_class(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    typed = is_typeddict(cls)
    names = [field.name for field in fields(cls)] if is_dataclass(cls) else list(hints)
    shown = {name: JSON_NAMES.get(name, name) if _is_named_tuple(cls) else name for name in names}
    described = {
        "type": "object",
        "properties": {shown[name]: _of(hints[name]) for name in names},
        "required": list(shown.values()),
    }
    return described if typed else {**described, "additionalProperties": False}


def _is_named_tuple(cls: type) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def _has_fields(cls: type) -> bool:
    return is_dataclass(cls) or is_typeddict(cls) or _is_named_tuple(cls)


def _of(hint: Any) -> dict[str, Any]:
    if hint is Any:
        return {}
    if get_origin(hint) is Annotated:
        plain, *bounds = get_args(hint)
        return {**_of(plain), **{one.keyword: one.value for one in bounds}}
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if isinstance(hint, type) and _has_fields(hint):
        return _of_class(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return {"anyOf": [_of(argument) for argument in arguments]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (list, tuple):
        return {"type": "array", "items": _of(arguments[0])}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": _of(arguments[1])}
    raise TypeError(f"no JSON Schema for {hint!r}")
