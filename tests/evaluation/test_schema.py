from __future__ import annotations

from typing import Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.evaluation.records import AttemptRecord, TextReference
from agentgym_suite.evaluation.schema import json_schema, misfit


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
    assert isinstance(misfit({**GOOD, "rest": {"a": value}}, OPEN), str)
