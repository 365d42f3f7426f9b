from __future__ import annotations

from typing import Any

from agentgym_suite.evaluation.configuration import described_changes, differing_keys

ENV = "Shop-v0"


def header(data: str | None, digit: str, *, strict: bool = True) -> dict[str, Any]:
    """A run header as ``run.json`` has it; ``digit`` fills every digest."""
    digest = "sha256:" + digit * 64
    provenance = {name: digit * 64 for name in ("catalogue", "goals", "index", "prices", "store")}
    entry = {"id": ENV, "tasks": ["a", "b"], "split": "test", "trials": 1, "max_steps": None}
    return {
        "suite": {
            "id": "shop",
            "version": 1,
            "content": {"env": [{**entry, "kwargs": {"strict": strict}}]},
        },
        "options": {"data": {ENV: data}},
        "config": {
            "suite": {"id": "shop", "version": 1, "digest": digest},
            "agent": {"name": "oracle"},
            "environments": {ENV: {"tasks": digest, "provenance": provenance}},
        },
    }


def test_differing_keys_are_dotted() -> None:
    old = {"a": {"b": 1, "c": [1]}, "d": None}
    assert differing_keys(old, old) == {}
    assert differing_keys(old, {"a": {"b": 2, "c": [1]}}) == {"a.b": ("1", "2")}
    assert differing_keys({}, {"x": "y"}) == {"x": ("none", "y")}


def test_what_a_person_changed_comes_first_and_the_sentence_stays_short() -> None:
    told = described_changes(header("shops/A", "a"), header("shops/B", "b"))
    assert told.startswith("Shop-v0.data: shops/A -> shops/B; ")
    assert "aaaaaaaaaaaa… -> bbbbbbbbbbbb…" in told and "a" * 13 not in told
    assert "; and 3 more" in told and len(told) < 400


def test_embedded_worlds_and_settings_have_names() -> None:
    told = described_changes(header(None, "a"), header("B", "b", strict=False))
    assert told.startswith(
        "Shop-v0.data: the embedded world -> B; Shop-v0.kwargs.strict: true -> false; "
    )


def test_the_same_data_elsewhere_are_no_change() -> None:
    assert described_changes(header("A", "a"), header("moved/A", "a")) == ""
