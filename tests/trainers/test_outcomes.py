"""What a finished run tells of each task, and what counts in its rates."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from agentgym_suite.errors import DataDamaged, DataVersion
from agentgym_suite.trainers.collector import plan_groups
from agentgym_suite.trainers.metrics import METRICS_FILE, read_metrics
from agentgym_suite.trainers.outcomes import (
    OUTCOMES_FILE,
    read_outcomes,
    success_rates,
    task_outcomes,
    write_outcomes,
)
from agentgym_suite.trainers.task_lists import Played
from tests.trainers.tiny_training import TASKS, counting, trainer


def test_an_episode_that_is_missing_is_no_success_and_stays_visible(tmp_path: Path) -> None:
    training = trainer("capo", tmp_path)
    requests = plan_groups(TASKS, 2, seed=1, iteration=-1)
    collector = training.rollouts._collector("test", training.rollouts.sampling, whole_groups=False)
    episodes = collector.collect(requests).episodes
    lost = requests[3]
    kept = [e for e in episodes if (e.group_id, e.trial) != (lost.group_id, lost.trial)]
    found = task_outcomes(requests, kept[::-1])
    assert list(found) == list(TASKS) and [len(line) for line in found.values()] == [2] * len(TASKS)
    assert found[TASKS[1]][1] is None
    wins = sum(episode.success for episode in kept)
    rates = success_rates({"seen/temperature_1": found})
    assert rates == {"evaluation/seen/temperature_1": wins / len(requests)}


def test_a_finished_run_leaves_every_outcome_and_a_longer_one_takes_them_back(
    tmp_path: Path,
) -> None:
    training = trainer("grpo", tmp_path, budget_steps=1)
    training.run()
    outcomes = read_outcomes(tmp_path)
    assert outcomes is not None and set(outcomes) == {"seen/temperature_1", "seen/temperature_0"}
    assert {task: len(line) for task, line in outcomes["seen/temperature_1"].items()} == {
        task: 4 for task in TASKS
    }
    assert {len(line) for line in outcomes["seen/temperature_0"].values()} == {1}
    last = read_metrics(tmp_path / METRICS_FILE)[-1]
    assert success_rates(outcomes).items() <= last.items()
    assert last["peak_memory_mib"] > 10
    trainer("grpo", tmp_path, budget_steps=80)._resume(force=False)
    assert read_outcomes(tmp_path) is None


def test_unseen_tasks_are_evaluated_along_the_way(tmp_path: Path) -> None:
    training = trainer("reinforce_pp", tmp_path, budget_steps=1, evaluate_every=1)
    played = Played(counting, TASKS[:2], TASKS[2:])
    training.rollouts = replace(training.rollouts, played=played)
    training.run()
    along, last = read_metrics(tmp_path / METRICS_FILE)
    evaluations = {name for name in last if name.startswith("evaluation/")}
    assert evaluations == {name for name in along if name.startswith("evaluation/")}
    assert "evaluation/unseen/temperature_0" in evaluations
    outcomes = read_outcomes(tmp_path)
    assert outcomes is not None and list(outcomes["unseen/temperature_1"]) == list(TASKS[2:])


def test_minutes_end_a_run_before_its_steps_do(tmp_path: Path) -> None:
    training = trainer("reinforce_pp", tmp_path, budget_steps=10_000, budget_minutes=1e-9)
    assert training.run().iteration == 1


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("", DataDamaged),
        ("[]", DataDamaged),
        ('{"schema_version": 1}', DataDamaged),
        ('{"schema_version": 2, "outcomes": {}}', DataVersion),
    ],
)
def test_a_damaged_file_is_told_in_a_sentence(
    content: str, error: type[Exception], tmp_path: Path
) -> None:
    (tmp_path / OUTCOMES_FILE).write_text(content, "utf-8")
    with pytest.raises(error, match="train again"):
        read_outcomes(tmp_path)


def test_outcomes_are_read_as_they_were_written(tmp_path: Path) -> None:
    outcomes = {"seen/temperature_1": {"a": [1, 0, None], "b": [1, 1, 1]}}
    write_outcomes(tmp_path, outcomes)
    assert read_outcomes(tmp_path) == outcomes
    assert json.loads((tmp_path / OUTCOMES_FILE).read_text("utf-8"))["schema_version"] == 1
