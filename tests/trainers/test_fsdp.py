"""Two processes learn what one learns: weights, metrics, checkpoints.

One algorithm of each family, or with ``ALL_ALGORITHMS`` set, every one of the registry.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from agentgym_suite.trainers.metrics import METRICS_FILE, read_metrics
from agentgym_suite.trainers.outcomes import read_outcomes
from agentgym_suite.trainers.ranks import Ranks
from agentgym_suite.trainers.registry import ALGORITHMS
from tests.trainers.two_processes import Job, State, in_two_processes, trained, weights

SETTINGS: dict[str, dict[str, Any]] = {
    "capo": {"recompute": True},
    "st_ppo": {"clip_bias_correction": True, "clip_low": 0.001, "clip_high": 0.001},
    "gspo": {"gspo_scope": "trajectory", "minibatch_unit": "trajectories"},
    "dapo": {"filter_groups": True},
    "opd": {"objective": "full"},
    "ppo": {"bootstrap_truncated": True},
    "sapo_ar": {"bootstrap_truncated": True, "reward": "verl_agent", "c_inv": 0.0},
    "grpo": {"minibatch_unit": "trajectories", "entropy_coef": 0.01},
}
SOURCES = {"taspo": "random_success", "grpo_opsd": "generic_skill", "opsd": "generic_skill"}
FAMILIES = ("capo", "sapo_ar", "taspo")
JOBS = [
    Job(name, name, SETTINGS.get(name, {}), SOURCES.get(name, ""), taught=name == "opd")
    for name in (ALGORITHMS if os.environ.get("ALL_ALGORITHMS") else FAMILIES)
]
JOBS.append(Job("opsd-full", "opsd", {"objective": "full"}, "generic_skill"))
JOBS.append(Job("broken", "grpo", {"rollouts": 4}, broken=True))
JOBS.append(Job("lora", "capo", {"lora_rank": 2, "kl_coef": 0.1}))
PARTS = Job("parts", "capo", {"checkpoint_every": 1, "epochs": 2})
TWO_ITERATIONS = 40
AHEAD = Job(
    "ahead",
    "dapo",
    {
        "max_staleness": 2,
        "mismatch_cap": 2.0,
        "filter_groups": True,
        "filter_rounds": 1,
        "checkpoint_every": 2,
    },
)
FEW_STEPS, MORE_STEPS = 128, 300
NOT_LEARNED = (
    *("seconds/", "cpu/", "rollout/environment_s", "wall_s", "cpu_s"),
    *("peak_memory_mib", "padding", "hints/"),
)


def all_algorithms(ranks: Ranks, out: Path) -> State:
    """Every algorithm; a checkpoint for one process, and one of one process gone on with."""
    found = {
        f"{job.folder}/{name}": weight
        for job in JOBS
        for name, weight in trained(job, out, ranks).items()
    }
    trained(PARTS, out / "two_then_one", ranks)
    gone_on = trained(PARTS, out / "one_then_two", ranks, budget_steps=TWO_ITERATIONS)
    found |= {f"one_then_two/{name}": weight for name, weight in gone_on.items()}
    trained(AHEAD, out, ranks, budget_steps=FEW_STEPS)
    ahead = trained(AHEAD, out, ranks, budget_steps=MORE_STEPS)
    return found | {f"ahead/{name}": weight for name, weight in ahead.items()}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def two(out: Path) -> list[State]:
    trained(PARTS, out / "one_then_two")
    return in_two_processes(all_algorithms, out)


def of(found: State, folder: str) -> State:
    prefix = folder + "/"
    return {
        name.removeprefix(prefix): weight
        for name, weight in found.items()
        if name.startswith(prefix)
    }


def learned(line: dict[str, Any]) -> dict[str, Any]:
    """What of a line does not depend on the machine, nor on which rank counted."""
    return {name: value for name, value in line.items() if not name.startswith(NOT_LEARNED)}


def assert_equal(found: State, wanted: State) -> None:
    assert found.keys() == wanted.keys()
    for name, weight in wanted.items():
        assert float((found[name] - weight).abs().max()) < 1e-8, name


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.folder)
def test_two_processes_learn_what_one_learns(job: Job, out: Path, two: list[State]) -> None:
    alone = job.trainer(out / "alone")
    start = {name: weight.detach().clone() for name, weight in alone.policy.named_parameters()}
    alone.run()
    assert alone.learners["policy"].steps >= 20
    wanted = weights(alone)
    moved = max(
        float((wanted[f"policy.{name}"] - weight).abs().max()) for name, weight in start.items()
    )
    assert moved > 1e-4
    for found in two:
        assert_equal(of(found, job.folder), wanted)
    lines = read_metrics(out / job.folder / METRICS_FILE)
    others = read_metrics(out / "alone" / job.folder / METRICS_FILE)
    assert len(lines) == len(others) == 2
    for line, other in zip(lines, others, strict=True):
        assert learned(line) == pytest.approx(learned(other), rel=1e-7, abs=1e-9)
    outcomes = read_outcomes(out / job.folder)
    assert outcomes and outcomes == read_outcomes(out / "alone" / job.folder)


@pytest.fixture(scope="module")
def whole(out: Path) -> State:
    return trained(PARTS, out / "whole", budget_steps=TWO_ITERATIONS)


def test_a_checkpoint_of_one_process_goes_on_in_two(two: list[State], whole: State) -> None:
    for found in two:
        assert_equal(of(found, "one_then_two"), whole)


def test_a_checkpoint_of_two_processes_goes_on_in_one(
    out: Path, two: list[State], whole: State
) -> None:
    resumed = PARTS.trainer(out / "two_then_one", budget_steps=TWO_ITERATIONS)
    assert resumed.run().iteration == 2
    lines = read_metrics(out / "two_then_one" / PARTS.folder / METRICS_FILE)
    assert [line["iteration"] for line in lines] == [1, 2, 2]
    assert_equal(weights(resumed), whole)


def test_two_processes_that_play_ahead_and_go_on_learn_what_one_learns(
    out: Path, two: list[State]
) -> None:
    wanted = trained(AHEAD, out / "alone", budget_steps=MORE_STEPS)
    for found in two:
        assert_equal(of(found, "ahead"), wanted)
    lines = [read_metrics(folder / "ahead" / METRICS_FILE) for folder in (out, out / "alone")]
    ages = [[line["staleness/max"] for line in told[3:-1]] for told in lines]
    assert ages[0] == ages[1] == [2.0] * len(ages[0]) != []
