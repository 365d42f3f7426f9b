from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.evaluation.fitting import fitting
from agentgym_suite.evaluation.records import AttemptRecord, EpisodeRecord
from agentgym_suite.evaluation.schema import json_schema, misfit
from agentgym_suite.evaluation.step_records import TextReference


class Open(TypedDict):
    """A class that allows further fields."""

    name: str
    size: float | None
    reference: list[TextReference] | None
    rest: dict[str, Any]


OPEN = json_schema(Open, "t")
GOOD: dict[str, Any] = {"name": "n", "size": 1, "reference": None, "rest": {"a": [1, "x", None]}}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, ""),
        ({"more": 1}, ""),
        ({"size": 1.5, "reference": [{"sha256": "0", "offset": 3}]}, ""),
        ({"name": None}, "name is None"),
        ({"name": "\ud800"}, r"name is '\ud800'"),
        ({"size": True}, "size is True"),
        ({"size": float("nan")}, "size is nan"),
        ({"size": 10**400}, "size is 1000"),
        ({"reference": [{"sha256": "0", "offset": "3"}]}, "reference.0.offset is '3'"),
        ({"reference": [{"sha256": "0", "offset": -1}]}, "reference.0.offset is -1"),
        ({"size": 1e308}, "size is 1e+308"),
        ({"reference": [{"sha256": "0"}]}, "reference.0.offset is missing"),
        (
            {"reference": [{"sha256": "0", "offset": 3, "x": 1}]},
            "reference.0 has the unknown field",
        ),
        ({"rest": []}, "rest is []"),
        ({"rest": {"a": [float("inf")]}}, "rest.a.0 is inf"),
        ({"rest": {"\udfff": 1}}, "rest has the unknown field"),
    ],
)
def test_what_does_not_fit_is_named(changes: dict[str, Any], told: str) -> None:
    found = misfit({**GOOD, **changes}, OPEN)
    assert found.startswith(told) and bool(found) == bool(told)


def test_a_missing_field_is_named() -> None:
    assert misfit({"name": "n"}, OPEN) == "size is missing"
    assert misfit([], OPEN) == "it is []"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_any_value_is_judged(value: Any) -> None:
    assert misfit(value, json_schema(AttemptRecord, "t"))
    told = misfit({**GOOD, "rest": {"a": value}}, OPEN)
    assert told == "" if strict_json(value) else told.startswith("rest.a")


def strict_json(value: Any) -> bool:
    """Whether a file of strict JSON in UTF-8 holds a value, and its numbers fit 64 bits."""
    if isinstance(value, dict):
        return all(strict_json(one) for item in value.items() for one in item)
    if isinstance(value, list):
        return all(map(strict_json, value))
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return False
    if isinstance(value, float) and abs(value) > 2.0**63:
        return False
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode("utf-8")
    except ValueError:
        return False
    return True


EPISODE = json_schema(EpisodeRecord, "t")
FITS = {name: fitting(schema) for name, schema in {"open": OPEN, "episode": EPISODE}.items()}
PLAIN: dict[Any, Any] = {"string": "é", "integer": 1, "number": 0.5, "boolean": True, "null": None}


def sample(schema: Mapping[str, Any]) -> Any:
    """A value that fits a schema."""
    if "anyOf" in schema:
        return sample(schema["anyOf"][0])
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("type") == "array":
        return [sample(schema["items"])]
    if schema.get("type") == "object":
        return {name: sample(inner) for name, inner in schema.get("properties", {}).items()}
    if "pattern" in schema:  # a time
        return "2026-01-01T00:00:00+00:00"
    return PLAIN[schema["type"]]


RECORD: dict[str, Any] = sample(EPISODE)


def test_the_fast_judge_takes_a_whole_record() -> None:
    assert misfit(RECORD, EPISODE) == "" and FITS["episode"](RECORD)


def places(value: Any) -> list[list[Any]]:
    """The way to every value inside a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found: list[list[Any]] = []
    for name, item in inner:
        found.append([name])
        if isinstance(item, dict | list):
            found += [[name, *rest] for rest in places(item)]
    return found


@given(json_values)
def test_the_fast_judge_says_the_same_of_any_value(value: Any) -> None:
    assert FITS["open"](value) is not bool(misfit(value, OPEN))
    whole = {**GOOD, "rest": {"a": value}, "more": value}
    assert FITS["open"](whole) is not bool(misfit(whole, OPEN))


@given(st.data(), json_values)
def test_the_fast_judge_says_the_same_of_a_changed_record(data: st.DataObject, value: Any) -> None:
    record = copy.deepcopy(data.draw(st.sampled_from([GOOD, RECORD])))
    schema, fits = (OPEN, FITS["open"]) if "rest" in record else (EPISODE, FITS["episode"])
    *way, last = data.draw(st.sampled_from(places(record)))
    inner = record
    for name in way:
        inner = inner[name]
    inner[last] = value
    assert fits(record) is not bool(misfit(record, schema))
