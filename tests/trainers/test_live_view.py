"""What a training tells on a terminal and in a log: its iterations, and what it is doing."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

pytest.importorskip("torch")

from rich.console import Console

from agentgym_suite.trainers.cloning import CloningStep
from agentgym_suite.trainers.live_view import COLUMNS, TrainingView
from agentgym_suite.trainers.metrics import FINAL, METRICS_FILE, read_metrics
from tests.trainers.tiny_training import ROOT, configuration, trainer


class Clock:
    """Seconds that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def view(*, terminal: bool) -> tuple[TrainingView, io.StringIO, Clock]:
    said, clock = io.StringIO(), Clock()
    target = Console(file=said, force_terminal=terminal, width=120, color_system=None)
    return (
        TrainingView(configuration("grpo").run, "grpo in Counting-v0", target, clock),
        said,
        clock,
    )


def drawn(shown: TrainingView) -> list[str]:
    page = Console(file=io.StringIO(), width=120, color_system=None)
    with page.capture() as captured:
        page.print(shown)
    return captured.get().splitlines()


def test_a_terminal_shows_what_is_being_done_and_since_when() -> None:
    shown, _, clock = view(terminal=True)
    assert drawn(shown) == []
    shown.doing("iteration 1: episodes", 0, 8)
    clock.now = 12.0
    shown.doing("iteration 1: episodes", 3, 8)
    assert drawn(shown) == ["iteration 1: episodes, 3 of 8, 12 s"]
    shown.doing("iteration 1: the critic values prompts", 0, None)
    clock.now = 15.0
    assert drawn(shown) == ["iteration 1: the critic values prompts, 3 s"]
    shown.cloned(CloningStep(7, 1.0))
    assert drawn(shown) == ["start: cloning steps, 7, 0 s"]
    shown.over()
    assert drawn(shown) == []


def test_a_table_has_the_columns_that_there_are_numbers_for() -> None:
    shown, said, _ = view(terminal=True)
    shown.iterated(1, {"env_steps": 20.0, "loss/policy": -1.2e-5})
    shown.iterated(2, {"env_steps": 240.0, "loss/policy": 0.5})
    shown.iterated(2, {FINAL: 1.0, "evaluation/unseen/temperature_0": 0.25})
    title, _, names, _, first, second, last, _ = drawn(shown)
    assert title.strip() == "grpo in Counting-v0"
    assert names.replace("┃", " ").split() == ["iteration", "steps", "loss", "unseen"]
    assert first.replace("│", " ").split() == ["1", "20", "-1e-05"]
    assert second.replace("│", " ").split() == ["2", "240", "0.500"]
    assert last.replace("│", " ").split() == ["end", "0.250"]
    assert said.getvalue() == ""  # the table is redrawn by whoever shows it


def test_a_log_gets_a_line_a_minute_besides_its_iterations() -> None:
    shown, said, clock = view(terminal=False)
    for second in range(150):
        clock.now = float(second)
        shown.doing("iteration 1: episodes", second, 200)
    shown.doing("iteration 1: the critic values prompts", 0, None)
    clock.now = 200.0
    shown.doing("iteration 1: the critic values prompts", 0, None)
    shown.iterated(1, {"env_steps": 120.0})
    assert said.getvalue().splitlines() == [
        "iteration 1: episodes: 60 of 200 after 60 s",
        "iteration 1: episodes: 120 of 200 after 120 s",
        "iteration 1: the critic values prompts after 200 s",
        "iteration 1  steps 120",
    ]


def test_a_training_tells_every_part_of_an_iteration(tmp_path: Path) -> None:
    told: dict[str, list[tuple[int, int | None]]] = {}

    def hear(phase: str, done: int, total: int | None) -> None:
        told.setdefault(phase, []).append((done, total))

    run = trainer("capo", tmp_path, more={"progress": hear}, tasks=4, rollouts=1, iterations=1)
    run.run()
    assert list(told) == [
        "iteration 1: episodes",
        "iteration 1: the policy scores what was sampled",
        "iteration 1: the reference scores what was sampled",
        "iteration 1: the critic values prompts",
        "iteration 1: mini-batches",
        "evaluation of seen tasks, temperature 1: episodes",
        "evaluation of seen tasks, temperature 0: episodes",
    ]
    assert told["iteration 1: episodes"] == [(done, 4) for done in range(1, 5)]
    parts = told["iteration 1: mini-batches"]
    assert [done for done, _ in parts] == list(range(len(parts)))
    assert {total for _, total in parts} == {len(parts)}


def test_who_stops_a_run_is_told_where_it_goes_on(tmp_path: Path) -> None:
    shown, said, _ = view(terminal=False)
    shown.stopped(tmp_path)
    trainer("grpo", tmp_path, iterations=2).run()
    shown.stopped(tmp_path)
    assert said.getvalue().splitlines() == [
        f"{tmp_path} has no end yet; the same command goes on at its start",
        f"{tmp_path} has no end yet; the same command goes on after iteration 2",
    ]


@pytest.mark.parametrize("algorithm", ["capo", "sapo_ar", "gspo", "grpo"])
def test_every_metric_is_explained(algorithm: str, tmp_path: Path) -> None:
    given = {"mismatch_cap": 2.0, "entropy_coef": 0.01} if algorithm == "grpo" else {}
    trainer(algorithm, tmp_path, iterations=1, evaluate_every=1, **given).run()
    page = (ROOT / "docs" / "training.md").read_text("utf-8")
    explained = set(re.findall(r"`([\w/.+]+)`", page))
    logged = {name for line in read_metrics(tmp_path / METRICS_FILE) for name in line}
    buckets = re.compile(r"length/\d+\+/")
    names = {buckets.sub("length/N+/", name) for name in logged} - {"iteration"}
    spent = {name.removeprefix("cpu/") for name in names if name.startswith("cpu/")}
    assert {f"seconds/{name}" for name in spent} <= names and "old" in spent
    names -= {f"cpu/{name}" for name in spent}
    beside = {f"length/N+/{name}" for name in ("sum", "square", "out_of_range", "active")}
    assert sorted(names - explained - beside) == []
    assert {"entropy", "rollout/repetition"} <= logged
    if algorithm == "capo":
        assert set(COLUMNS.values()) - {"evaluation/unseen/temperature_0"} <= logged
    assert set(COLUMNS) | set(COLUMNS.values()) <= set(re.findall(r"`([^`\n]+)`", page))
