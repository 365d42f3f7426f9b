"""The parts of the card's benchmark, at a shape of seconds: both sides do the same work."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("gpu_parts")


@pytest.fixture
def driver(parts: ModuleType) -> ModuleType:
    return importlib.import_module("gpu")


def test_passes_agree_and_are_compared(parts: ModuleType, driver: ModuleType) -> None:
    machine, work = driver.Machine(), driver.WORKS["tiny"]
    found = {side: parts.update(machine, work, side) for side in ("padded", "bucketed", "packed")}
    for side in ("bucketed", "packed"):
        assert found[side]["loss"] == pytest.approx(found["padded"]["loss"], abs=1e-5)
        norm = found["padded"]["gradient_norm"]
        assert found[side]["gradient_norm"] == pytest.approx(norm, rel=1e-4)
    assert set(driver.ratios(found)) == {"bucketed against padded", "packed against padded"}


def test_iterations_have_the_same_rows(parts: ModuleType, driver: ModuleType) -> None:
    machine, work = driver.Machine(), driver.WORKS["tiny"]
    found = {name: parts.iteration(machine, work, name) for name in ("ppo", "capo", "sapo_ar")}
    assert len({one["replies_digest"] for one in found.values()}) == 1
    assert "critic" not in found["sapo_ar"]["seconds"] and "critic" in found["ppo"]["seconds"]
    assert all(one["weights_finite"] for one in found.values())
    assert all(
        one["old_logprob"] == pytest.approx(found["ppo"]["old_logprob"]) for one in found.values()
    )
    told = driver.ratios(found)["sapo_ar against ppo"]["equal"]
    assert told.startswith("the same replies")


def test_the_engine_says_what_one_forward_says(parts: ModuleType, driver: ModuleType) -> None:
    found = parts.rollout(driver.Machine(), driver.WORKS["tiny"])
    assert found["logprobs_apart"] < 1e-4


def test_a_peak_beside_none_has_no_ratio(driver: ModuleType) -> None:
    one = {"peak_bytes": 0.0, "total_seconds": 1.0, "replies_digest": "a", "old_logprob": -1.0}
    compared = driver.ratios({"ppo": one, "capo": one | {"peak_bytes": 8.0}})["capo against ppo"]
    assert compared["memory"] is None and compared["speed"] == 1.0
    empty = {"machine": "none", "shape": "tiny", "parts": {}}
    told = driver.markdown({**empty, "ratios": {"capo against ppo": compared}})
    assert "| capo against ppo | 1.00 |  | the same replies" in told


def test_a_report_says_what_was_not_done(driver: ModuleType) -> None:
    report = {
        "machine": "none",
        "shape": "tiny",
        "parts": {"ppo": {"skipped": "no time was left"}},
        "ratios": {},
    }
    assert "* ppo: no time was left." in driver.markdown(json.loads(json.dumps(report)))
