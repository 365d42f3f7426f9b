"""What TensorBoard shows of a run that was killed and went on."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("tensorboard")

from agentgym_suite.trainers.metrics import FINAL, MetricsLog


def shown(folder: Path, name: str) -> list[tuple[int, float]]:
    """Step and value of each point of a curve."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return [(point.step, point.value) for point in events.Scalars(name)]


def test_iterations_that_are_played_again_are_shown_once(tmp_path: Path) -> None:
    killed = MetricsLog(tmp_path, tensorboard=True)
    killed.keep(0)
    for iteration in (1, 2, 3):
        killed.write(iteration, {"loss": 10.0 + iteration})
    killed.close()
    resumed = MetricsLog(tmp_path, tensorboard=True)
    resumed.keep(1)
    for iteration in (2, 3):
        resumed.write(iteration, {"loss": 20.0 + iteration})
    resumed.write(3, {FINAL: 1.0, "evaluation": 0.5})
    resumed.close()
    assert shown(tmp_path, "loss") == [(1, 11.0), (2, 22.0), (3, 23.0)]
    assert shown(tmp_path, "evaluation") == [(4, 0.5)]
    longer = MetricsLog(tmp_path, tensorboard=True)
    longer.keep(3)
    longer.write(4, {"evaluation": 0.75})
    longer.close()
    assert shown(tmp_path, "loss") == [(1, 11.0), (2, 22.0), (3, 23.0)]
    assert shown(tmp_path, "evaluation") == [(4, 0.75)]
